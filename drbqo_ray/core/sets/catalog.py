"""Uncertainty sets: the worst-case weights of a row of scores, batched and exact.

Sign: **we maximize score, the adversary minimizes**. Every set answers with the *lowest*
weighted mean its weights can reach.

=========  =======================================================  ==========
symbol     meaning                                                  shape
=========  =======================================================  ==========
n          number of contexts
m          number of rows solved at once
l, values  scores of one config over the contexts                   (..., n)
x          one row of values, shifted and scaled to [0, 1]          (m, n)
q          reference weights, 1/n each unless told                  (n,)
p          weights of the adversary                                 (..., n)
rho        radius of a set
T          reference mass of the contexts tied at the lowest value
Q, M, V    of the k lowest contexts: reference mass, mean of x,     (m, n)
           and sum of q (x - M)^2
tau, lam   level and scale in p = q (tau - x)_+ / lam               (m,)
=========  =======================================================  ==========

The value is concave and positively homogeneous in the values, follows a shift of them, and
falls as the radius grows. Its supergradient with respect to the values is p itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import chdtri

from drbqo_ray.core.sets.base import (
    TINY,
    UncertaintySet,
    checked_radius,
    finish,
    is_uniform,
    real_number,
    reference_weights,
    share_of_ties,
    unit_rows,
)
from drbqo_ray.core.sets.kl import KLBall
from drbqo_ray.core.sets.mmd import MMDBall
from drbqo_ray.core.sets.wasserstein import WassersteinBall
from drbqo_ray.errors import InvalidInput
from drbqo_ray.types import Array

__all__ = [
    "CVaR",
    "ChiSquareBall",
    "Expectation",
    "KLBall",
    "MMDBall",
    "TotalVariationBall",
    "UncertaintySet",
    "WassersteinBall",
    "WorstCase",
    "as_uncertainty",
    "from_dict",
    "reference_weights",
]

_ROUNDING = 4e-16
_LEAST_V = 1e-290
_ALL_WEIGHTS = 1e300  # a larger radius adds nothing, and its double may not be a float


@dataclass(frozen=True)
class Expectation(UncertaintySet):
    """The reference alone: the value is the plain weighted mean."""

    kind: ClassVar[str] = "expectation"
    within_support: ClassVar[bool] = True

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        return finish(x, shift, scale, np.tile(q, (x.shape[0], 1)))


@dataclass(frozen=True)
class WorstCase(UncertaintySet):
    """All weights, so the value is the lowest score, whatever the reference."""

    kind: ClassVar[str] = "worst-case"

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        return finish(x, shift, scale, share_of_ties(x, q))


@dataclass(frozen=True)
class ChiSquareBall(UncertaintySet):
    """Weights with sum_i p_i^2 / q_i <= 1 + 2 radius: the set of the DRBQO paper.

    With equal reference weights, radius 0 is the plain average and a radius of (n - 1)/2 or
    more is the worst single context. While no weight reaches 0 the value is
    mean - sqrt(2 radius variance).

    Args:
        radius: finite, at least 0.
    """

    radius: float
    kind: ClassVar[str] = "chi-square"
    within_support: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the radius."""
        object.__setattr__(self, "radius", checked_radius(self.radius))

    @classmethod
    def from_confidence(cls, level: float, n: int) -> ChiSquareBall:
        """The ball that turns n samples into a confidence bound of their population mean.

        The radius is the `level` quantile of the chi-square law with one degree of freedom,
        over 2n, at most (n - 1)/2. As n grows the lowest and the highest mean over this ball
        enclose the population mean with probability `level` (generalized empirical
        likelihood); the lowest alone lies below it with probability (1 + level)/2. That holds
        for many independent samples. With 5 to 10 folds, which share training data, it is a
        heuristic.

        Args:
            level: between 0 and 1, both excluded.
            n: number of contexts, at least 1.
        """
        if not 0 < (number := real_number(level)) < 1:
            raise InvalidInput(
                "A confidence level must lie between 0 and 1.", level, "Use 0.95, for example."
            )
        if not isinstance(n, int | np.integer) or not 1 <= (count := real_number(n)) < inf:
            raise InvalidInput(
                "The number of contexts must be an integer of at least 1.", n, "Pass n >= 1."
            )
        quantile = float(chdtri(1, 1.0 - number))
        return cls(min(quantile / 2 / count, (count - 1) / 2))

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        equal, rho = is_uniform(q), min(self.radius, _ALL_WEIGHTS)
        if equal:
            level, tilt = _chi_square_uniform(x, rho)
        else:
            level, tilt = _chi_square_weighted(x, q, rho)
        p = x * tilt
        np.subtract(level, p, out=p)
        np.maximum(p, 0.0, out=p)
        if not equal:
            p *= q
        return finish(x, shift, scale, p)


def _chi_square_uniform(x: Array, rho: float) -> tuple[Array, Array]:
    """`_level_and_tilt` where every prefix of k contexts has mass k/n: a plain sort will do."""
    ascending = x.copy()
    ascending.sort(axis=-1)
    per_count, coefficients = _uniform_coefficients(x.shape[-1], rho)
    mean = np.add.accumulate(ascending, axis=-1)
    mean *= per_count
    return _level_and_tilt(ascending, mean, coefficients)


def _chi_square_weighted(x: Array, q: Array, rho: float) -> tuple[Array, Array]:
    """`_level_and_tilt` for any positive reference."""
    order = np.argsort(x, axis=-1)
    ascending = np.take_along_axis(x, order, axis=-1)
    q_ascending = q[order]  # (m, n)
    mass = np.add.accumulate(q_ascending, axis=-1)
    mass[:, -1] = 1.0
    mean = np.add.accumulate(q_ascending * ascending, axis=-1) / mass
    return _level_and_tilt(ascending, mean, _prefix_coefficients(q_ascending, mass, rho))


@lru_cache(maxsize=256)
def _uniform_coefficients(n: int, rho: float) -> tuple[Array, tuple[Array, ...]]:
    """1/k, shape (n,), and the prefix coefficients for weights 1/n, on the scale of p."""
    count = np.arange(1.0, n + 1)
    growth, test, tilt, level = _prefix_coefficients(np.full(n, 1.0 / n), count / n, rho)
    return 1.0 / count, (growth, test, tilt / n, level / n)


def _prefix_coefficients(q: Array, mass: Array, rho: float) -> tuple[Array, ...]:
    """What the chi-square solution needs to know of the masses alone.

    With slack_k = 2 rho Q_k - (1 - Q_k), the digits-keeping form of Q (1 + 2 rho - 1/Q):

    Args:
        q: reference weights in ascending order of values, shape (..., n).
        mass: Q, their cumulative sums, ending in 1, shape (..., n).
        rho: radius.

    Returns:
        growth: q_k Q_{k-1} / Q_k for k = 2..n, in V_k = V_{k-1} + growth (x_k - M_{k-1})^2.
        test: Q_k slack_k for k = 1..n-1; context k+1 is active iff
            V_k >= test (x_{k+1} - M_k)^2. The slack is raised by its rounding error, so that a
            ball that just reaches the ties at the minimum puts all weight there.
        tilt: sqrt(slack_k / Q_k), shape (..., n), so that 1/lam = tilt / sqrt(V).
        level: 1/Q, shape (..., n).
    """
    slack = 2.0 * rho * mass - (1.0 - mass)
    before = mass[..., :-1]
    growth = q[..., 1:] * before / mass[..., 1:]
    test = before * (slack[..., :-1] + _ROUNDING)
    floor = np.full(mass.shape[-1], _ROUNDING)
    floor[-1] = 0.0
    return growth, test, np.sqrt(np.maximum(slack, floor) / mass), 1.0 / mass


def _level_and_tilt(
    ascending: Array, mean: Array, coefficients: tuple[Array, ...]
) -> tuple[Array, Array]:
    """The optimum p = q (level - tilt x)_+ of the chi-square ball, all prefixes at once.

    The divergence of q (tau - x)_+ falls as tau grows, so the active contexts are the lowest
    ones, up to the first whose value, taken as tau, has divergence within the radius. V is
    built from centered, non-negative terms; where it vanishes the minimum is reached, and the
    floor under V makes the tilt so steep that only the ties keep weight.

    Args:
        ascending: sorted unit rows, shape (m, n).
        mean: M, shape (m, n).
        coefficients: see `_prefix_coefficients`; each (n,) or (m, n).

    Returns:
        level and tilt, shape (m, 1).
    """
    growth, test, tilt, level = coefficients
    m, n = ascending.shape
    squares = ascending[:, 1:] - mean[:, :-1]  # (m, n - 1)
    squares *= squares
    v = np.empty((m, n))
    v[:, 0] = _LEAST_V
    np.multiply(squares, growth, out=v[:, 1:])
    np.add.accumulate(v, axis=-1, out=v)
    squares *= test
    next_active = np.zeros((m, n), dtype=bool)
    np.greater_equal(v[:, :-1], squares, out=next_active[:, :-1])
    last = next_active.argmin(axis=-1)  # (m,), index of the highest active context
    flat = np.arange(0, m * n, n)
    flat += last
    entry = last if level.ndim == 1 else flat
    steepness = v.take(flat)
    np.sqrt(steepness, out=steepness)
    np.divide(tilt.take(entry), steepness, out=steepness)
    base = mean.take(flat)
    base *= steepness
    base += level.take(entry)
    return base[:, None], steepness[:, None]


@dataclass(frozen=True)
class TotalVariationBall(UncertaintySet):
    """Weights with half the l1 distance to the reference at most the radius.

    Mass moves from the highest scores to the lowest, also to contexts without reference
    weight.

    Args:
        radius: finite, at least 0; 1 or more holds all weights.
    """

    radius: float
    kind: ClassVar[str] = "total-variation"

    def __post_init__(self) -> None:
        """Check the radius."""
        object.__setattr__(self, "radius", checked_radius(self.radius))

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        off_minimum = np.add.reduce((x > 0.0) * q, axis=-1, keepdims=True)  # (m, 1)
        moved = np.minimum(self.radius, off_minimum)
        cut = _value_at_mass(x, q, 1.0 - moved)
        above = np.add.reduce((x > cut) * q, axis=-1, keepdims=True)
        at = np.add.reduce((x == cut) * q, axis=-1, keepdims=True)
        kept = 1.0 - np.clip((moved - above) / np.maximum(at, TINY), 0.0, 1.0)
        p = q * np.where(x < cut, 1.0, np.where(x == cut, kept, 0.0))
        ties = share_of_ties(x, q)
        p += moved * ties
        full = self.radius >= off_minimum - _ROUNDING
        return finish(x, shift, scale, np.where(full, ties, p))


@dataclass(frozen=True)
class CVaR(UncertaintySet):
    """Weights with p_i <= q_i / alpha: the value is the mean of the lowest share alpha.

    Args:
        alpha: above 0, at most 1; 1 is the plain average, the smallest reference weight or
            less is the worst single context.
    """

    alpha: float
    kind: ClassVar[str] = "cvar"
    within_support: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check alpha."""
        alpha = real_number(self.alpha)
        if not 0 < alpha <= 1:
            raise InvalidInput(
                "The share alpha must be above 0 and at most 1.",
                self.alpha,
                "Use 1 for the plain average, a smaller share for more caution.",
            )
        object.__setattr__(self, "alpha", alpha)

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        alpha = max(self.alpha, TINY)
        cut = _value_at_mass(x, q, alpha)
        below = np.add.reduce((x < cut) * q, axis=-1, keepdims=True)
        at = np.add.reduce((x == cut) * q, axis=-1, keepdims=True)
        share = np.maximum(1.0 - below / alpha, 0.0) / at
        p = q * np.where(x < cut, 1.0 / alpha, np.where(x == cut, share, 0.0))
        return finish(x, shift, scale, p)


def _value_at_mass(x: Array, q: Array, mass: Array | float) -> Array:
    """Lowest value of each row, shape (m, 1), at or below which lies reference mass `mass`."""
    if is_uniform(q):
        ascending = np.sort(x, axis=-1)
        q_ascending = q
    else:
        order = np.argsort(x, axis=-1)
        ascending = np.take_along_axis(x, order, axis=-1)
        q_ascending = q[order]
    cumulative = np.add.accumulate(q_ascending, axis=-1)
    short = cumulative < mass  # (m, n) or (n,)
    index = np.minimum(np.add.reduce(short, axis=-1, dtype=np.intp), x.shape[-1] - 1)
    cut: Array = ascending[np.arange(x.shape[0]), index]
    return cut[:, None]


_SETS: dict[str, type[UncertaintySet]] = {
    each.kind: each
    for each in (
        Expectation,
        WorstCase,
        ChiSquareBall,
        KLBall,
        TotalVariationBall,
        CVaR,
        WassersteinBall,
        MMDBall,
    )
}


def from_dict(plain: Mapping[str, Any]) -> UncertaintySet:
    """The set that `UncertaintySet.to_dict` wrote down."""
    cure = f"Pass what to_dict() returns; the sets are {', '.join(_SETS)}."
    name = plain.get("set") if isinstance(plain, Mapping) else None
    if not isinstance(name, str) or name not in _SETS:
        raise InvalidInput("A set in plain data needs a known name under 'set'.", plain, cure)
    parameters = {key: entry for key, entry in plain.items() if key != "set"}
    try:
        return _SETS[name](**parameters)
    except TypeError:
        rule = f"The set {name!r} must come with exactly its own parameters."
        raise InvalidInput(rule, plain, cure) from None


def as_uncertainty(value: object, n: int) -> UncertaintySet:
    """The set a user means.

    Args:
        value: a set; a number, the radius of a chi-square ball; or "auto", the chi-square
            ball of 95 % confidence.
        n: number of contexts.
    """
    if isinstance(value, UncertaintySet):
        value.check_contexts(n)
        return value
    if isinstance(value, str) and value == "auto":
        return ChiSquareBall.from_confidence(0.95, n)
    if isinstance(value, Real) and not isinstance(value, bool):
        return ChiSquareBall(checked_radius(value))
    raise InvalidInput(
        "The uncertainty must be a set, a chi-square radius of at least 0, or 'auto'.",
        value,
        "Use 1.0, 'auto', or a set such as CVaR(0.3).",
    )
