"""Means with confidence intervals, best so far, and paired differences between methods.

The paper gives 96 % intervals; ours use Student's t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from drbqo_ray.types import Array

CONFIDENCE = 0.96
LEAST_REGRET = 1e-10


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and half the width of its interval; numbers or arrays over t."""

    mean: Array
    half: Array

    @property
    def excludes_zero(self) -> bool:
        """Whether a single interval lies on one side of 0."""
        return bool(np.abs(self.mean) > self.half)


def interval(samples: Array) -> Interval:
    """Mean and 96 % interval over the seeds, the first axis of samples (seeds, ...)."""
    n = len(samples)
    deviation = np.std(samples, axis=0, ddof=1) if n > 1 else np.full(samples.shape[1:], np.nan)
    factor = float(student.ppf(0.5 + CONFIDENCE / 2, n - 1)) if n > 1 else np.nan
    return Interval(np.mean(samples, axis=0), factor * deviation / np.sqrt(n))


def paired(first: Array, second: Array) -> Interval:
    """Interval of first - second, both (seeds, ...), seed by seed."""
    return interval(first - second)


def best_so_far(values: Array, larger_is_better: bool) -> Array:
    """The best value up to each t of (seeds, horizon + 1)."""
    pick = np.maximum if larger_is_better else np.minimum
    return np.asarray(pick.accumulate(values, axis=1))


def log_regret(regret: Array) -> Array:
    """log10 of regrets; below 1e-10 all count the same."""
    return np.asarray(np.log10(np.maximum(regret, LEAST_REGRET)))
