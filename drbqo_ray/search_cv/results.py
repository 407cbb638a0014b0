"""What a search over configs and folds found: the table of its fold fits, judged and shown.

| symbol    | meaning                                                          | shape  |
|-----------|------------------------------------------------------------------|--------|
| m, n      | distinct configs that were trained, folds                        |        |
| observed  | scores of the optimized metric, NaN where a fold was not trained | (m, n) |
| posterior | what the model expects of every fold of every config; in folds   | (m, n) |
|           | that were not trained, what the method fills in                  |        |
| judged    | observed where the fold was trained, else posterior              | (m, n) |

A config is judged by its complete row (`Scoring.judge`). A fold that was trained counts with its
own score, since a second fit would give that score again; the model speaks only for folds that were
not trained. A config with all folds trained is therefore judged exactly as a full cross-validation
judges it. A failed fold counts as `error_score`; if that is NaN the config cannot win.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from drbqo_ray.core.sets import ChiSquareBall
from drbqo_ray.errors import NothingObserved
from drbqo_ray.optimizer.design import GRID_LIMIT
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import Config
from drbqo_ray.search_cv.fold_fit import FoldFit
from drbqo_ray.search_cv.search import TrainedFold
from drbqo_ray.search_cv.search_space import SearchSpace
from drbqo_ray.types import Array

PATH_POINTS = 33
"""Radii in the robustness path."""
HOW_CHOSEN = (
    "A fold that was trained counts with its own score, one that was not as the model expects."
)
SMOOTHED = " The ranking on this page is the model's alone, which smooths scores, so it may differ."


class FoldTable:
    """Every fold fit of a search, by config and fold.

    Rows stand in the order of scikit-learn's ParameterGrid where the space is small and finite,
    else in the order in which the configs were first trained.

    Args:
        optimizer: told of every fold fit; its method says whether configs are ranked by robust or
            by mean score, and its uncertainty set by which robust score.
        space: the space it searches, and how configs read to the user.
        trained: the fold fits in the order told, at least one of them without a failure.
        metric: name of the optimized metric.
        error_score: what a failed fold counts as, may be NaN.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        space: SearchSpace,
        trained: Sequence[TrainedFold],
        metric: str,
        error_score: float,
    ) -> None:
        self.n = optimizer.n_contexts
        self.metric = metric
        self.error_score = error_score
        found: dict[bytes, Config] = {}
        cells: dict[tuple[bytes, int], FoldFit] = {}
        for item in trained:
            key = space.space.to_unit(item.config).tobytes()
            found.setdefault(key, item.config)
            cells.setdefault((key, item.fold), item.fit)
        keys = _in_order(space, list(found))
        configs = [found[key] for key in keys]
        self.configs = configs
        self.params: list[Config] = [space.params(config) for config in configs]
        self.cells = {
            (row, fold): cells[key, fold]
            for row, key in enumerate(keys)
            for fold in range(self.n)
            if (key, fold) in cells
        }
        scoring = optimizer.scoring()
        self.judged = scoring.judge(configs, self.scores(metric), self.evaluated)
        means, _ = scoring.predictions(configs)
        self.posterior = np.where(self.evaluated, means, self.judged.rows)

    def column(self, read: Any) -> Array:
        """`read(fit)` of every fold fit, NaN where a fold was not trained, (m, n)."""
        table = np.full((len(self.params), self.n), np.nan)
        for place, fit in self.cells.items():
            table[place] = read(fit)
        return table

    @cached_property
    def evaluated(self) -> npt.NDArray[np.bool_]:
        """Which folds were trained, failed ones included, (m, n)."""
        return ~np.isnan(self.column(lambda fit: 0.0))

    def scores(self, metric: str) -> Array:
        """Test scores of a metric, NaN where a fold was not trained, (m, n)."""
        return self.column(lambda fit: fit.test_scores.get(metric, self.error_score))

    def best(self) -> int:
        """Row of the best config, the first one of equals."""
        if not self.judged.decided:
            raise NothingObserved(
                "A search needs a config without a failed fold to choose from. Got"
                f" {len(self.params)} configs, all of them with a failed fold. Pass a finite"
                " error_score, fix the failures, or search longer."
            )
        return int(np.nanargmax(self.judged.values))

    # what the estimator shows

    def cv_results(self, metrics: Sequence[str], train_scores: bool) -> dict[str, Any]:
        """The table as scikit-learn's searches show it, with columns of our own added."""
        results = _times("fit_time", self.column(lambda fit: fit.fit_time))
        results |= _times("score_time", self.column(lambda fit: fit.score_time))
        results |= param_columns(self.params)
        results["params"] = self.params
        for name in metrics:
            results |= self._metric_columns(name)
            if train_scores:
                results |= _split_columns(f"train_{name}", self._train_scores(name))
        results[f"robust_test_{self.metric}"] = self.judged.robust()[0]
        results["n_folds_evaluated"] = self.evaluated.sum(axis=1)
        for fold in range(self.n):
            results[f"split{fold}_evaluated"] = self.evaluated[:, fold]
            results[f"posterior_split{fold}"] = self.posterior[:, fold]
        return results

    def _metric_columns(self, name: str) -> dict[str, Any]:
        columns = _split_columns(f"test_{name}", self.scores(name))
        ranked = self.judged.values if name == self.metric else columns[f"mean_test_{name}"]
        columns[f"rank_test_{name}"] = ranks(ranked)
        return columns

    def _train_scores(self, name: str) -> Array:
        return self.column(lambda fit: fit.train_scores.get(name, self.error_score))

    def robustness_path(self) -> list[dict[str, Any]]:
        """The best config and its value for chi-square radii from 0 to (n - 1)/2.

        At radius 0 configs are judged by their mean over folds, at (n - 1)/2 by their worst fold.
        """
        path: list[dict[str, Any]] = []
        if not self.judged.decided:
            return path
        for radius in np.unique(np.linspace(0.0, (self.n - 1) / 2, PATH_POINTS)):
            values, _ = self.judged.robust(ChiSquareBall(float(radius)))
            best = int(np.nanargmax(values))
            path.append(
                {
                    "radius": float(radius),
                    "best_index": best,
                    "params": self.params[best],
                    "robust_score": float(values[best]),
                    "mean_score": float(self.judged.means[best]),
                    "worst_score": float(self.judged.rows[best].min()),
                }
            )
        return path


def ranks(values: Array) -> npt.NDArray[np.int32]:
    """Ranks from 1 for the highest, equals sharing the best one, NaN ranked last."""
    worst = -np.inf if np.isnan(values).all() else np.nanmin(values) - 1
    return rankdata(-np.where(np.isnan(values), worst, values), method="min").astype(np.int32)


def param_columns(configs: Sequence[Config]) -> dict[str, Any]:
    """Masked arrays `param_<name>`, masked where a config has no such parameter."""
    columns: dict[str, Any] = {}
    for name in sorted({name for config in configs for name in config}):
        present = [config[name] for config in configs if name in config]
        column = np.ma.MaskedArray(np.empty(len(configs), dtype=_dtype(present)), mask=True)
        for row, config in enumerate(configs):
            if name in config:
                column[row] = config[name]
        columns[f"param_{name}"] = column
    return columns


def _dtype(values: list[Any]) -> Any:
    """The common type of numbers, object for all else."""
    try:
        array = np.array(values)
    except ValueError:  # lists of different lengths
        return object
    return array.dtype if array.dtype.kind in "biuf" and array.ndim == 1 else object


def _times(name: str, seconds: Array) -> dict[str, Any]:
    """Mean and spread over the folds that were trained and timed."""
    known = np.ma.masked_invalid(seconds)
    means = known.mean(axis=1).filled(np.nan)
    return {f"mean_{name}": means, f"std_{name}": known.std(axis=1).filled(np.nan)}


def _split_columns(name: str, scores: Array) -> dict[str, Any]:
    """One column per fold; mean and spread, NaN unless every fold has a score."""
    columns: dict[str, Any] = {f"split{i}_{name}": scores[:, i] for i in range(scores.shape[1])}
    means = np.average(scores, axis=1)
    columns[f"mean_{name}"] = means
    columns[f"std_{name}"] = np.sqrt(np.average((scores - means[:, None]) ** 2, axis=1))
    return columns


def _in_order(space: SearchSpace, keys: list[bytes]) -> list[bytes]:
    """Configs, as the bytes of their points, in the order the table shows them."""
    if space.space.grid(GRID_LIMIT) is None:
        return keys
    U = np.array([np.frombuffer(key) for key in keys])  # (m, p)
    place = {name: i for i, name in enumerate(space.space)}
    order = np.lexsort([U[:, place[name]] for name in reversed(space.order)])
    return [keys[k] for k in order]


def write_search_report(search: Any, path: str | Path) -> Path:
    """Write the page of a fitted RobustSearchCV to `path`; returns the path.

    Args:
        search: the search; its `optimizer_` knows every score.
        path: the file to write.
    """
    from drbqo_ray.report.facts import About, Snippet, gather
    from drbqo_ray.report.page import write_report

    optimizer = search.optimizer_
    name = type(search.estimator).__name__
    how = HOW_CHOSEN if optimizer.method.report == "completed" else HOW_CHOSEN + SMOOTHED
    details = [("best_params_", repr(search.best_params_)), ("how it was chosen", how)]
    if hasattr(search, "best_score_"):
        details.insert(1, ("best_score_", repr(search.best_score_)))
    if search.stop_reason_ is not None:
        details.append(("stopped", search.stop_reason_))
    about = About(
        name=f"RobustSearchCV of {name}",
        objective=f"{search.n_splits_}-fold cross-validation of {name}",
        method=search.method,
        budget=search.n_evaluations_,
        state="finished",
        details=(*details, ("seed of the optimizer", str(optimizer.seed))),
        reproduce=(Snippet("Best params", f"estimator.set_params(**{search.best_params_!r})"),),
    )
    return write_report(gather(optimizer, about), path)
