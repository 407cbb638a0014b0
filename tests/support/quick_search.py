"""A quick RobustSearchCV on iris, for the tests of the search."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray.search_cv import RobustSearchCV

X, Y = load_iris(return_X_y=True)
GRID = {"C": [10, 0.1], "kernel": ["rbf", "poly"], "gamma": [0.01, 1.0]}
SPACE = {"C": dr.Float(1e-2, 1e3, log=True), "gamma": dr.Float(1e-3, 10.0, log=True)}


def search(estimator: Any = None, space: Any = None, **options: Any) -> Any:
    """A quick search: configs and folds at random unless told otherwise."""
    settings: dict[str, Any] = {
        "cv": 3,
        "n_evaluations": 8,
        "method": "random",
        "random_state": 0,
    } | options
    return RobustSearchCV(estimator or SVC(), SPACE if space is None else space, **settings)


def scores_of(results: Any, n: int, name: str = "test_score") -> Any:
    """Scores (m, n) of all configs on all folds."""
    return np.stack([results[f"split{i}_{name}"] for i in range(n)], axis=1)
