"""One metric or several, and what `refit` makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from tests.support.quick_search import GRID, SPACE, X, Y, scores_of, search


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
