"""Batched quasi-Newton ascent in a box, sound at kinks.

A robust value is smooth up to kinks where the worst-case weights change. BFGS with a weak
Wolfe line search climbs such functions well: the curvature condition keeps steps from
shrinking at a kink, and the inverse Hessian learns the ridge. All starts move together, so
that one call of the objective serves them all, also when they climb different functions; after
a few steps only the best starts of each function go on.

| symbol | meaning                                    | shape     |
|--------|--------------------------------------------|-----------|
| x, g   | points and gradients of the S starts       | (S, d)    |
| H      | inverse of minus the Hessian, one a start  | (S, d, d) |
| t      | step lengths                               | (S,)      |
| owner  | number of the function each start climbs   | (S,)      |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drbqo_ray.types import Array, Indices, Mask

Rows = npt.NDArray[np.intp]
Objective = Callable[[Array, Indices], tuple[Array, Array]]

ARMIJO = 1e-4
WOLFE = 0.5
LINE_STEPS = 10
FIRST_STEP = 0.1
SHORTEN = 0.2


@dataclass(frozen=True)
class Effort:
    """How long to climb.

    Attributes:
        max_iterations: quasi-Newton steps at the most.
        sift_after: steps after which only the best starts of each function go on.
        finalists: how many starts of each function that are.
        tolerance: a start rests once a step gains less than this share of the value's size.
    """

    max_iterations: int = 40
    sift_after: int = 8
    finalists: int = 2
    tolerance: float = 1e-9


def ascend(
    objective: Objective,
    x: Array,
    owner: Indices,
    free: Mask,
    effort: Effort,
) -> tuple[Array, Array]:
    """Climb from every start; coordinates that are not free stay where they are.

    Args:
        objective: points (S, d) and the functions they climb (S,) -> values (S,), gradients (S, d).
        x: starts (S, d) in [0, 1]^d.
        owner: number of the function each start climbs, (S,), sorted.
        free: which coordinates may move, (S, d).
        effort: how long to go on.

    Returns:
        The points (S, d) and their values (S,).
    """
    x = x.copy()
    value, g = objective(x, owner)
    H = np.broadcast_to(np.eye(x.shape[1]), (*x.shape, x.shape[1])).copy()
    fresh = np.ones(len(x), dtype=bool)
    running = np.arange(len(x))
    quiet = np.zeros(len(x), dtype=int)
    for iteration in range(effort.max_iterations):
        if iteration == effort.sift_after:
            running = running[top_rows(value[running], owner[running], effort.finalists)]
        direction = _direction(x[running], g[running], H[running], free[running], fresh[running])
        new_x, new_value, new_g = _line_search(
            objective, x[running], owner[running], value[running], g[running], direction
        )
        _update(H, fresh, running, new_x - x[running], g[running] - new_g)
        rests = new_value - value[running] <= effort.tolerance * (1 + np.abs(new_value))
        quiet[running] = np.where(rests, quiet[running] + 1, 0)
        x[running], value[running], g[running] = new_x, new_value, new_g
        running = running[quiet[running] < 2]
        if not len(running):
            break
    return x, value


def top_rows(value: Array, owner: Indices, count: int) -> Rows:
    """Rows of the `count` best values (k,) of each function, best first; owner (k,) is sorted."""
    order = np.lexsort((-value, owner))
    first = np.searchsorted(owner, owner[order])
    return order[np.arange(len(order)) - first < count]


def _direction(x: Array, g: Array, H: Array, free: Mask, fresh: Mask) -> Array:
    """Quasi-Newton direction that does not leave the box at an active bound, (S, d)."""
    blocked = ((x <= 0) & (g < 0)) | ((x >= 1) & (g > 0)) | ~free
    g = np.where(blocked, 0.0, g)
    direction = np.where(blocked, 0.0, np.einsum("sij,sj->si", H, g))
    size = np.linalg.norm(g, axis=1)
    bad = fresh | ((direction * g).sum(axis=1) <= 1e-12 * size * np.linalg.norm(direction, axis=1))
    steepest = FIRST_STEP * g / np.maximum(size, 1e-300)[:, None]
    direction = np.where(bad[:, None], steepest, direction)
    longest = np.abs(direction).max(axis=1, keepdims=True)
    return np.asarray(direction / np.maximum(longest, 1.0))


def _line_search(
    objective: Objective, x: Array, owner: Indices, value: Array, g: Array, direction: Array
) -> tuple[Array, Array, Array]:
    """Weak Wolfe steps by bisection and doubling; a start that finds none stays put."""
    low = np.zeros(len(x))
    high = np.full(len(x), np.inf)
    t = np.ones(len(x))
    best_x, best_value, best_g = x.copy(), value.copy(), g.copy()
    slope = (g * direction).sum(axis=1)
    open_rows = np.flatnonzero(slope > 0)
    for _ in range(LINE_STEPS):
        if not len(open_rows):
            break
        trial = np.clip(x[open_rows] + t[open_rows, None] * direction[open_rows], 0.0, 1.0)
        trial_value, trial_g = objective(trial, owner[open_rows])
        rises = trial_value >= value[open_rows] + ARMIJO * t[open_rows] * slope[open_rows]
        better = trial_value > best_value[open_rows]
        rows = open_rows[better]
        best_x[rows], best_value[rows] = trial[better], trial_value[better]
        best_g[rows] = trial_g[better]
        along = (trial_g * direction[open_rows]).sum(axis=1)
        at_edge = (((trial == 0.0) | (trial == 1.0)) & (direction[open_rows] != 0)).any(axis=1)
        flat = (along <= WOLFE * slope[open_rows]) | at_edge
        high[open_rows] = np.where(rises, high[open_rows], t[open_rows])
        low[open_rows] = np.where(rises, t[open_rows], low[open_rows])
        t[open_rows] = _next_step(t[open_rows], low[open_rows], high[open_rows])
        open_rows = open_rows[~(rises & flat)]
    return best_x, best_value, best_g


def _next_step(t: Array, low: Array, high: Array) -> Array:
    """Longer while nothing fails, much shorter while nothing works, else between, (S,)."""
    between = np.where(low > 0, (low + high) / 2, SHORTEN * t)
    return np.where(np.isinf(high), 2 * t, between)


def _update(H: Array, fresh: Mask, rows: Rows, s: Array, y: Array) -> None:
    """BFGS update of H for the moves s and the gradient drops y, both (S, d), in place."""
    curvature = (s * y).sum(axis=1)
    ok = curvature > 1e-14 * np.linalg.norm(s, axis=1) * np.linalg.norm(y, axis=1)
    ok &= curvature > 0
    rows, s, y, curvature = rows[ok], s[ok], y[ok], curvature[ok]
    if not len(rows):
        return
    scale = curvature / (y * y).sum(axis=1)
    first = fresh[rows]
    H[rows[first]] *= scale[first, None, None]
    fresh[rows] = False
    h = H[rows]
    hy = np.einsum("sij,sj->si", h, y)
    yhy = (y * hy).sum(axis=1)
    ss = s[:, :, None] * s[:, None, :]
    cross = hy[:, :, None] * s[:, None, :]
    H[rows] = (
        h
        + ((curvature + yhy) / curvature**2)[:, None, None] * ss
        - (cross + cross.transpose(0, 2, 1)) / curvature[:, None, None]
    )
