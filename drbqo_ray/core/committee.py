"""Several processes speak before one of them names a config (docs/maths.md, section 9).

A fit of the hyperparameters is one of several that explain the scores about as well. They agree on
configs that were seen in many contexts. On a config that was seen in one, far from all others, one
of them can be sure of a value that the others call absurd, and it would be recommended. So the
value of a config counts only as far as the committee does not dispute it:

    v(x) = sum_k w_k E_k[R(x)]          R(x) the robust value, E_k the expectation under process k
    x is disputed if  v(x) < max v - DISPUTE

and a disputed config is lowered to v(x), and below the best one that is not. E[R] is below the
robust value of the means where a config is not known well, since the adversary profits from
whatever is uncertain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.types import Array, Indices

DISPUTE = 0.02
"""Of the standard deviation of all scores: what lies closer is a matter of precision."""
PAIRS = 320
MOST = 12
BELOW = 1e-9

Judge = Callable[[GaussianProcess, Indices], Array]


@dataclass(frozen=True, eq=False)
class Committee:
    """Processes given the same scores, with different hyperparameters.

    Attributes:
        members: the processes; the first one is that in use.
        weights: how much each counts, summing to 1.
    """

    members: tuple[GaussianProcess, ...]
    weights: tuple[float, ...]

    def surplus(self, values: Array, rank: Judge, expect: Judge, n: int) -> Array:
        """How far the values of configs are to be lowered, 0 where they are not disputed, (m,).

        Args:
            values: what the first member makes of all m configs, (m,).
            rank: values (k,) of configs (k,) by another member, quick.
            expect: expected values (k,) of configs (k,) by any member.
            n: number of contexts.
        """
        lowered = np.zeros(len(values))
        if len(self.members) == 1 or len(values) < 2:
            return lowered
        rows = self._heads(values, rank, n)
        pairs = zip(self.members, self.weights, strict=True)
        expected = np.sum([weight * expect(member, rows) for member, weight in pairs], axis=0)
        disputed = expected < expected.max() - DISPUTE
        best = values[rows[~disputed]].max()
        ahead = disputed & (values[rows] >= best)
        target = np.minimum(expected, best - BELOW)
        lowered[rows[ahead]] = (values[rows] - target)[ahead]
        return lowered

    def _heads(self, values: Array, rank: Judge, n: int) -> Indices:
        """The configs that some member holds for the best ones."""
        most = max(1, min(MOST, PAIRS // n))
        everyone = np.arange(len(values))
        ranked = [values, *(rank(member, everyone) for member in self.members[1:])]
        heads = [np.argsort(-own, kind="stable")[:most] for own in ranked]
        return np.unique(np.concatenate(heads))
