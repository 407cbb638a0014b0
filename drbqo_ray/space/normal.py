"""A real hyperparameter with a normal prior, laid on the unit interval by its quantiles.

Equal steps of u are equal shares of probability, so a spread of points that is even in u is
a normal sample of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from drbqo_ray.errors import InvalidInput
from drbqo_ray.space.parameters import (
    SMALLEST,
    Axis,
    Float,
    check_range,
    is_finite,
    make_plain,
    optional,
)
from drbqo_ray.types import Array

REACH = 5.0
"""Standard deviations searched on either side of the mean; 6e-7 of the normal lies beyond."""


@dataclass(frozen=True)
class NormalAxis(Axis):
    """A range laid on [0, 1] by the normal distribution cut off at its ends.

    Attributes:
        mean, sd: of the normal distribution before it is cut off.
    """

    mean: float = 0.0
    sd: float = 1.0

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Probability below the low and below the high end."""
        low, high = ndtr(self._deviations(np.array([self.low, self.high])))
        return float(low), float(high)

    def _deviations(self, values: Array | np.float64) -> Array:
        """How many standard deviations each value lies above the mean, any shape."""
        with np.errstate(over="ignore"):  # infinitely many, for all that ndtr can tell
            return np.asarray((values - self.mean) / self.sd)

    def warp(self, values: Array | np.float64) -> Array:
        """Position in [0, 1] of each value, any shape."""
        low, high = self.ends
        return np.asarray((ndtr(self._deviations(values)) - low) / (high - low))

    def unwarp(self, u: Array | np.float64) -> Array:
        """Value at each position u in [0, 1], any shape, not rounded to the grid."""
        low, high = self.ends
        inside = np.clip(low + u * (high - low), low, high)
        values = self.mean + self.sd * ndtri(inside)
        return np.asarray(np.clip(values, self.low, self.high))


@dataclass(frozen=True)
class Normal(Float):
    """A real hyperparameter that is normal a priori, between `low` and `high`, both included.

    Args:
        low, high: the bounds; must hold some of the probability.
        step: only low, low + step, low + 2 step, ... are used.
        when: active only when the named parameters have one of the listed values.
        mean, sd: of the normal distribution before it is cut off at the bounds.
    """

    mean: float = 0.0
    sd: float = 1.0

    def __post_init__(self) -> None:
        make_plain(self, "low", "high", "log", "step", "mean", "sd")
        check_range("Normal", self.low, self.high, self.log, self.step)
        if self.log:
            raise InvalidInput("Normal has no log scale.", self.log, "Drop log=True.")
        if not (is_finite(self.mean) and is_finite(self.sd) and self.sd >= SMALLEST):
            raise InvalidInput(
                "Normal needs a finite mean and sd > 0.", (self.mean, self.sd), "Change them."
            )
        low, high = self.axis.ends
        if not high - low > 1e-9:
            raise InvalidInput(
                "The bounds of Normal must hold some of its probability.",
                (self.low, self.high, self.mean, self.sd),
                "Move the bounds towards the mean, or use Float.",
            )
        self.axis.check_cells("Normal")

    @staticmethod
    def around(mean: float, sd: float) -> Normal:
        """The whole normal distribution, as far as REACH standard deviations from its mean."""
        return Normal(mean - REACH * sd, mean + REACH * sd, mean=mean, sd=sd)

    @cached_property
    def axis(self) -> NormalAxis:
        """How the range lies on [0, 1]."""
        plain = Float(self.low, self.high, step=self.step).axis
        return NormalAxis(
            plain.low,
            plain.high,
            False,
            plain.start,
            plain.step,
            plain.count,
            float(self.mean),
            float(self.sd),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form, as written in a YAML space or a journal."""
        plain = {"type": "normal", "low": float(self.low), "high": float(self.high)}
        shape = {"mean": float(self.mean), "sd": float(self.sd)}
        return plain | shape | optional(self.when, step=self.step)
