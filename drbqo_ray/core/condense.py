"""Many scores told by few: data condensed to pairs that carry (almost) the same posterior.

The scores y at all N pairs are replaced by pseudo-scores at m of those pairs, with correlated
noise S, such that the exact posterior given the pseudo-scores is the sparse (inducing-point)
posterior given all scores:

    A = R^-1 K_zx / sigma       R R' = K_zz
    S = R G^-1 R'               G = A A'
    pseudo-scores = R G^-1 A y / sigma

The m pairs are picked greedily, each where the variance given those before it is largest (a
pivoted Cholesky factorization), until little is left or m is reached. So everything that works
on an exact process works on a condensed one, and new scores extend it exactly.
"""

from __future__ import annotations

import logging

import numpy as np
from scipy.linalg import blas

from drbqo_ray.core import linalg
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import Kernel
from drbqo_ray.types import Array, Indices

logger = logging.getLogger(__name__)

PIVOTS = 1024
POOL = 4096
LEFT = 1e-6
BLOCK = 2048


def condense(kernel: Kernel, X: Array, c: Indices, y: Array) -> GaussianProcess:
    """The process given scores y (N,) of the pairs (X, c), carried by at most PIVOTS pairs."""
    rows = pick_pivots(kernel, X, c, y)
    Z, cz = X[rows], c[rows]
    K = kernel.matrix(Z, cz, Z, cz)
    R, jitter = linalg.factorize(K)
    sigma = np.sqrt(kernel.noise)
    G, b = np.zeros((len(rows), len(rows))), np.zeros(len(rows))
    for k in range(0, len(y), BLOCK):
        A = linalg.forward(R, kernel.matrix(Z, cz, X[k : k + BLOCK], c[k : k + BLOCK])) / sigma
        G += A @ A.T
        b += A @ y[k : k + BLOCK]
    C, _ = linalg.factorize(G)
    spread = blas.dtrsm(1.0, C, R, side=1, lower=1, trans_a=1)  # R C^-T: S = spread spread'
    L, extra = linalg.factorize(K + spread @ spread.T)
    scores = R @ linalg.solve(C, b / sigma)
    logger.info("%d scores condensed to %d", len(y), len(rows))
    return GaussianProcess(kernel, Z, cz, scores, L, max(jitter, extra), spread)


def evenly(size: int, count: int) -> Indices:
    """At most `count` of the numbers 0..size - 1, evenly spaced."""
    return np.unique(np.linspace(0, size - 1, min(size, count)).round().astype(np.int64))


def pick_pivots(kernel: Kernel, X: Array, c: Indices, y: Array) -> Indices:
    """Rows (m,) that tell most about all rows, in the order picked: the first third of them from
    the best scores, where it matters most."""
    order = np.argsort(-y, kind="stable")
    best, others = order[: POOL // 4], order[POOL // 4 :]
    pool = np.concatenate([best, others[evenly(len(others), POOL - len(best))]])
    x, i = X[pool], c[pool]
    left = kernel.variances[i].copy()
    enough = LEFT * left.max()
    columns = np.empty((min(PIVOTS, len(pool)), len(pool)))
    picked: list[int] = []
    while len(picked) < len(columns):
        m = len(picked)
        where = slice(len(best)) if 3 * m < PIVOTS else slice(None)
        if left[where].max() <= enough:
            where = slice(None)
        pivot = int(np.argmax(left[where]))
        if left[pivot] <= enough:
            break
        column = kernel.matrix(x[[pivot]], i[[pivot]], x, i)[0] - columns[:m, pivot] @ columns[:m]
        columns[m] = column / np.sqrt(left[pivot])
        left -= columns[m] ** 2
        left[pivot] = 0.0
        picked.append(pivot)
    return pool[picked]
