"""The problems of the quality benchmark: learners on small data, tuned by cross-validation.

Methods are chosen on `DEVELOPMENT`, `RANDOM` and `DEV_RANDOM`. `HELD_OUT` was set aside before any
method was compared; `MIXED` was added when the first methods were done. `FRESH` and `FRESH_RANDOM`
came later, with data that no other problem has: no choice was made on them.

A seed cuts the data. Plain tasks lose a third of their rows to the test set, and the rest is cut
into folds. Where rows belong to environments (hospitals, neighborhoods, stations), some of the
environments are the folds, each judged by a model of the others, and the rest are the test set:
places that the search never saw. The seed is also the random state of learners that have one, so
that a score is a function of (config, fold).

In the groups called random, training is random: its seed changes with config, fold and repeat, and
a config is judged by what it scores on average over other seeds.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

import drbqo_ray as dr
import workers.data
from benchmarks.quality.learners import LEARNERS, Config, Parameters
from drbqo_ray.experiments.synthetic import find_surface

Array = np.ndarray
Cuts = list[tuple[Array, Array]]
FittedScore = Callable[[Config, Array, Array, int], float]  # rows to fit, rows to judge by, seed
Scoring = Literal["usual", "auc", "skill"]

FOLDS = 5
DIGITS, IMAGES = 600, 300
COMMON = 30  # a category of a table has at least so many rows
FEW_SEEDS, MANY_SEEDS = 8, 32
LEAST_SKILL = -1.0  # an error twice the target's deviation; how much worse it is says nothing


@dataclass(frozen=True)
class FoldProblem:
    """Something to tune by cross-validation; larger scores are better.

    Attributes:
        parameters: the hyperparameters by name.
        n_folds: number of folds k.
        score: score of (config, fold, repeat); where training is random a repeat has another seed.
        ceiling: no score is higher; for peers that want costs of at least 0.
        contexts: what our optimizer is told of the folds: k, or sample vectors (k, m).
        test: score on the test set of a model fitted on all folds; None if there is no test set.
        expected: what a config scores on one fold on average, where training is random.
        default: the config one would start with; None if nobody said.
    """

    parameters: Parameters
    n_folds: int
    score: Callable[[Config, int, int], float]
    ceiling: float
    contexts: Any = None
    test: Callable[[Config], float] | None = None
    expected: Callable[[Config, int], float] | None = None
    default: Config | None = None

    @property
    def space(self) -> dr.Space:
        """The space as our optimizer takes it."""
        return dr.Space(self.parameters)


@dataclass(frozen=True)
class Task:
    """A learner on a data set.

    Attributes:
        learner: its name; None for the logistic example, which has none.
        data: the name of the data set.
        folds: into how many folds the training rows are cut; with environments, how many of them
            are folds.
        random: whether every training has a seed of its own.
        seeds: how many others a config is then judged by.
        rows: rows taken of each environment; None for a plain task.
        scoring: "usual" is accuracy or R2, "auc" the area under the ROC curve, "skill" 1 less the
            root mean squared error in units of the target's deviation, at least -1.
    """

    learner: str | None
    data: str
    folds: int = FOLDS
    random: bool = False
    seeds: int = FEW_SEEDS
    rows: int | None = None
    scoring: Scoring = "usual"


_many = partial(Task, random=True, seeds=MANY_SEEDS)

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
    "cnn-digits": Task("cnn", "images"),
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
    "random-cnn-digits": Task("cnn", "images", random=True),
}
DEV_RANDOM = {
    "random-network-glass": _many("small-network", "glass"),
    "random-features-diabetes": _many("random-features", "diabetes", 10),
    "random-sgd-sonar": _many("sgd", "sonar"),
    "random-nystroem-digits": _many("nystroem", "digits", 4),
}
FRESH = {
    "qda-wine": Task("qda", "wine", 7),
    "tree-heart": Task("tree", "heart", 10),
    "svr-ames": Task("svr-kernels", "ames", 5, rows=60, scoring="skill"),
    "svr-student": Task("svr-kernels", "student", 4, scoring="skill"),
    "neighbors-crime": Task("neighbors-regressor", "crime", 6, rows=60, scoring="skill"),
    "splines-bike": Task("splines", "bike", 5, rows=80, scoring="skill"),
    "boosting-flights": Task("boosting-mixed", "flights", 4, rows=120, scoring="auc"),
    "process-seoul": Task("process", "seoul", 3, rows=90, scoring="skill"),
    "extra-trees-air": Task("extra-trees", "air", 6, rows=60, scoring="skill"),
}
FRESH_RANDOM = {
    "random-network-wine": _many("small-network", "wine"),
    "random-forest-heart": _many("small-forest", "heart", 3, rows=110, scoring="auc"),
    "random-features-air": _many("random-features", "air", 8, rows=60, scoring="skill"),
    "random-sgd-bank": _many("sgd", "bank", 6, rows=150, scoring="auc"),
}
GROUPS = {
    "development": DEVELOPMENT,
    "held-out": HELD_OUT,
    "mixed": MIXED,
    "random": RANDOM,
    "dev-random": DEV_RANDOM,
    "fresh": FRESH,
    "fresh-random": FRESH_RANDOM,
}
PROBLEMS = {name: task for members in GROUPS.values() for name, task in members.items()}
TABLES = ("air", "ames", "bank", "bike", "crime", "flights", "heart", "seoul", "student")


@lru_cache(maxsize=2)
def open_problem(name: str, seed: int) -> FoldProblem:
    """A problem by name; the seed cuts its data."""
    task = PROBLEMS[name]
    if task.learner is None:
        return _logistic()
    learner, (X, y, places) = LEARNERS[task.learner], _data(task.data)
    sort = is_classifier(learner.make({}, 0))
    cut = _plain_cut if task.rows is None else _environment_cut
    train, test, cuts = cut(task, y, places, sort, seed)
    scoring = partial(SCORINGS[task.scoring], spread=float(np.std(y[train])))

    def fitted_score(config: Config, rows: Array, held: Array, chance: int) -> float:
        model = learner.make(config, chance).fit(X[rows], y[rows])
        return float(scoring(model, X[held], y[held]))

    make = partial(_at_random, seeds=task.seeds) if task.random else _by_rows
    return make(learner.parameters, learner.default, fitted_score, train, test, cuts, seed)


def is_here(name: str) -> bool:
    """Whether the data of a problem are on this machine."""
    return PROBLEMS[name].data not in TABLES or _table_path(PROBLEMS[name].data).exists()


def _table_path(name: str) -> Path:
    return Path(os.environ.get("DRBQO_DATA", "data")) / "shift" / f"{name}.csv.gz"


@lru_cache(maxsize=2)
def _data(name: str) -> tuple[Array, Array, Array]:
    """Inputs (N, ...), targets (N,) and environments (N,) of a data set; one if it has none."""
    if name in TABLES:
        return _table(_table_path(name))
    if name in workers.data.CSV_SHA256:
        folder = Path(workers.data.__file__).parent / "datasets"
        X, labels = workers.data.read_csv(folder / f"{name}.csv")
        y = np.unique(labels, return_inverse=True)[1]
    elif name == "images":
        digits = load_digits()
        X, y = (digits.images / 16).astype(np.float32), digits.target
    else:
        loaders = {
            "breast-cancer": load_breast_cancer,
            "diabetes": load_diabetes,
            "digits": load_digits,
            "wine": load_wine,
        }
        X, y = loaders[name](return_X_y=True)
        X, y = (X[:DIGITS], y[:DIGITS]) if name == "digits" else (X, y)
    return X, y, np.zeros(len(y), dtype=np.int64)


def _table(path: Path) -> tuple[Array, Array, Array]:
    """A table with environments: numbers with medians for what is missing, and one column for each
    common category."""
    import pandas as pd

    frame = pd.read_csv(path)
    features = frame.drop(columns=["env", "y"])
    columns = []
    for name in features:
        column = features[name]
        if pd.api.types.is_numeric_dtype(column):
            columns.append(column.fillna(column.median()).to_numpy(np.float64))
            continue
        counts = column.value_counts()
        for category in sorted(counts.index[counts >= COMMON])[:-1]:
            columns.append((column == category).to_numpy(np.float64))
    places = np.unique(frame["env"].to_numpy(str), return_inverse=True)[1]
    return np.column_stack(columns), frame["y"].to_numpy(np.float64), places


def _plain_cut(
    task: Task, y: Array, places: Array, sort: bool, seed: int
) -> tuple[Array, Array, Cuts]:
    """Training rows, test rows, and the folds as positions in the training rows."""
    sizes = {"train_size": IMAGES} if task.data == "images" else {"test_size": 1 / 3}
    train, test = train_test_split(
        np.arange(len(y)), stratify=y if sort else None, random_state=seed, **sizes
    )
    kind = StratifiedKFold if sort else KFold
    folds = kind(task.folds, shuffle=True, random_state=seed).split(train, y[train])
    return train, test, list(folds)


def _environment_cut(
    task: Task, y: Array, places: Array, sort: bool, seed: int
) -> tuple[Array, Array, Cuts]:
    """The same where some environments are folds and the others the test set."""
    rng = np.random.default_rng(seed)
    chosen = [
        _spread_rows(np.flatnonzero(places == place), y, task.rows or 0, rng)
        for place in rng.permutation(places.max() + 1)
    ]
    train, test = np.concatenate(chosen[: task.folds]), np.concatenate(chosen[task.folds :])
    fold = np.repeat(np.arange(task.folds), [len(rows) for rows in chosen[: task.folds]])
    cuts = [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(task.folds)]
    return train, test, cuts


def _spread_rows(rows: Array, y: Array, count: int, rng: np.random.Generator) -> Array:
    """At most `count` of the rows, drawn with the shares that their targets have."""
    mixed = rng.permutation(rows)
    ordered = mixed[np.argsort(y[mixed], kind="stable")]
    step = max(1.0, len(rows) / count)
    places = np.arange(0.5 * step, len(rows), step).astype(int)
    return ordered[places]


def _usual(model: BaseEstimator, X: Array, y: Array, spread: float) -> float:
    return float(model.score(X, y))


def _auc(model: BaseEstimator, X: Array, y: Array, spread: float) -> float:
    if hasattr(model, "predict_proba"):
        return float(roc_auc_score(y, model.predict_proba(X)[:, 1]))
    return float(roc_auc_score(y, model.decision_function(X)))


def _skill(model: BaseEstimator, X: Array, y: Array, spread: float) -> float:
    error = float(np.sqrt(np.mean(np.square(model.predict(X) - y))))
    return max(LEAST_SKILL, 1.0 - error / spread)


SCORINGS: dict[Scoring, Callable[..., float]] = {"usual": _usual, "auc": _auc, "skill": _skill}


def _by_rows(
    parameters: Parameters,
    default: Config | None,
    fitted_score: FittedScore,
    train: Array,
    test: Array,
    cuts: Cuts,
    seed: int,
) -> FoldProblem:
    """A problem whose score is that of a model fitted on some rows and judged on others."""

    def score(config: Config, fold: int, repeat: int = 0) -> float:
        rows, held = cuts[fold]
        return fitted_score(config, train[rows], train[held], seed)

    def test_score(config: Config) -> float:
        return fitted_score(config, train, test, seed)

    return FoldProblem(parameters, len(cuts), score, 1.0, test=test_score, default=default)


def _at_random(
    parameters: Parameters,
    default: Config | None,
    fitted_score: FittedScore,
    train: Array,
    test: Array,
    cuts: Cuts,
    seed: int,
    seeds: int,
) -> FoldProblem:
    """The same with another seed for every training; judged by the mean over others."""
    others = range(seeds)

    def score(config: Config, fold: int, repeat: int = 0) -> float:
        rows, held = cuts[fold]
        which = (config, fold, seed) if repeat == 0 else (config, fold, seed, repeat)
        chance = zlib.crc32(repr(which).encode())
        return fitted_score(config, train[rows], train[held], chance)

    def expected(config: Config, fold: int) -> float:
        rows, held = cuts[fold]
        scores = [fitted_score(config, train[rows], train[held], chance) for chance in others]
        return float(np.mean(scores))

    def test_score(config: Config) -> float:
        return float(np.mean([fitted_score(config, train, test, chance) for chance in others]))

    return FoldProblem(
        parameters, len(cuts), score, 1.0, test=test_score, expected=expected, default=default
    )


def _logistic() -> FoldProblem:
    """The paper's logistic example: 10 samples of w, no test set."""
    surface = find_surface("logistic")

    def score(config: Config, fold: int, repeat: int = 0) -> float:
        return float(surface.values(np.array([list(config.values())]))[0, fold])

    parameters = {f"x{k}": dr.Float(surface.low, surface.high) for k in range(surface.d)}
    return FoldProblem(parameters, len(surface.samples), score, 0.0, surface.samples)
