"""The Gaussian process on (config, context) pairs and its quadrature (docs/maths.md, eq. 1-3, 13).

| symbol | meaning                                             | shape  |
|--------|-----------------------------------------------------|--------|
| X, c, y | observed inputs, context indices, scores           | (N, d), (N,), (N,) |
| x      | configs to predict, as model inputs                 | (k, d) |
| p      | weights over contexts                               | (n,)   |
| mu     | posterior mean of one config in every context       | (n,)   |
| C      | posterior covariance of configs between contexts    | (k n, k n) |
| L      | Cholesky factor of the covariance of the data       | (N, N) |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from drbqo_ray.core import linalg
from drbqo_ray.core.kernels import Kernel
from drbqo_ray.types import Array, Indices

BLOCK = 4096


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A zero-mean Gaussian process conditioned on data. Growing it gives a new one.

    Attributes:
        jitter: what was added to the diagonal to factorize it.
        spread: root (m, m) of the noise covariance of the first m rows, where these are condensed
            from more data (see `condense`); None if all rows have independent noise.
    """

    kernel: Kernel
    X: Array
    c: Indices
    y: Array
    L: Array
    jitter: float
    spread: Array | None = None

    @staticmethod
    def condition(kernel: Kernel, X: Array, c: Indices, y: Array) -> GaussianProcess:
        """The process given scores y (N,) of the pairs (X, c), factorized afresh."""
        K = kernel.matrix(X, c, X, c)
        K.flat[:: len(K) + 1] += kernel.noise
        L, jitter = linalg.factorize(K)
        return GaussianProcess(kernel, X, c, y, L, jitter)

    def extended(self, x: Array, i: int, score: float = 0.0) -> GaussianProcess:
        """The process given one more pair (x (d,), i), by one more row of the factor."""
        i_row = np.array([i], dtype=np.int64)
        k = self.kernel.matrix(x[None], i_row, self.X, self.c)[0]
        noise = self.kernel.noise + self.jitter
        L = linalg.extend(self.L, k, self.kernel.B[i, i] + noise, noise)
        return self._grown(x[None], i_row, np.array([score]), L)

    def conditioned_on(self, x: Array, i: Indices, scores: Array) -> GaussianProcess:
        """The process given b more pairs (x (b, d), i (b,)) with scores (b,)."""
        if len(x) == 1:
            return self.extended(x[0], int(i[0]), float(scores[0]))
        corner = self.kernel.matrix(x, i, x, i)
        corner.flat[:: len(x) + 1] += self.kernel.noise + self.jitter
        L = linalg.extend_many(self.L, self.kernel.matrix(self.X, self.c, x, i), corner)
        return self._grown(x, i, scores, L)

    def _grown(self, x: Array, i: Indices, scores: Array, L: Array) -> GaussianProcess:
        return replace(
            self,
            X=np.concatenate([self.X, x]),
            c=np.concatenate([self.c, i]),
            y=np.concatenate([self.y, scores]),
            L=L,
        )

    def draw(self, prior: Array, rngs: Sequence[np.random.Generator]) -> Array:
        """v = K^-1 (y - prior - e), e the noise of each draw: prior (T, N) -> v (T, N)."""
        e = np.stack([rng.standard_normal(len(self.y)) for rng in rngs])
        own = 0 if self.spread is None else len(self.spread)
        if self.spread is not None:
            e[:, :own] = e[:, :own] @ self.spread.T
        e[:, own:] *= np.sqrt(self.kernel.noise + self.jitter)
        residual = self.y - prior - e
        if len(rngs) == 1:
            return linalg.solve(self.L, residual[0])[None]
        return linalg.solve(self.L, residual.T).T

    def with_scores(self, y: Array) -> GaussianProcess:
        """The same pairs with other scores y (N,)."""
        return replace(self, y=y)

    @cached_property
    def alpha(self) -> Array:
        """K^-1 y, (N,)."""
        return linalg.solve(self.L, self.y)

    def means(self, x: Array) -> Array:
        """Posterior means mu of configs (k, d) in every context, (k, n)."""
        if len(x) <= BLOCK:
            return self.kernel.weigh(x, self.X, self.c, self.alpha)
        return np.concatenate([self.means(x[k : k + BLOCK]) for k in range(0, len(x), BLOCK)])

    def variances(self, x: Array) -> Array:
        """Posterior variances of configs (k, d) in every context, (k, n)."""
        blocks = [np.empty((0, len(self.kernel.B)))]
        for k in range(0, len(x), BLOCK // 16):
            V = self._half(x[k : k + BLOCK // 16])  # (N, b n)
            learned = (V * V).sum(axis=0).reshape(-1, len(self.kernel.B))
            blocks.append(np.diagonal(self.kernel.B) - learned)
        return np.maximum(np.concatenate(blocks), 0.0)

    def covariance(self, x: Array) -> Array:
        """Posterior covariance C (k n, k n) of configs (k, d) in every context."""
        V = self._half(x)
        return self.kernel.joint(x) - V.T @ V

    def covariances(self, x: Array) -> Array:
        """Posterior covariance between the contexts of each config (k, d), (k, n, n)."""
        V = self._half(x).T.reshape(len(x), -1, len(self.X))  # (k, n, N)
        return self.kernel.B - V @ np.swapaxes(V, 1, 2)

    def _half(self, x: Array) -> Array:
        """L^-1 times the covariances of the data with configs (k, d) in every context, (N, k n)."""
        cross = self.kernel.cross(x, self.X, self.c)  # (k, n, N)
        return linalg.forward(self.L, cross.reshape(-1, len(self.X)).T)

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
