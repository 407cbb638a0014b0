"""The best config of a function on a mixed space.

Scrambled Sobol points and perturbed incumbents are screened, the best climb by batched
quasi-Newton steps on their continuous coordinates and by single moves on their discrete ones.
Every point looked at is snapped, so nothing outside the space is ever proposed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from drbqo_ray.core.acquisition import Acquisition
from drbqo_ray.core.ascent import ascend
from drbqo_ray.space import Space

Array = npt.NDArray[np.float64]

LOG2_CANDIDATES = 8
PERTURBATIONS = 64
STARTS = 6
ITERATIONS = 40
ROUNDS = 4
SCALES = np.array([0.2, 0.05, 0.01, 0.002])


def maximize(
    acquisition: Acquisition, space: Space, incumbents: Array, rng: np.random.Generator
) -> Array:
    """A snapped point (p,) of the space where the acquisition is largest.

    Args:
        acquisition: function of model inputs.
        space: the search space.
        incumbents: snapped points (m, p) of good configs seen so far, m >= 0.
        rng: source of the candidates.
    """
    u = screen(acquisition, space, candidates(space, incumbents, rng))
    u, value = climb(acquisition, space, u)
    if not space.continuous.all():
        u, value = move(acquisition, space, u, value)
    return np.asarray(u[np.argmax(value)])


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


def screen(acquisition: Acquisition, space: Space, u: Array) -> Array:
    """The best few of the candidates (k, p)."""
    order = np.argsort(-acquisition.values(space.features(u)), kind="stable")
    return np.asarray(u[order[:STARTS]])


def climb(acquisition: Acquisition, space: Space, u: Array) -> tuple[Array, Array]:
    """Ascent on the active continuous coordinates: points (S, p) -> points and values (S,)."""
    z = space.features(u)
    if not space.continuous.any():
        return u, acquisition.values(z)
    columns = space.feature_columns[space.continuous]
    free = np.zeros(z.shape, dtype=bool)
    free[:, columns] = space.active(u)[:, space.continuous]
    z, value = ascend(acquisition, z, free, ITERATIONS)
    u = u.copy()
    u[:, space.continuous] = z[:, columns]
    return u, value


def move(acquisition: Acquisition, space: Space, u: Array, value: Array) -> tuple[Array, Array]:
    """Best single changes of discrete parameters, each followed by a climb, until none helps."""
    best, best_value = u[np.argmax(value)], float(np.max(value))
    for _ in range(ROUNDS):
        near = space.neighbors(best)
        if not len(near):
            break
        found, found_value = climb(acquisition, space, screen(acquisition, space, near))
        if np.max(found_value) <= best_value:
            break
        best, best_value = found[np.argmax(found_value)], float(np.max(found_value))
    return best[None], np.array([best_value])
