"""scikit-learn's own checks, with no more exceptions than it grants GridSearchCV itself."""

from __future__ import annotations

import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import drbqo_ray as dr
from drbqo_ray.search_cv import RobustSearchCV

GRANTED_TO_GRID_SEARCH = {"check_supervised_y_2d", "check_requires_y_none"}
EXPECTED = {"check_supervised_y_2d": "the DataConversionWarning of a fold is not repeated"}

CLASSIFIER = RobustSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2, n_evaluations=4)
REGRESSOR = RobustSearchCV(
    Ridge(), {"alpha": dr.Float(0.1, 10.0, log=True)}, cv=2, n_evaluations=4, random_state=0
)
PIPELINE = RobustSearchCV(
    Pipeline([("pca", PCA()), ("ridge", Ridge())]),
    {"ridge__alpha": [0.1, 1.0]},
    cv=2,
    n_evaluations=4,
)


def expected_failures(search):
    return EXPECTED if not isinstance(search.estimator, LogisticRegression) else {}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks(
    [CLASSIFIER, REGRESSOR, PIPELINE], expected_failed_checks=expected_failures, xfail_strict=True
)
def test_the_search_passes_the_check(estimator, check):
    check(estimator)


def test_no_exception_is_claimed_that_grid_search_does_not_have():
    assert set(EXPECTED) <= GRANTED_TO_GRID_SEARCH
