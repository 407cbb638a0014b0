"""The learners of the quality benchmark: hyperparameters, and a model of a config and a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNet, Ridge, RidgeClassifier, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

from drbqo_ray import Choice, Float, Int

Config = dict[str, Any]
Parameters = Mapping[str, Float | Int | Choice]

TREES = 20
EPOCHS = 20
CHANNELS, CNN_EPOCHS, CNN_BATCH = 8, 6, 48


@dataclass(frozen=True)
class Learner:
    """A model family.

    Attributes:
        parameters: its hyperparameters by name.
        make: an unfitted model of a config and a seed.
        default: scikit-learn's own settings, or the nearest in reach; None where nobody asked.
    """

    parameters: Parameters
    make: Callable[[Config, int], BaseEstimator]
    default: Config | None = None


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


class SmallCNN(ClassifierMixin, BaseEstimator):
    """A convolutional network small enough to be trained ten thousand times, on 8 x 8 images."""

    def __init__(self, config: Config, seed: int) -> None:
        self.config, self.seed = config, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> SmallCNN:
        """Train on images X (N, 8, 8), float32 in [0, 1], and their digits y (N,)."""
        import torch
        from torch import nn

        torch.manual_seed(self.seed)
        net = nn.Sequential(
            nn.Unflatten(1, (1, 8)),
            nn.Conv2d(1, CHANNELS, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(self.config["dropout"]),
            nn.Linear(CHANNELS * 9, 10),
        )
        rate, decay = self.config["learning_rate"], self.config["weight_decay"]
        adam = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay)
        images, labels = torch.tensor(X), torch.tensor(y)
        for _ in range(CNN_EPOCHS):
            for rows in torch.randperm(len(y)).split(CNN_BATCH):
                adam.zero_grad()
                loss = nn.functional.cross_entropy(net(images[rows]), labels[rows])
                torch.autograd.backward(loss)
                adam.step()
        self.net_ = net.eval()
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The digits (M,) that images X (M, 8, 8) are read as."""
        import torch

        with torch.no_grad():
            return self.net_(torch.tensor(X)).argmax(1).numpy()


SCALERS = {
    "standard": StandardScaler,
    "robust": RobustScaler,
    "none": FunctionTransformer,
}
COVARIANCES = {
    "rbf": kernels.RBF,
    "matern32": lambda length: kernels.Matern(length, nu=1.5),
    "rational": kernels.RationalQuadratic,
}


def _qda(config: Config, seed: int) -> BaseEstimator:
    kind, most = config.get("scaler", "standard"), config.get("components", 2)
    model = QuadraticDiscriminantAnalysis(reg_param=config.get("reg_param", 0.0))
    return make_pipeline(SCALERS[kind](), PCA(most, random_state=seed), model)


def _tree(config: Config, seed: int) -> BaseEstimator:
    return DecisionTreeClassifier(random_state=seed, **config)


def _svr_kernels(config: Config, seed: int) -> BaseEstimator:
    model = make_pipeline(StandardScaler(), SVR(max_iter=3000, **config))
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def _neighbors_regressor(config: Config, seed: int) -> BaseEstimator:
    rest = {name: value for name, value in config.items() if name != "components"}
    reduced = PCA(config.get("components", 2), random_state=seed)
    return make_pipeline(StandardScaler(), reduced, KNeighborsRegressor(**rest))


def _splines(config: Config, seed: int) -> BaseEstimator:
    rest = {name: value for name, value in config.items() if name != "alpha"}
    ridge = Ridge(config.get("alpha", 1.0))
    return make_pipeline(StandardScaler(), SplineTransformer(**rest), ridge)


def _boosting_mixed(config: Config, seed: int) -> BaseEstimator:
    return GradientBoostingClassifier(random_state=seed, **config)


def _process(config: Config, seed: int) -> BaseEstimator:
    kernel = COVARIANCES[config.get("kernel", "rbf")](config.get("length", 1.0))
    alpha = config.get("noise", 1e-4)
    model = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None, normalize_y=True)
    return make_pipeline(StandardScaler(), model)


def _small_forest(config: Config, seed: int) -> BaseEstimator:
    return RandomForestClassifier(10, random_state=seed, **config)


def _random_features(config: Config, seed: int) -> BaseEstimator:
    rest = {name: value for name, value in config.items() if name != "alpha"}
    ridge = Ridge(config.get("alpha", 1.0))
    return make_pipeline(StandardScaler(), RBFSampler(random_state=seed, **rest), ridge)


def _nystroem(config: Config, seed: int) -> BaseEstimator:
    rest = {name: value for name, value in config.items() if name != "alpha"}
    ridge = RidgeClassifier(config.get("alpha", 1.0))
    return make_pipeline(StandardScaler(), Nystroem(random_state=seed, **rest), ridge)


def _sgd(config: Config, seed: int) -> BaseEstimator:
    model = SGDClassifier(random_state=seed, tol=None, **config)
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
        {
            "hidden_layer_sizes": 64,
            "activation": "relu",
            "alpha": 1e-4,
            "learning_rate_init": 1e-3,
            "batch_size": 128,
        },
    ),
    "extra-trees": Learner(
        {
            "max_features": Float(0.1, 1.0),
            "max_depth": Int(1, 16),
            "min_samples_leaf": Int(1, 40, log=True),
            "bootstrap": Choice([False, True]),
        },
        _extra_trees,
        {"max_features": 1.0, "max_depth": 16, "min_samples_leaf": 1, "bootstrap": False},
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
    "cnn": Learner(
        {
            "learning_rate": Float(1e-5, 1e0, log=True),
            "dropout": Float(0.0, 0.9),
            "weight_decay": Float(1e-6, 1e0, log=True),
        },
        SmallCNN,
    ),
    "qda": Learner(
        {
            "scaler": Choice(list(SCALERS)),
            "components": Int(2, 12),
            "reg_param": Float(1e-5, 1e0, log=True),
        },
        _qda,
        {"scaler": "standard", "components": 12, "reg_param": 1e-5},
    ),
    "tree": Learner(
        {
            "criterion": Choice(["gini", "entropy"]),
            "max_depth": Int(1, 12),
            "min_samples_leaf": Int(1, 60, log=True),
            "max_features": Float(0.1, 1.0),
            "ccp_alpha": Float(1e-5, 1e-1, log=True),
        },
        _tree,
        {
            "criterion": "gini",
            "max_depth": 12,
            "min_samples_leaf": 1,
            "max_features": 1.0,
            "ccp_alpha": 1e-5,
        },
    ),
    "svr-kernels": Learner(
        {
            "kernel": Choice(["rbf", "sigmoid", "linear"]),
            "C": Float(1e-3, 1e2, log=True),
            "gamma": Float(1e-5, 1e0, log=True),
            "epsilon": Float(1e-3, 1e0, log=True),
        },
        _svr_kernels,
        {"kernel": "rbf", "C": 1.0, "gamma": 0.01, "epsilon": 0.1},
    ),
    "neighbors-regressor": Learner(
        {
            "components": Int(2, 40, log=True),
            "n_neighbors": Int(1, 80, log=True),
            "weights": Choice(["uniform", "distance"]),
            "p": Float(1.0, 4.0),
        },
        _neighbors_regressor,
        {"components": 40, "n_neighbors": 5, "weights": "uniform", "p": 2.0},
    ),
    "splines": Learner(
        {
            "n_knots": Int(2, 14),
            "degree": Int(1, 4),
            "extrapolation": Choice(["constant", "linear"]),
            "alpha": Float(1e-4, 1e3, log=True),
        },
        _splines,
        {"n_knots": 5, "degree": 3, "extrapolation": "constant", "alpha": 1.0},
    ),
    "boosting-mixed": Learner(
        {
            "n_estimators": Int(5, 40, log=True),
            "learning_rate": Float(0.01, 1.0, log=True),
            "max_depth": Int(1, 5),
            "subsample": Float(0.3, 1.0),
            "max_features": Float(0.1, 1.0),
        },
        _boosting_mixed,
        {
            "n_estimators": 40,
            "learning_rate": 0.1,
            "max_depth": 3,
            "subsample": 1.0,
            "max_features": 1.0,
        },
    ),
    "process": Learner(
        {
            "kernel": Choice(list(COVARIANCES)),
            "length": Float(0.1, 30.0, log=True),
            "noise": Float(1e-4, 1e1, log=True),
        },
        _process,
        {"kernel": "rbf", "length": 1.0, "noise": 1e-4},
    ),
    "small-network": Learner(
        {
            "hidden_layer_sizes": Int(2, 32, log=True),
            "activation": Choice(["relu", "tanh"]),
            "alpha": Float(1e-6, 1e1, log=True),
            "learning_rate_init": Float(1e-3, 1e0, log=True),
            "batch_size": Int(16, 128, log=True),
        },
        _network,
        {
            "hidden_layer_sizes": 32,
            "activation": "relu",
            "alpha": 1e-4,
            "learning_rate_init": 1e-3,
            "batch_size": 128,
        },
    ),
    "small-forest": Learner(
        {
            "criterion": Choice(["gini", "entropy"]),
            "max_depth": Int(1, 12),
            "min_samples_leaf": Int(1, 40, log=True),
            "max_features": Float(0.05, 1.0),
            "bootstrap": Choice([True, False]),
        },
        _small_forest,
        {
            "criterion": "gini",
            "max_depth": 12,
            "min_samples_leaf": 1,
            "max_features": 0.3,
            "bootstrap": True,
        },
    ),
    "random-features": Learner(
        {
            "n_components": Int(5, 150, log=True),
            "gamma": Float(1e-4, 1e0, log=True),
            "alpha": Float(1e-4, 1e3, log=True),
        },
        _random_features,
        {"n_components": 100, "gamma": 1.0, "alpha": 1.0},
    ),
    "nystroem": Learner(
        {
            "kernel": Choice(["rbf", "laplacian", "sigmoid"]),
            "n_components": Int(5, 80, log=True),
            "gamma": Float(1e-4, 1e0, log=True),
            "alpha": Float(1e-4, 1e3, log=True),
        },
        _nystroem,
        {"kernel": "rbf", "n_components": 80, "gamma": 0.02, "alpha": 1.0},
    ),
    "sgd": Learner(
        {
            "loss": Choice(["hinge", "log_loss", "modified_huber"]),
            "penalty": Choice(["l2", "l1"]),
            "alpha": Float(1e-6, 1e0, log=True),
            "learning_rate": Choice(["optimal", "invscaling", "constant"]),
            "eta0": Float(1e-4, 1e0, log=True),
            "max_iter": Int(1, 20, log=True),
        },
        _sgd,
        {
            "loss": "hinge",
            "penalty": "l2",
            "alpha": 1e-4,
            "learning_rate": "optimal",
            "eta0": 0.01,
            "max_iter": 20,
        },
    ),
}
