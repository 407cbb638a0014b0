"""Posterior draws as functions of the config, for all contexts at once (docs/maths.md, eq. 14-17).

Matheron's rule, with = meaning equal in distribution:

    f(x, i) | data  =  prior(x, i)  +  sum_j k((x, i), (X_j, c_j)) v_j
                       prior path      update path

    v = K^-1 (y - prior(X, c) - e),   e ~ N(0, noise I)

| symbol | meaning                                          | shape    |
|--------|--------------------------------------------------|----------|
| Omega  | frequencies of the Fourier features              | (d, M)   |
| phi    | features (cos x'Omega, sin x'Omega)              | (k, 2 M) |
| A      | weights of the features in each context          | (2 M, n) |
| v      | weights of the data in the update                | (N,)     |

The covariance of the prior path over (Omega, A) is the kernel itself, so the first two
moments of the draw are those of the posterior whatever M is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from drbqo_ray.core import linalg
from drbqo_ray.core.contexts import EmbeddedContexts
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import Kernel
from drbqo_ray.core.updates import Updates, spans_of
from drbqo_ray.types import Array, Indices

Sampler = Literal["pathwise", "rff"]
Real = TypeVar("Real", np.float32, np.float64)

PATHWISE_FEATURES = 128
FEATURES_OF_MUCH_DATA, MUCH_DATA = 64, 800
RFF_FEATURES = 1000


@dataclass(frozen=True, eq=False)
class Paths:
    """Draws of the process that share their frequencies: smooth functions of x for every context.

    Given the frequencies the draws are independent, so over the frequencies they are uncorrelated
    and each has the moments of the posterior.

    Attributes:
        Omega: frequencies (d, M).
        A: feature weights (T, 2 M, n).
        updates: what the data add, None for pure feature paths.
    """

    Omega: Array
    A: Array
    updates: Updates | None = None

    def __call__(self, x: Array) -> Array:
        """Values (T, k, n) at configs (k, d)."""
        return self._updated(x, features(x, self.Omega) @ self.A)

    def approximate(self, x: Array) -> Array:
        """Values (T, k, n), the prior part in single precision: enough to rank candidates."""
        phi = features(x.astype(np.float32), self.Omega.astype(np.float32))
        return self._updated(x, (phi @ self.A.astype(np.float32)).astype(np.float64))

    def _updated(self, x: Array, values: Array) -> Array:
        if self.updates is not None:
            values += self.updates(x)
        return values

    def with_gradient(self, x: Array, owner: Indices) -> tuple[Array, Callable[[Array], Array]]:
        """Values (k, n) of path owner[r] at config r, and a function from weights p (k, n) to the
        gradient (k, d) of p'f. `owner` (k,) is sorted."""
        spans = spans_of(owner)
        phi = features(x, self.Omega)
        M = self.Omega.shape[1]
        values = np.empty((len(x), self.A.shape[2]))
        for t, rows in spans:
            values[rows] = phi[rows] @ self.A[t]
        update_gradient: Callable[[Array], Array] | None = None
        if self.updates is not None:
            update, update_gradient = self.updates.with_gradient(x, spans)
            values += update

        def gradient(p: Array) -> Array:
            blended = np.empty_like(phi)
            for t, rows in spans:
                blended[rows] = p[rows] @ self.A[t].T
            by_phase = phi[:, :M] * blended[:, M:] - phi[:, M:] * blended[:, :M]
            slope = by_phase @ self.Omega.T
            return slope if update_gradient is None else slope + update_gradient(p)

        return values, gradient


@dataclass(frozen=True, eq=False)
class ProductBasis:
    """Fourier features in x times a root of the covariance between contexts (separable kernels):
    its Cholesky factor, or its factors where contexts are many."""

    Omega: Array
    kernel: Kernel

    @staticmethod
    def draw(kernel: Kernel, rng: np.random.Generator, count: int) -> ProductBasis:
        """Random frequencies for the config part of a separable kernel."""
        return ProductBasis(kernel.family.shape.frequencies(rng, count, kernel.theta), kernel)

    @property
    def _share(self) -> float:
        return float(np.sqrt(self.Omega.shape[1]))

    @cached_property
    def _root(self) -> Array:
        return linalg.factorize(self.kernel.B)[0] / self._share

    def white(self, rng: np.random.Generator) -> Array:
        """Standard normal weights (2 M, n), or more columns where contexts are many."""
        factored = self.kernel.factored
        width = self.kernel.n if factored is None else factored.width
        return rng.standard_normal((2 * self.Omega.shape[1], width))

    def spread(self, weights: Array) -> Array:
        """Feature weights A (2 M, n) of white weights."""
        factored = self.kernel.factored
        if factored is None:
            return weights @ self._root.T
        return factored.colored(weights) / self._share

    def gram(self, phi: Array, c: Indices) -> Array:
        """Covariance (N, N) that the features give to the pairs with features phi (N, 2 M)."""
        return (phi @ phi.T) * self.kernel.covariances(c, c) / self.Omega.shape[1]

    def gather(self, phi: Array, c: Indices, r: Array) -> Array:
        """White weights that carry residuals r (N,) at the observed pairs."""
        factored = self.kernel.factored
        if factored is None:
            return phi.T @ (r[:, None] * self._root[c])
        at = csr_array((r, c, np.arange(len(c) + 1)), (len(c), self.kernel.n))
        return factored.whitened((at.T @ phi).T) / self._share


@dataclass(frozen=True, eq=False)
class JointBasis:
    """Fourier features on the joint vector (x, w), for kernels of the joint distance."""

    Omega: Array
    cosine: Array  # (n, M): cos of the phase that context i adds
    sine: Array
    scale: float

    @staticmethod
    def draw(
        kernel: Kernel, contexts: EmbeddedContexts, psi: Array, rng: np.random.Generator, count: int
    ) -> JointBasis:
        """Random joint frequencies, split into their config and their context part."""
        d = len(kernel.theta)
        joint = kernel.family.shape.frequencies(rng, count, np.concatenate([kernel.theta, psi]))
        phase = contexts.phases(joint[d:])  # (n, M)
        return JointBasis(joint[:d], np.cos(phase), np.sin(phase), np.sqrt(kernel.s2 / count))

    def white(self, rng: np.random.Generator) -> Array:
        """Standard normal weights (2 M,)."""
        return rng.standard_normal(2 * self.Omega.shape[1])

    def spread(self, weights: Array) -> Array:
        """Feature weights A (2 M, n) of white weights."""
        a, b = np.split(weights, 2)
        return (
            self.scale
            * np.concatenate(
                [a * self.cosine + b * self.sine, b * self.cosine - a * self.sine], axis=1
            ).T
        )

    def _rows(self, phi: Array, c: Indices) -> Array:
        cos, sin = np.split(phi, 2, axis=1)
        rows = [
            cos * self.cosine[c] - sin * self.sine[c],
            sin * self.cosine[c] + cos * self.sine[c],
        ]
        return self.scale * np.concatenate(rows, axis=1)

    def gram(self, phi: Array, c: Indices) -> Array:
        """Covariance (N, N) that the features give to the pairs with features phi (N, 2 M)."""
        rows = self._rows(phi, c)
        return rows @ rows.T

    def gather(self, phi: Array, c: Indices, r: Array) -> Array:
        """White weights that carry residuals r (N,) at the observed pairs."""
        return self._rows(phi, c).T @ r


def features(x: npt.NDArray[Real], Omega: npt.NDArray[Real]) -> npt.NDArray[Real]:
    """Fourier features (k, 2 M) of configs (k, d), in the precision of its arguments."""
    phase = x @ Omega
    return np.concatenate([np.cos(phase), np.sin(phase)], axis=1)


def draw_paths(
    gp: GaussianProcess, rngs: Sequence[np.random.Generator], sampler: Sampler = "pathwise"
) -> Paths:
    """A posterior draw for each source of chance, by Matheron's rule or in the paper's Fourier
    weight space (condensed data know the first only). The first source also draws the frequencies.
    """
    pathwise = sampler == "pathwise" or gp.spread is not None
    basis = _draw_basis(gp.kernel, rngs[0], _feature_count(pathwise, len(gp.y)))
    weights = [basis.white(rng) for rng in rngs]
    phi = features(gp.X, basis.Omega)  # (N, 2 M)
    A = np.stack([basis.spread(w) for w in weights])
    prior = np.stack([np.einsum("Nf,Nf->N", phi, a.T[gp.c]) for a in A])
    if pathwise:
        return Paths(basis.Omega, A, Updates(gp.kernel, gp.X, gp.c, gp.draw(prior, rngs)))
    noise = gp.kernel.noise + gp.jitter
    K = basis.gram(phi, gp.c)
    K.flat[:: len(K) + 1] += noise
    L, _ = linalg.factorize(K)
    for t, rng in enumerate(rngs):
        residual = gp.y - prior[t] - np.sqrt(noise) * rng.standard_normal(len(gp.y))
        A[t] += basis.spread(basis.gather(phi, gp.c, linalg.solve(L, residual)))
    return Paths(basis.Omega, A)


def _feature_count(pathwise: bool, size: int) -> int:
    """The more data, the less of a path is left to the prior part, whose moments hold for any M."""
    if not pathwise:
        return RFF_FEATURES
    return PATHWISE_FEATURES if size <= MUCH_DATA else FEATURES_OF_MUCH_DATA


def _draw_basis(kernel: Kernel, rng: np.random.Generator, count: int) -> ProductBasis | JointBasis:
    contexts = kernel.family.contexts
    if kernel.family.separable or not isinstance(contexts, EmbeddedContexts):
        return ProductBasis.draw(kernel, rng, count)
    return JointBasis.draw(kernel, contexts, kernel.psi, rng, count)
