"""The total variation ball: mass moves from the highest scores to the lowest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drbqo_ray.core.sets.base import (
    ROUNDING,
    TINY,
    Divergence,
    Family,
    UncertaintySet,
    checked_radius,
    finish,
    share_of_ties,
    unit_rows,
    value_at_mass,
)
from drbqo_ray.types import Array


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
    words: ClassVar[str] = "total variation ball of radius"

    def __post_init__(self) -> None:
        """Check the radius."""
        object.__setattr__(self, "radius", checked_radius(self.radius))

    def divergence(self, p: Array, q: Array) -> Divergence:
        """Half the l1 distance."""
        return Divergence("total variation", 0.5 * float(np.abs(p - q).sum()), self.radius)

    def _family(self, q: Array) -> Family:
        label, high = "radius of the total variation ball", 1.0 - float(q.min())
        return Family(label, self.kind, high, self.radius, TotalVariationBall)

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        off_minimum = np.add.reduce((x > 0.0) * q, axis=-1, keepdims=True)  # (m, 1)
        moved = np.minimum(self.radius, off_minimum)
        cut = value_at_mass(x, q, 1.0 - moved)
        above = np.add.reduce((x > cut) * q, axis=-1, keepdims=True)
        at = np.add.reduce((x == cut) * q, axis=-1, keepdims=True)
        kept = 1.0 - np.clip((moved - above) / np.maximum(at, TINY), 0.0, 1.0)
        p = q * np.where(x < cut, 1.0, np.where(x == cut, kept, 0.0))
        ties = share_of_ties(x, q)
        p += moved * ties
        full = self.radius >= off_minimum - ROUNDING
        return finish(x, shift, scale, np.where(full, ties, p))
