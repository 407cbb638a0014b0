"""New or seen: which config the next fold is worth most for, by draws of its scores.

A score has three parts: the process, a part of its own that no other pair shares but that training
the same fold again would give again, and noise of the seed that it would not:

    y(x, i) = f(x, i) + e(x, i) + s      f posterior,  e ~ N(0, (1 - r) noise),  s ~ N(0, r noise)

A config is judged by what its folds score on average over seeds, g(x, i) = f(x, i) + e(x, i). Where
training repeats (r = 0), a score that is there is g itself. Where it does not, a score says less:
of its distance from the process only a part `firm` belongs to g (docs/maths.md, eq. 26):

    g = f + firm (y - f) + rest,    Cov[g] = D C D + (1 - r) noise D,    D = diag(1 - firm)

with firm = 0 in a missing fold, and (1 - r) / (1 - r + r / m) in one that was trained m times.

So the robust value R(x) of a config is a random number until all its folds are known. What a config
may gain, for each fold that will be trained: one for sure, the others only if it can still win.

    worth(x) = E[max(R(x) - best, 0)] / (1 + P(R(x) > best) (folds left - 1))
    best     = largest E[R] of the seen configs

Each path of the paper's algorithm names a new config. It is tried unless a seen one is worth more.
Where folds of some configs are known to cost more than others (`drbqo_ray.core.costs`), worth is
divided by the cost: gain for each second, instead of each fold.

| symbol | meaning                                          | shape     |
|--------|--------------------------------------------------|-----------|
| x      | configs                                          | (k, d)    |
| scores | their standardized scores, NaN in missing folds  | (k, n)    |
| firm   | how much of a score would come again, 0 to 1     | (k, n)    |
| r      | share of the noise that another seed would change |          |
| R      | draws of their robust value                      | (k, S)    |
| left   | folds of seen configs that nobody trains yet     | (k,)      |

Filling a row up with means alone would flatter it: noise in a missing fold helps the adversary, so
E[R] is below the robust value of the means. `completed` lowers what it fills in until both agree.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """Rows of scores judged by draws of what is not known of them.

    Attributes:
        uncertainty: the set of weights.
        q: reference weights (n,).
        normals: standard normal numbers (S, n), the same for all configs.
        seed_share: r.
        more_normals: (width, S) -> such numbers (S, width), always the same; for many contexts.
    """

    uncertainty: UncertaintySet
    q: Array
    normals: Array
    seed_share: float = 0.0
    more_normals: Callable[[int, int], Array] | None = None

    def firmness(self, counts: Array) -> Array:
        """firm (k, n) of scores that are means of `counts` (k, n) trainings."""
        r = self.seed_share
        return np.where(counts > 0, (1 - r) / (1 - r + r / np.maximum(counts, 1.0)), 0.0)

    def expected(self, gp: GaussianProcess, x: Array, scores: Array, firm: Array) -> Array:
        """Expected scores over seeds, (k, n)."""
        means, known = gp.means(x), firm == 1
        said = np.where(firm > 0, scores, means)
        return np.where(known, said, means + firm * (said - means))

    def robust(
        self,
        gp: GaussianProcess,
        x: Array,
        scores: Array,
        firm: Array,
        noise: float | None = None,
    ) -> Array:
        """Draws R (k, S) of the robust values of configs; the noise is that of the process unless
        another is given."""
        rows = self.expected(gp, x, scores, firm)
        R = np.repeat(self._solve(rows)[:, None], len(self.normals), axis=1)
        some = np.flatnonzero((firm < 1).any(axis=1))
        if gp.kernel.many:
            self._many_robust(gp, x, rows, firm, noise, R, some)
        elif len(some):
            C = self.covariances(gp, x[some], firm[some], noise)
            drawn = rows[some, None] + self.normals @ _roots(C)  # (k, S, n)
            R[some] = self._solve(drawn.reshape(-1, len(self.q))).reshape(len(some), -1)
        return R

    def _many_robust(
        self,
        gp: GaussianProcess,
        x: Array,
        rows: Array,
        firm: Array,
        noise: float | None,
        R: Array,
        some: Indices,
    ) -> None:
        """The draws R of `some` configs, in place, where contexts are many: one config at a time,
        and no covariance is written out."""
        count, n = len(self.normals), len(self.q)
        assert self.more_normals is not None, "many contexts take more numbers than normals has"
        white = self.more_normals(gp.chances + n, count)
        own = (1 - self.seed_share) * (gp.kernel.noise if noise is None else noise)
        for k in some:
            loose = 1.0 - firm[k]
            drawn = loose * gp.deviations(x[k], white[:, : gp.chances])
            drawn += rows[k] + np.sqrt(own * loose) * white[:, gp.chances :]
            R[k] = self._solve(drawn)

    def covariances(
        self, gp: GaussianProcess, x: Array, firm: Array, noise: float | None = None
    ) -> Array:
        """Covariance between the contexts of each config of its expected scores, (k, n, n)."""
        loose = 1.0 - firm
        own = (1 - self.seed_share) * (gp.kernel.noise if noise is None else noise)
        C = gp.covariances(x) * (loose[:, :, None] * loose[:, None])
        places = np.arange(C.shape[1])
        C[:, places, places] += own * loose
        return C

    def completed(self, gp: GaussianProcess, x: Array, scores: Array, firm: Array) -> Array:
        """Scores (k, n) with what is not known filled in such that the robust value of a row is
        E[R].

        For the rows that look best with means filled in. For all others the missing folds count as
        if nothing were known of them but the mean, which is lower.
        """
        rows = self.expected(gp, x, scores, firm)
        order = np.argsort(-self._solve(rows), kind="stable")
        exact = max(1, min(EXACT_ROWS, EXACT_PAIRS // len(self.q)))
        near, far = order[:exact], order[exact:]
        expected = self.robust(gp, x[near], scores[near], firm[near]).mean(axis=1)
        rows[near] = self.lowered(rows[near], firm[near] < 1, expected)
        taken = -float(self._solve(self.normals).mean())  # by the adversary, of unit noise
        spread = np.sqrt(gp.kernel.variances + gp.kernel.noise)
        rows[far] -= taken * spread * (1.0 - firm[far])
        return rows

    def lowered(self, rows: Array, missing: Mask, values: Array) -> Array:
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


def pick(R: Array, best: float, left: Indices, n: int, costs: Array | None = None) -> Indices:
    """For each new config the number of the seen one to train another fold of instead, else -1.

    A seen config that was picked has a fold less to go, so it is worth more: it is completed
    before another one is begun.

    Args:
        R: draws of the robust values of the k seen configs, and then of the T new ones, (k + T, S).
        best: what there is to beat.
        left: folds left of the seen ones (k,).
        n: number of folds, all of which a new one has left.
        costs: what a fold of each config costs (k + T,); None: all the same.
    """
    gain, chance = np.maximum(R - best, 0.0).mean(axis=1), (best < R).mean(axis=1)
    gain = gain if costs is None else gain / costs
    seen, left = slice(len(left)), left.copy()
    new = gain[len(left) :] / (1 + chance[len(left) :] * (n - 1))
    picks = np.full(len(new), -1)
    for t, worth_of_new in enumerate(new):
        worth = np.where(left > 0, gain[seen] / (1 + chance[seen] * np.maximum(left - 1, 0)), -1.0)
        best_seen = int(np.argmax(worth))
        if worth[best_seen] > worth_of_new:
            picks[t] = best_seen
            left[best_seen] -= 1
    return picks


def _roots(C: Array) -> Array:
    """Square roots A (k, n, n), C = A'A, of covariances C (k, n, n), with zeros in the columns of
    folds that are known. By eigenvalues: C may have hardly any, or none."""
    values, vectors = np.linalg.eigh(C)
    known = np.diagonal(C, axis1=1, axis2=2) == 0
    roots = np.swapaxes(vectors * np.sqrt(np.maximum(values, 0.0))[:, None], 1, 2)
    return np.where(known[:, None], 0.0, roots)
