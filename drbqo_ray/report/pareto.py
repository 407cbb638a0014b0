"""The trade-off between the mean over the folds and the spread between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drbqo_ray.report.posterior import (
    Posterior,
)
from drbqo_ray.report.ranking import spread
from drbqo_ray.types import Array

POINTS = 1200


@dataclass(frozen=True)
class ParetoPoint:
    """A ranked config: its mean and the spread of its folds, on the user's scale."""

    number: int
    mean: float
    spread: float
    on_front: bool


@dataclass(frozen=True)
class Pareto:
    """All ranked configs, or those with the best means when there are many.

    Attributes:
        points: the configs; the front is complete.
        left_out: number of configs not shown, all of them dominated.
    """

    points: tuple[ParetoPoint, ...]
    left_out: int


def weigh_trade_off(posterior: Posterior) -> Pareto | None:
    """Mean against spread of the ranked configs; None when there is none."""
    numbers = np.flatnonzero(posterior.usable)
    if not len(numbers):
        return None
    mean = posterior.gains[numbers] @ posterior.reference
    width = spread(posterior, numbers)
    front = front_of(mean, width)
    order = np.argsort(-mean, kind="stable")
    shown = sorted({*order[:POINTS].tolist(), *np.flatnonzero(front).tolist()})
    points = tuple(
        ParetoPoint(
            int(numbers[k]), float(posterior.user(mean[k])), float(width[k]), bool(front[k])
        )
        for k in shown
    )
    return Pareto(points, len(numbers) - len(points))


def front_of(gain: Array, width: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which points (m,) no other point beats in one of both without losing in the other."""
    front = np.zeros(len(gain), dtype=bool)
    least = np.inf
    last = (np.nan, np.nan)
    for k in np.lexsort((width, -gain)):
        if width[k] < least or (gain[k], width[k]) == last:
            front[k] = True
            least = float(width[k])
            last = (float(gain[k]), float(width[k]))
    return front
