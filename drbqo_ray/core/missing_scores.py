"""New or seen: which config the next fold is worth most for, by draws of its scores.

A score is the process plus a part of its own that no other pair shares, of the variance that the
model calls noise. Training the same fold again would give the same score, so for the row of scores
that a config is judged by this part is as real as the process:

    y(x, i) = f(x, i) + e(x, i)        f the posterior,  e ~ N(0, noise)

So the robust value R(x) of a config is a random number until all its folds are trained: it keeps
the scores it has, and the missing ones are drawn. What a config may gain, for each fold that has
to be trained before we know it:

    worth(x) = E[max(R(x) - best, 0)] / folds left,      best = largest E[R] of the seen configs

Each path of the paper's algorithm names a new config. It is tried unless a seen one is worth more.

| symbol | meaning                                          | shape     |
|--------|--------------------------------------------------|-----------|
| x      | configs                                          | (k, d)    |
| scores | their standardized scores, NaN in missing folds  | (k, n)    |
| R      | draws of their robust value                      | (k, S)    |
| left   | folds of seen configs that nobody trains yet     | (k,)      |

Filling a row up with means alone would flatter it: noise in a missing fold helps the adversary, so
E[R] is below the robust value of the means. `completed` lowers what it fills in until both agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.sets import UncertaintySet
from drbqo_ray.types import Array, Indices, Mask

EXACT_ROWS, EXACT_PAIRS = 32, 4096
DOUBLINGS, HALVINGS = 40, 40
ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class ScoreDraws:
    """Rows of scores judged by draws of those that are missing.

    Attributes:
        uncertainty: the set of weights.
        q: reference weights (n,).
        normals: standard normal numbers (S, n), the same for all configs.
    """

    uncertainty: UncertaintySet
    q: Array
    normals: Array

    def robust(self, gp: GaussianProcess, x: Array, scores: Array) -> Array:
        """Draws R (k, S) of the robust values of configs."""
        missing = np.isnan(scores)
        rows = np.where(missing, gp.means(x), scores)
        R = np.repeat(self._solve(rows)[:, None], len(self.normals), axis=1)
        some = np.flatnonzero(missing.any(axis=1))
        if len(some):
            roots = _roots(gp.covariances(x[some]), missing[some], gp.kernel.noise)
            drawn = rows[some, None] + self.normals @ roots  # (k, S, n)
            R[some] = self._solve(drawn.reshape(-1, len(self.q))).reshape(len(some), -1)
        return R

    def completed(self, gp: GaussianProcess, x: Array, scores: Array) -> Array:
        """Scores (k, n) with the missing ones filled in such that the robust value of a row is
        E[R].

        For the rows that look best with means filled in. For all others the missing folds count as
        if nothing were known of them but the mean, which is lower.
        """
        missing = np.isnan(scores)
        rows = np.where(missing, gp.means(x), scores)
        order = np.argsort(-self._solve(rows), kind="stable")
        exact = max(1, min(EXACT_ROWS, EXACT_PAIRS // len(self.q)))
        near, far = order[:exact], order[exact:]
        expected = self.robust(gp, x[near], scores[near]).mean(axis=1)
        rows[near] = self._lowered(rows[near], missing[near], expected)
        taken = -float(self._solve(self.normals).mean())  # by the adversary, of unit noise
        rows[far] -= taken * np.sqrt(np.diagonal(gp.kernel.B) + gp.kernel.noise) * missing[far]
        return rows

    def _lowered(self, rows: Array, missing: Mask, values: Array) -> Array:
        """Rows (k, n) whose missing folds are lowered until their robust values are `values`.

        Values that differ by rounding only agree: a fold that the adversary cannot weigh would be
        lowered without end for them, and one that it would not weigh until it can.
        """

        def too_high(by: Array) -> Mask:
            return self._solve(rows - by[:, None] * missing) > values

        rounding = ROUNDING * (1.0 + np.abs(rows).max(axis=1, initial=0.0))
        lower = self._solve(rows) > values + rounding
        high = lower.astype(np.float64)
        for _ in range(DOUBLINGS):
            still = too_high(high) & lower
            if not still.any():
                break
            high[still] *= 2
        low = np.zeros(len(rows))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            still = too_high(middle)
            low, high = np.where(still, middle, low), np.where(still, high, middle)
        return rows - high[:, None] * missing

    def _solve(self, rows: Array) -> Array:
        return self.uncertainty.solve(rows, self.q)[0]


def pick(seen: Array, left: Indices, new: Array, n: int) -> Indices:
    """For each new config the number of the seen one to train another fold of instead, else -1.

    A seen config that was picked has a fold less to go, so it is worth more: it is completed
    before another one is begun.

    Args:
        seen, new: what the seen configs (k,) and the new ones (T,) gain.
        left: folds left of the seen ones.
        n: number of folds, all of which a new one has left.
    """
    left, picks = left.copy(), np.full(len(new), -1)
    for t, gain in enumerate(new):
        worth = np.where(left > 0, seen / np.maximum(left, 1), -1.0)
        best = int(np.argmax(worth))
        if worth[best] > gain / n:
            picks[t] = best
            left[best] -= 1
    return picks


def _roots(C: Array, missing: Mask, noise: float) -> Array:
    """Square roots A (k, n, n), C + noise I = A'A, of covariances C (k, n, n), with zeros in the
    columns of folds that have a score. By eigenvalues: C may have hardly any, or none."""
    values, vectors = np.linalg.eigh(C * (missing[:, :, None] & missing[:, None]))
    spread = np.sqrt(np.maximum(values, 0.0) + noise)
    return np.swapaxes(vectors * spread[:, None], 1, 2) * missing[:, None]
