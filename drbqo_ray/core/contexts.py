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

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from drbqo_ray.errors import InvalidInput
from drbqo_ray.types import Array

MOST_CONTEXTS = 10_000
GAPS_LIMIT = 100
LARGEST = 1e300  # of a coordinate; the gap between two is still a float
MOST_GAPS = 2**32


@dataclass(frozen=True, eq=False)
class EmbeddedContexts:
    """Contexts as points; covariance falls with their scaled distance (paper's k on X x Omega).

    Attributes:
        points: coordinates (n, m). Folds are one-hot, so m = n there.
        median: prior median of each length scale.
    """

    points: Array
    median: float

    @staticmethod
    def folds(n: int) -> EmbeddedContexts:
        """n exchangeable folds as one-hot vectors, with one length scale each."""
        return EmbeddedContexts(np.eye(n), 2.0)

    @staticmethod
    def samples(vectors: Array) -> EmbeddedContexts:
        """Sample vectors (n, m), each column scaled to [0, 1]."""
        low = vectors.min(axis=0)
        width = vectors.max(axis=0) - low
        return EmbeddedContexts((vectors - low) / np.where(width > 0, width, 1.0), 1.0)

    free_form = False

    @property
    def n(self) -> int:
        """Number of contexts."""
        return len(self.points)

    @property
    def prior_mean(self) -> Array:
        """Prior mean of the parameters log psi, (m,)."""
        return np.full(self.points.shape[1], np.log(self.median))

    @property
    def prior_std(self) -> Array:
        """Prior standard deviation of the parameters, (m,)."""
        return np.ones(self.points.shape[1])

    @property
    def bounds(self) -> tuple[float, float]:
        """Interval of each parameter."""
        return (np.log(0.05), np.log(100.0))

    @cached_property
    def _many_folds(self) -> bool:
        """Whether these are one-hot folds, too many for gaps, which are n^3 numbers."""
        return self.n > GAPS_LIMIT and np.array_equal(self.points, np.eye(self.n))

    @cached_property
    def _gaps(self) -> Array:
        gap = self.points[:, None, :] - self.points[None, :, :]
        return (gap**2).reshape(self.n * self.n, -1)  # (n n, m)

    def matrix(self, parameters: Array) -> Array:
        """Squared distances D2 (n, n)."""
        scales = np.exp(-2 * parameters)  # (m,)
        if self._many_folds:
            D2 = scales[:, None] + scales
            np.fill_diagonal(D2, 0.0)
            return D2
        return (self._gaps @ scales).reshape(self.n, self.n)

    def pull_back(self, parameters: Array, G: Array) -> Array:
        """Derivative by the parameters (m,) from the derivative G (n, n) by D2."""
        if self._many_folds:
            by_scale = G.sum(axis=0) + G.sum(axis=1) - 2 * np.diagonal(G)
        else:
            by_scale = G.ravel() @ self._gaps
        return -2 * np.exp(-2 * parameters) * by_scale


@dataclass(frozen=True)
class FreeFormContexts:
    """Any positive definite covariance B = R R' between n tasks (the kernel of MTBO).

    Parameters are the lower triangle of R row by row, its diagonal as logarithms.
    """

    n: int
    free_form = True

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

    def pull_back(self, parameters: Array, G: Array) -> Array:
        """Derivative by the parameters from the derivative G (n, n) by B."""
        dR = ((G + G.T) @ self._factor(parameters))[self._lower]
        return np.where(self._diagonal, dR * np.exp(parameters), dR)


ContextModel = EmbeddedContexts | FreeFormContexts


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
    n, m = vectors.shape
    _check_count(n)
    if n * n * m > MOST_GAPS:
        raise InvalidInput(
            "The model holds the gap between every two of n sample vectors in each of their m"
            " coordinates, n x n x m numbers. At most 2**32 of them (32 GiB) are allowed.",
            f"n = {n}, m = {m}",
            "Use fewer or shorter vectors.",
        )
    return vectors


def _check_count(n: int) -> None:
    """Raise InvalidInput unless a model of n contexts fits into memory."""
    if n > MOST_CONTEXTS:
        raise InvalidInput(
            f"There may be {MOST_CONTEXTS} contexts: the model keeps the covariances of all pairs"
            " of them.",
            n,
            "Use fewer folds, or put several contexts into one.",
        )
