"""Several processes speak before one of them names a config (docs/maths.md, section 10).

A fit of the hyperparameters is one of several that explain the scores about as well. They agree on
configs that were seen in many contexts. On a config that was seen in one, far from all others, one
of them can be sure of a value that the others call absurd, and it would be recommended. So the
first process, whose fit is in use, chooses among the configs that the committee does not dispute:

    v(x) = sum_k w_k E_k[R(x)]          R(x) the robust value, E_k the expectation under process k
    x* = argmax { v_1(x) : v(x) >= max v - DISPUTE }

E[R] is below the robust value of the means where a config is not known well, since the adversary
profits from whatever is uncertain.

| symbol | meaning                                           | shape  |
|--------|---------------------------------------------------|--------|
| x      | configs                                           | (k, d) |
| scores | their standardized scores, NaN where they do not count | (k, n) |
| values | what the first process ranks them by              | (k,)   |
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

    def best(self, values: Array, rank: Judge, expect: Judge, n: int) -> int:
        """Number of the config that the first member ranks highest, of those not disputed.

        Args:
            values: what the first member ranks all m configs by, (m,).
            rank: values (k,) of configs (k,) by another member, quick.
            expect: expected values (k,) of configs (k,) by any member.
            n: number of contexts.
        """
        if len(self.members) == 1:
            return int(np.argmax(values))
        most = max(1, min(MOST, PAIRS // n))
        everyone = np.arange(len(values))
        ranked = [values, *(rank(member, everyone) for member in self.members[1:])]
        heads = [np.argsort(-v, kind="stable")[:most] for v in ranked]
        rows = np.unique(np.concatenate(heads))
        expected = sum(
            weight * expect(member, rows)
            for member, weight in zip(self.members, self.weights, strict=True)
        )
        kept = rows[np.asarray(expected) >= np.max(expected) - DISPUTE]
        return int(kept[np.argmax(values[kept])])
