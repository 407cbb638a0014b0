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
MOST_NUMBERS = 2**24


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
        L = linalg.extend(self.L, k, self.kernel.variances[i] + noise, noise)
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
        block = self._block(len(self.X), BLOCK)
        if len(x) <= block:
            return self.kernel.weigh(x, self.X, self.c, self.alpha)
        return np.concatenate([self.means(x[k : k + block]) for k in range(0, len(x), block)])

    def _block(self, depth: int, usual: int) -> int:
        """Configs to look at together, of which each takes n x depth numbers."""
        fit = MOST_NUMBERS // (self.kernel.n * depth)
        return max(1, min(usual, fit)) if self.kernel.many else usual

    def variances(self, x: Array) -> Array:
        """Posterior variances of configs (k, d) in every context, (k, n)."""
        blocks, n = [np.empty((0, self.kernel.n))], self.kernel.n
        together = self._block(len(self.X), BLOCK // 16)
        for k in range(0, len(x), together):
            V = self._half(x[k : k + together])  # (N, b n)
            blocks.append(self.kernel.variances - (V * V).sum(axis=0).reshape(-1, n))
        return np.maximum(np.concatenate(blocks), 0.0)

    def covariance(self, x: Array) -> Array:
        """Posterior covariance C (k n, k n) of configs (k, d) in every context."""
        V = self._half(x)
        return self.kernel.joint(x) - V.T @ V

    def beliefs(self, x: Array) -> Beliefs:
        """The same covariance C, of which only columns are looked at."""
        if self.kernel.many:
            return Beliefs(self, x, self._half(x), None)
        return Beliefs(self, x, None, self.covariance(x))

    def covariances(self, x: Array) -> Array:
        """Posterior covariance between the contexts of each config (k, d), (k, n, n)."""
        V = self._half(x).T.reshape(len(x), -1, len(self.X))  # (k, n, N)
        return self.kernel.B - V @ np.swapaxes(V, 1, 2)

    def _half(self, x: Array) -> Array:
        """L^-1 times the covariances of the data with configs (k, d) in every context, (N, k n)."""
        if self.kernel.factored is not None:
            return np.concatenate([self._factored_half(one) for one in x], axis=1)
        cross = self.kernel.cross(x, self.X, self.c)  # (k, n, N)
        return linalg.forward(self.L, cross.reshape(-1, len(self.X)).T)

    def _factored_half(self, x: Array) -> Array:
        """`_half` of one config (d,): solved for the columns of the factors, and for the contexts
        that were seen, (N, n)."""
        factored = self.kernel.factored
        assert factored is not None
        g, rank = self._correlations(x), factored.F.shape[1]
        seen, place = np.unique(self.c, return_inverse=True)
        own = len(seen) if factored.rest.max() > 0 else 0
        right = np.zeros((len(g), rank + own), order="F")
        right[:, :rank] = g[:, None] * factored.F[self.c]
        if own:
            right[np.arange(len(g)), rank + place] = g * factored.rest[self.c]
        solved = linalg.forward(self.L, right)
        V = solved[:, :rank] @ factored.F.T
        if own:
            V[:, seen] += solved[:, rank:]
        return V

    def _correlations(self, x: Array) -> Array:
        """Correlations of the data with one config (d,) as to configs, (N,)."""
        D2 = self.kernel.distances(x[None], self.X)[0]
        return self.kernel.family.shape.value_and_slope(D2)[0]

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        """Prior covariances of the data between contexts, correlations as to configs, (N, N)."""
        D2 = self.kernel.distances(self.X, self.X)
        between = self.kernel.covariances(self.c, self.c)
        return between, self.kernel.family.shape.value_and_slope(D2)[0]

    @property
    def chances(self) -> int:
        """Standard normal numbers that a draw of one config in many contexts takes."""
        factored = self.kernel.factored
        return self.kernel.n if factored is None else factored.width + len(self.y)

    def deviations(self, x: Array, white: Array) -> Array:
        """Draws (S, n) of one config (d,) in every context around its posterior mean, from standard
        normal numbers white (S, chances), for many contexts.

        By Matheron's rule with an exact prior draw f0 at x: the scores that go with it are
        g f0[c] + r, where r has what covariance is left, and f = f0 - k(x, data) K^-1 (g f0[c] + r)
        has the posterior covariance. No array of n x n numbers is needed.
        """
        factored = self.kernel.factored
        if factored is None:
            V = self._half(x[None])
            everyone = np.arange(self.kernel.n)
            root, _ = linalg.factorize(self.kernel.covariances(everyone, everyone) - V.T @ V)
            return white @ root.T
        g, (between, alike) = self._correlations(x), self._parts
        left = between * (alike - np.outer(g, g))
        own = 0 if self.spread is None else len(self.spread)
        if self.spread is not None:
            left[:own, :own] += self.spread @ self.spread.T
        left.flat[own * (len(left) + 1) :: len(left) + 1] += self.kernel.noise + self.jitter
        root, _ = linalg.factorize(left)
        prior = factored.colored(white[:, : factored.width])
        scores = g * prior[:, self.c] + white[:, factored.width :] @ root.T
        solved = linalg.solve(self.L, scores.T).T
        return prior - factored.weights(self.c, g).spread(solved)

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
        kernel = self.kernel
        prior = kernel.quadratic(p[None])[0] if kernel.many else p @ kernel.B @ p
        variance = prior - np.einsum("Nk,Nk->k", half, half)
        solved = linalg.backward(self.L, half).T
        return v @ self.alpha, np.maximum(variance, 0.0), solved, slope


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Posterior covariance C (k n, k n) of k configs in every context, of which only the diagonal
    and columns are looked at: where contexts are many it is never written out.

    Attributes:
        gp: the process.
        x: the configs (k, d).
        half: (N, k n), where contexts are many.
        matrix: C, where they are few.
    """

    gp: GaussianProcess
    x: Array
    half: Array | None
    matrix: Array | None

    @property
    def variances(self) -> Array:
        """The diagonal of C, (k n,)."""
        if self.matrix is not None:
            return np.diagonal(self.matrix).copy()
        assert self.half is not None
        prior = np.tile(self.gp.kernel.variances, len(self.x))
        return np.asarray(prior - np.einsum("Na,Na->a", self.half, self.half))

    def column(self, place: int) -> Array:
        """One column of C, (k n,)."""
        if self.matrix is not None:
            return np.asarray(self.matrix[place])
        assert self.half is not None
        n, k = self.gp.kernel.n, len(self.x)
        t, context = divmod(place, n)
        x, i = np.repeat(self.x, n, axis=0), np.tile(np.arange(n), k)
        prior = self.gp.kernel.matrix(x, i, self.x[[t]], np.array([context]))[:, 0]
        return np.asarray(prior - self.half[:, place] @ self.half)
