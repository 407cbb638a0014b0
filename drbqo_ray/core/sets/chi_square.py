"""The chi-square ball, solved exactly by one sort.

Notation as in `drbqo_ray.core.sets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import ClassVar

import numpy as np
from scipy.special import chdtri

from drbqo_ray.core.sets.base import (
    ROUNDING,
    Divergence,
    Family,
    UncertaintySet,
    checked_radius,
    finish,
    is_uniform,
    least_weight,
    real_number,
    unit_rows,
)
from drbqo_ray.errors import InvalidInput
from drbqo_ray.types import Array

_LEAST_V = 1e-290
_ALL_WEIGHTS = 1e300  # a larger radius adds nothing, and its double may not be a float


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
    words: ClassVar[str] = "chi-square ball of radius"
    short_name: ClassVar[str] = "radius"
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

    def divergence(self, p: Array, q: Array) -> Divergence:
        """Half the weighted mean of (p / q - 1)^2."""
        on = q > 0
        distance = 0.5 * float(np.sum(q[on] * (p[on] / q[on] - 1.0) ** 2))
        return Divergence("chi-square divergence", distance, self.radius)

    def _family(self, q: Array) -> Family:
        return chi_square_family(q, self.radius)

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


def chi_square_family(q: Array, own: float) -> Family:
    """The chi-square balls around reference weights q (n,), for a set of size `own`."""
    high = (1.0 / least_weight(q) - 1.0) / 2
    label, kind = "radius of the chi-square ball", ChiSquareBall.kind
    return Family(label, kind, high, own, ChiSquareBall, mean_minus_spread=True)


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
    test = before * (slack[..., :-1] + ROUNDING)
    floor = np.full(mass.shape[-1], ROUNDING)
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
