"""The learners of the quality benchmark: hyperparameters, and a model of a config and a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNet, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from drbqo_ray import Choice, Float, Int

Config = dict[str, Any]
Parameters = Mapping[str, Float | Int | Choice]

TREES = 20
EPOCHS = 20


@dataclass(frozen=True)
class Learner:
    """A model family: its hyperparameters, and an unfitted model of a config and a seed."""

    parameters: Parameters
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


def _extra_trees(config: Config, seed: int) -> BaseEstimator:
    return ExtraTreesRegressor(TREES, random_state=seed, **config)


def _boosting(config: Config, seed: int) -> BaseEstimator:
    return GradientBoostingClassifier(n_estimators=TREES, random_state=seed, **config)


def _boosting_regressor(config: Config, seed: int) -> BaseEstimator:
    return GradientBoostingRegressor(n_estimators=TREES, random_state=seed, **config)


def _hist_boosting(config: Config, seed: int) -> BaseEstimator:
    return HistGradientBoostingClassifier(
        max_iter=TREES, early_stopping=False, random_state=seed, **config
    )


def _neighbors(config: Config, seed: int) -> BaseEstimator:
    return make_pipeline(StandardScaler(), KNeighborsClassifier(**config))


def _kernel_ridge(config: Config, seed: int) -> BaseEstimator:
    model = make_pipeline(StandardScaler(), KernelRidge(**config))
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def _network(config: Config, seed: int) -> BaseEstimator:
    model = MLPClassifier(max_iter=EPOCHS, random_state=seed, **config)
    return make_pipeline(StandardScaler(), model)


_KERNEL: Parameters = {"C": Float(1e-3, 1e3, log=True), "gamma": Float(1e-5, 1e1, log=True)}
_PENALTY: Parameters = {"alpha": Float(1e-5, 1e1, log=True), "l1_ratio": Float(0.0, 1.0)}
_LEAF = Float(0.002, 0.2, log=True)
_BOOST: Parameters = {
    "learning_rate": Float(0.01, 1.0, log=True),
    "subsample": Float(0.2, 1.0),
    "min_samples_leaf": _LEAF,
}
LEARNERS = {
    "svm": Learner(_KERNEL, _svm),
    "svr": Learner(_KERNEL, _svr),
    "elastic-net": Learner(_PENALTY, _elastic_net),
    "elastic-net-classes": Learner(_PENALTY, _elastic_net_classes),
    "forest": Learner(
        {
            "max_features": Float(0.05, 1.0),
            "max_samples": Float(0.1, 1.0),
            "min_samples_leaf": _LEAF,
        },
        _forest,
    ),
    "boosting": Learner(_BOOST, _boosting),
    "boosting-regressor": Learner(_BOOST, _boosting_regressor),
    "neighbors": Learner(
        {
            "n_neighbors": Int(1, 40, log=True),
            "weights": Choice(["uniform", "distance"]),
            "p": Float(1.0, 5.0),
        },
        _neighbors,
    ),
    "svm-kernels": Learner(
        {
            "kernel": Choice(["rbf", "poly", "sigmoid"]),
            "C": Float(1e-3, 1e3, log=True),
            "gamma": Float(1e-5, 1e0, log=True),
            "coef0": Float(0.0, 2.0),
        },
        _svm,
    ),
    "network": Learner(
        {
            "hidden_layer_sizes": Int(2, 64, log=True),
            "activation": Choice(["relu", "tanh"]),
            "alpha": Float(1e-6, 1e1, log=True),
            "learning_rate_init": Float(1e-4, 1e0, log=True),
            "batch_size": Int(8, 128, log=True),
        },
        _network,
    ),
    "extra-trees": Learner(
        {
            "max_features": Float(0.1, 1.0),
            "max_depth": Int(1, 16),
            "min_samples_leaf": Int(1, 40, log=True),
            "bootstrap": Choice([False, True]),
        },
        _extra_trees,
    ),
    "hist-boosting": Learner(
        {
            "learning_rate": Float(0.01, 1.0, log=True),
            "max_leaf_nodes": Int(2, 32, log=True),
            "min_samples_leaf": Int(2, 40, log=True),
            "l2_regularization": Float(1e-6, 1e1, log=True),
            "max_features": Float(0.1, 1.0),
        },
        _hist_boosting,
    ),
    "kernel-ridge": Learner(
        {
            "kernel": Choice(["rbf", "laplacian", "polynomial"]),
            "alpha": Float(1e-3, 1e3, log=True),
            "gamma": Float(1e-4, 1e0, log=True),
            "degree": Int(1, 4),
        },
        _kernel_ridge,
    ),
}
