"""What RobustSearchCV chooses: beside GridSearchCV, and for bad folds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import make_regression
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import drbqo_ray as dr
from tests.support.quick_search import GRID, X, Y, scores_of, search

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


@pytest.mark.parametrize("method", ["drbqo", "foldwise"])
def test_a_config_is_judged_by_its_scores_and_elsewhere_by_the_model(method):
    ours = search(n_evaluations=20, uncertainty=0.7, method=method).fit(X, Y)
    results = ours.cv_results_
    seen = np.stack([results[f"split{i}_evaluated"] for i in range(3)], axis=1)
    model = np.stack([results[f"posterior_split{i}"] for i in range(3)], axis=1)
    filled = np.where(seen, scores_of(results, 3), model)
    values, weights = dr.ChiSquareBall(0.7).worst_case(filled)
    np.testing.assert_allclose(results["robust_test_score"], values)
    assert ours.best_index_ == int(np.argmax(values))
    assert results["rank_test_score"][ours.best_index_] == 1
    np.testing.assert_allclose(ours.worst_case_weights_, weights[ours.best_index_])
    judged = ours.optimizer_.completed_scores(results["params"])
    np.testing.assert_allclose(model[~seen], judged[~seen])
    if method == "foldwise":
        assert ours.best_params_ == ours.optimizer_.recommend().config


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
