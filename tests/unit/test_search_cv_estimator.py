"""The search as an object: copies, seeds, progress, report."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from html import escape

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray.search_cv import estimator
from tests.support.quick_search import GRID, SPACE, X, Y, search


def test_a_search_survives_clone_pickle_and_repr():
    ours = search(space=dr.Space(SPACE), uncertainty=dr.CVaR(0.5)).fit(X, Y)
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.predict(X), ours.predict(X))
    assert again.best_params_ == ours.best_params_
    fresh = clone(ours)
    assert not hasattr(fresh, "best_params_")
    assert fresh.get_params()["estimator__C"] == 1.0
    assert "RobustSearchCV" in repr(ours)
    assert "SVC" in ours._repr_html_()


def test_the_diagram_of_a_fitted_search_shows_the_best_estimator():
    pipe = Pipeline([("scale", StandardScaler()), ("model", DummyClassifier())])
    ours = search(pipe, {"model": [DummyClassifier(), SVC()]}, n_evaluations=99, refit=False)
    before, after = "<div>DummyClassifier</div>", "<div>SVC</div>"
    assert before in ours._repr_html_()
    assert before in ours.fit(X, Y)._repr_html_()
    ours.set_params(refit=True).fit(X, Y)
    assert before not in ours._repr_html_()
    assert after in ours._repr_html_()


def test_numbers_of_numpy_are_read_as_plain_ones(monkeypatch):
    plans = []
    run = estimator.search
    monkeypatch.setattr(
        estimator, "search", lambda plan, *rest: plans.append(plan) or run(plan, *rest)
    )
    one, two = (
        search(
            SVC(),
            GRID,
            n_evaluations=kind(6),
            random_state=kind(3),
            uncertainty=kind(1),
            error_score=kind(0),
            n_jobs=kind(1),
            verbose=kind(0),
            cv=kind(3),
        ).fit(X, Y)
        for kind in (int, np.int32)
    )
    assert one.cv_results_["params"] == two.cv_results_["params"]
    assert len(plans) == 2
    for plan in plans:
        radius = plan.settings["uncertainty"].radius
        values = (plan.n_evaluations, plan.error_score, plan.settings["seed"], radius)
        assert [type(value) for value in values] == [int, float, int, float]


def test_the_same_seed_gives_the_same_search_and_another_one_another():
    one, two, other = (search(random_state=seed).fit(X, Y) for seed in (5, 5, 6))
    assert one.cv_results_["params"] == two.cv_results_["params"]
    assert one.cv_results_["params"] != other.cv_results_["params"]


def test_progress_is_shown_only_on_request(capsys):
    search().fit(X, Y)
    assert capsys.readouterr().err == ""
    search(verbose=1).fit(X, Y)
    assert "8/8 done" in capsys.readouterr().err


def test_a_search_in_this_process_never_loads_ray():
    code = (
        "import sys\n"
        "from sklearn.svm import SVC\n"
        "from drbqo_ray.search_cv import RobustSearchCV\n"
        "s = RobustSearchCV(SVC(), {'C': [1.0, 2.0]}, cv=2, n_evaluations=3)\n"
        "s.fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])\n"
        "assert 'ray' not in sys.modules and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_no_warning_is_made_by_a_good_search():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(n_evaluations=12, method="drbqo").fit(X, Y)


def test_the_report_of_a_search_names_its_choice_and_survives_pickling(tmp_path):
    ours = search(space=dr.Space(SPACE), n_evaluations=40, stop_when="loss < 100").fit(X, Y)
    page = ours.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "RobustSearchCV of SVC" in page
    assert escape(ours.stop_reason_) in page
    for value in ours.best_params_.values():
        assert repr(value) in page
    again = pickle.loads(pickle.dumps(ours)).report(tmp_path / "again.html")
    assert again.read_text(encoding="utf-8") == page
    with pytest.raises(NotFittedError):
        search().report(tmp_path / "none.html")


@pytest.mark.parametrize(("method", "smoothed"), [("foldwise", False), ("drbqo", True)])
def test_a_report_says_whether_its_ranking_may_differ_from_that_of_the_search(
    tmp_path, method, smoothed
):
    ours = search(method=method).fit(X, Y)
    page = ours.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert ("it may differ" in page) == smoothed
    assert ("Values are scores, filled in" in page) != smoothed


def test_a_report_shows_why_folds_failed(tmp_path):
    space = {"kernel": ["poly"], "degree": [1, -1]}
    ours = search(space=space, n_evaluations=99, error_score=np.nan, method="drbqo")
    with pytest.warns(FitFailedWarning):
        ours.fit(X, Y)
    assert ours.best_params_["degree"] == 1
    page = ours.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "InvalidParameterError" in page


def test_tools_that_ask_for_a_search_of_scikit_learn_recognize_it():
    assert isinstance(estimator.RobustSearchCV(SVC(), SPACE), BaseSearchCV)
