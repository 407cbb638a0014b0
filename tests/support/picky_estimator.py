"""An estimator that fails on command; Ray's workers import it from here."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Refusal(Exception):
    """Raised by a fit, on purpose."""


class Picky(ClassifierMixin, BaseEstimator):
    """Scores `level`; refuses to be trained while a file of this name is there."""

    def __init__(self, level: Any = 0.5, obstacle: Any = None) -> None:
        self.level = level
        self.obstacle = obstacle

    def fit(self, X: Any, y: Any) -> Any:
        if self.obstacle is not None and self.level == 0.7 and Path(self.obstacle).exists():
            raise Refusal(f"{self.obstacle} is in the way")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])

    def score(self, X: Any, y: Any) -> Any:
        return self.level


class Deadly(Picky):
    """Ends the process it is trained in, the first `deaths` times; a file counts them."""

    def __init__(self, level: Any = 0.5, obstacle: Any = None, deaths: Any = 1) -> None:
        super().__init__(level, obstacle)
        self.deaths = deaths

    def fit(self, X: Any, y: Any) -> Any:
        log = Path(self.obstacle)
        if log.stat().st_size < self.deaths:
            with log.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)


def quit_or_score(estimator: Any, X: Any, y: Any) -> Any:
    """A scorer that ends its process for one config."""
    if estimator.level == 0.7:
        raise SystemExit("I quit")
    return estimator.level


def forget_accuracy(estimator: Any, X: Any, y: Any) -> Any:
    """A scorer of several metrics that leaves one out."""
    return {"other": 1.0}
