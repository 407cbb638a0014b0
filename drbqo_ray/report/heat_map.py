"""Which fold hurts: the scores of the best configs, fold by fold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drbqo_ray.report.posterior import Posterior
from drbqo_ray.report.ranking import ConfigRow, Ranking

ROWS, COLUMNS = 24, 40


@dataclass(frozen=True)
class Cell:
    """One config in one fold.

    Attributes:
        config, fold: their numbers.
        value: mean of the observed scores, or what the model fills in where there is none.
        observed: number of scores.
        failed: number of failed evaluations.
        beyond: whether the model's estimate lies beyond the range of the scores, whose end `value`
            then is.
    """

    config: int
    fold: int
    value: float
    observed: int
    failed: int
    beyond: bool


@dataclass(frozen=True)
class HeatMap:
    """The best configs fold by fold.

    Attributes:
        configs: numbers of the configs, best first.
        folds: numbers of the folds shown, in order.
        n_folds: number of all folds.
        cells: one row of cells a config.
        hardest: the fold with the worst posterior mean over all ranked configs.
        fold_means: that mean for every fold (n,), on the user's scale.
    """

    configs: tuple[int, ...]
    folds: tuple[int, ...]
    n_folds: int
    cells: tuple[tuple[Cell, ...], ...]
    hardest: int
    fold_means: tuple[float, ...]


def map_heat(posterior: Posterior, ranking: Ranking) -> HeatMap:
    """The heat map of the first configs of the ranking; of many folds those with most weight."""
    rows = ranking.rows[:ROWS]
    n = len(posterior.reference)
    folds = _folds(rows, n)
    average = posterior.gains[posterior.usable if posterior.usable.any() else slice(None)].mean(0)
    return HeatMap(
        configs=tuple(row.number for row in rows),
        folds=folds,
        n_folds=n,
        cells=tuple(tuple(_cell(posterior, row, fold) for fold in folds) for row in rows),
        hardest=int(np.argmin(average)),
        fold_means=tuple(float(v) for v in posterior.user(average)),
    )


def _folds(rows: tuple[ConfigRow, ...], n: int) -> tuple[int, ...]:
    if n <= COLUMNS:
        return tuple(range(n))
    weight = np.mean([row.weights for row in rows], axis=0)
    return tuple(sorted(int(k) for k in np.argsort(-weight, kind="stable")[:COLUMNS]))


def _cell(posterior: Posterior, row: ConfigRow, fold: int) -> Cell:
    here = (posterior.numbers == row.number) & (posterior.contexts == fold)
    scores = posterior.scores[here]
    good = scores[~np.isnan(scores)]
    value = float(good.mean()) if len(good) else row.fold_means[fold]
    beyond = not len(good) and row.estimates[fold] != value
    return Cell(row.number, fold, value, len(good), len(scores) - len(good), beyond)
