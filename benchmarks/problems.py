"""The problems of the quality benchmark: learners on small data, tuned by 5-fold cross-validation.

Half of them were set aside before any method was compared on them (`HELD_OUT`): methods are chosen
by the others. A seed cuts a third of the rows off as the test set and the rest into folds, and is
the random state of learners that have one, so a score is a function of (config, fold).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import ElasticNet, SGDClassifier
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import drbqo_ray as dr
import workers.data
from drbqo_ray.experiments.synthetic import find_surface

Array = np.ndarray
Config = dict[str, float]
Bounds = Mapping[str, tuple[float, float, bool]]

FOLDS = 5
TREES = 20


@dataclass(frozen=True)
class FoldProblem:
    """Something to tune by cross-validation; larger scores are better.

    Attributes:
        bounds: low, high and whether on a log scale, by name.
        n_folds: number of folds k.
        score: score of a config on one fold.
        ceiling: no score is higher; for peers that want costs of at least 0.
        contexts: what our optimizer is told of the folds: k, or sample vectors (k, m).
        test: score on the test set of a model fitted on all folds; None if there is no test set.
    """

    bounds: Bounds
    n_folds: int
    score: Callable[[Config, int], float]
    ceiling: float
    contexts: Any = None
    test: Callable[[Config], float] | None = None

    @property
    def space(self) -> dr.Space:
        """The space as our optimizer takes it."""
        items = self.bounds.items()
        return dr.Space({name: dr.Float(low, high, log=log) for name, (low, high, log) in items})


@dataclass(frozen=True)
class Learner:
    """A model family: its hyperparameters, and an unfitted model of a config and a seed."""

    bounds: Bounds
    make: Callable[[Config, int], BaseEstimator]


def _svm(config: Config, seed: int) -> BaseEstimator:
    return make_pipeline(StandardScaler(), SVC(**config))


def _svr(config: Config, seed: int) -> BaseEstimator:
    return make_pipeline(StandardScaler(), SVR(**config))


def _elastic_net(config: Config, seed: int) -> BaseEstimator:
    return make_pipeline(StandardScaler(), ElasticNet(**config, max_iter=2000))


def _elastic_net_classes(config: Config, seed: int) -> BaseEstimator:
    model = SGDClassifier(
        loss="log_loss", penalty="elasticnet", max_iter=20, tol=None, random_state=seed, **config
    )
    return make_pipeline(StandardScaler(), model)


def _forest(config: Config, seed: int) -> BaseEstimator:
    return RandomForestClassifier(TREES, random_state=seed, **config)


def _boosting(config: Config, seed: int) -> BaseEstimator:
    return GradientBoostingClassifier(n_estimators=TREES, random_state=seed, **config)


def _boosting_regressor(config: Config, seed: int) -> BaseEstimator:
    return GradientBoostingRegressor(n_estimators=TREES, random_state=seed, **config)


_KERNEL: Bounds = {"C": (1e-3, 1e3, True), "gamma": (1e-5, 1e1, True)}
_PENALTY: Bounds = {"alpha": (1e-5, 1e1, True), "l1_ratio": (0.0, 1.0, False)}
_TREES: Bounds = {
    "max_features": (0.05, 1.0, False),
    "max_samples": (0.1, 1.0, False),
    "min_samples_leaf": (0.002, 0.2, True),
}
_BOOST: Bounds = {
    "learning_rate": (0.01, 1.0, True),
    "subsample": (0.2, 1.0, False),
    "min_samples_leaf": (0.002, 0.2, True),
}
LEARNERS = {
    "svm": Learner(_KERNEL, _svm),
    "svr": Learner(_KERNEL, _svr),
    "elastic-net": Learner(_PENALTY, _elastic_net),
    "elastic-net-classes": Learner(_PENALTY, _elastic_net_classes),
    "forest": Learner(_TREES, _forest),
    "boosting": Learner(_BOOST, _boosting),
    "boosting-regressor": Learner(_BOOST, _boosting_regressor),
}

# problem -> learner and data set; None: made by a function of its own
DEVELOPMENT: dict[str, tuple[str, str] | None] = {
    "svm-sonar": ("svm", "sonar"),
    "svm-glass": ("svm", "glass"),
    "elastic-net-diabetes": ("elastic-net", "diabetes"),
    "forest-sonar": ("forest", "sonar"),
    "boosting-sonar": ("boosting", "sonar"),
    "logistic": None,
}
HELD_OUT: dict[str, tuple[str, str] | None] = {
    "svm-breast-cancer": ("svm", "breast-cancer"),
    "svr-diabetes": ("svr", "diabetes"),
    "elastic-net-breast-cancer": ("elastic-net-classes", "breast-cancer"),
    "forest-glass": ("forest", "glass"),
    "boosting-diabetes": ("boosting-regressor", "diabetes"),
    "cnn-digits": None,
}
PROBLEMS = {**DEVELOPMENT, **HELD_OUT}


@lru_cache(maxsize=2)
def open_problem(name: str, seed: int) -> FoldProblem:
    """A problem by name; the seed cuts its data."""
    pair = PROBLEMS[name]
    if pair is not None:
        return _learn(LEARNERS[pair[0]], *_data(pair[1]), seed)
    return _logistic() if name == "logistic" else _cnn(seed)


def _data(name: str) -> tuple[Array, Array]:
    """Inputs (N, d) and targets (N,) of a data set."""
    if name in workers.data.CSV_SHA256:
        folder = Path(workers.data.__file__).parent / "datasets"
        X, labels = workers.data.read_csv(folder / f"{name}.csv")
        return X, np.unique(labels, return_inverse=True)[1]
    loaders = {"breast-cancer": load_breast_cancer, "diabetes": load_diabetes}
    X, y = loaders[name](return_X_y=True)
    return X, y


def _learn(learner: Learner, X: Array, y: Array, seed: int) -> FoldProblem:
    sort = is_classifier(learner.make({}, 0))
    train, test = train_test_split(
        np.arange(len(y)), test_size=1 / 3, stratify=y if sort else None, random_state=seed
    )
    kind = StratifiedKFold if sort else KFold
    cuts = list(kind(FOLDS, shuffle=True, random_state=seed).split(train, y[train]))

    def fitted_score(config: Config, rows: Array, held: Array) -> float:
        model = learner.make(config, seed).fit(X[rows], y[rows])
        return float(model.score(X[held], y[held]))

    return _by_rows(learner.bounds, fitted_score, train, test, cuts)


def _by_rows(
    bounds: Bounds, fitted_score: Callable[[Config, Array, Array], float],
    train: Array, test: Array, cuts: list[tuple[Array, Array]],
) -> FoldProblem:  # fmt: skip
    """A problem whose score is that of a model fitted on some rows and judged on others."""

    def score(config: Config, fold: int) -> float:
        rows, held = cuts[fold]
        return fitted_score(config, train[rows], train[held])

    return FoldProblem(
        bounds, FOLDS, score, 1.0, test=lambda config: fitted_score(config, train, test)
    )


def _logistic() -> FoldProblem:
    """The paper's logistic example: 10 samples of w, no test set."""
    surface = find_surface("logistic")

    def score(config: Config, fold: int) -> float:
        return float(surface.values(np.array([list(config.values())]))[0, fold])

    bounds = {f"x{k}": (surface.low, surface.high, False) for k in range(surface.d)}
    return FoldProblem(bounds, len(surface.samples), score, 0.0, surface.samples)


def _cnn(seed: int) -> FoldProblem:
    """A small network on 300 images of digits; the others are the test set."""
    from benchmarks.small_cnn import BOUNDS, accuracy, digits, trained

    X, y = digits()
    train, test = train_test_split(np.arange(len(y)), train_size=300, stratify=y, random_state=seed)
    cuts = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(train, y[train]))

    def fitted_score(config: Config, rows: Array, held: Array) -> float:
        return accuracy(trained(config, X[rows], y[rows], seed), X[held], y[held])

    return _by_rows(BOUNDS, fitted_score, train, test, cuts)
