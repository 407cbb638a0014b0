"""The kernel on (config, context) pairs (docs/maths.md, eq. 4-9).

    embedded contexts   k((x, i), (x', j)) = s2 g(|x - x'|^2_theta + D2_ij)
    free-form contexts  k((x, i), (x', j)) = g(|x - x'|^2_theta) B_ij

with |x|^2_theta = sum x_j^2 / theta_j^2 and g the squared exponential exp(-D2) or a Matern
function of the joint distance. For the squared exponential the first form is also a product,
s2 exp(-|x - x'|^2) B_ij with B = exp(-D2): such kernels are called separable.

| symbol | meaning                                  | shape  |
|--------|------------------------------------------|--------|
| x, X   | configs as model inputs (new, observed)  | (k, d), (N, d) |
| c      | context index of each observed row       | (N,)   |
| theta  | length scales of the inputs              | (d,)   |
| s2     | signal variance                          |        |
| noise  | noise variance                           |        |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist

from drbqo_ray.core.contexts import (
    ContextModel,
    ContextWeights,
    DenseWeights,
    EmbeddedContexts,
    FactoredCovariance,
)
from drbqo_ray.types import Array, Indices

ROOT3, ROOT5 = math.sqrt(3.0), math.sqrt(5.0)
TINY = 1e-300
ROWS = 256  # of an n x n array that is never held whole


def _se(D2: Array) -> tuple[Array, Array]:
    value = np.exp(-D2)
    return value, value


def _matern12(D2: Array) -> tuple[Array, Array]:
    r = np.sqrt(D2)
    value = np.exp(-r)
    return value, np.where(r > 0, value / np.maximum(2 * r, TINY), 0.0)


def _matern32(D2: Array) -> tuple[Array, Array]:
    r = ROOT3 * np.sqrt(D2)
    decay = np.exp(-r)
    return (1 + r) * decay, 1.5 * decay


def _matern52(D2: Array) -> tuple[Array, Array]:
    r = ROOT5 * np.sqrt(D2)
    decay = np.exp(-r)
    return (1 + r + r * r / 3) * decay, (5 / 6) * (1 + r) * decay


@dataclass(frozen=True)
class Shape:
    """A stationary correlation g as a function of the squared distance D2.

    Attributes:
        value_and_slope: D2 -> (g(D2), -dg/dD2), any shape.
        freedom: degrees of freedom of its Student-t spectral density, inf for Gaussian.
    """

    value_and_slope: Callable[[Array], tuple[Array, Array]]
    freedom: float

    def frequencies(self, rng: np.random.Generator, count: int, theta: Array) -> Array:
        """Draws (d, count) from the spectral density, for length scales theta (d,)."""
        normal = rng.standard_normal((len(theta), count)) / theta[:, None]
        if math.isinf(self.freedom):
            return normal * math.sqrt(2.0)
        return normal / np.sqrt(rng.chisquare(self.freedom, count) / self.freedom)


SHAPES = {
    "se": Shape(_se, math.inf),
    "matern12": Shape(_matern12, 1.0),
    "matern32": Shape(_matern32, 3.0),
    "matern52": Shape(_matern52, 5.0),
}


@dataclass(frozen=True)
class KernelFamily:
    """A kernel up to its parameters, packed as one vector of unconstrained numbers.

    The vector is (log theta (d), context parameters, log s2 unless free-form, log noise).
    """

    shape: Shape
    contexts: ContextModel
    d: int

    @property
    def separable(self) -> bool:
        """Whether the kernel is a product of one on configs and one on contexts."""
        return self.contexts.free_form or math.isinf(self.shape.freedom)

    @property
    def n_parameters(self) -> int:
        """Length P of the vector."""
        return self.d + len(self.contexts.prior_mean) + (1 if self.contexts.free_form else 2)

    def unpack(self, parameters: Array) -> Kernel:
        """The kernel with these parameters."""
        tail = len(parameters) - (1 if self.contexts.free_form else 2)
        s2 = 1.0 if self.contexts.free_form else float(np.exp(parameters[-2]))
        return Kernel(
            family=self,
            theta=np.exp(parameters[: self.d]),
            shared=parameters[self.d : tail],
            s2=s2,
            noise=float(np.exp(parameters[-1])),
        )


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel with its parameters bound.

    Attributes:
        theta: length scales (d,).
        shared: parameters of the context model.
        s2: signal variance.
        noise: noise variance.
    """

    family: KernelFamily
    theta: Array
    shared: Array
    s2: float
    noise: float

    @cached_property
    def between(self) -> Array:
        """D2 (n, n) of embedded contexts, or B (n, n) of free-form ones."""
        return self.family.contexts.matrix(self.shared)

    @property
    def psi(self) -> Array:
        """Length scales (m,) of embedded contexts."""
        return np.exp(self.shared)

    @property
    def n(self) -> int:
        """Number of contexts."""
        return self.family.contexts.n

    @property
    def many(self) -> bool:
        """Whether contexts are too many for arrays of n x n numbers."""
        return self.family.contexts.many

    @cached_property
    def factored(self) -> FactoredCovariance | None:
        """B as factors where the kernel is separable and contexts are many, else None."""
        contexts, g = self.family.contexts, self.family.shape.value_and_slope
        if not isinstance(contexts, EmbeddedContexts):
            return None
        if not (contexts.many and self.family.separable):
            return None
        return contexts.factored(self.shared, lambda D2: g(D2)[0]).scaled(self.s2)

    @property
    def variances(self) -> Array:
        """Prior variances (n,), the diagonal of B."""
        if self.family.contexts.free_form:
            return np.diagonal(self.B)
        return np.full(self.n, self.s2)

    @cached_property
    def B(self) -> Array:
        """Prior covariance (n, n) between the contexts of one config."""
        if self.family.contexts.free_form:
            return self.between
        return self.s2 * self.family.shape.value_and_slope(self.between)[0]

    def distances(self, x: Array, X: Array) -> Array:
        """Squared scaled distances (k, N) between configs."""
        return np.asarray(cdist(x / self.theta, X / self.theta, "sqeuclidean"))

    def matrix(self, x: Array, i: Indices, X: Array, c: Indices) -> Array:
        """Covariances (k, N) of the pairs (x, i) with the pairs (X, c), noise not included."""
        D2 = self.distances(x, X)
        if self.family.separable:
            return self.family.shape.value_and_slope(D2)[0] * self.covariances(i, c)
        joint = D2 + self._between(i, c)
        return self.s2 * self.family.shape.value_and_slope(joint)[0]

    def covariances(self, i: Indices, j: Indices) -> Array:
        """Prior covariances (k, N) of the contexts i (k,) with j (N,) of one config."""
        if self.factored is not None:
            return self.factored.entries(i, j)
        if self.many:
            return self.s2 * self.family.shape.value_and_slope(self._between(i, j))[0]
        return self.B[np.ix_(i, j)]

    def _between(self, i: Indices, j: Indices) -> Array:
        """D2 (k, N) between the contexts i (k,) and j (N,), of embedded ones."""
        if self.many:
            return self.family.contexts.entries(self.shared, i, j)
        return self.between[np.ix_(i, j)]

    def everyone(self, c: Indices) -> Array:
        """D2 (n, N) between all contexts and those of the data c (N,), of embedded ones."""
        return self._between(np.arange(self.n), c) if self.many else self.between[:, c]

    def weights(self, c: Indices, v: Array) -> ContextWeights:
        """diag(v) B[c] of the contexts c (N,) and numbers v (N,), for separable kernels."""
        if self.factored is not None:
            return self.factored.weights(c, v)
        return DenseWeights(v[:, None] * self.B[c])

    def quadratic(self, p: Array) -> Array:
        """Prior variances of means over the contexts of one config: p (k, n) -> (k,)."""
        if self.factored is not None:
            return self.factored.quadratic(p)
        if not self.many:
            return np.asarray(np.einsum("ki,ij,kj->k", p, self.B, p))
        everyone, total = np.arange(self.n), np.zeros(len(p))
        for i in np.array_split(everyone, 1 + self.n // ROWS):
            total += ((p[:, i] @ self.covariances(i, everyone)) * p).sum(axis=1)
        return total

    def cross(self, x: Array, X: Array, c: Indices) -> Array:
        """Covariances (k, n, N) of the configs x in every context with the pairs (X, c)."""
        D2 = self.distances(x, X)
        if self.family.separable:
            B = self.covariances(np.arange(self.n), c) if self.many else self.B[:, c]
            return self.family.shape.value_and_slope(D2)[0][:, None, :] * B
        joint = D2[:, None, :] + self.everyone(c)
        return self.s2 * self.family.shape.value_and_slope(joint)[0]

    def joint(self, x: Array) -> Array:
        """Prior covariance (k n, k n) of the configs x in every context."""
        n = self.n
        D2 = self.distances(x, x)[:, None, :, None]
        if self.family.separable:
            blocks = self.family.shape.value_and_slope(D2)[0] * self.B[:, None, :]
        else:
            joint = D2 + self.between[:, None, :]
            blocks = self.s2 * self.family.shape.value_and_slope(joint)[0]
        return blocks.reshape(len(x) * n, len(x) * n)

    def weigh(self, x: Array, X: Array, c: Indices, v: Array) -> Array:
        """sum_j k((x, i), (X_j, c_j)) v_j for every context i: v (N,) -> (k, n)."""
        if self.family.separable:
            g = self.family.shape.value_and_slope(self.distances(x, X))[0]
            return self.weights(c, v).spread(g)
        return self.cross(x, X, c) @ v

    def blend(self, x: Array, X: Array, c: Indices, p: Array) -> tuple[Array, Array]:
        """sum_i p_i k((x, i), (X_j, c_j)) for each j, and its -d/dD2: p (k, n) -> twice (k, N)."""
        D2 = self.distances(x, X)
        if self.family.separable:
            value, slope = self.family.shape.value_and_slope(D2)
            share = self._shares(p, c)  # (k, N)
            return value * share, slope * share
        value, slope = self.family.shape.value_and_slope(D2[:, None, :] + self.everyone(c))
        weights = self.s2 * p[:, None, :]
        return (weights @ value)[:, 0], (weights @ slope)[:, 0]

    def _shares(self, p: Array, c: Indices) -> Array:
        """p B[:, c], (k, n) -> (k, N)."""
        if self.factored is None:
            return p @ self.B[:, c]
        return self.factored.weights(c, np.ones(len(c))).gather(p)

    def pull_back(self, x: Array, X: Array, slope: Array) -> Array:
        """Gradient (k, d) by x of a sum over j, from its -d/dD2 by each row j, (k, N)."""
        total = slope.sum(axis=1, keepdims=True)
        return -2 * (x * total - slope @ X) / self.theta**2
