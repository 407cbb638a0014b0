"""What the workers share: cutting the training rows into folds, and the fold objective.

A fold objective is called as `objective(config, fold, seed)` and returns the accuracy on
that fold of a model fitted on the other folds; higher is better. The cut depends on the data,
`n_folds`, `split_seed` and `subset` only, so every method and every process sees the same folds.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from workers.data import Data, hold_out, load, published


@dataclass(frozen=True)
class Split:
    """Data and the fold of each of its training rows.

    Attributes:
        data: training rows (N, ...) and test rows.
        fold_of: the fold in which a training row is validated, (N,), in 0 .. n_folds-1.
    """

    data: Data
    fold_of: NDArray[np.int64]

    def training(self, fold: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Copies of the rows a model of this fold may be fitted on."""
        rows = self.fold_of != fold
        return self.data.X[rows], self.data.y[rows]

    def validation(self, fold: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Copies of the rows a model of this fold is scored on."""
        rows = self.fold_of == fold
        return self.data.X[rows], self.data.y[rows]


def cut(data: Data, n_folds: int, split_seed: int, subset: int | None = None) -> Split:
    """Cut the training rows into stratified folds; whole groups where the data has groups."""
    if subset is not None:
        data = take(data, subset, n_folds, split_seed)
    kind = StratifiedKFold if data.groups is None else StratifiedGroupKFold
    splitter = kind(n_folds, shuffle=True, random_state=split_seed)
    fold_of = np.empty(len(data.y), dtype=np.int64)
    for fold, (_, rows) in enumerate(splitter.split(data.y, data.y, data.groups)):
        fold_of[rows] = fold
    fold_of.flags.writeable = False
    return Split(data, fold_of)


def take(data: Data, size: int, n_folds: int, seed: int) -> Data:
    """Keep `size` training rows in the classes' proportions; a smaller take is part of a larger.

    Rows are shuffled and ranked within their class; the rank over the class size then orders
    all rows so that every beginning of the order is stratified.
    """
    if not n_folds <= size <= len(data.y):
        raise ValueError(
            f"subset must be between n_folds={n_folds} and the {len(data.y)} training rows. "
            f"Got {size}. Pass None to use all rows."
        )
    order = np.random.default_rng(seed).permutation(len(data.y))
    rank = np.empty(len(data.y))
    for number in range(len(data.classes)):
        members = order[data.y[order] == number]
        rank[members] = (np.arange(len(members)) + 0.5) / len(members)
    rows = np.sort(np.argsort(rank, kind="stable")[:size])
    groups = None if data.groups is None else data.groups[rows]
    return Data(data.X[rows], data.y[rows], data.X_test, data.y_test, data.classes, groups)


@lru_cache(maxsize=4)
def cut_named(dataset: str, n_folds: int, split_seed: int, subset: int | None) -> Split:
    """Load and cut a data set by name, once per process."""
    return cut(load(dataset, split_seed), n_folds, split_seed, subset)


class FoldObjective:
    """A model family on the folds of one data set; subclasses fit and predict.

    Holds settings only: the data is read at the first call in each process and never pickled,
    unless it came by `from_arrays` or was packed by `with_data`.

    Args:
        dataset: one of the class's `datasets`.
        n_folds: folds the training rows are cut into.
        split_seed: picks the test rows, the subset and the folds.
        subset: training rows to keep, or None for all.
    """

    datasets: ClassVar[tuple[str, ...]]
    default_config: ClassVar[Mapping[str, float]]

    def __init__(self, dataset: str, n_folds: int, split_seed: int, subset: int | None) -> None:
        if dataset not in self.datasets:
            raise ValueError(
                f"dataset must be one of {', '.join(self.datasets)}. Got {dataset!r}. "
                "For your own data use from_arrays."
            )
        if operator.index(n_folds) < 2:
            raise ValueError(f"n_folds must be at least 2. Got {n_folds}. Pass 5 or 10.")
        self.dataset = dataset
        self.n_folds = operator.index(n_folds)
        self.split_seed = operator.index(split_seed)
        self.subset = None if subset is None else operator.index(subset)
        self._carried: Split | None = None

    @classmethod
    def from_arrays(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        test: tuple[ArrayLike, ArrayLike] | None = None,
        **settings: Any,
    ) -> Self:
        """The same worker on your own data, which then travels with it when pickled.

        Args:
            X: inputs, (N, ...).
            y: labels of any kind, (N,).
            groups: rows of one group share a fold (and a side of the test split), (N,).
            test: test inputs (M, ...) and labels (M,); without it a fifth of the rows is held out.
            **settings: the other arguments of the class.
        """
        worker = cls(**settings)
        worker.dataset = "arrays"
        if test is None:
            data = hold_out(X, y, worker.split_seed, groups)
        else:
            data = published(X, y, *test, groups)
        worker._carried = cut(data, worker.n_folds, worker.split_seed, worker.subset)
        return worker

    def with_data(self) -> Self:
        """A copy that carries its data when pickled, for machines that do not have the files."""
        packed = copy.copy(self)
        packed._carried = self.split
        return packed

    def __repr__(self) -> str:
        shown = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"

    @property
    def split(self) -> Split:
        """Data and folds, read at first use."""
        if self._carried is not None:
            return self._carried
        return cut_named(self.dataset, self.n_folds, self.split_seed, self.subset)

    @property
    def space(self) -> dict[str, dict[str, Any]]:
        """The hyperparameters as plain data: name to type, low, high, log."""
        raise NotImplementedError

    def fit(self, config: Mapping[str, Any], X: NDArray[Any], y: NDArray[Any], seed: int) -> Any:
        """A model fitted on the rows X (N, ...), y (N,) and on nothing else."""
        raise NotImplementedError

    def predict(self, model: Any, X: NDArray[Any]) -> NDArray[np.int64]:
        """Class numbers (M,) for inputs X (M, ...)."""
        raise NotImplementedError

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> float:
        """Accuracy on one fold of a model fitted on the other folds."""
        model = self.fit_fold(config, fold, seed)
        return self.accuracy(model, *self.split.validation(fold))

    def fit_fold(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        """The model of one fold, fitted on the other folds."""
        return self.fit(config, *self.split.training(self.checked_fold(fold)), seed)

    def evaluate_final(self, config: Mapping[str, Any], seed: int) -> dict[str, float]:
        """Fit on all training rows, score the held-out test rows."""
        data = self.split.data
        accuracy = self.accuracy(self.fit(config, data.X, data.y, seed), data.X_test, data.y_test)
        return {
            "test_accuracy": accuracy,
            "test_error": 1.0 - accuracy,
            "n_train": len(data.y),
            "n_test": len(data.y_test),
        }

    def accuracy(self, model: Any, X: NDArray[Any], y: NDArray[np.int64]) -> float:
        """Share of the rows X (M, ...), y (M,) that the model gets right."""
        return float(np.mean(self.predict(model, X) == y))

    def checked_fold(self, fold: int) -> int:
        """The fold, or an error when there is no such fold."""
        if not 0 <= operator.index(fold) < self.n_folds:
            raise ValueError(
                f"fold must be in 0 .. {self.n_folds - 1}. Got {fold!r}. Count folds from 0."
            )
        return operator.index(fold)

    def checked_config(self, config: Mapping[str, Any]) -> dict[str, float]:
        """The hyperparameters of the space as finite floats; other keys are left out."""
        values: dict[str, float] = {}
        for name in self.space:
            value = config.get(name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
                value = math.nan
            values[name] = float(value)
            if not math.isfinite(values[name]):
                raise ValueError(
                    f"A config must give a finite number for {', '.join(self.space)}. "
                    f"Got {dict(config)!r}. Fix {name!r}."
                )
        return values


def scaled_pixels(X: NDArray[Any]) -> NDArray[np.float32]:
    """Rows X (M, ...) as float32 (M, d): uint8 pixels divided by 255, other numbers unchanged."""
    flat = X.reshape(len(X), -1).astype(np.float32)
    return flat / np.float32(255) if X.dtype == np.uint8 else flat
