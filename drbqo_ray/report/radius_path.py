"""The price of caution: the robust value as the uncertainty set grows from the mean to the worst
fold, and the sizes at which another config becomes the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from drbqo_ray.report.posterior import (
    Posterior,
)
from drbqo_ray.types import Array, Indices

STEPS = 48
BISECTIONS = 30
SLOW_CONFIGS = 200


@dataclass(frozen=True)
class WinnerChange:
    """Another config becomes the best one at a size."""

    size: float
    before: int
    after: int


@dataclass(frozen=True)
class RadiusPath:
    """Robust values against the size of the set, on the user's scale.

    Attributes:
        label: what the size is.
        kind: kind of the sets.
        sizes: sizes (k,), ascending from 0, where the set is the reference alone, to `high`,
            where it holds every single fold.
        own: size of the run's own set, at most the last of `sizes`.
        best: value of the best config at each size (k,).
        winners: number of that config (k,).
        curves: number -> values (k,) of the recommended config, the mean choice and every winner.
        changes: where the winner changes.
        considered: number of configs that were compared.
        mean_minus_spread: see `Family`; such a set the page can solve by itself.
    """

    label: str
    kind: str
    sizes: tuple[float, ...]
    own: float
    best: tuple[float, ...]
    winners: tuple[int, ...]
    curves: dict[int, tuple[float, ...]]
    changes: tuple[WinnerChange, ...]
    considered: int
    mean_minus_spread: bool = False


def trace_radius(posterior: Posterior, keep: tuple[int, ...]) -> RadiusPath | None:
    """The path over all ranked configs; of a slow kind of set over the best ones.

    Args:
        posterior: the model of the run.
        keep: numbers of configs whose curve is wanted in any case.
    """
    family = posterior.set.family(posterior.reference)
    numbers = np.flatnonzero(posterior.usable)
    if family is None or not len(numbers):
        return None
    numbers = _considered(posterior, numbers, keep)
    gains = posterior.gains[numbers]

    def values(size: float) -> Array:
        return family.make(size).solve(gains, posterior.reference)[0]

    sizes = family.high * np.linspace(0.0, 1.0, STEPS + 1) ** 2
    own = min(family.own, family.high)
    sizes = np.unique(np.append(sizes, own))
    table = np.array([values(float(size)) for size in sizes])  # (k, m)
    winners = table.argmax(axis=1)
    wanted = {*winners.tolist(), *(int(i) for i in np.flatnonzero(np.isin(numbers, keep)))}
    best = posterior.user(table[np.arange(len(sizes)), winners])
    return RadiusPath(
        label=family.label,
        kind=family.kind,
        sizes=tuple(float(size) for size in sizes),
        own=own,
        best=tuple(float(v) for v in best),
        winners=tuple(int(numbers[i]) for i in winners),
        curves={
            int(numbers[i]): tuple(float(v) for v in posterior.user(table[:, i]))
            for i in sorted(wanted)
        },
        changes=tuple(_changes(values, sizes, winners, numbers)),
        considered=len(numbers),
        mean_minus_spread=family.mean_minus_spread,
    )


def _considered(posterior: Posterior, numbers: Indices, keep: tuple[int, ...]) -> Indices:
    if not posterior.set.slow or len(numbers) <= SLOW_CONFIGS:
        return numbers
    value, _ = posterior.robust(posterior.gains[numbers])
    best = numbers[np.argsort(-value, kind="stable")[:SLOW_CONFIGS]]
    return np.unique(np.concatenate([best, np.array(keep, dtype=np.int64)]))


def _changes(
    values: Callable[[float], Array], sizes: Array, winners: Indices, numbers: Indices
) -> list[WinnerChange]:
    """Every change of the winner between neighboring sizes, found by halving the gap."""
    found = []
    for k in np.flatnonzero(winners[1:] != winners[:-1]):
        low, high = float(sizes[k]), float(sizes[k + 1])
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            if int(values(middle).argmax()) == winners[k]:
                low = middle
            else:
                high = middle
        found.append(WinnerChange(high, int(numbers[winners[k]]), int(numbers[winners[k + 1]])))
    return found
