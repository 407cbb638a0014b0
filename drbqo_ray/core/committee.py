"""Several processes speak before one of them names a config (docs/maths.md, section 9).

A fit of the hyperparameters is one of several that explain the scores about as well. They agree on
configs that were seen in many contexts. On a config that was seen in one, far from all others, one
of them can be sure of a value that the others call absurd, and it would be recommended. So every
config that could be named is heard by all of them:

    v(x) = sum_k w_k E_k[R(x)]          R(x) the robust value, E_k the expectation under process k
    x is disputed if  v(x) < E_1[R(x)] - DISPUTE

and the value of a disputed config is lowered by the difference. A config is compared with itself
only: one whose scores are all there has the same value under every process.
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
TOGETHER = 12
MOST_ROUNDS = 16

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

    def surplus(self, values: Array, expect: Judge, n: int) -> Array:
        """How far the values of configs are to be lowered, 0 where they are not disputed, (m,).

        The best ones are heard, until the best of those that are left was heard.

        Args:
            values: what the first member makes of all m configs, (m,).
            expect: expected values (k,) of configs (k,) by any member.
            n: number of contexts.
        """
        lowered, heard = np.zeros(len(values)), np.zeros(len(values), dtype=bool)
        together = max(1, min(TOGETHER, PAIRS // n))
        for _ in range(MOST_ROUNDS):
            order = np.argsort(lowered - values, kind="stable")
            if len(self.members) == 1 or heard[order[0]]:
                break
            rows = order[~heard[order]][:together]
            lowered[rows] = self._disputed(expect, rows)
            heard[rows] = True
        return lowered

    def _disputed(self, expect: Judge, rows: Indices) -> Array:
        """By how much the members together value configs (k,) less than the first one does."""
        by_member = np.array([expect(member, rows) for member in self.members])
        drop = by_member[0] - np.array(self.weights) @ by_member
        return np.where(drop > DISPUTE, drop, 0.0)
