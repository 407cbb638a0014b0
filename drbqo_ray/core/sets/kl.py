"""The Kullback-Leibler ball: exponential tilting, its strength found by Newton's method.

Notation as in `drbqo_ray.core.sets`, and

=========  =====================================================  ======
symbol     meaning                                                shape
=========  =====================================================  ======
beta       strength of the tilt, p_i proportional to              (m, 1)
           q_i exp(-beta x_i); 1/beta is the dual variable
log_ratio  log(p / q)                                             (m, n)
=========  =====================================================  ======
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drbqo_ray.core.sets.base import (
    Divergence,
    Family,
    UncertaintySet,
    checked_radius,
    finish,
    least_weight,
    share_of_ties,
    unit_rows,
)
from drbqo_ray.types import Array

_ITERATIONS = 200
_LOG_BETA_TOLERANCE = 1e-14


@dataclass(frozen=True)
class KLBall(UncertaintySet):
    """Weights with sum_i p_i log(p_i / q_i) <= radius.

    The optimum tilts the reference exponentially. Once the radius reaches -log T, with T the
    reference mass of the lowest contexts, the value is the lowest score.

    Args:
        radius: finite, at least 0.
    """

    radius: float
    kind: ClassVar[str] = "kl"
    words: ClassVar[str] = "Kullback-Leibler ball of radius"
    within_support: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the radius."""
        object.__setattr__(self, "radius", checked_radius(self.radius))

    def divergence(self, p: Array, q: Array) -> Divergence:
        """The sum of p log(p / q)."""
        ratio = p[q > 0] / q[q > 0]
        terms = np.where(ratio > 0, ratio * np.log(np.maximum(ratio, 1e-300)), 0.0)
        distance = float(np.sum(q[q > 0] * terms))
        return Divergence("Kullback-Leibler divergence", distance, self.radius)

    def _family(self, q: Array) -> Family:
        high = -float(np.log(least_weight(q)))
        return Family("radius of the KL ball", self.kind, high, self.radius, KLBall)

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        if self.radius == 0.0:
            return finish(x, shift, scale, np.tile(q, (x.shape[0], 1)))
        p = share_of_ties(x, q)
        mass = np.minimum(np.add.reduce((x == 0.0) * q, axis=-1), 1.0)
        inside = np.flatnonzero(self.radius < -np.log(mass))  # rows short of the minimum
        if inside.size:
            p[inside] = _tilted(x[inside], q, self.radius)
        return finish(x, shift, scale, p)


def _tilted(x: Array, q: Array, rho: float) -> Array:
    """Weights (m, n) whose divergence is rho, for unit rows x (m, n) that can reach it.

    Newton on log KL as a function of log beta, which is almost a line of slope 2 where the
    tilt is weak. A bracket is kept; a step that leaves it, or that fails to halve the one
    before, is replaced by bisection.
    """
    m = x.shape[0]
    gap = np.min(np.where(x > 0.0, x, 1.0), axis=-1, keepdims=True)
    low = np.full((m, 1), 0.5 * np.log(8.0 * rho))  # KL <= beta^2 / 8, as x spans [0, 1]
    high = np.minimum(np.log(1500.0) - np.log(gap), 700.0)  # beyond it only ties have weight
    variance = np.square(x - x @ q[:, None]) @ q[:, None]
    log_beta = np.clip(0.5 * np.log(2.0 * rho / np.maximum(variance, 1e-300)), low, high)
    previous = np.full((m, 1), np.inf)
    done = np.zeros((m, 1), dtype=bool)
    for _ in range(_ITERATIONS):
        p, divergence, curvature = _tilt(x, q, np.exp(log_beta))
        low = np.where(divergence <= rho, log_beta, low)
        high = np.where(divergence > rho, log_beta, high)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            step = np.log(rho / divergence) * divergence / curvature
        target = log_beta + step
        bad = ~((target >= low) & (target <= high) & (np.abs(step) <= 0.5 * previous))
        tolerance = _LOG_BETA_TOLERANCE * np.maximum(1.0, np.abs(log_beta))
        done |= (np.abs(step) <= tolerance) | (high - low <= tolerance)
        if done.all():
            break
        target = np.where(bad, 0.5 * (low + high), target)
        previous = np.where(bad, 0.5 * (high - low), np.abs(step))
        log_beta = np.where(done, log_beta, target)
    return p


def _tilt(x: Array, q: Array, beta: Array) -> tuple[Array, Array, Array]:
    """Weights (m, n), divergence (m, 1) and its slope in log beta (m, 1) at strength beta.

    The divergence is the sum of q (1 + (w - 1) e^w), w = log(p/q): no term is negative, so that
    tiny radii keep their digits. The slope is beta^2 Var_p(x).
    """
    exponent = -beta * x
    column = q[:, None]
    log_ratio = exponent - np.log(np.exp(exponent) @ column)
    ratio = np.exp(log_ratio)
    p = q * ratio
    divergence = (log_ratio * ratio - np.expm1(log_ratio)) @ column
    mean = np.add.reduce(p * x, axis=-1, keepdims=True)
    variance = np.add.reduce(p * np.square(x - mean), axis=-1, keepdims=True)
    return p, divergence, np.square(beta) * variance
