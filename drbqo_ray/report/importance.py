"""Which parameters matter, and how the value moves along each of them.

The importance of a parameter is its total effect: the share of the variance of the modelled robust
value over the whole space that is left when all other parameters are known (Jansen's estimator).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drbqo_ray.parameters import Choice
from drbqo_ray.records import BAND
from drbqo_ray.report.posterior import Array, Posterior
from drbqo_ray.report.ranking import Ranking

SAMPLES = 256
SLICES = 6
STEPS = 33
OPTIONS = 12


@dataclass(frozen=True)
class SlicePoint:
    """Value of the parameter, its place in [0, 1], and the robust value there with its band."""

    value: Any
    place: float
    robust: float
    low: float
    high: float


@dataclass(frozen=True)
class Slice:
    """The modelled robust value along one parameter, the others as in the recommended config.

    Attributes:
        name: the parameter.
        categorical: whether its values have no order.
        log: whether its scale is logarithmic.
        points: along the range.
        here: place of the recommended config in [0, 1].
        tried: places of the evaluated configs in [0, 1], at most 200.
    """

    name: str
    categorical: bool
    log: bool
    points: tuple[SlicePoint, ...]
    here: float
    tried: tuple[float, ...]


@dataclass(frozen=True)
class Importance:
    """Total effect of every parameter, largest first, and slices along the first few."""

    effects: tuple[tuple[str, float], ...]
    slices: tuple[Slice, ...]
    samples: int


def weigh_parameters(posterior: Posterior, ranking: Ranking, seed: int) -> Importance | None:
    """Importance and slices; None without a recommended config."""
    if ranking.chosen is None:
        return None
    effects = total_effects(posterior, seed)
    names = list(posterior.space)
    order = np.argsort(-effects, kind="stable")
    here = posterior.space.to_unit(posterior.configs[ranking.chosen])
    active = posterior.space.active(here[None])[0]
    free = [item.count != 1 for item in posterior.space.parameters.values()]
    sliced = [int(j) for j in order if active[j] and free[j]]
    return Importance(
        effects=tuple((names[j], float(effects[j])) for j in order),
        slices=tuple(_slice(posterior, names[j], j, here) for j in sliced[:SLICES]),
        samples=SAMPLES,
    )


def total_effects(posterior: Posterior, seed: int) -> Array:
    """Total effect of each parameter (p,), all 0 when the model is flat."""
    space = posterior.space
    rng = np.random.default_rng(seed)
    base, other = space.snap(rng.random((SAMPLES, len(space)))), rng.random((SAMPLES, len(space)))
    before = _values(posterior, base)
    variance = float(before.var())
    effects = np.zeros(len(space))
    if variance <= 1e-18:
        return effects
    for j in range(len(space)):
        moved = base.copy()
        moved[:, j] = other[:, j]
        after = _values(posterior, space.snap(moved))
        effects[j] = float(np.mean((after - before) ** 2)) / (2 * variance)
    return effects


def _values(posterior: Posterior, u: Array) -> Array:
    return posterior.robust(posterior.predict(posterior.space.features(u)))[0]


def _slice(posterior: Posterior, name: str, column: int, here: Array) -> Slice:
    space, item = posterior.space, posterior.space.parameters[name]
    categorical = isinstance(item, Choice)
    places = np.linspace(0.0, 1.0, STEPS)
    if item.count and item.count <= STEPS:
        grid = np.arange(item.count)
        places = (grid + 0.5) / item.count if categorical else item.axis.position(grid)  # type: ignore[union-attr]
    if categorical:
        places = places[:OPTIONS]
    u = np.repeat(here[None], len(places), axis=0)
    u[:, column] = places
    u = space.snap(u)
    inputs = space.features(u)
    gains = posterior.predict(inputs)
    robust, weights = posterior.robust(gains)
    values, stds = posterior.user(robust), posterior.stds(inputs, weights)
    points = tuple(
        SlicePoint(item.from_unit(float(place)), float(place), float(v), float(v - BAND * s),
                   float(v + BAND * s))
        for place, v, s in zip(u[:, column], values, stds, strict=True)
    )  # fmt: skip
    tried = [item.to_unit(c[name]) for c in posterior.configs[:2000] if name in c]
    step = max(1, len(tried) // 200)
    return Slice(
        name, categorical, bool(getattr(item, "log", False)), points, float(here[column]),
        tuple(tried[::step]),
    )  # fmt: skip
