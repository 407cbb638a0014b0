"""The maximum mean discrepancy ball: closed form, or the path of optima where weights hit 0.

Notation as in `drbqo_ray.core.sets`, and

======  =========================================================  ======
symbol  meaning                                                    shape
======  =========================================================  ======
K       gram matrix of the contexts, scaled to a largest diagonal  (n, n)
        entry of 1, with jitter where it is singular
t       strength: p(t) minimizes t p.x + (p - q)'K(p - q) / 2
nu      multiplier of sum p = 1
======  =========================================================  ======
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from drbqo_ray.core.sets.base import (
    Family,
    UncertaintySet,
    checked_matrix,
    checked_radius,
    finish,
    unit_rows,
)
from drbqo_ray.errors import InvalidInput
from drbqo_ray.threads import one_thread
from drbqo_ray.types import Array

_PIECES_PER_CONTEXT = 20
_ALL_WEIGHTS = 1e100  # any radius above 2 holds all weights; the square of this one is a float


@dataclass(frozen=True, eq=False, repr=False)
class MMDBall(UncertaintySet):
    """Weights with (p - q)' gram (p - q) <= radius^2.

    With the identity as gram matrix and equal reference weights it is the chi-square ball of
    radius n radius^2 / 2. A singular gram matrix gets a jitter that costs at most about 1e-9
    of the range of the values while the radius is above 1e-3 of the largest sqrt(gram_ii).

    Args:
        radius: finite, at least 0.
        gram: shape (n, n), symmetric, positive semi-definite, not all zero.
    """

    radius: float
    gram: Array
    kind: ClassVar[str] = "mmd"
    words: ClassVar[str] = "MMD ball of radius"
    slow: ClassVar[bool] = True
    _metric: Array = field(init=False)
    _unit_radius: float = field(init=False)
    _basis: Array = field(init=False)
    _factor: tuple[Array, bool] = field(init=False)

    @one_thread
    def __post_init__(self) -> None:
        """Check the radius and the gram matrix; keep a read-only copy of the latter."""
        cure = "Pass a kernel evaluated on all pairs of contexts, for example the identity."
        gram = checked_matrix(self.gram, "The gram matrix", cure)
        size = float(np.diagonal(gram).max())
        eigenvalues = np.linalg.eigvalsh(gram)
        if size <= 0.0 or eigenvalues[0] < -1e-8 * eigenvalues[-1]:
            raise InvalidInput(
                "The gram matrix must be positive semi-definite and not zero.", gram, cure
            )
        radius = checked_radius(self.radius)
        unit_radius = min(radius / sqrt(size), _ALL_WEIGHTS)
        least = min(max(1e-9 * unit_radius**2, 1e-14), 1e-9)
        jitter = max(0.0, least - float(eigenvalues[0]) / size)
        metric = gram / size + jitter * np.eye(gram.shape[0])
        basis = _zero_sum_basis(gram.shape[0])
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "gram", gram)
        object.__setattr__(self, "_metric", metric)
        object.__setattr__(self, "_unit_radius", unit_radius)
        object.__setattr__(self, "_basis", basis)
        object.__setattr__(self, "_factor", cho_factor(basis.T @ metric @ basis))

    def check_contexts(self, n: int) -> None:
        """Raise `InvalidInput` when the gram matrix is not of n contexts."""
        if self.gram.shape[0] != n:
            raise InvalidInput(
                f"The gram matrix must be of shape ({n}, {n}) for {n} contexts.",
                f"shape {self.gram.shape}",
                "Pass one row per context.",
            )

    def _family(self, q: Array) -> Family:
        away = np.eye(len(q)) - q
        high = float(np.sqrt(np.einsum("ij,jk,ik->i", away, self.gram, away).max()))
        return Family(
            "radius of the MMD ball",
            self.kind,
            high,
            self.radius,
            lambda radius: replace(self, radius=radius),
        )

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        p = np.tile(q, (x.shape[0], 1))
        if self._unit_radius > 0.0 and q.size > 1:
            apart = (x + 1.0) - 1.0  # differences below rounding become ties
            p -= self._unit_radius * self._steepest(apart)
            outside = np.flatnonzero(p.min(axis=-1) < 0.0)
            p[outside] = _path_ends(apart[outside], q, self._metric, self._unit_radius)
            p = self._drawn_inside(p, q)
        return finish(x, shift, scale, p)

    def _steepest(self, x: Array) -> Array:
        """Direction (m, n) of unit K-length and zero sum along which x (m, n) grows fastest.

        Solved in a basis of the zero-sum vectors, so that no rounding leaves them.
        """
        slope = x @ self._basis
        solved = cho_solve(self._factor, slope.T).T
        length = np.sqrt(np.maximum(np.einsum("ij,ij->i", slope, solved), 1e-300))
        direction: Array = (solved / length[:, None]) @ self._basis.T
        direction[np.ptp(x, axis=-1) == 0.0] = 0.0
        return direction

    def _drawn_inside(self, p: Array, q: Array) -> Array:
        """Weights (m, n) pulled toward q as far as rounding has put them outside the ball."""
        away = p - q
        length = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", away, self._metric, away), 0.0))
        shrink = np.minimum(1.0, self._unit_radius / np.maximum(length, 1e-300))
        inside: Array = np.maximum(q + shrink[:, None] * away, 0.0)
        return inside


def _zero_sum_basis(n: int) -> Array:
    """Orthonormal basis of the vectors that sum to 0, shape (n, n - 1)."""
    basis: Array = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    return basis


def _path_ends(x: Array, q: Array, metric: Array, rho: float, jitter: float = 1e-12) -> Array:
    """Follow the optimum p(t) of each row from q, piece by linear piece, until its K-distance is
    rho. All rows take their next piece together.

    Along the path a context leaves when its weight falls to 0 and returns when its multiplier
    does, as in Markowitz' critical line method. A context that has just switched does not switch
    back at once, or rounding could make the path cycle; should it cycle all the same, it starts
    again with jitter on K, which never leads out of the ball.

    Args:
        x: unit rows, shape (m, n).
        q: reference weights, shape (n,).
        metric: K, shape (n, n), positive definite.
        rho: radius on the scale of K.
        jitter: added to the diagonal of K should a path cycle.

    Returns:
        Weights, shape (m, n).
    """
    m, n = x.shape
    ends = np.empty((m, n))
    active = np.ones((m, n), dtype=bool)
    t, switched = np.zeros(m), np.full(m, -1)
    going = np.arange(m)
    for _ in range(_PIECES_PER_CONTEXT * n):
        if not len(going):
            return ends
        p_0, p_1, gap_0, gap_1 = _pieces(x[going], q, metric, active[going])
        level = np.where(active[going], p_0, gap_0)
        slope = np.where(active[going], p_1, gap_1)
        falling = (slope < 0.0) & (np.arange(n) != switched[going, None])
        event = np.where(falling, level, np.inf) / np.where(falling, -slope, 1.0)
        first = np.argmin(event, axis=1)
        t_event = np.take_along_axis(event, first[:, None], axis=1)[:, 0]
        t_end = np.maximum(t[going], _strengths(p_0 - q, p_1, metric, rho))
        done = t_end <= np.maximum(t[going], t_event)
        finite = np.where(np.isinf(t_end), 0.0, t_end)
        ends[going[done]] = np.maximum(p_0 + finite[:, None] * p_1, 0.0)[done]
        t[going] = np.maximum(t[going], t_event)
        switched[going] = first
        going, first = going[~done], first[~done]
        active[going, first] = ~active[going, first]
    ends[going] = _path_ends(x[going], q, metric + jitter * np.eye(n), rho, 100.0 * jitter)
    return ends


def _pieces(
    x: Array, q: Array, metric: Array, active: NDArray[np.bool_]
) -> tuple[Array, Array, Array, Array]:
    """Weights p_0 + t p_1 and multipliers gap_0 + t gap_1 of p >= 0 while `active` stays, all
    (m, n) as x and `active` are."""
    m, n = x.shape
    pull = metric @ q
    p, gap = np.zeros((m, n, 2)), np.empty((m, n, 2))
    sizes = np.count_nonzero(active, axis=1)
    for k in np.unique(sizes):
        rows = np.flatnonzero(sizes == k)
        inside = np.nonzero(active[rows])[1].reshape(len(rows), k)
        values = np.take_along_axis(x[rows], inside, axis=1)  # (r, k)
        system = np.ones((len(rows), k + 1, k + 1))
        system[:, :k, :k] = metric[inside[:, :, None], inside[:, None, :]]
        system[:, k, k] = 0.0
        right = np.zeros((len(rows), k + 1, 2))
        right[:, :k, 0], right[:, k, 0] = pull[inside], 1.0
        right[:, :k, 1] = -values
        solved = np.linalg.solve(system, right)
        level = np.ptp(values, axis=1) == 0.0
        solved[level, :k, 1], solved[level, k, 1] = 0.0, -values[level, 0]
        p[rows[:, None], inside] = solved[:, :k]
        gap[rows] = metric @ p[rows] + solved[:, k, None]
    gap[:, :, 0] -= pull
    gap[:, :, 1] += x
    return p[:, :, 0], p[:, :, 1], gap[:, :, 0], gap[:, :, 1]


def _strengths(away: Array, slope: Array, metric: Array, rho: float) -> Array:
    """The largest t (m,) at which away + t slope (m, n) has K-length rho; infinity if the slope
    is 0."""
    flat, steep = away[:, None, :], slope[:, :, None]
    curved = metric @ steep  # (m, n, 1)
    a, b = (slope[:, None, :] @ curved)[:, 0, 0], (flat @ curved)[:, 0, 0]
    c = (flat @ metric @ away[:, :, None])[:, 0, 0] - rho**2
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    return np.where(a > 0.0, (root - b) / np.where(a > 0.0, a, 1.0), inf)
