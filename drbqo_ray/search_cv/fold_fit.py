"""One fold of a cross-validation, trained and scored as scikit-learn's own searches do it.

Workers load this module, so it imports nothing of the search.
"""

from __future__ import annotations

import math
import numbers
import pickle
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.utils import _safe_indexing, get_tags, indexable

from drbqo_ray.errors import InvalidInput
from drbqo_ray.records import LARGEST_SCORE, LONGEST_REASON, Failed, Observation, Scored

if TYPE_CHECKING:
    from drbqo_ray.search_cv.callbacks import FitTasks

Scores = dict[str, float]
Split = tuple[Any, Any]
Around = Callable[[Any], AbstractContextManager[Any]]
SINGLE = "score"
"""Name of the metric where there is only one, as in `mean_test_score`."""
KNOWN_AS = ("drbqo_ray.search_cv.stored_search", "RemoteFolds")
"""Module and class that journals name as the objective of a search, from its first version on."""


@dataclass(frozen=True)
class FoldFit:
    """What came of training and scoring one config on one fold.

    Attributes:
        score: the metric that is optimized, None when the fold failed.
        test_scores: all metrics on the test rows; one that could not be computed is absent.
        train_scores: the same on the training rows, empty unless asked for.
        fit_time: seconds spent on training, NaN when unknown.
        score_time: seconds spent on scoring the test rows, NaN when unknown.
        error: None, or what went wrong as text.
        exception: None, or what was raised.
    """

    score: float | None
    test_scores: Scores = field(default_factory=dict)
    train_scores: Scores = field(default_factory=dict)
    fit_time: float = math.nan
    score_time: float = math.nan
    error: str | None = None
    exception: Exception | None = None

    @property
    def info(self) -> dict[str, Any]:
        """All but score and exception, as plain data; numbers that are not finite as text."""
        info: dict[str, Any] = {
            "fit_time": _written(self.fit_time),
            "score_time": _written(self.score_time),
            "test_scores": {name: _written(score) for name, score in self.test_scores.items()},
        }
        if self.train_scores:
            info["train_scores"] = {k: _written(score) for k, score in self.train_scores.items()}
        if self.score is None:
            info["failed"] = True
        if self.error is not None:
            info["error"] = self.error[-LONGEST_REASON:]
        return info

    @staticmethod
    def of(seen: Observation, metric: str) -> FoldFit:
        """The fit behind the outcome of a fold; one without info has but a score, of `metric`."""
        info = seen.info
        failed = seen.score is None or info.get("failed", False)
        reason = seen.reason or "no reason given" if seen.score is None else None
        if not info:
            return FoldFit(
                seen.score, {} if seen.score is None else {metric: seen.score}, error=reason
            )
        return FoldFit(
            score=None if failed else seen.score,
            test_scores={name: float(score) for name, score in info["test_scores"].items()},
            train_scores={k: float(score) for k, score in info.get("train_scores", {}).items()},
            fit_time=float(info["fit_time"]),
            score_time=float(info["score_time"]),
            error=info.get("error", reason),
        )


def _written(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


class SentException:
    """An exception on its way to the process that began the search, with its traceback as text.

    In the process that raised it, it is itself. Between processes it is bytes that only `original`
    opens: whoever passes them on need not know its class. It is never kept on a disk.
    """

    def __init__(self, error: Exception, text: str | None) -> None:
        self._error: Exception | None = error
        self._bytes: bytes | None = None
        self._text = text

    def original(self) -> Exception | None:
        """What was raised; None if it did not survive the journey."""
        if self._error is None and self._bytes is not None:
            error: Exception = pickle.loads(self._bytes)
            error.add_note(f"Raised on a worker:\n{self._text}")
            self._error = error
        return self._error

    def __getstate__(self) -> dict[str, Any]:
        return {"_error": None, "_bytes": self._bytes or _packed(self._error), "_text": self._text}


def _packed(error: Exception | None) -> bytes | None:
    try:
        packed: bytes = cloudpickle.dumps(error)
        pickle.loads(packed)
    except Exception:  # what cannot travel is left behind; its text goes
        return None
    return packed


class CrossValidation:
    """Data, splits and scorer of a search; `train` runs one fold of one config.

    A fold fails when training or scoring raises, or when the optimized metric is not finite or
    left out by the scorer.
    It is trained under the settings of scikit-learn that hold now, in whatever process.

    Args:
        estimator: what to train; it is cloned for every fold.
        X, y: the data, indexable by rows; y may be None.
        splits: (training rows, test rows) of each fold.
        scorer: called as scorer(estimator, X, y), returns a number or a dict of numbers.
        metric: the metric to optimize, None for the only or first one.
        fit_params, score_params: passed to `fit` and to the scorer; values with one entry per
            row of X are cut to the rows in use.
        train_scores: whether to score the training rows too.
        params: a config -> the parameters of the estimator that it stands for.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        splits: Sequence[Split],
        scorer: Any,
        metric: str | None = None,
        fit_params: Mapping[str, Any] | None = None,
        score_params: Mapping[str, Any] | None = None,
        train_scores: bool = False,
        params: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
    ) -> None:
        self.estimator = estimator
        self.X, self.y = X, y
        self.splits = list(splits)
        self.scorer = scorer
        self.metric = metric
        self.fit_params = dict(fit_params or {})
        self.score_params = dict(score_params or {})
        self.train_scores = train_scores
        self._params = params
        self._settings = get_config()

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.splits)

    def training_rows(self, fold: int) -> tuple[Any, Any]:
        """X and y that a fold is trained on."""
        train = self.splits[fold][0]
        return self._rows(self.estimator, train, train)

    def training_params(self, fold: int) -> dict[str, Any]:
        """Parameters that a fold passes to `fit`."""
        return self._cut(self.fit_params, self.splits[fold][0])

    def train(self, config: Mapping[str, Any], fold: int, around: Around = nullcontext) -> FoldFit:
        """Train a config on a fold and score it; an exception is part of the answer.

        Args:
            config: what to train.
            fold: where.
            around: makes the context manager that a model is fitted in.
        """
        with config_context(**self._settings):
            return self._train(config, fold, around)

    def _train(self, config: Mapping[str, Any], fold: int, around: Around) -> FoldFit:
        train, test = self.splits[fold]
        start = perf_counter()
        fit_time = score_time = 0.0
        try:
            # options may be estimators themselves, which each fold needs for its own
            params = clone(self._params(config), safe=False)
            model = clone(self.estimator).set_params(**params)
            start = perf_counter()
            X, y = self._rows(model, train, train)
            with around(model):
                model.fit(*_given(X, y), **self.training_params(fold))
            fit_time = perf_counter() - start
            test_scores = self._scores(model, test, train)
            score_time = perf_counter() - start - fit_time
            train_scores = self._scores(model, train, train) if self.train_scores else {}
        except Exception as error:
            spent = fit_time or perf_counter() - start
            text = "".join(traceback.format_exception(error)).rstrip()
            return FoldFit(None, {}, {}, spent, score_time, text, error)
        return self._judged(test_scores, train_scores, fit_time, score_time, fold)

    def _judged(
        self,
        test_scores: dict[str, Any],
        train_scores: dict[str, Any],
        fit_time: float,
        score_time: float,
        fold: int,
    ) -> FoldFit:
        """The fit, with what is no number or not usable taken out and said."""
        metric = self.target(test_scores)
        found = {name: value for name, value in test_scores.items() if not isinstance(value, str)}
        errors = [value for value in test_scores.values() if isinstance(value, str)]
        score, exception = found.get(metric), None
        if score is None or not abs(score) <= LARGEST_SCORE:
            exception = _unusable(metric, test_scores, fold)
            if not isinstance(test_scores.get(metric), str):  # which is among the errors
                errors.append(str(exception))
            score = None
            found.pop(metric, None)
        return FoldFit(
            score=score,
            test_scores=found,
            train_scores={k: v for k, v in train_scores.items() if not isinstance(v, str)},
            fit_time=fit_time,
            score_time=score_time,
            error="\n".join(errors) or None,
            exception=exception,
        )

    def target(self, scores: Mapping[str, Any]) -> str:
        """Name of the optimized metric among those a scorer returned."""
        if self.metric is not None and (self.metric in scores or SINGLE not in scores):
            return self.metric
        return next(iter(scores), SINGLE)

    def _rows(self, model: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
        """X and y of some rows; of a kernel matrix the columns of the training rows."""
        if get_tags(model).input_tags.pairwise:
            X = self.X[np.ix_(rows, columns)]
        else:
            X = _safe_indexing(self.X, rows)
        return X, None if self.y is None else _safe_indexing(self.y, rows)

    def _scores(self, model: Any, rows: Any, columns: Any) -> dict[str, Any]:
        """Metric -> number, or a text for a metric that could not be computed."""
        X, y = self._rows(model, rows, columns)
        answer = self.scorer(model, *_given(X, y), **self._cut(self.score_params, rows))
        named = answer if isinstance(answer, dict) else {SINGLE: answer}
        return {str(name): _number(str(name), value) for name, value in named.items()}

    def _cut(self, params: dict[str, Any], rows: Any) -> dict[str, Any]:
        size = count_rows(self.X)
        return {
            name: _safe_indexing(indexable(value)[0], rows) if count_rows(value) == size else value
            for name, value in params.items()
        }


class FoldScores:
    """The fold objective of a search.

    Args:
        folds: what to train, with the data inside.
        error_score: "raise", or what a failed fold counts as.
        fingerprint: changes with the data, the splits and the estimator; None where nothing is
            kept.
        tasks: told of the model, where folds are trained in this process.
    """

    def __init__(
        self,
        folds: CrossValidation,
        error_score: str | float,
        fingerprint: str | None = None,
        tasks: FitTasks | None = None,
    ) -> None:
        self.__module__, self.__qualname__ = KNOWN_AS
        self.fingerprint = fingerprint
        self.n_folds = folds.n_folds
        self._folds = folds
        self._substitute = math.nan if isinstance(error_score, str) else error_score
        self._tasks = tasks

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        """The score of a config on a fold; why there is none, if it failed."""
        if self._tasks is None:
            fit = self._folds.train(config, fold)
        else:
            fit = self._folds.train(config, fold, self._tasks.training(fold))
        if fit.score is not None:
            return Scored(fit.score, fit.info)
        if math.isfinite(self._substitute):
            return Scored(self._substitute, fit.info)
        raised = None if fit.exception is None else SentException(fit.exception, fit.error)
        return Failed(fit.error or "no reason given", fit.info, raised)


def count_rows(value: Any) -> int | None:
    """Number of entries along the first axis; None for what is no array or list."""
    if isinstance(value, (str, bytes, Mapping)):
        return None
    shape = getattr(value, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(value) if hasattr(value, "__len__") else None


def _given(X: Any, y: Any) -> tuple[Any, ...]:
    return (X,) if y is None else (X, y)


def _unusable(metric: str, scores: Mapping[str, Any], fold: int) -> ValueError:
    """What to raise for a metric that cannot be used."""
    if metric not in scores:
        return InvalidInput(
            f"scoring must return {metric!r}, which is optimized, on every fold.",
            f"only {list(scores)} on fold {fold}",
            "Return it always, or name another metric with refit.",
        )
    if isinstance(scores[metric], str):
        return ValueError(scores[metric])
    return ValueError(f"{metric!r} on fold {fold} is {scores[metric]}, which is not finite.")


def _number(name: str, value: Any) -> float | str:
    if isinstance(value, str):  # the traceback of one metric of several, see check_scoring
        return value
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        value = value.item()
    if not isinstance(value, numbers.Real):
        raise ValueError(f"scoring must return a number, got {value!r:.200} for {name!r}.")
    return float(value)
