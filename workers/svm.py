"""A support vector machine with RBF kernel on single folds (the paper's appendix C).

`C` and `gamma` are searched on log scales. Features are standardized inside the pipeline, by
the mean and deviation of the rows it is fitted on. The fit has no randomness, so the seed of
an evaluation changes nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from workers.folds import FoldObjective


class SVMFolds(FoldObjective):
    """RBF support vector machine; arguments as in `FoldObjective`."""

    deterministic = True  # fitting draws no random numbers
    datasets: ClassVar[tuple[str, ...]] = ("sonar", "glass", "digits")
    default_config: ClassVar[Mapping[str, float]] = {"C": 1.0, "gamma": 0.02}

    def __init__(
        self,
        dataset: str = "sonar",
        n_folds: int = 5,
        split_seed: int = 0,
        subset: int | None = None,
    ) -> None:
        super().__init__(dataset, n_folds, split_seed, subset)

    @property
    def space(self) -> dict[str, dict[str, Any]]:
        """Wide enough on standardized features to hold the optimum well inside."""
        return {
            "C": {"type": "float", "low": 1e-3, "high": 1e3, "log": True},
            "gamma": {"type": "float", "low": 1e-5, "high": 1e1, "log": True},
        }

    def fit(
        self, config: Mapping[str, Any], X: NDArray[Any], y: NDArray[Any], seed: int
    ) -> Pipeline:
        """Scaler and SVC, both fitted on X (N, ...), y (N,)."""
        values = self.checked_config(config)
        state = operator.index(seed) % 2**32  # unused, but else drawn from numpy's global state
        pipeline = make_pipeline(StandardScaler(), SVC(kernel="rbf", random_state=state, **values))
        return pipeline.fit(X.reshape(len(X), -1), y)

    def predict(self, model: Pipeline, X: NDArray[Any]) -> NDArray[np.int64]:
        """Class numbers (M,) for X (M, ...)."""
        return np.asarray(model.predict(X.reshape(len(X), -1)))


sonar = SVMFolds("sonar")
glass = SVMFolds("glass")
