from __future__ import annotations

import math
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GridSearchCV, GroupKFold, ShuffleSplit
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.search_cv import RobustSearchCV
from drbqo_ray.search_cv.fold_fit import FoldFit
from drbqo_ray.search_cv.ray_search import append_fit, fingerprint_of, pickled, read_fits

X, Y = load_iris(return_X_y=True)
GRID = {"C": [10, 0.1], "kernel": ["rbf", "poly"], "gamma": [0.01, 1.0]}
SPACE = {"C": dr.Float(1e-2, 1e3, log=True), "gamma": dr.Float(1e-3, 10.0, log=True)}


def search(estimator=None, space=None, **options):
    """A quick search: configs and folds at random unless told otherwise."""
    settings = {"cv": 3, "n_evaluations": 8, "method": "random", "random_state": 0} | options
    return RobustSearchCV(estimator or SVC(), SPACE if space is None else space, **settings)


def scores_of(results, n, name="test_score"):
    return np.stack([results[f"split{i}_{name}"] for i in range(n)], axis=1)


# beside GridSearchCV


@pytest.mark.parametrize("method", ["drbqo", "random", "bqo-ei"])
def test_with_radius_0_and_every_fold_trained_the_answer_is_that_of_grid_search(method):
    ours = search(SVC(), GRID, uncertainty=0, n_evaluations=500, method=method).fit(X, Y)
    grid = GridSearchCV(SVC(), GRID, cv=3).fit(X, Y)
    assert ours.n_evaluations_ == 8 * 3
    assert ours.best_params_ == grid.best_params_
    assert ours.best_index_ == grid.best_index_
    assert ours.best_score_ == grid.best_score_
    assert ours.cv_results_["params"] == grid.cv_results_["params"]
    for key, column in grid.cv_results_.items():
        if "time" not in key and key != "params":
            np.testing.assert_array_equal(ours.cv_results_[key], column, err_msg=key)


def test_every_column_of_grid_search_is_there_with_positive_times():
    ours = search(SVC(), GRID, n_evaluations=500, return_train_score=True).fit(X, Y)
    grid = GridSearchCV(SVC(), GRID, cv=3, return_train_score=True).fit(X, Y)
    assert set(grid.cv_results_) <= set(ours.cv_results_)
    assert (ours.cv_results_["mean_fit_time"] > 0).all()
    assert (ours.cv_results_["mean_score_time"] > 0).all()
    np.testing.assert_array_equal(
        scores_of(ours.cv_results_, 3, "train_score"), scores_of(grid.cv_results_, 3, "train_score")
    )


def test_equal_configs_are_settled_as_in_grid_search_by_the_order_of_the_grid():
    grid = {"C": [1.0, 2.0, 3.0], "tol": [1e-3, 1e-4]}
    data = np.repeat([[0.0], [1.0]], 12, axis=0), np.repeat([0, 1], 12)
    ours = search(SVC(), grid, n_evaluations=500, uncertainty=0).fit(*data)
    assert ours.best_index_ == GridSearchCV(SVC(), grid, cv=3).fit(*data).best_index_ == 0
    assert (ours.cv_results_["rank_test_score"] == 1).all()


def test_a_loss_is_optimized_by_its_negative_score():
    data = make_regression(60, 5, noise=5.0, random_state=0)
    options = {"scoring": "neg_mean_absolute_error", "cv": 4}
    grid = GridSearchCV(Ridge(), {"alpha": np.logspace(-2, 2, 9)}, **options).fit(*data)
    ours = search(
        Ridge(), {"alpha": np.logspace(-2, 2, 9)}, uncertainty=0, n_evaluations=99, **options
    ).fit(*data)
    assert ours.best_params_ == grid.best_params_
    assert ours.score(*data) == grid.score(*data) < 0
    for key in ("robust_test_score", "mean_test_score"):  # to the last bit, so that ties agree
        np.testing.assert_array_equal(ours.cv_results_[key], grid.cv_results_["mean_test_score"])


# the robust choice


def test_with_a_large_radius_the_config_with_the_best_worst_fold_wins():
    ours = search(SVC(), GRID, n_evaluations=500, uncertainty=dr.WorstCase(), cv=5).fit(X, Y)
    worst = scores_of(GridSearchCV(SVC(), GRID, cv=5).fit(X, Y).cv_results_, 5).min(axis=1)
    assert ours.best_index_ == int(np.argmax(worst))
    assert ours.best_score_ == pytest.approx(worst.max())


def test_a_config_is_judged_by_its_scores_and_elsewhere_by_the_model():
    ours = search(n_evaluations=20, uncertainty=0.7).fit(X, Y)
    results = ours.cv_results_
    seen = np.stack([results[f"split{i}_evaluated"] for i in range(3)], axis=1)
    model = np.stack([results[f"posterior_split{i}"] for i in range(3)], axis=1)
    filled = np.where(seen, scores_of(results, 3), model)
    values, weights = dr.ChiSquareBall(0.7).worst_case(filled)
    np.testing.assert_allclose(results["robust_test_score"], values)
    assert ours.best_index_ == int(np.argmax(values))
    assert results["rank_test_score"][ours.best_index_] == 1
    np.testing.assert_allclose(ours.worst_case_weights_, weights[ours.best_index_])


def test_a_method_that_reports_the_mean_ranks_by_the_mean():
    ours = search(SVC(), GRID, n_evaluations=500, method="bqo-ts", uncertainty=5.0).fit(X, Y)
    assert ours.best_index_ == int(np.argmax(ours.cv_results_["mean_test_score"]))


def test_folds_that_were_not_trained_are_nan_and_counted():
    ours = search(n_evaluations=10).fit(X, Y)
    results = ours.cv_results_
    scores = scores_of(results, 3)
    seen = np.stack([results[f"split{i}_evaluated"] for i in range(3)], axis=1)
    assert seen.sum() == ours.n_evaluations_ == 10
    np.testing.assert_array_equal(np.isnan(scores), ~seen)
    np.testing.assert_array_equal(results["n_folds_evaluated"], seen.sum(axis=1))
    np.testing.assert_array_equal(np.isnan(results["mean_test_score"]), ~seen.all(axis=1))
    assert np.isfinite(results["robust_test_score"]).all()


def test_the_robustness_path_runs_from_the_best_mean_to_the_best_worst_fold():
    ours = search(SVC(), GRID, n_evaluations=500, cv=5).fit(X, Y)
    scores, path = scores_of(ours.cv_results_, 5), ours.robustness_path_
    assert (path[0]["radius"], path[-1]["radius"]) == (0.0, 2.0)
    assert path[0]["robust_score"] == pytest.approx(scores.mean(axis=1).max())
    assert path[-1]["robust_score"] == pytest.approx(scores.min(axis=1).max())
    values = [step["robust_score"] for step in path]
    assert values == sorted(values, reverse=True)
    assert path[3]["params"] == ours.cv_results_["params"][path[3]["best_index"]]


class Hill(RegressorMixin, BaseEstimator):
    """Scores best at the place where the test rows are."""

    def __init__(self, place=0.0, idle=0.0):
        self.place = place
        self.idle = idle

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def score(self, X, y):
        return -((self.place - np.mean(X)) ** 2)


def test_the_search_closes_in_on_the_place_that_is_good_for_the_worst_fold():
    space = {"place": dr.Float(-5.0, 5.0), "idle": dr.Float(0.0, 1.0)}
    data = np.repeat([[-1.0], [0.0], [2.0]], 4, axis=0), np.zeros(12)

    def tries(method):
        ours = search(
            Hill(), space, n_evaluations=30, method=method, uncertainty=dr.WorstCase(), refit=False
        ).fit(*data)
        last = [abs(config["place"] - 0.5) for config in ours.cv_results_["params"][-8:]]
        return np.mean(last), abs(ours.best_params_["place"] - 0.5)

    far, best = tries("drbqo")
    assert far < 0.05
    assert best < 0.01
    assert tries("random")[0] > 1.0


# failures


class Fussy(ClassifierMixin, BaseEstimator):
    """Refuses to be trained on data without row 0, when `fuss` is set; else scores `level`."""

    def __init__(self, level=0.5, fuss=False):
        self.level = level
        self.fuss = fuss

    def fit(self, X, y):
        if self.fuss and 0.0 not in X:
            raise ArithmeticError("row 0 is missing")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])

    def score(self, X, y):
        return self.level


ROWS = np.arange(12.0)[:, None], np.repeat([0, 1], 6)
FUSSY = {"level": [0.9, 0.5], "fuss": [True, False]}


def test_a_failing_fold_raises_the_error_itself():
    with pytest.raises(ArithmeticError, match="row 0 is missing"):
        search(Fussy(), FUSSY, n_evaluations=99).fit(*ROWS)


def test_a_failing_fold_counts_as_error_score_and_is_warned_of():
    fussy = search(Fussy(), FUSSY, n_evaluations=99, error_score=-1.0, uncertainty=0)
    with pytest.warns(FitFailedWarning, match=r"2 of 12 .* count as -1.0(.|\n)*row 0 is missing"):
        fussy.fit(*ROWS)
    results = fussy.cv_results_
    row = results["params"].index({"level": 0.9, "fuss": True})
    assert sorted(scores_of(results, 3)[row]) == [-1.0, 0.9, 0.9]
    assert results["mean_test_score"][row] == pytest.approx(0.8 / 3)
    assert fussy.best_params_ == {"level": 0.9, "fuss": False}


def test_with_nan_as_error_score_a_config_with_a_failed_fold_cannot_win():
    space = {"level": [0.9], "fuss": [True]}
    fussy = search(Fussy(), space, n_evaluations=99, error_score=math.nan)
    with pytest.warns(FitFailedWarning), pytest.raises(NothingObserved):
        fussy.fit(*ROWS)
    fussy = search(Fussy(), FUSSY, n_evaluations=99, error_score=math.nan)
    with pytest.warns(FitFailedWarning):
        fussy.fit(*ROWS)
    results = fussy.cv_results_
    failed = [config["fuss"] for config in results["params"]]
    np.testing.assert_array_equal(np.isnan(results["mean_test_score"]), failed)
    np.testing.assert_array_equal(np.isnan(results["robust_test_score"]), failed)
    assert not fussy.best_params_["fuss"]
    assert results["split0_evaluated"].all()


@pytest.mark.parametrize("error_score", [0.0, math.nan])
def test_when_every_fold_fails_that_is_an_error(error_score):
    with pytest.raises(ValueError, match=r"All 6 fold fits failed(.|\n)*degree"):
        search(SVC(kernel="poly"), {"degree": [-1, -2]}, error_score=error_score).fit(X, Y)


def test_a_score_that_is_not_finite_is_a_failed_fold():
    space = {"level": [0.5, math.inf]}
    with pytest.raises(ValueError, match=r"'score' on fold . is inf, which is not finite"):
        search(Fussy(), space).fit(*ROWS)
    fussy = search(Fussy(), space, error_score=0.0)
    with pytest.warns(FitFailedWarning, match="count as 0.0"):
        fussy.fit(*ROWS)
    assert fussy.best_params_ == {"level": 0.5}


def test_one_metric_that_fails_of_several_does_not_fail_the_fold():
    several = search(
        SVC(), GRID, n_evaluations=99, scoring=["accuracy", "roc_auc"], refit="accuracy",
        error_score=-2.0,
    )  # fmt: skip
    with pytest.warns(FitFailedWarning):
        several.fit(X, Y)
    assert (scores_of(several.cv_results_, 3, "test_roc_auc") == -2.0).all()
    assert several.best_score_ > 0.9


# scoring and refit


def test_of_several_metrics_the_one_named_by_refit_is_optimized_and_all_are_recorded():
    scoring = {
        "right": "accuracy",
        "loss": make_scorer(mean_absolute_error, greater_is_better=False),
    }
    ours = search(SVC(), GRID, n_evaluations=99, scoring=scoring, refit="loss", uncertainty=0)
    grid = GridSearchCV(SVC(), GRID, cv=3, scoring=scoring, refit="loss").fit(X, Y)
    ours.fit(X, Y)
    assert ours.multimetric_
    assert list(ours.scorer_) == ["right", "loss"]
    assert ours.best_params_ == grid.best_params_
    assert ours.score(X, Y) == grid.score(X, Y)
    for name in ("right", "loss"):
        for key in (f"mean_test_{name}", f"std_test_{name}", f"rank_test_{name}"):
            np.testing.assert_array_equal(ours.cv_results_[key], grid.cv_results_[key])
    assert "robust_test_loss" in ours.cv_results_


def test_a_callable_may_return_several_metrics():
    def both(estimator, X, y):
        return {"right": estimator.score(X, y), "constant": 1.0}

    ours = search(SVC(), GRID, n_evaluations=99, scoring=both, refit="right").fit(X, Y)
    assert ours.score(X, Y) > 0.9
    assert (scores_of(ours.cv_results_, 3, "test_constant") == 1.0).all()
    with pytest.raises(InvalidInput, match="refit"):
        search(scoring=both, n_evaluations=2).fit(X, Y)


def test_with_several_metrics_refit_must_name_one():
    with pytest.raises(InvalidInput, match=r"refit='accuracy'"):
        search(scoring=["accuracy", "f1_macro"]).fit(X, Y)


def test_a_callable_refit_picks_the_row():
    ours = search(SVC(), GRID, n_evaluations=99, refit=lambda results: 2).fit(X, Y)
    assert ours.best_index_ == 2
    assert ours.best_params_ == ours.cv_results_["params"][2]
    assert ours.best_params_["C"] == ours.best_estimator_.C
    assert not hasattr(ours, "best_score_")
    with pytest.raises(IndexError, match="below"):
        search(refit=lambda results: 1000).fit(X, Y)
    with pytest.raises(TypeError, match="row number"):
        search(refit=lambda results: "best").fit(X, Y)


def test_without_refit_there_is_an_answer_but_no_estimator():
    ours = search(refit=False).fit(X, Y)
    assert set(ours.best_params_) == set(SPACE)
    assert not hasattr(ours, "best_estimator_")
    assert not hasattr(ours, "predict")
    with pytest.raises(AttributeError, match="refit=False"):
        ours.score(X, Y)


def test_methods_are_there_only_if_the_estimator_has_them():
    ours = search()
    assert hasattr(ours, "decision_function")
    assert not hasattr(ours, "transform")
    assert not hasattr(ours, "n_features_in_")
    with pytest.raises(NotFittedError):
        ours.predict(X)
    ours.fit(X, Y)
    np.testing.assert_array_equal(ours.predict(X), ours.best_estimator_.predict(X))
    np.testing.assert_array_equal(ours.classes_, [0, 1, 2])
    assert ours.n_features_in_ == 4
    assert ours.refit_time_ > 0


def test_transformers_and_densities_without_targets_are_searched_too():
    density = search(KernelDensity(), {"bandwidth": dr.Float(0.01, 10.0, log=True)}).fit(X)
    assert density.score_samples(X).shape == (150,)
    pca = search(PCA(), {"n_components": dr.Int(1, 3)}).fit(X)
    assert pca.inverse_transform(pca.transform(X)).shape == X.shape


# data, splits and metadata


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=list("abcd"))
    ours = search(make_pipeline(StandardScaler(), SVC()), {"svc__C": dr.Float(0.1, 10.0)})
    ours.fit(frame, pd.Series(Y, index=frame.index[::-1]))
    np.testing.assert_array_equal(ours.feature_names_in_, list("abcd"))
    assert ours.predict(frame).shape == (150,)


def test_sparse_data_are_searched():
    ours = search(SVC(), GRID, n_evaluations=99).fit(scipy.sparse.coo_array(X), Y)
    assert ours.best_index_ == search(SVC(), GRID, n_evaluations=99).fit(X, Y).best_index_


def test_a_precomputed_kernel_is_cut_in_rows_and_columns():
    grid = {"C": [0.1, 10.0]}
    ours = search(SVC(kernel="precomputed"), grid, n_evaluations=99).fit(X @ X.T, Y)
    theirs = GridSearchCV(SVC(kernel="precomputed"), grid, cv=3).fit(X @ X.T, Y)
    np.testing.assert_array_equal(scores_of(ours.cv_results_, 3), scores_of(theirs.cv_results_, 3))


def test_groups_reach_the_splitter_and_a_fresh_shuffle_is_drawn_only_once():
    groups = np.arange(150) % 4
    ours = search(cv=GroupKFold(4)).fit(X, Y, groups=groups)
    assert ours.n_splits_ == 4
    space = {"C": [1.0, 2.0, 3.0]}
    shuffled = search(SVC(), space, cv=ShuffleSplit(4, test_size=20), n_evaluations=12)
    same = scores_of(shuffled.fit(X[:, :2], Y).cv_results_, 4)
    again = search(SVC(), {"C": [1.0]}, cv=ShuffleSplit(4, test_size=20), n_evaluations=4)
    assert not np.array_equal(same[0], scores_of(again.fit(X[:, :2], Y).cv_results_, 4)[0])
    assert shuffled.n_splits_ == 4


def test_a_single_split_is_a_search_with_one_fold():
    ours = search(cv=ShuffleSplit(1, random_state=0), method="drbqo", n_evaluations=12).fit(X, Y)
    assert ours.worst_case_weights_.tolist() == [1.0]
    assert [step["radius"] for step in ours.robustness_path_] == [0.0]


def test_sample_weights_reach_the_fit_and_the_scorer():
    data, target = make_classification(90, flip_y=0.3, random_state=1)
    weights = np.where(np.arange(90) % 3, 1.0, 25.0)
    grid = {"C": [0.01, 0.1, 1.0, 10.0]}
    ours = search(LogisticRegression(), grid, n_evaluations=99, uncertainty=0)
    theirs = GridSearchCV(LogisticRegression(), grid, cv=3)
    ours.fit(data, target, sample_weight=weights)
    theirs.fit(data, target, sample_weight=weights)
    np.testing.assert_array_equal(scores_of(ours.cv_results_, 3), scores_of(theirs.cv_results_, 3))
    plain = search(LogisticRegression(), grid, n_evaluations=99).fit(data, target)
    assert not np.array_equal(scores_of(ours.cv_results_, 3), scores_of(plain.cv_results_, 3))


def test_metadata_are_routed_as_requested():
    weights = np.where(np.arange(150) % 3, 1.0, 9.0)
    grid = {"C": [0.001, 10.0]}
    with sklearn.config_context(enable_metadata_routing=True):
        model = LogisticRegression(max_iter=1000)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        ours = search(model, grid, n_evaluations=99, cv=GroupKFold(3), uncertainty=0)
        theirs = GridSearchCV(model, grid, cv=GroupKFold(3))
        for each in (ours, theirs):
            each.fit(X, Y, sample_weight=weights, groups=np.arange(150) % 3)
        np.testing.assert_array_equal(
            scores_of(ours.cv_results_, 3), scores_of(theirs.cv_results_, 3)
        )
        with pytest.raises(TypeError, match="unknown"):
            ours.fit(X, Y, unknown=1)
    with pytest.raises(InvalidInput, match="metadata routing"):
        ours.score(X, Y, sample_weight=weights)


# spaces


def test_spaces_of_other_packages_and_plain_options_are_understood():
    from ray import tune

    space = {
        "C": scipy.stats.loguniform(0.1, 10.0),
        "gamma": tune.uniform(0.01, 1.0),
        "kernel": ["rbf", "poly"],
        "degree": np.array([2, 3]),
        "tol": dr.Float(1e-4, 1e-2, log=True),
    }
    ours = search(SVC(), space, n_evaluations=12).fit(X, Y)
    for config in ours.cv_results_["params"]:
        assert 0.1 <= config["C"] <= 10.0
        assert 0.01 <= config["gamma"] <= 1.0
        assert config["kernel"] in ("rbf", "poly")
        assert config["degree"] in (2, 3)


def test_conditional_parameters_are_masked_where_they_do_not_apply():
    space = {"kernel": ["rbf", "poly"], "degree": dr.Int(1, 3, when={"kernel": ["poly"]})}
    ours = search(SVC(), space, n_evaluations=99).fit(X, Y)
    assert ours.n_evaluations_ == (1 + 3) * 3
    masked = np.ma.getmaskarray(ours.cv_results_["param_degree"])
    np.testing.assert_array_equal(masked, ours.cv_results_["param_kernel"] == "rbf")


def test_steps_of_a_pipeline_can_be_searched_and_stay_untrained():
    options = [StandardScaler(), MinMaxScaler(), "passthrough"]
    pipe = Pipeline([("scale", StandardScaler()), ("svc", SVC())])
    ours = search(pipe, {"scale": options, "svc__C": [0.1, 10.0]}, n_evaluations=99).fit(X, Y)
    assert ours.n_evaluations_ == 18
    assert ours.best_params_["scale"] in options
    assert not hasattr(options[0], "mean_")


def test_one_config_alone_is_a_space_too():
    ours = search(SVC(), {"C": [2.0]}, method="drbqo").fit(X, Y)
    assert ours.best_params_ == {"C": 2.0}
    assert ours.n_evaluations_ == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_evaluations": 0}, "n_evaluations"),
        ({"n_evaluations": 2.5}, "n_evaluations"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"error_score": "nan"}, "error_score"),
        ({"method": "grid"}, "method"),
        ({"uncertainty": -1.0}, "radius"),
        ({"space": {"c": [1.0]}}, r"\['c'\]"),
        ({"space": {}}, "non-empty"),
        ({"space": [{"C": [1.0]}]}, "dict"),
        ({"space": {"C": 1.0}}, "Float, Int or Choice"),
    ],
)
def test_wrong_settings_are_refused_in_fit_and_only_there(options, message):
    ours = search(**options)
    with pytest.raises(InvalidInput, match=message):
        ours.fit(X, Y)
    assert not hasattr(ours, "cv_results_")


# the estimator as an object


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


# what a run on Ray keeps


def test_fold_fits_come_back_from_their_file_even_if_the_last_line_is_cut(tmp_path):
    path = tmp_path / "fits.jsonl"
    assert read_fits(path) == {}
    good = FoldFit(0.5, {"score": 0.5}, {"score": 0.75}, 0.25, 0.125)
    bad = FoldFit(None, {}, {}, 0.5, 0.0, "ValueError: no")
    append_fit(path, 3, bad)
    append_fit(path, 4, good)
    append_fit(path, 3, good)
    assert read_fits(path) == {3: good, 4: good}
    path.write_bytes(path.read_bytes()[:-7])
    append_fit(path, 5, bad)
    assert read_fits(path) == {3: bad, 4: good, 5: bad}


class Unpicklable(Exception):
    def __reduce__(self):
        raise TypeError("not me")


class NotUnpicklable(Exception):
    def __init__(self, first, second):
        super().__init__(first)


@pytest.mark.parametrize("error", [Unpicklable("no"), NotUnpicklable("one", "two")])
def test_an_exception_that_cannot_travel_is_left_behind_with_its_text(error):
    fit = FoldFit(None, error="text", exception=error)
    back = pickle.loads(pickled(fit))
    assert (back.exception, back.error) == (None, "text")
    fine = pickle.loads(pickled(FoldFit(None, exception=ArithmeticError("yes"))))
    assert isinstance(fine.exception, ArithmeticError)


def test_the_fingerprint_knows_data_splits_and_estimator():
    base = fingerprint_of(SVC(), X, [(np.arange(3), np.arange(4))])
    assert base == fingerprint_of(SVC(), X.copy(), [(np.arange(3), np.arange(4))])
    assert base != fingerprint_of(SVC(C=2.0), X, [(np.arange(3), np.arange(4))])
    assert base != fingerprint_of(SVC(), X + 1e-9, [(np.arange(3), np.arange(4))])
    assert base != fingerprint_of(SVC(), X, [(np.arange(3), np.arange(5))])
    assert len(fingerprint_of(lambda x: x, X)) == len(base)


def test_no_warning_is_made_by_a_good_search():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(n_evaluations=12, method="drbqo").fit(X, Y)
