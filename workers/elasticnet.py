"""Logistic regression with elastic-net penalty on single folds, trained by SGD.

The two hyperparameters and their ranges are those of the paper's experiment: `alpha`, the
weight of the penalty, and `l1_ratio`, the share of its L1 part. Pixels are in [0, 1].
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier

from workers.folds import FoldObjective, scaled_pixels


class ElasticNetFolds(FoldObjective):
    """Elastic-net logistic regression; arguments as in `FoldObjective`.

    Own data by `from_arrays`: uint8 is taken for pixels and divided by 255, other numbers
    are used as they are, so bring features to a common scale first.
    """

    datasets: ClassVar[tuple[str, ...]] = ("mnist", "digits")
    default_config: ClassVar[Mapping[str, float]] = {"alpha": 1e-4, "l1_ratio": 0.15}

    def __init__(
        self,
        dataset: str = "mnist",
        n_folds: int = 10,
        split_seed: int = 0,
        subset: int | None = None,
    ) -> None:
        super().__init__(dataset, n_folds, split_seed, subset)

    @property
    def space(self) -> dict[str, dict[str, Any]]:
        """The ranges of the paper's experiment."""
        return {
            "alpha": {"type": "float", "low": 1e-6, "high": 1e3, "log": True},
            "l1_ratio": {"type": "float", "low": 1e-8, "high": 1.0, "log": False},
        }

    def fit(
        self, config: Mapping[str, Any], X: NDArray[Any], y: NDArray[Any], seed: int
    ) -> SGDClassifier:
        """At most 20 passes over X (N, ...), y (N,); stopping at 20 is the plan, not a fault."""
        values = self.checked_config(config)
        model = SGDClassifier(
            loss="log_loss",
            penalty="elasticnet",
            max_iter=20,
            tol=1e-3,
            shuffle=True,
            random_state=operator.index(seed) % 2**32,
            **values,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(scaled_pixels(X), y)

    def predict(self, model: SGDClassifier, X: NDArray[Any]) -> NDArray[np.int64]:
        """Class numbers (M,) for X (M, ...)."""
        return np.asarray(model.predict(scaled_pixels(X)))


mnist = ElasticNetFolds("mnist")
digits = ElasticNetFolds("digits")
