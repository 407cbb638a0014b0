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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from drbqo_ray.core import linalg
from drbqo_ray.core.contexts import EmbeddedContexts
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import Kernel

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Sampler = Literal["pathwise", "rff"]
Real = TypeVar("Real", np.float32, np.float64)

PATHWISE_FEATURES = 128
RFF_FEATURES = 1000


@dataclass(frozen=True, eq=False)
class Path:
    """One draw of the process: a smooth function of x for every context.

    Attributes:
        Omega: frequencies (d, M).
        A: feature weights (2 M, n).
        gp: the process whose data carry the update, None for a pure feature path.
        v: update weights (N,).
    """

    Omega: Array
    A: Array
    gp: GaussianProcess | None = None
    v: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Values (k, n) at configs (k, d)."""
        return self._update(x, features(x, self.Omega) @ self.A)

    def roughly(self, x: Array) -> Array:
        """Values (k, n) with the prior part in single precision: enough to rank candidates."""
        phi = features(x.astype(np.float32), self.Omega.astype(np.float32))
        return self._update(x, (phi @ self.A.astype(np.float32)).astype(np.float64))

    def _update(self, x: Array, values: Array) -> Array:
        if self.gp is not None and self.v is not None:
            values += self.gp.kernel.weigh(x, self.gp.X, self.gp.c, self.v)
        return values

    def with_gradient(self, x: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Values (k, n), and a function from weights p (k, n) to the gradient (k, d) of p'f."""
        phi = features(x, self.Omega)
        M = self.Omega.shape[1]
        values = phi @ self.A
        update_gradient: Callable[[Array], Array] | None = None
        if self.gp is not None and self.v is not None:
            update, update_gradient = self.gp.kernel.weigh_with_slope(
                x, self.gp.X, self.gp.c, self.v
            )
            values += update

        def gradient(p: Array) -> Array:
            blended = p @ self.A.T  # (k, 2 M)
            by_phase = phi[:, :M] * blended[:, M:] - phi[:, M:] * blended[:, :M]
            slope = by_phase @ self.Omega.T
            return slope if update_gradient is None else slope + update_gradient(p)

        return values, gradient


@dataclass(frozen=True, eq=False)
class ProductBasis:
    """Fourier features in x times the exact Cholesky factor over contexts (separable kernels)."""

    Omega: Array
    B: Array

    @staticmethod
    def draw(kernel: Kernel, rng: np.random.Generator, count: int) -> ProductBasis:
        """Random frequencies for the config part of a separable kernel."""
        return ProductBasis(kernel.family.shape.frequencies(rng, count, kernel.theta), kernel.B)

    @cached_property
    def _root(self) -> Array:
        return linalg.factorize(self.B)[0] / np.sqrt(self.Omega.shape[1])

    def white(self, rng: np.random.Generator) -> Array:
        """Standard normal weights (2 M, n)."""
        return rng.standard_normal((2 * self.Omega.shape[1], len(self.B)))

    def spread(self, weights: Array) -> Array:
        """Feature weights A (2 M, n) of white weights."""
        return weights @ self._root.T

    def gram(self, phi: Array, c: Indices) -> Array:
        """Covariance (N, N) that the features give to the pairs with features phi (N, 2 M)."""
        return (phi @ phi.T) * self.B[np.ix_(c, c)] / self.Omega.shape[1]

    def gather(self, phi: Array, c: Indices, r: Array) -> Array:
        """White weights that carry residuals r (N,) at the observed pairs."""
        return phi.T @ (r[:, None] * self._root[c])


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
        phase = contexts.points @ joint[d:]  # (n, M)
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


def draw_path(gp: GaussianProcess, rng: np.random.Generator, sampler: Sampler = "pathwise") -> Path:
    """One posterior draw, by Matheron's rule or in the paper's Fourier weight space."""
    pathwise = sampler == "pathwise"
    basis = _draw_basis(gp.kernel, rng, PATHWISE_FEATURES if pathwise else RFF_FEATURES)
    weights = basis.white(rng)
    phi = features(gp.X, basis.Omega)  # (N, 2 M)
    A = basis.spread(weights)
    prior = np.einsum("Nf,Nf->N", phi, A.T[gp.c])
    noise = gp.kernel.noise + gp.jitter
    residual = gp.y - prior - np.sqrt(noise) * rng.standard_normal(len(gp.y))
    if pathwise:
        return Path(basis.Omega, A, gp, linalg.solve(gp.L, residual))
    K = basis.gram(phi, gp.c)
    K.flat[:: len(K) + 1] += noise
    L, _ = linalg.factorize(K)
    return Path(basis.Omega, A + basis.spread(basis.gather(phi, gp.c, linalg.solve(L, residual))))


def _draw_basis(kernel: Kernel, rng: np.random.Generator, count: int) -> ProductBasis | JointBasis:
    contexts = kernel.family.contexts
    if kernel.family.separable or not isinstance(contexts, EmbeddedContexts):
        return ProductBasis.draw(kernel, rng, count)
    return JointBasis.draw(kernel, contexts, kernel.psi, rng, count)
