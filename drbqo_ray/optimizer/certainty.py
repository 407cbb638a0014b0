"""How sure a recommendation is, from draws of what configs are judged by.

| symbol | meaning                                                       | shape  |
|--------|---------------------------------------------------------------|--------|
| seen   | robust value of each draw at the best evaluated configs       | (T, k) |
| top    | largest robust value of each draw over the whole space        | (T,)   |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drbqo_ray.core.acquisition import RobustPaths
from drbqo_ray.core.maximize import maximize
from drbqo_ray.core.paths import draw_paths
from drbqo_ray.optimizer.scoring import Scoring
from drbqo_ray.types import Array, Indices

COVERAGE = 0.95
DRAWS, DRAWS_TOGETHER = 64, 16


@dataclass(frozen=True, slots=True)
class Certainty:
    """What the model holds of its recommendation. Values have the user's scale and sign.

    Attributes:
        probability: of the config being the robustly best of those seen.
        interval: the robust value of the config lies in here with probability 0.95.
        loss: robust value expected to be missed by stopping now: that of the best config of the
            whole space minus that of the recommended one, at least 0.
    """

    probability: float
    interval: tuple[float, float]
    loss: float


def certainty_of(seen: Array, top: Array, best: int) -> Certainty:
    """The certainty of recommending evaluated config number `best` among those seen (T, k),
    on the scale of the draws."""
    own = seen[:, best]
    low, high = np.quantile(own, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    missed = np.maximum(np.maximum(top, seen.max(axis=1)) - own, 0.0)
    return Certainty(
        probability=float(np.mean(seen.argmax(axis=1) == best)),
        interval=(float(low), float(high)),
        loss=float(missed.mean()),
    )


def draw_certainty(scoring: Scoring, rng: np.random.Generator) -> Certainty:
    """How sure the recommendation is, on the user's scale; robust values are compared, whatever
    the method reports."""
    best, rivals = scoring.best(), scoring.shortlist()
    numbers = np.array([best, *rivals[rivals != best]])
    draws = [robust_draws(scoring, numbers, rng) for _ in range(DRAWS // DRAWS_TOGETHER)]
    values = np.concatenate(draws)
    found = certainty_of(values[:, :-1], values[:, -1], 0)
    low, high = sorted(float(end) for end in scoring.estimates(found.interval))
    return Certainty(found.probability, (low, high), scoring.fit.scale * found.loss)


def robust_draws(scoring: Scoring, numbers: Indices, rng: np.random.Generator) -> Array:
    """Draws of the robust values of k configs, the recommended one first, and of the best config
    of each draw, (T, k + 1).

    Where configs are judged by their scores, those that are there stay, and the missing ones are
    drawn with their noise.
    """
    gp, space = scoring.gp, scoring.space
    paths = draw_paths(gp, [rng] * DRAWS_TOGETHER)
    robust = RobustPaths(paths, scoring.uncertainty, scoring.reference)
    U = maximize(robust, space, scoring.incumbents(), rng, fast=True)
    new, _ = paths.with_gradient(space.features(U), np.arange(len(U)))  # (T, n)
    seen = paths.approximate(scoring.history.config_Z[numbers])  # (T, k, n)
    rows = np.concatenate([seen, new[:, None]], axis=1)
    if scoring.rule.keeps_scores:
        rows += math.sqrt(gp.kernel.noise) * rng.standard_normal(rows.shape)
        rows[:, :-1] = _with_scores(scoring, rows[:, :-1], numbers)
        rows[:, -1] = _best_of_draws(scoring, rows, numbers, U)
    values, _ = scoring.robust(rows.reshape(-1, rows.shape[-1]))
    return values.reshape(rows.shape[:2])


def _best_of_draws(scoring: Scoring, rows: Array, numbers: Indices, U: Array) -> Array:
    """Draws of scores (T, n) of the best config of each draw, at U (T, p), from draws
    (T, k + 1, n) of those of k configs and of it.

    A config that was seen before is the same one here: it has its scores, and among the k the
    same draws of missing ones. A failed fold rules it out, so the recommended one, the first
    of the k, stands in its place.
    """
    space, best = scoring.space, rows[:, -1].copy()
    for t, u in enumerate(U):
        number = scoring.history.number_of(space.to_unit(space.from_unit(u)))
        if number is None:
            continue
        place = np.flatnonzero(numbers == number) if scoring.usable[number] else [0]
        if len(place):
            best[t] = rows[t, place[0]]
        else:
            best[t] = _with_scores(scoring, best[t], np.array([number]))[0]
    return best


def _with_scores(scoring: Scoring, draws: Array, numbers: Indices) -> Array:
    """Draws of scores (..., k, n) of k configs, with the scores that are there in place."""
    scores = scoring.seen_scores(numbers)
    return np.where(np.isnan(scores), draws, scores)
