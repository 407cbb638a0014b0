"""What a method maximizes over configs: robust paths, or expected improvement.

Both offer `values` (many configs, to rank them) and a call (few configs, exact, with gradient).

| symbol | meaning                                   | shape  |
|--------|-------------------------------------------|--------|
| z      | configs as model inputs                   | (k, d) |
| l      | values of draws in every context          | (T, k, n) or (k, n) |
| q      | reference weights                         | (n,)   |
| p      | worst-case weights                        | (k, n) |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import erfcx, log_ndtr

from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.paths import Paths
from drbqo_ray.core.sets import UncertaintySet
from drbqo_ray.types import Array, Indices

MOST_NUMBERS = 2**22  # that are held together: few contexts never come near
LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)


class Acquisition(Protocol):
    """T functions of configs to maximize side by side."""

    def values(self, z: Array) -> Array:
        """Values (T, k) of each function at configs (k, d), good enough to rank them."""

    def __call__(self, z: Array, owner: Indices) -> tuple[Array, Array]:
        """Values (k,) and gradients (k, d) of function owner[r] at config r; owner is sorted."""


@dataclass(frozen=True, eq=False)
class RobustPaths:
    """min over the set of the weighted mean of posterior draws (Algorithm 1, line 3).

    The gradient is that of the mean under the minimizing weights (envelope theorem,
    docs/maths.md, eq. 18): no derivative of the weights is needed.
    """

    paths: Paths
    uncertainty: UncertaintySet
    q: Array

    def values(self, z: Array) -> Array:
        """Robust values (T, k) at configs (k, d), to about 6 digits."""
        together = max(1, MOST_NUMBERS // (len(self.paths.A) * len(self.q)))
        if len(z) > together:
            blocks = [self.values(z[k : k + together]) for k in range(0, len(z), together)]
            return np.concatenate(blocks, axis=1)
        l = self.paths.approximate(z)  # noqa: E741
        return self.uncertainty.solve(l.reshape(-1, len(self.q)), self.q)[0].reshape(l.shape[:2])

    def __call__(self, z: Array, owner: Indices) -> tuple[Array, Array]:
        """Robust values (k,) and supergradients (k, d) at configs (k, d)."""
        l, gradient = self.paths.with_gradient(z, owner)  # noqa: E741
        value, p = self.uncertainty.solve(l, self.q)
        return value, gradient(p)


@dataclass(frozen=True, eq=False)
class ExpectedImprovement:
    """Logarithm of the expected improvement of the quadrature mean (docs/maths.md, eq. 19).

    Attributes:
        gp: the posterior.
        q: weights over contexts (n,): the reference for BQO, one context for a task's own EI.
        incumbent: value to improve on.
    """

    gp: GaussianProcess
    q: Array
    incumbent: float

    def values(self, z: Array) -> Array:
        """log EI (1, k) at configs (k, d)."""
        mean, variance = self.gp.quadrature(z, self.q)
        std = np.sqrt(np.maximum(variance, 1e-20))
        return (np.log(std) + log_improvement((mean - self.incumbent) / std))[None]

    def __call__(self, z: Array, owner: Indices) -> tuple[Array, Array]:
        """log EI (k,) and its gradient (k, d) at configs (k, d)."""
        mean, variance, by_mean, by_variance = self.gp.quadrature_gradients(z, self.q)
        std = np.sqrt(np.maximum(variance, 1e-20))
        u = (mean - self.incumbent) / std
        log_h = log_improvement(u)
        by_std = by_variance / (2 * std)[:, None]
        weight_mean = np.exp(log_ndtr(u) - log_h) / std
        weight_std = np.exp(-0.5 * u * u - LOG_ROOT_2PI - log_h) / std
        return np.log(std) + log_h, weight_mean[:, None] * by_mean + weight_std[:, None] * by_std


def log_improvement(u: Array) -> Array:
    """log(phi(u) + u Phi(u)) without underflow, any shape."""
    log_phi = -0.5 * u * u - LOG_ROOT_2PI
    safe = np.maximum(u, -1.0)
    near = np.log(np.exp(-0.5 * safe * safe - LOG_ROOT_2PI) + safe * np.exp(log_ndtr(safe)))
    a = np.clip(-u, 1.0, 50.0)
    middle = log_phi + np.log1p(-a * np.sqrt(np.pi / 2) * erfcx(a / np.sqrt(2)))
    far = log_phi - 2 * np.log(np.maximum(-u, 1.0))
    return np.where(u > -1.0, near, np.where(u > -50.0, middle, far))
