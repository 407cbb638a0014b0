"""Cholesky factors: computed with a jitter ladder, extended by a row, and solved with.

Factors are lower triangular float64 arrays in Fortran order, which BLAS reads in place.
"""

from __future__ import annotations

import logging

import numpy as np
from scipy.linalg import blas, lapack

from drbqo_ray.types import Array

logger = logging.getLogger(__name__)

# relative to the mean of the diagonal; the last rung suits any correlation matrix
JITTER = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)


def factorize(K: Array) -> tuple[Array, float]:
    """Lower Cholesky factor L (N, N) of K + jitter I, and the jitter that was needed.

    Climbs the ladder until the factorization succeeds; a jitter above 0 is logged.
    """
    scale = float(np.mean(np.diagonal(K)))
    for rung in JITTER:
        A = np.array(K, order="F")
        A.flat[:: len(A) + 1] += rung * scale
        L, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)
        if info == 0:
            if rung:
                logger.info("kernel matrix of size %d factorized with jitter %.0e", len(K), rung)
            return L, rung * scale
    raise np.linalg.LinAlgError(f"matrix of size {len(K)} is not positive definite")


def extend(L: Array, k: Array, kappa: float, floor: float) -> Array:
    """Factor (N + 1, N + 1) of the matrix grown by the column (k, kappa).

        [ L   0 ]   with  l = L^-1 k,   s^2 = kappa - l'l
        [ l'  s ]

    Args:
        L: factor (N, N).
        k: covariances of the new row with the old ones, (N,).
        kappa: its own variance, noise included.
        floor: least value of s^2, so that a repeated row cannot break the factor.
    """
    N = len(L)
    grown = np.empty((N + 1, N + 1), order="F")
    grown[:N, :N] = L
    grown[:N, N] = 0.0
    row = blas.dtrsv(L, k, lower=1) if N else k
    grown[N, :N] = row
    grown[N, N] = np.sqrt(max(kappa - row @ row, floor))
    return grown


def extend_many(L: Array, K: Array, S: Array) -> Array:
    """Factor (N + b, N + b) of the matrix grown by the columns K (N, b) and the corner S (b, b),
    noise included. A corner that is not positive definite gets jitter."""
    N, b = K.shape
    rows = forward(L, K) if N else K
    grown = np.zeros((N + b, N + b), order="F")
    grown[:N, :N] = L
    grown[N:, :N] = rows.T
    grown[N:, N:] = factorize(S - rows.T @ rows)[0]
    return grown


def forward(L: Array, b: Array) -> Array:
    """L^-1 b for b (N,) or (N, m)."""
    if b.ndim == 1:
        return np.asarray(blas.dtrsv(L, b, lower=1))
    return np.asarray(blas.dtrsm(1.0, L, b, lower=1))


def backward(L: Array, b: Array) -> Array:
    """L^-T b for b (N,) or (N, m)."""
    if b.ndim == 1:
        return np.asarray(blas.dtrsv(L, b, lower=1, trans=1))
    return np.asarray(blas.dtrsm(1.0, L, b, lower=1, trans_a=1))


def solve(L: Array, b: Array) -> Array:
    """(L L')^-1 b for b (N,) or (N, m)."""
    return backward(L, forward(L, b))
