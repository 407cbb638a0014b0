"""RobustSearchCV with its folds trained on a real Ray."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest
import ray
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from drbqo_ray import Float
from drbqo_ray.errors import InvalidInput, ProblemChanged, RunFailed
from drbqo_ray.search_cv import RobustSearchCV
from drbqo_ray.storage.journal import read_journal
from tests.support.listening_callback import NosyListener
from tests.support.local_ray import two_cpus  # noqa: F401
from tests.support.picky_estimator import Deadly, Picky, Refusal, forget_accuracy, quit_or_score

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("two_cpus"),
]
X, Y = load_iris(return_X_y=True)
GRID = {"C": [0.1, 10.0], "gamma": [0.01, 1.0]}


def search(estimator=None, space=None, **options):
    settings = {"cv": 3, "n_evaluations": 99, "n_jobs": 2, "random_state": 0} | options
    return RobustSearchCV(estimator or SVC(), space or GRID, **settings)


def test_on_ray_the_answer_is_that_of_grid_search_with_every_metric_and_time():
    scoring = ["accuracy", "f1_macro"]
    frame = pd.DataFrame(X, columns=list("abcd"))
    ours = search(scoring=scoring, refit="f1_macro", uncertainty=0, return_train_score=True)
    ours.fit(frame, Y)
    grid = GridSearchCV(
        SVC(), GRID, cv=3, scoring=scoring, refit="f1_macro", return_train_score=True
    ).fit(frame, Y)
    assert ours.n_evaluations_ == 12
    assert ours.best_params_ == grid.best_params_
    assert ours.cv_results_["params"] == grid.cv_results_["params"]
    for key, column in grid.cv_results_.items():
        if "time" not in key and key != "params":
            np.testing.assert_array_equal(ours.cv_results_[key], column, err_msg=key)
    assert (ours.cv_results_["mean_fit_time"] > 0).all()
    assert (ours.cv_results_["mean_score_time"] > 0).all()


def test_the_error_of_a_fold_on_a_worker_is_raised_here_as_it_was(tmp_path):
    (tmp_path / "file").touch()
    picky = search(Picky(obstacle=str(tmp_path / "file")), {"level": [0.5, 0.7]})
    with pytest.raises(Refusal, match="in the way") as caught:
        picky.fit(X, Y)
    assert any("Raised on a worker" in note for note in caught.value.__notes__)
    assert ray.is_initialized()


def test_a_failed_fold_on_a_worker_counts_as_error_score(tmp_path):
    (tmp_path / "file").touch()
    space = {"level": [0.5, 0.7]}
    picky = search(Picky(obstacle=str(tmp_path / "file")), space, error_score=0.25)
    with pytest.warns(FitFailedWarning, match=r"3 of 6 .* count as 0.25(.|\n)*in the way"):
        picky.fit(X, Y)
    np.testing.assert_array_equal(picky.cv_results_["mean_test_score"], [0.5, 0.25])
    picky.set_params(error_score=np.nan)
    with pytest.warns(FitFailedWarning, match="count as nan"):
        picky.fit(X, Y)
    assert picky.best_params_ == {"level": 0.5}
    np.testing.assert_array_equal(picky.cv_results_["mean_test_score"], [0.5, np.nan])


def test_a_fold_whose_worker_dies_is_trained_again(tmp_path):
    (tmp_path / "deaths").touch()
    space = {"level": [0.5, 0.6]}
    deadly = search(Deadly(obstacle=str(tmp_path / "deaths")), space, refit=False).fit(X, Y)
    assert (tmp_path / "deaths").stat().st_size >= 1
    np.testing.assert_array_equal(deadly.cv_results_["mean_test_score"], [0.5, 0.6])
    assert deadly.n_evaluations_ == 6


def test_a_fold_that_always_kills_its_worker_fails_in_the_end(tmp_path):
    (tmp_path / "deaths").touch()
    deadly = Deadly(obstacle=str(tmp_path / "deaths"), deaths=1000)
    with pytest.raises(RunFailed, match="started 3 times"):
        search(deadly, {"level": [0.5]}, n_evaluations=1).fit(X, Y)


def test_a_fold_that_wants_to_end_its_process_is_a_failed_fold():
    quitter = search(Picky(), {"level": [0.5, 0.7]}, scoring=quit_or_score, error_score=0.0)
    with pytest.warns(FitFailedWarning, match=r"3 of 6 (.|\n)*SystemExit: I quit"):
        quitter.fit(X, Y)
    np.testing.assert_array_equal(quitter.cv_results_["mean_test_score"], [0.5, 0.0])


def test_what_cannot_be_sent_to_a_worker_is_refused_with_a_cure():
    with pytest.raises(InvalidInput, match="n_jobs=1"):
        search(scoring=lambda estimator, X, y, lock=threading.Lock(): 1.0).fit(X, Y)  # noqa: B008


def test_a_stored_search_goes_on_where_it_stopped_and_refuses_other_data(tmp_path):
    pipe = Pipeline([("scale", StandardScaler()), ("svc", SVC())])
    steps = {"scale": [MinMaxScaler(), "passthrough"], "svc__gamma": [0.01, 1.0]}
    kept = {"storage": tmp_path / "run", "return_train_score": True}
    part = search(pipe, steps, n_evaluations=5, **kept).fit(X, Y)
    assert part.n_evaluations_ == 5
    whole = search(pipe, steps, **kept).fit(X, Y)
    assert whole.n_evaluations_ == 12
    assert whole.best_params_["scale"] in steps["scale"]
    lines = [record.data for record in read_journal(tmp_path / "run") if record.kind == "tell"]
    assert sorted(line["id"] for line in lines) == list(range(12))
    assert all(line["info"]["fit_time"] > 0 for line in lines)
    grid = GridSearchCV(pipe, steps, cv=3, return_train_score=True).fit(X, Y)
    for key in ("mean_test_score", "mean_train_score"):
        np.testing.assert_array_equal(whole.cv_results_[key], grid.cv_results_[key])
    assert np.isfinite(whole.cv_results_["mean_fit_time"]).all()
    with pytest.raises(ProblemChanged, match="fingerprint"):
        search(pipe, steps, **kept).fit(X + 1e-9, Y)
    with pytest.raises(ProblemChanged, match="fingerprint"):
        search(clone(pipe).set_params(svc__shrinking=False), steps, **kept).fit(X, Y)


@pytest.mark.parametrize("stored", [False, True])
def test_callbacks_hear_of_every_fold_that_is_trained_on_a_worker(tmp_path, stored):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    hears = NosyListener()
    ours = search(
        LogisticRegression(max_iter=1000),
        {"C": [0.1, 1.0]},
        n_evaluations=4,
        refit=False,
        storage=tmp_path / "run" if stored else None,
    ).set_callbacks(hears)
    with pytest.warns(UserWarning, match=r"\['NosyListener'\] hear of every fold"):
        ours.fit(X, Y)
    fold = "candidate-split-evaluation"
    assert [hears.heard.count((what, fold)) for what in ("begin", "end")] == [4, 4]
    assert hears.heard[-3:] == [("end", "search"), ("end", "fit"), ("teardown", "fit")]
    assert all(len(given["X"]) == 100 for task, given in hears.given if task == fold)


@pytest.mark.parametrize("stored", [False, True])
def test_lists_of_dicts_are_searched_on_workers_and_resumed(tmp_path, stored):
    space = [{"kernel": ["rbf"], "gamma": [0.01, 1.0]}, {"kernel": ["linear"], "C": [0.1, 10.0]}]
    storage = tmp_path / "run" if stored else None
    if stored:
        search(SVC(), space, storage=storage, n_evaluations=5).fit(X, Y)
    ours = search(SVC(), space, storage=storage).fit(X, Y)
    grid = GridSearchCV(SVC(), space, cv=3).fit(X, Y)
    assert ours.cv_results_["params"] == grid.cv_results_["params"]
    for key in ("param_C", "mean_test_score"):
        np.testing.assert_array_equal(ours.cv_results_[key], grid.cv_results_[key])


def test_a_scorer_that_leaves_the_optimized_metric_out_on_a_worker_is_refused():
    with pytest.raises(InvalidInput, match="'accuracy', which is optimized"):
        search(scoring=forget_accuracy, refit="accuracy", n_evaluations=2).fit(X, Y)


def test_a_stored_search_that_stopped_says_why_then_and_when_it_is_fitted_again(tmp_path):
    ours = search(
        SVC(),
        {"C": Float(1e-2, 1e2, log=True)},
        storage=tmp_path / "run",
        n_evaluations=40,
        stop_when="loss < 100",
    ).fit(X, Y)
    said, spent = ours.stop_reason_, ours.n_evaluations_
    assert said.startswith("sure enough after ")
    assert spent < 40
    assert (ours.fit(X, Y).stop_reason_, ours.n_evaluations_) == (said, spent)


def test_a_stored_search_survives_an_obstacle_that_has_been_removed(tmp_path):
    obstacle = tmp_path / "file"
    obstacle.touch()
    picky = search(
        Picky(obstacle=str(obstacle)), {"level": [0.5, 0.7]}, storage=tmp_path / "run", n_jobs=1
    )
    with pytest.raises(Refusal):
        picky.fit(X, Y)
    obstacle.unlink()
    picky.fit(X, Y)
    assert picky.best_params_ == {"level": 0.7}
    np.testing.assert_allclose(picky.cv_results_["mean_test_score"], [0.5, 0.7])


def test_sample_weights_and_settings_of_scikit_learn_reach_the_workers():
    weights = np.where(np.arange(150) % 3, 1.0, 9.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = LogisticRegression(max_iter=1000)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        ours = search(model, {"C": [0.001, 10.0]}, n_jobs=-1)
        ours.fit(X, Y, sample_weight=weights)
        grid = GridSearchCV(model, {"C": [0.001, 10.0]}, cv=3).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], grid.cv_results_["mean_test_score"], rtol=1e-12
    )
