"""LightGBM and XGBoost on single folds, with early stopping that does not look at the fold.

How many rounds a booster trains is best found by early stopping, which needs rows to watch. The
rows of the fold must not be those: they are what the config is scored on, and a model stopped where
they like it best is flattered by them. So the training part of a fold is cut once more:

    rows | the fold: scored, never seen by fit | watched: stop when it gets worse here | fitted on

With `groups`, all rows of a group lie on the same side of that cut. It depends on the fold and on
`split_seed` only, so configs are compared on the same rows.

Calling a worker returns the score and how many rounds were trained, which a run keeps as `info`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit

Rows = NDArray[np.int64]
Cut = tuple[Rows, Rows]


class BoosterFolds:
    """An estimator of LightGBM or XGBoost on folds of your data.

    Args:
        estimator: an LGBMClassifier, LGBMRegressor, XGBClassifier, XGBRegressor or one of your own
            made of these; its own parameters stay, such as n_jobs or objective.
        X: inputs (N, d), an array or a table of pandas.
        y: targets (N,); for XGBClassifier class numbers from 0.
        folds: for each fold the rows to train on and the rows to score on, such as
            list(KFold(5).split(X)).
        scoring: name of a metric or a scorer; None is the estimator's own score. Higher is better.
        groups: group of each row (N,), if rows of a group should not be torn apart; None: rows are
            drawn one by one, by class where there are classes.
        rounds: the most rounds to train.
        patience: rounds without a better score on the watched rows after which training stops.
        watched: share of the training rows that is watched.
        split_seed: picks the watched rows.
        fixed_seed: whether every training has the same random numbers, so that a fold trained again
            scores the same. False: it has those of the seed it is called with.

    Attributes:
        n_folds: number of folds.
        deterministic: `fixed_seed`; a run then trains no pair twice.
    """

    SPACES: ClassVar[Mapping[str, dict[str, dict[str, Any]]]] = {
        "lightgbm": {
            "learning_rate": {"type": "float", "low": 0.01, "high": 0.3, "log": True},
            "num_leaves": {"type": "int", "low": 4, "high": 128, "log": True},
            "min_child_samples": {"type": "int", "low": 2, "high": 100, "log": True},
            "colsample_bytree": {"type": "float", "low": 0.3, "high": 1.0},
            "reg_lambda": {"type": "float", "low": 1e-3, "high": 100.0, "log": True},
        },
        "xgboost": {
            "learning_rate": {"type": "float", "low": 0.01, "high": 0.3, "log": True},
            "max_depth": {"type": "int", "low": 2, "high": 10},
            "min_child_weight": {"type": "float", "low": 0.1, "high": 20.0, "log": True},
            "colsample_bytree": {"type": "float", "low": 0.3, "high": 1.0},
            "reg_lambda": {"type": "float", "low": 1e-3, "high": 100.0, "log": True},
        },
    }

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        folds: Iterable[tuple[ArrayLike, ArrayLike]],
        *,
        scoring: Any = None,
        groups: ArrayLike | None = None,
        rounds: int = 2000,
        patience: int = 50,
        watched: float = 0.2,
        split_seed: int = 0,
        fixed_seed: bool = True,
    ) -> None:
        self.library = _library(estimator)
        self.estimator, self.X, self.y = clone(estimator), X, np.asarray(y)
        self.folds: list[Cut] = [(np.asarray(a), np.asarray(b)) for a, b in folds]
        self.groups = None if groups is None else np.asarray(groups)
        self.rounds, self.patience = operator.index(rounds), operator.index(patience)
        self.watched, self.split_seed = float(watched), operator.index(split_seed)
        self.deterministic = bool(fixed_seed)
        self._scorer = check_scoring(estimator, scoring=scoring)
        self._check()

    def _check(self) -> None:
        if not self.folds:
            raise ValueError("There must be a fold. Got none. Pass list(KFold(5).split(X)).")
        if not 0 < self.watched < 1:
            raise ValueError(f"watched is a share between 0 and 1. Got {self.watched}. Pass 0.2.")
        if self.rounds < 1 or self.patience < 1:
            got = f"rounds={self.rounds}, patience={self.patience}"
            raise ValueError(f"rounds and patience are at least 1. Got {got}. Leave them out.")
        for number, (train, scored) in enumerate(self.folds):
            if np.intersect1d(train, scored).size:
                raise ValueError(
                    f"Rows that are scored must not be trained on. Got fold {number} with "
                    f"{np.intersect1d(train, scored).size} rows in both. Pass disjoint rows."
                )

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.folds)

    @property
    def space(self) -> dict[str, dict[str, Any]]:
        """Usual ranges of the library as plain data; write your own for other parameters."""
        return {name: dict(item) for name, item in self.SPACES[self.library].items()}

    def __call__(
        self, config: Mapping[str, Any], fold: int, seed: int
    ) -> tuple[float, dict[str, Any]]:
        """The score on a fold of a model trained on the others, and how long it was trained.

        Returns:
            the score, and `rounds`: those the model uses, `stopped`: whether training was stopped
            before `rounds` of the worker.
        """
        train, scored = self.folds[self._checked(fold)]
        model = self.fit(config, train, fold, seed)
        score = float(self._scorer(model, _take(self.X, scored), self.y[scored]))
        used = rounds_of(model)
        return score, {"rounds": used, "stopped": used + self.patience <= self.rounds}

    def fit(self, config: Mapping[str, Any], rows: ArrayLike, fold: int, seed: int) -> Any:
        """A model trained on some rows, a part of which is watched and not fitted on."""
        fitted, watched = self.cut(np.asarray(rows), fold)
        model = clone(self.estimator).set_params(n_estimators=self.rounds, **config)
        state = model.get_params()["random_state"] or 0
        model.set_params(random_state=state if self.deterministic else seed % 2**31)
        X_watched, y_watched = _take(self.X, watched), self.y[watched]
        how: dict[str, Any] = {"eval_set": [(X_watched, y_watched)]}
        if "eval_X" in signature(model.fit).parameters:  # LightGBM from 4.7 on
            how = {"eval_X": X_watched, "eval_y": y_watched}
        if self.library == "lightgbm":
            import lightgbm

            model.set_params(verbosity=-1)
            how["callbacks"] = [lightgbm.early_stopping(self.patience, verbose=False)]
        else:
            model.set_params(early_stopping_rounds=self.patience)
            how["verbose"] = False
        return model.fit(_take(self.X, fitted), self.y[fitted], **how)

    def fit_all(self, config: Mapping[str, Any], seed: int = 0) -> Any:
        """The model to use: trained on the rows of all folds, with a part of them watched."""
        every = np.unique(np.concatenate([np.concatenate(cut) for cut in self.folds]))
        return self.fit(config, every, self.n_folds, seed)

    def cut(self, rows: Rows, fold: int) -> Cut:
        """Rows to fit on, and rows to watch, of those that may be trained on."""
        state = np.random.SeedSequence([self.split_seed, fold]).generate_state(1)[0]
        how = {"n_splits": 1, "test_size": self.watched, "random_state": int(state)}
        if self.groups is not None:
            split = GroupShuffleSplit(**how).split(rows, groups=self.groups[rows])
        elif is_classifier(self.estimator) and _smallest_class(self.y[rows]) > 1:
            split = StratifiedShuffleSplit(**how).split(rows, self.y[rows])
        else:
            split = ShuffleSplit(**how).split(rows)
        fitted, watched = next(iter(split))
        return rows[fitted], rows[watched]

    def _checked(self, fold: int) -> int:
        if not 0 <= operator.index(fold) < self.n_folds:
            raise ValueError(
                f"fold must be in 0 .. {self.n_folds - 1}. Got {fold!r}. Count folds from 0."
            )
        return fold


def rounds_of(model: Any) -> int:
    """Rounds that a booster with early stopping uses when it predicts."""
    if hasattr(model, "best_iteration_"):  # LightGBM counts from 1
        return int(model.best_iteration_)
    return int(model.best_iteration) + 1


def _library(estimator: Any) -> str:
    names = {kind.__module__.partition(".")[0] for kind in type(estimator).__mro__}
    for library in ("lightgbm", "xgboost"):
        if library in names and hasattr(estimator, "set_params"):
            return library
    raise ValueError(
        "The estimator is one of LightGBM or XGBoost with scikit-learn's interface. "
        f"Got {type(estimator).__name__}. Pass e.g. lightgbm.LGBMClassifier()."
    )


def _take(X: Any, rows: Rows) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]


def _smallest_class(y: NDArray[Any]) -> int:
    return int(np.unique(y, return_counts=True)[1].min())
