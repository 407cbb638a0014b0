"""The reference weights alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drbqo_ray.core.sets.base import (
    Family,
    UncertaintySet,
    finish,
    unit_rows,
)
from drbqo_ray.core.sets.chi_square import chi_square_family
from drbqo_ray.types import Array


@dataclass(frozen=True)
class Expectation(UncertaintySet):
    """The reference alone: the value is the plain weighted mean."""

    kind: ClassVar[str] = "expectation"
    words: ClassVar[str] = "the reference weights alone"
    within_support: ClassVar[bool] = True

    def _family(self, q: Array) -> Family:
        return chi_square_family(q, 0.0)

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        return finish(x, shift, scale, np.tile(q, (x.shape[0], 1)))
