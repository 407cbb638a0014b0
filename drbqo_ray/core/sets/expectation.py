"""The reference weights alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drbqo_ray.core.sets.base import (
    UncertaintySet,
    finish,
    unit_rows,
)
from drbqo_ray.types import Array


@dataclass(frozen=True)
class Expectation(UncertaintySet):
    """The reference alone: the value is the plain weighted mean."""

    kind: ClassVar[str] = "expectation"
    within_support: ClassVar[bool] = True

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        return finish(x, shift, scale, np.tile(q, (x.shape[0], 1)))
