"""Covariance between contexts: three ways to fill one n x n matrix (docs/maths.md, eq. 7-9).

| symbol | meaning                                              | shape  |
|--------|------------------------------------------------------|--------|
| n      | number of contexts (folds)                           |        |
| psi    | length scales of the context coordinates             | (m,)   |
| D2     | squared distance between contexts                    | (n, n) |
| B      | covariance between contexts                          | (n, n) |
| G      | derivative of the likelihood by an entry of D2 or B  | (n, n) |

Parameters are unconstrained: logarithms of length scales, or entries of a Cholesky factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from drbqo_ray.errors import InvalidInput
from drbqo_ray.types import Array, Indices

MOST_CONTEXTS = 10_000
MANY = 100  # beyond so many contexts no array of n x n numbers is held
MOST_GAPS = 2**24
LARGEST = 1e300  # of a coordinate; the gap between two is still a float
RANK = 1024
LEFT = 1e-13


@dataclass(frozen=True, eq=False)
class EmbeddedContexts:
    """Contexts as points; covariance falls with their scaled distance (paper's k on X x Omega).

    Attributes:
        n: number of contexts.
        vectors: coordinates (n, m), None for folds: these are one-hot, so m = n there.
        median: prior median of each length scale.
    """

    n: int
    vectors: Array | None
    median: float

    @staticmethod
    def folds(n: int) -> EmbeddedContexts:
        """n exchangeable folds as one-hot vectors, with one length scale each."""
        return EmbeddedContexts(n, None, 2.0)

    @staticmethod
    def samples(vectors: Array) -> EmbeddedContexts:
        """Sample vectors (n, m), each column scaled to [0, 1]."""
        low = vectors.min(axis=0)
        width = vectors.max(axis=0) - low
        scaled = (vectors - low) / np.where(width > 0, width, 1.0)
        return EmbeddedContexts(len(vectors), scaled, 1.0)

    free_form = False

    @property
    def m(self) -> int:
        """Number of coordinates, and of parameters."""
        return self.n if self.vectors is None else self.vectors.shape[1]

    @property
    def points(self) -> Array:
        """Coordinates (n, m), those of folds written out."""
        return np.eye(self.n) if self.vectors is None else self.vectors

    @property
    def prior_mean(self) -> Array:
        """Prior mean of the parameters log psi, (m,)."""
        return np.full(self.m, np.log(self.median))

    @property
    def prior_std(self) -> Array:
        """Prior standard deviation of the parameters, (m,)."""
        return np.ones(self.m)

    @property
    def bounds(self) -> tuple[float, float]:
        """Interval of each parameter."""
        return (np.log(0.05), np.log(100.0))

    @property
    def many(self) -> bool:
        """Whether there are too many for arrays of n x n numbers, or too many coordinates."""
        return self.n > MANY or self.n * self.n * self.m > MOST_GAPS

    def phases(self, frequencies: Array) -> Array:
        """Coordinates times frequencies (m, M), (n, M)."""
        return frequencies if self.vectors is None else self.vectors @ frequencies

    @cached_property
    def _gaps(self) -> Array:
        points = self.points
        gap = points[:, None, :] - points[None, :, :]
        return (gap**2).reshape(self.n * self.n, -1)  # (n n, m)

    def matrix(self, parameters: Array) -> Array:
        """Squared distances D2 (n, n)."""
        if self.many:
            return self.entries(parameters, np.arange(self.n), np.arange(self.n))
        return (self._gaps @ np.exp(-2 * parameters)).reshape(self.n, self.n)

    def entries(self, parameters: Array, i: Indices, j: Indices) -> Array:
        """Squared distances (k, N) between contexts i (k,) and j (N,)."""
        if self.vectors is not None:
            scaled = self.vectors * np.exp(-parameters)
            return np.asarray(cdist(scaled[i], scaled[j], "sqeuclidean"))
        scales = np.exp(-2 * parameters)
        D2 = scales[i][:, None] + scales[j]
        D2[i[:, None] == j] = 0.0
        return D2

    def pull_back(self, parameters: Array, G: Array) -> Array:
        """Derivative by the parameters (m,) from the derivative G (n, n) by D2."""
        return -2 * np.exp(-2 * parameters) * (G.ravel() @ self._gaps)

    def pull_back_rows(self, parameters: Array, c: Indices, P: Array) -> Array:
        """Derivative by the parameters (m,) from minus that, P (N, N), by the distance between the
        contexts c (N,) of every two rows: `pull_back` without a matrix of contexts."""
        ends = P.sum(axis=0) + P.sum(axis=1)
        if self.vectors is None:
            apart = ends - 2 * np.where(c[:, None] == c, P, 0.0).sum(axis=1)
            by_scale = np.bincount(c, apart, minlength=self.n)
        else:
            W = self.vectors[c]
            by_scale = ends @ W**2 - 2 * np.einsum("Nm,Nm->m", W, P @ W)
        return 2 * np.exp(-2 * parameters) * by_scale

    def factored(self, parameters: Array, correlation: Correlation) -> FactoredCovariance:
        """The correlations g(D2) between the contexts, as factors.

        Folds: exp(-(a_i + a_j)) = u_i u_j, so one column and the diagonal are exact. Sample
        vectors: columns are added greedily, each where most is left (a pivoted Cholesky
        factorization), until next to nothing is, or there are RANK of them; what is left then stays
        on the diagonal.
        """
        if self.vectors is None:
            u = correlation(np.exp(-2 * parameters))
            return FactoredCovariance(u[:, None], 1.0 - u**2)
        everyone, left = np.arange(self.n), np.ones(self.n)
        columns = np.empty((min(RANK, self.n), self.n))
        rank = 0
        while rank < len(columns) and left.max() > LEFT:
            pivot = np.array([np.argmax(left)])
            column = correlation(self.entries(parameters, pivot, everyone))[0]
            column -= columns[:rank, pivot[0]] @ columns[:rank]
            columns[rank] = column / np.sqrt(left[pivot[0]])
            left = np.maximum(left - columns[rank] ** 2, 0.0)
            left[pivot[0]] = 0.0
            rank += 1
        return FactoredCovariance(columns[:rank].T.copy(), left)


@dataclass(frozen=True)
class FreeFormContexts:
    """Any positive definite covariance B = R R' between n tasks (the kernel of MTBO).

    Parameters are the lower triangle of R row by row, its diagonal as logarithms.
    """

    n: int
    free_form = True
    many = False  # its parameters are the n x n matrix

    @cached_property
    def _lower(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        rows, columns = np.tril_indices(self.n)
        return rows, columns

    @cached_property
    def _diagonal(self) -> npt.NDArray[np.bool_]:
        return self._lower[0] == self._lower[1]

    @property
    def prior_mean(self) -> Array:
        """Prior mean of the parameters: tasks correlated 0.7, (n (n + 1) / 2,)."""
        R = np.linalg.cholesky(0.3 * np.eye(self.n) + 0.7)
        entries = R[self._lower]
        return np.where(self._diagonal, np.log(np.where(self._diagonal, entries, 1.0)), entries)

    @property
    def prior_std(self) -> Array:
        """Prior standard deviation of the parameters."""
        return np.where(self._diagonal, 0.7, 0.5)

    @property
    def bounds(self) -> tuple[float, float]:
        """Interval of each parameter."""
        return (-6.0, 6.0)

    def _factor(self, parameters: Array) -> Array:
        R = np.zeros((self.n, self.n))
        R[self._lower] = np.where(self._diagonal, np.exp(parameters), parameters)
        return R

    def matrix(self, parameters: Array) -> Array:
        """Covariance B (n, n)."""
        R = self._factor(parameters)
        return R @ R.T

    def entries(self, parameters: Array, i: Indices, j: Indices) -> Array:
        """Covariances (k, N) of contexts i (k,) with j (N,)."""
        return self.matrix(parameters)[np.ix_(i, j)]

    def pull_back(self, parameters: Array, G: Array) -> Array:
        """Derivative by the parameters from the derivative G (n, n) by B."""
        dR = ((G + G.T) @ self._factor(parameters))[self._lower]
        return np.where(self._diagonal, dR * np.exp(parameters), dR)


ContextModel = EmbeddedContexts | FreeFormContexts
Correlation = Callable[[Array], Array]


class ContextWeights(Protocol):
    """The matrix M = diag(v) B[c] (N, n) of a covariance B between contexts."""

    def spread(self, g: Array) -> Array:
        """g M, (k, N) -> (k, n)."""

    def gather(self, p: Array) -> Array:
        """p M', (k, n) -> (k, N)."""


@dataclass(frozen=True, eq=False)
class DenseWeights:
    """M (N, n) written out."""

    M: Array

    def spread(self, g: Array) -> Array:
        """g M, (k, N) -> (k, n)."""
        return g @ self.M

    def gather(self, p: Array) -> Array:
        """p M', (k, n) -> (k, N)."""
        return p @ self.M.T


@dataclass(frozen=True, eq=False)
class FactoredWeights:
    """M = left F' + own, never written out.

    Attributes:
        F: (n, r).
        left: (N, r).
        own: (N, n), sparse.
    """

    F: Array
    left: Array
    own: csr_array

    def spread(self, g: Array) -> Array:
        """g M, (k, N) -> (k, n)."""
        return (g @ self.left) @ self.F.T + (self.own.T @ g.T).T

    def gather(self, p: Array) -> Array:
        """p M', (k, n) -> (k, N)."""
        return (p @ self.F) @ self.left.T + (self.own @ p.T).T


@dataclass(frozen=True, eq=False)
class FactoredCovariance:
    """A covariance B = F F' + diag(rest) between n contexts that is never written out.

    Attributes:
        F: (n, r).
        rest: (n,), at least 0.
    """

    F: Array
    rest: Array

    def scaled(self, s2: float) -> FactoredCovariance:
        """s2 B."""
        return FactoredCovariance(np.sqrt(s2) * self.F, s2 * self.rest)

    def entries(self, i: Indices, j: Indices) -> Array:
        """B (k, N) between contexts i (k,) and j (N,)."""
        B = self.F[i] @ self.F[j].T
        rows, columns = np.nonzero(i[:, None] == j)
        B[rows, columns] += self.rest[i[rows]]
        return B

    def weights(self, c: Indices, v: Array) -> FactoredWeights:
        """diag(v) B[c] for contexts c (N,) and numbers v (N,)."""
        own = csr_array((v * self.rest[c], c, np.arange(len(c) + 1)), (len(c), len(self.rest)))
        return FactoredWeights(self.F, v[:, None] * self.F[c], own)

    def quadratic(self, p: Array) -> Array:
        """p B p', row by row: (k, n) -> (k,)."""
        half = p @ self.F
        return np.asarray((half**2).sum(axis=1) + p**2 @ self.rest)

    @property
    def width(self) -> int:
        """Number of columns of its root."""
        return self.F.shape[1] + len(self.rest)

    def colored(self, white: Array) -> Array:
        """white (k, width) times the transposed root (F, diag(rest)^(1/2)): rows (k, n) of
        covariance B."""
        common, own = white[:, : self.F.shape[1]], white[:, self.F.shape[1] :]
        return common @ self.F.T + own * np.sqrt(self.rest)

    def whitened(self, rows: Array) -> Array:
        """rows (k, n) times the root: the transposed map of `colored`, (k, width)."""
        return np.concatenate([rows @ self.F, rows * np.sqrt(self.rest)], axis=1)


def context_names(contexts: object) -> tuple[str, ...]:
    """Names of contexts that are given by name (n,), else none; InvalidInput for bad names."""
    try:
        given = contexts.tolist() if getattr(contexts, "ndim", 0) == 1 else contexts  # type: ignore[attr-defined]
    except Exception:  # a class that may do anything
        return ()
    if not isinstance(given, (list, tuple)) or not any(isinstance(one, str) for one in given):
        return ()
    known: set[str] = set()
    for place, name in enumerate(given):
        if not isinstance(name, str) or not name.strip():
            raise InvalidInput(
                f"Every name of a context is a text that is not blank, number {place} too.",
                name,
                "Name it, e.g. str(group).",
            )
        if name in known:
            raise InvalidInput("Names of contexts differ.", name, "Use each name once.")
        known.add(name)
    return tuple(str(name) for name in given)


def check_contexts(contexts: int | npt.ArrayLike) -> int | Array:
    """The number n >= 1 of folds that are counted or named, or sample vectors (n, m) as float64;
    else InvalidInput."""
    contexts = len(context_names(contexts)) or contexts
    if isinstance(contexts, (int, np.integer)) and not isinstance(contexts, bool):
        if contexts < 1:
            raise InvalidInput(
                "There must be at least 1 context.", contexts, "Pass the number of folds."
            )
        _check_count(int(contexts))
        return int(contexts)
    try:
        vectors = np.array(contexts, dtype=np.float64)
    except Exception:  # no numbers, numbers beyond float64, or a class that may do anything
        vectors = np.empty(0)
    if vectors.ndim != 2 or vectors.size == 0 or not np.abs(vectors).max() <= LARGEST:
        raise InvalidInput(
            "Contexts are a number of folds, their names, or a finite array (n, m) of sample"
            " vectors.",
            contexts,
            "Pass an int such as 5, or drop the rows that are not finite.",
        )
    _check_count(len(vectors))
    return vectors


def _check_count(n: int) -> None:
    """Raise InvalidInput unless a model of n contexts fits into memory."""
    if n > MOST_CONTEXTS:
        raise InvalidInput(
            f"There may be {MOST_CONTEXTS} contexts: every config that was seen keeps a score of"
            " each of them.",
            n,
            "Use fewer folds, or put several contexts into one.",
        )
