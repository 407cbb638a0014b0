"""Folds that fail, or score what is no number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.svm import SVC

from drbqo_ray.errors import InvalidInput, NothingObserved
from tests.support.quick_search import GRID, X, Y, scores_of, search


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
    ours = search(SVC(kernel="poly"), {"degree": [-1, -2]}, error_score=error_score)
    with pytest.raises(ValueError, match=r"All 6 fold fits failed(.|\n)*degree"):
        ours.fit(X, Y)
    with pytest.raises(NotFittedError):
        ours.report("never.html")


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
        SVC(),
        GRID,
        n_evaluations=99,
        scoring=["accuracy", "roc_auc"],
        refit="accuracy",
        error_score=-2.0,
    )
    with pytest.warns(FitFailedWarning):
        several.fit(X, Y)
    assert (scores_of(several.cv_results_, 3, "test_roc_auc") == -2.0).all()
    assert several.best_score_ > 0.9


class Forgetful:
    """A scorer that leaves the metric `name` out on the fold that tests row 0."""

    def __init__(self, name):
        self.name = name

    def __call__(self, estimator, X, y):
        scores = {"level": estimator.level, "half": estimator.level / 2}
        return {k: v for k, v in scores.items() if k != self.name or 0.0 not in X}


LEVELS = {"level": [0.9, 0.5]}


def test_a_fold_whose_scorer_leaves_the_optimized_metric_out_has_failed():
    def forgetful(**options):
        settings = {"scoring": Forgetful("level"), "refit": "level", "n_evaluations": 99}
        return search(Fussy(), LEVELS, **(settings | options))

    with pytest.raises(InvalidInput, match=r"'level', which is optimized.*only \['half'\] on fold"):
        forgetful().fit(*ROWS)
    counted = forgetful(error_score=0.25)
    with pytest.warns(FitFailedWarning, match=r"2 of 6 .* count as 0.25(.|\n)*'level'"):
        counted.fit(*ROWS)
    level, half = (scores_of(counted.cv_results_, 3, f"test_{k}") for k in ("level", "half"))
    assert [sorted(row) for row in level] == [[0.25, 0.9, 0.9], [0.25, 0.5, 0.5]]
    np.testing.assert_array_equal(half, [[0.45] * 3, [0.25] * 3])
    none = forgetful(error_score=math.nan)
    with pytest.warns(FitFailedWarning, match="count as nan"), pytest.raises(NothingObserved):
        none.fit(*ROWS)


def test_a_scorer_that_never_returns_the_optimized_metric_fails_every_fold():
    wrong = search(Fussy(), LEVELS, scoring=Forgetful(None), refit="lvl", error_score=0.0)
    with pytest.raises(ValueError, match=r"All 6 fold fits failed(.|\n)*'lvl'"):
        wrong.fit(*ROWS)
    empty = search(Fussy(), LEVELS, scoring=lambda estimator, X, y: {}, error_score=0.0)
    with pytest.raises(ValueError, match=r"All 6 fold fits failed(.|\n)*only \[\]"):
        empty.fit(*ROWS)


def test_a_metric_beside_the_optimized_one_that_is_left_out_is_warned_of():
    beside = search(Fussy(), LEVELS, scoring=Forgetful("half"), refit="level", n_evaluations=99)
    with pytest.warns(UserWarning, match=r"test score 'half' is missing .* in 2 of 6"):
        beside.fit(*ROWS)
    assert np.isnan(scores_of(beside.cv_results_, 3, "test_half")).sum() == 2
    assert beside.best_params_ == {"level": 0.9}


def test_without_a_name_no_fold_is_judged_by_another_metric_than_the_rest():
    first = search(
        Fussy(), LEVELS, scoring=Forgetful("level"), refit=False, n_evaluations=99, error_score=0.0
    )
    with pytest.raises(InvalidInput, match="the same one first on every fold"):
        first.fit(*ROWS)


def test_a_train_score_that_is_not_finite_is_warned_of():
    def trained_rows_are_nan(estimator, X, y):
        return math.nan if len(X) == 8 else estimator.level

    ours = search(Fussy(), LEVELS, scoring=trained_rows_are_nan, return_train_score=True)
    with pytest.warns(UserWarning, match=r"train score 'score' is missing or not finite in 6 of 6"):
        ours.fit(*ROWS)
    assert ours.best_score_ == 0.9
