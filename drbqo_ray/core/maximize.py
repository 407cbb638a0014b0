"""The best config of each of several functions on a mixed space.

Scrambled Sobol points and perturbed incumbents are screened, the best climb by batched
quasi-Newton steps on their continuous coordinates and by single moves on their discrete ones.
Every point looked at is snapped, so nothing outside the space is ever proposed.
"""

from __future__ import annotations

import numpy as np

from drbqo_ray.core.acquisition import Acquisition
from drbqo_ray.core.ascent import Effort, ascend, top_rows
from drbqo_ray.space.space import Space
from drbqo_ray.types import Array, Indices

LOG2_CANDIDATES = 8
PERTURBATIONS = 64
ROUNDS = 4
STARTS, FAST_STARTS = 6, 3
THOROUGH, FAST = Effort(), Effort(sift_after=4, finalists=1, tolerance=1e-6)
SCALES = np.array([0.2, 0.05, 0.01, 0.002])


def maximize(
    acquisition: Acquisition,
    space: Space,
    incumbents: Array,
    rng: np.random.Generator,
    fast: bool = False,
) -> Array:
    """Snapped points (T, p) of the space where each of the T functions is largest.

    Args:
        acquisition: functions of model inputs.
        space: the search space.
        incumbents: snapped points (m, p) of good configs seen so far, m >= 0.
        rng: source of the candidates.
        fast: whether to save effort: fewer starts, a looser tolerance.
    """
    values = acquisition.values(space.features(pool := candidates(space, incumbents, rng)))
    starts, effort = (FAST_STARTS, FAST) if fast else (STARTS, THOROUGH)
    owner = np.repeat(np.arange(len(values)), len(pool))
    keep = top_rows(values.ravel(), owner, starts)
    u, value = climb(acquisition, space, pool[keep % len(pool)], owner[keep], effort)
    u, value = _best(u, value, owner[keep])
    return u if space.continuous.all() else move(acquisition, space, u, value, effort)


def candidates(space: Space, incumbents: Array, rng: np.random.Generator) -> Array:
    """Snapped Sobol points and perturbed incumbents, (k, p)."""
    points = [sobol(len(space), LOG2_CANDIDATES, rng)]
    if len(incumbents):
        near = incumbents[rng.integers(len(incumbents), size=PERTURBATIONS)]
        scale = rng.choice(SCALES, size=(PERTURBATIONS, 1))
        moved = rng.random(near.shape) < max(0.5, 2 / len(space))
        step = np.where(moved, scale * rng.standard_normal(near.shape), 0.0)
        points += [np.clip(near + step, 0.0, 1.0), incumbents]
    return space.snap(np.concatenate(points))


def sobol(p: int, log2_count: int, rng: np.random.Generator) -> Array:
    """2**log2_count scrambled Sobol points (k, p)."""
    from scipy.stats import qmc  # slow to import, and needed only here

    return np.asarray(qmc.Sobol(p, scramble=True, rng=rng).random_base2(log2_count))


def climb(
    acquisition: Acquisition, space: Space, u: Array, owner: Indices, effort: Effort
) -> tuple[Array, Array]:
    """Ascent on the active continuous coordinates: points (S, p) -> points and values (S,)."""
    z = space.features(u)
    if not space.continuous.any():
        return u, acquisition(z, owner)[0]
    columns = space.feature_columns[space.continuous]
    free = np.zeros(z.shape, dtype=bool)
    free[:, columns] = space.active(u)[:, space.continuous]
    z, value = ascend(acquisition, z, owner, free, effort)
    u = u.copy()
    u[:, space.continuous] = z[:, columns]
    return u, value


def move(
    acquisition: Acquisition, space: Space, best: Array, best_value: Array, effort: Effort
) -> Array:
    """Best single changes of discrete parameters, each followed by a climb, until none helps:
    points (T, p) with values (T,) -> points (T, p)."""
    best, best_value = best.copy(), best_value.copy()
    moving = np.arange(len(best))
    for _ in range(ROUNDS):
        near = [space.neighbors(best[t]) for t in moving]
        owner = np.repeat(moving, np.array([len(points) for points in near], dtype=np.int64))
        if not len(owner):
            break
        u = np.concatenate(near)
        value = acquisition(space.features(u), owner)[0]
        keep = top_rows(value, owner, STARTS)
        u, value = climb(acquisition, space, u[keep], owner[keep], effort)
        u, value = _best(u, value, owner[keep])
        moving = np.unique(owner)
        better = value > best_value[moving]
        moving, u, value = moving[better], u[better], value[better]
        best[moving], best_value[moving] = u, value
    return best


def _best(u: Array, value: Array, owner: Indices) -> tuple[Array, Array]:
    """The best point and value of each function."""
    rows = top_rows(value, owner, 1)
    return u[rows], value[rows]
