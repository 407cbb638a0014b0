"""All weights: only the worst context counts."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from drbqo_ray.core.sets.base import (
    Family,
    UncertaintySet,
    finish,
    share_of_ties,
    unit_rows,
)
from drbqo_ray.core.sets.chi_square import chi_square_family
from drbqo_ray.types import Array


@dataclass(frozen=True)
class WorstCase(UncertaintySet):
    """All weights, so the value is the lowest score, whatever the reference."""

    kind: ClassVar[str] = "worst-case"
    words: ClassVar[str] = "any weights"

    def _family(self, q: Array) -> Family:
        return chi_square_family(q, inf)

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        return finish(x, shift, scale, share_of_ties(x, q))
