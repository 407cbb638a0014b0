"""The Gaussian process on (config, context) pairs and its quadrature (docs/maths.md, eq. 1-3, 13).

| symbol | meaning                                             | shape  |
|--------|-----------------------------------------------------|--------|
| X, c, y | observed inputs, context indices, scores           | (N, d), (N,), (N,) |
| x      | configs to predict, as model inputs                 | (k, d) |
| p      | weights over contexts                               | (n,)   |
| mu     | posterior mean of one config in every context       | (n,)   |
| C      | posterior covariance of one config between contexts | (n, n) |
| L      | Cholesky factor of the covariance of the data       | (N, N) |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from drbqo_ray.core import linalg
from drbqo_ray.core.kernels import Kernel

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A zero-mean Gaussian process conditioned on data. Growing it gives a new one."""

    kernel: Kernel
    X: Array
    c: Indices
    y: Array
    L: Array
    jitter: float

    @staticmethod
    def condition(kernel: Kernel, X: Array, c: Indices, y: Array) -> GaussianProcess:
        """The process given scores y (N,) of the pairs (X, c), factorized afresh."""
        K = kernel.matrix(X, c, X, c)
        K.flat[:: len(K) + 1] += kernel.noise
        L, jitter = linalg.factorize(K)
        return GaussianProcess(kernel, X, c, y, L, jitter)

    def extended(self, x: Array, i: int, score: float = 0.0) -> GaussianProcess:
        """The process given one more pair (x (d,), i), by one more row of the factor.

        The covariance needs no score, so a pending pair may leave it out.
        """
        i_row = np.array([i], dtype=np.int64)
        k = self.kernel.matrix(x[None], i_row, self.X, self.c)[0]
        noise = self.kernel.noise + self.jitter
        L = linalg.extend(self.L, k, self.kernel.B[i, i] + noise, noise)
        return GaussianProcess(
            self.kernel,
            np.concatenate([self.X, x[None]]),
            np.concatenate([self.c, i_row]),
            np.append(self.y, score),
            L,
            self.jitter,
        )

    def with_scores(self, y: Array) -> GaussianProcess:
        """The same pairs with other scores y (N,)."""
        return GaussianProcess(self.kernel, self.X, self.c, y, self.L, self.jitter)

    @cached_property
    def alpha(self) -> Array:
        """K^-1 y, (N,)."""
        return linalg.solve(self.L, self.y)

    def means(self, x: Array) -> Array:
        """Posterior means mu of configs (k, d) in every context, (k, n)."""
        return self.kernel.weigh(x, self.X, self.c, self.alpha)

    def covariance(self, x: Array) -> Array:
        """Posterior covariance C (n, n) between the contexts of one config (d,)."""
        cross = self.kernel.cross(x[None], self.X, self.c)[0]  # (n, N)
        V = linalg.forward(self.L, cross.T)  # (N, n)
        return self.kernel.B - V.T @ V

    def quadrature(self, x: Array, p: Array) -> tuple[Array, Array]:
        """Mean and variance of sum_i p_i f(x, i): (k, d), p (n,) -> (k,), (k,)."""
        mean, variance, _, _ = self._quadrature(x, p)
        return mean, variance

    def quadrature_gradients(self, x: Array, p: Array) -> tuple[Array, Array, Array, Array]:
        """Quadrature mean and variance (k,) with their gradients by x (k, d)."""
        mean, variance, solved, slope = self._quadrature(x, p)
        mean_slope = self.kernel.pull_back(x, self.X, slope * self.alpha)
        variance_slope = self.kernel.pull_back(x, self.X, -2 * slope * solved)
        return mean, variance, mean_slope, variance_slope

    def _quadrature(self, x: Array, p: Array) -> tuple[Array, Array, Array, Array]:
        weights = np.broadcast_to(p, (len(x), len(p)))
        v, slope = self.kernel.blend(x, self.X, self.c, weights)  # (k, N) each
        half = linalg.forward(self.L, v.T)  # (N, k)
        variance = p @ self.kernel.B @ p - np.einsum("Nk,Nk->k", half, half)
        solved = linalg.backward(self.L, half).T
        return v @ self.alpha, np.maximum(variance, 0.0), solved, slope
