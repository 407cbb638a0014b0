"""Which parameters matter, and how the value moves along each of them.

The importance of a parameter is its total effect: the share of the variance of the modelled robust
value over the whole space that is left when all other parameters are known,

    effect_j = E[Var(R | all but u_j)] / Var(R)        R the robust value at u, uniform in the cube

Var(R) is that of 1,024 points of a Latin hypercube. The variance that is left is the mean of those
along lines: through 64 points, each at the same values of u_j, evenly spread. It is a part of
Var(R), so a share is at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drbqo_ray.records import Config
from drbqo_ray.report.posterior import (
    Posterior,
)
from drbqo_ray.report.ranking import Ranking
from drbqo_ray.space.parameters import Choice
from drbqo_ray.types import Array

POINTS, LINES = 1024, 64
LEVELS, MOST_LEVELS = 16, 32
FLAT = 1e-18
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
    lines: int


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
        lines=LINES,
    )


def total_effects(posterior: Posterior, seed: int) -> Array:
    """Total effect of each parameter (p,), within [0, 1], all 0 when the model is flat."""
    rng = np.random.default_rng(seed)
    space = posterior.space
    total = float(_values(posterior, space.snap(_hypercube(POINTS, len(space), rng))).var())
    if total <= FLAT:
        return np.zeros(len(space))
    base = _hypercube(LINES, len(space), rng)
    left = np.array([_variance_along(posterior, base, j) for j in range(len(space))])
    return np.minimum(left / total, 1.0)


def _hypercube(size: int, width: int, rng: np.random.Generator) -> Array:
    """Random points (size, width) in the unit cube, one in every slice of each axis."""
    strata = rng.permuted(np.tile(np.arange(size), (width, 1)), axis=1)
    return np.asarray(((strata + rng.random(strata.shape)) / size).T)


def _variance_along(posterior: Posterior, base: Array, column: int) -> float:
    """Mean variance of the robust value along one parameter, on lines through points (B, p)."""
    item = list(posterior.space.parameters.values())[column]
    levels = min(item.count, MOST_LEVELS) if isinstance(item, Choice) else LEVELS
    u = np.repeat(base, levels, axis=0)
    u[:, column] = np.tile((np.arange(levels) + 0.5) / levels, len(base))
    values = _values(posterior, posterior.space.snap(u)).reshape(len(base), levels)
    return float(values.var(axis=1).mean())


def _values(posterior: Posterior, u: Array) -> Array:
    return posterior.robust(posterior.predict(posterior.space.features(u)))[0]


def gain_from(posterior: Posterior, config: Config, name: str, place: float) -> float:
    """What the modelled robust value of a config gains, standardized, by its own value of one
    parameter over the value at `place` in [0, 1]."""
    u = np.tile(posterior.space.to_unit(config), (2, 1))
    u[1, list(posterior.space).index(name)] = place
    own, other = _values(posterior, posterior.space.snap(u))
    return float(own - other)


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
    low, high = posterior.bands(values, stds)
    points = tuple(
        SlicePoint(item.from_unit(float(place)), float(place), float(v), float(a), float(b))
        for place, v, a, b in zip(u[:, column], values, low, high, strict=True)
    )
    tried = [item.to_unit(c[name]) for c in posterior.configs[:2000] if name in c]
    step = max(1, len(tried) // 200)
    return Slice(
        name,
        categorical,
        bool(getattr(item, "log", False)),
        points,
        float(here[column]),
        tuple(tried[::step]),
    )
