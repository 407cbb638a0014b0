"""How the recommendation settled: its robust value as evaluations came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from drbqo_ray.report.posterior import Posterior

CHECKPOINTS = 40
LONG, LONG_CHECKPOINTS = 2000, 16


@dataclass(frozen=True)
class Checkpoint:
    """The recommendation after some evaluations.

    Attributes:
        evaluations: how many were known.
        seconds: when the last of them was recorded, None when unknown.
        config: number of the config that would have been recommended.
        value: its robust value, user's scale.
        low, high: its 95 % band.
    """

    evaluations: int
    seconds: float | None
    config: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Incumbent:
    """The path of the recommendation, by the model with its final hyperparameters.

    Attributes:
        checkpoints: in order; none before the first config could be recommended.
        last_change: evaluations known when the recommendation last changed, among checkpoints.
    """

    checkpoints: tuple[Checkpoint, ...]
    last_change: int


def follow_incumbent(
    posterior: Posterior, report: str, told_at: Mapping[int, float]
) -> Incumbent | None:
    """The path.

    Args:
        posterior: the model of the run.
        report: "robust" or "mean": what the method recommends by.
        told_at: seconds at which the outcome with this place in the order told was recorded.
    """
    total = len(posterior.scores)
    most = CHECKPOINTS if total <= LONG else LONG_CHECKPOINTS
    sizes = np.unique(np.linspace(1, total, min(most, total)).round().astype(np.int64))
    found = [_checkpoint(posterior, int(size), report, told_at) for size in sizes]
    path = tuple(each for each in found if each is not None)
    if not path:
        return None
    changes = [b.evaluations for a, b in pairwise(path) if a.config != b.config]
    return Incumbent(path, changes[-1] if changes else path[0].evaluations)


def _checkpoint(
    posterior: Posterior, size: int, report: str, told_at: Mapping[int, float]
) -> Checkpoint | None:
    scores = posterior.scores[:size]
    if np.isnan(scores).all():
        return None
    past = posterior.after(size)
    usable = np.flatnonzero(past.usable)
    if not len(usable):
        return None
    gains = past.gains[usable]
    robust, weights = past.robust(gains)
    values = robust if report == "robust" else gains @ past.reference
    best = int(np.argmax(values))
    value = float(past.user(robust[best]))
    std = float(past.judged_stds(usable[[best]], weights[[best]])[0])
    low, high = past.bands(value, std)
    return Checkpoint(
        evaluations=size,
        seconds=told_at.get(size - 1),
        config=int(usable[best]),
        value=value,
        low=float(low),
        high=float(high),
    )
