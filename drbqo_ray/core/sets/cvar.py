"""Conditional value at risk: the mean of the lowest scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drbqo_ray.core.sets.base import (
    TINY,
    Divergence,
    Family,
    UncertaintySet,
    finish,
    least_weight,
    real_number,
    unit_rows,
    value_at_mass,
)
from drbqo_ray.errors import InvalidInput
from drbqo_ray.types import Array


@dataclass(frozen=True)
class CVaR(UncertaintySet):
    """Weights with p_i <= q_i / alpha: the value is the mean of the lowest share alpha.

    Args:
        alpha: above 0, at most 1; 1 is the plain average, the smallest reference weight or
            less is the worst single context.
    """

    alpha: float
    kind: ClassVar[str] = "cvar"
    words: ClassVar[str] = "CVaR of the worst share"
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

    def divergence(self, p: Array, q: Array) -> Divergence:
        """The largest p / q."""
        ratio = float((p[q > 0] / q[q > 0]).max())
        return Divergence("largest ratio to the reference", ratio, 1.0 / self.alpha)

    def _family(self, q: Array) -> Family:
        label, high = "share of the best folds left out (1 - alpha)", 1 - least_weight(q)
        return Family(label, self.kind, high, 1 - self.alpha, lambda t: CVaR(max(1 - t, 1e-12)))

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        alpha = max(self.alpha, TINY)
        cut = value_at_mass(x, q, alpha)
        below = np.add.reduce((x < cut) * q, axis=-1, keepdims=True)
        at = np.add.reduce((x == cut) * q, axis=-1, keepdims=True)
        share = np.maximum(1.0 - below / alpha, 0.0) / at
        p = q * np.where(x < cut, 1.0 / alpha, np.where(x == cut, share, 0.0))
        return finish(x, shift, scale, p)
