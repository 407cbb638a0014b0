"""The problems of the quality benchmark: learners on small data, tuned by cross-validation.

Half of the first twelve were set aside before any method was compared on them (`HELD_OUT`): methods
are chosen by the others. The six with whole numbers and choices (`MIXED`) were added when the
methods were done. A seed cuts a third of the rows off as the test set and the rest into folds, and
is the random state of learners that have one, so a score is a function of (config, fold).

In the last four (`RANDOM`) training is random: its seed changes with config and fold, and a config
is judged by what it scores on average over other seeds.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

import drbqo_ray as dr
import workers.data
from benchmarks.learners import LEARNERS, Config, Learner, Parameters
from drbqo_ray.experiments.synthetic import find_surface

Array = np.ndarray
Cuts = list[tuple[Array, Array]]
FittedScore = Callable[[Config, Array, Array, int], float]  # rows to fit, rows to judge by, seed

FOLDS = 5
DIGITS = 600
JUDGING_SEEDS = 8


@dataclass(frozen=True)
class FoldProblem:
    """Something to tune by cross-validation; larger scores are better.

    Attributes:
        parameters: the hyperparameters by name.
        n_folds: number of folds k.
        score: score of a config on one fold.
        ceiling: no score is higher; for peers that want costs of at least 0.
        contexts: what our optimizer is told of the folds: k, or sample vectors (k, m).
        test: score on the test set of a model fitted on all folds; None if there is no test set.
        expected: what a config scores on one fold on average, where training is random.
    """

    parameters: Parameters
    n_folds: int
    score: Callable[[Config, int], float]
    ceiling: float
    contexts: Any = None
    test: Callable[[Config], float] | None = None
    expected: Callable[[Config, int], float] | None = None

    @property
    def space(self) -> dr.Space:
        """The space as our optimizer takes it."""
        return dr.Space(self.parameters)


@dataclass(frozen=True)
class Task:
    """A learner, a data set, into how many folds its training rows are cut, and whether every
    training has a seed of its own. No learner: made by a function of its own."""

    learner: str | None
    data: str
    folds: int = FOLDS
    random: bool = False


DEVELOPMENT = {
    "svm-sonar": Task("svm", "sonar"),
    "svm-glass": Task("svm", "glass"),
    "elastic-net-diabetes": Task("elastic-net", "diabetes"),
    "forest-sonar": Task("forest", "sonar"),
    "boosting-sonar": Task("boosting", "sonar"),
    "logistic": Task(None, "logistic"),
}
HELD_OUT = {
    "svm-breast-cancer": Task("svm", "breast-cancer"),
    "svr-diabetes": Task("svr", "diabetes"),
    "elastic-net-breast-cancer": Task("elastic-net-classes", "breast-cancer"),
    "forest-glass": Task("forest", "glass"),
    "boosting-diabetes": Task("boosting-regressor", "diabetes"),
    "cnn-digits": Task(None, "images"),
}
MIXED = {
    "neighbors-glass": Task("neighbors", "glass", 10),
    "svm-kernels-digits": Task("svm-kernels", "digits", 5),
    "network-breast-cancer": Task("network", "breast-cancer", 3),
    "extra-trees-diabetes": Task("extra-trees", "diabetes", 7),
    "hist-boosting-sonar": Task("hist-boosting", "sonar", 5),
    "kernel-ridge-diabetes": Task("kernel-ridge", "diabetes", 10),
}
RANDOM = {
    "random-forest-sonar": Task("forest", "sonar", random=True),
    "random-boosting-diabetes": Task("boosting-regressor", "diabetes", random=True),
    "random-network-breast-cancer": Task("network", "breast-cancer", 3, random=True),
    "random-cnn-digits": Task(None, "images", random=True),
}
GROUPS = {"development": DEVELOPMENT, "held-out": HELD_OUT, "mixed": MIXED, "random": RANDOM}
PROBLEMS = {name: task for members in GROUPS.values() for name, task in members.items()}


@lru_cache(maxsize=2)
def open_problem(name: str, seed: int) -> FoldProblem:
    """A problem by name; the seed cuts its data."""
    task = PROBLEMS[name]
    if task.learner is not None:
        return _learn(LEARNERS[task.learner], *_data(task.data), task, seed)
    return _logistic() if task.data == "logistic" else _cnn(task, seed)


def _data(name: str) -> tuple[Array, Array]:
    """Inputs (N, d) and targets (N,) of a data set."""
    if name in workers.data.CSV_SHA256:
        folder = Path(workers.data.__file__).parent / "datasets"
        X, labels = workers.data.read_csv(folder / f"{name}.csv")
        return X, np.unique(labels, return_inverse=True)[1]
    loaders = {
        "breast-cancer": load_breast_cancer,
        "diabetes": load_diabetes,
        "digits": load_digits,
    }
    X, y = loaders[name](return_X_y=True)
    return (X[:DIGITS], y[:DIGITS]) if name == "digits" else (X, y)


def _learn(learner: Learner, X: Array, y: Array, task: Task, seed: int) -> FoldProblem:
    sort = is_classifier(learner.make({}, 0))
    train, test = train_test_split(
        np.arange(len(y)), test_size=1 / 3, stratify=y if sort else None, random_state=seed
    )
    kind = StratifiedKFold if sort else KFold
    cuts = list(kind(task.folds, shuffle=True, random_state=seed).split(train, y[train]))

    def fitted_score(config: Config, rows: Array, held: Array, chance: int) -> float:
        model = learner.make(config, chance).fit(X[rows], y[rows])
        return float(model.score(X[held], y[held]))

    make = _at_random if task.random else _by_rows
    return make(learner.parameters, fitted_score, train, test, cuts, seed)


def _by_rows(
    parameters: Parameters,
    fitted_score: FittedScore,
    train: Array,
    test: Array,
    cuts: Cuts,
    seed: int,
) -> FoldProblem:
    """A problem whose score is that of a model fitted on some rows and judged on others."""

    def score(config: Config, fold: int) -> float:
        rows, held = cuts[fold]
        return fitted_score(config, train[rows], train[held], seed)

    return FoldProblem(
        parameters,
        len(cuts),
        score,
        1.0,
        test=lambda config: fitted_score(config, train, test, seed),
    )


def _at_random(
    parameters: Parameters,
    fitted_score: FittedScore,
    train: Array,
    test: Array,
    cuts: Cuts,
    seed: int,
) -> FoldProblem:
    """The same with another seed for every config and fold; judged by the mean over others."""
    others = range(JUDGING_SEEDS)

    def score(config: Config, fold: int) -> float:
        rows, held = cuts[fold]
        chance = zlib.crc32(repr((config, fold, seed)).encode())
        return fitted_score(config, train[rows], train[held], chance)

    def expected(config: Config, fold: int) -> float:
        rows, held = cuts[fold]
        scores = [fitted_score(config, train[rows], train[held], chance) for chance in others]
        return float(np.mean(scores))

    def test_score(config: Config) -> float:
        return float(np.mean([fitted_score(config, train, test, chance) for chance in others]))

    return FoldProblem(parameters, len(cuts), score, 1.0, test=test_score, expected=expected)


def _logistic() -> FoldProblem:
    """The paper's logistic example: 10 samples of w, no test set."""
    surface = find_surface("logistic")

    def score(config: Config, fold: int) -> float:
        return float(surface.values(np.array([list(config.values())]))[0, fold])

    parameters = {f"x{k}": dr.Float(surface.low, surface.high) for k in range(surface.d)}
    return FoldProblem(parameters, len(surface.samples), score, 0.0, surface.samples)


def _cnn(task: Task, seed: int) -> FoldProblem:
    """A small network on 300 images of digits; the others are the test set."""
    from benchmarks.small_cnn import PARAMETERS, accuracy, digits, trained

    X, y = digits()
    train, test = train_test_split(np.arange(len(y)), train_size=300, stratify=y, random_state=seed)
    cuts = list(StratifiedKFold(task.folds, shuffle=True, random_state=seed).split(train, y[train]))

    def fitted_score(config: Config, rows: Array, held: Array, chance: int) -> float:
        return accuracy(trained(config, X[rows], y[rows], chance), X[held], y[held])

    make = _at_random if task.random else _by_rows
    return make(PARAMETERS, fitted_score, train, test, cuts, seed)
