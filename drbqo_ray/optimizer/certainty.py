"""How sure a recommendation is, from draws of the posterior.

| symbol | meaning                                                       | shape  |
|--------|---------------------------------------------------------------|--------|
| seen   | robust value of each draw at the best evaluated configs       | (T, k) |
| top    | largest robust value of each draw over the whole space        | (T,)   |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drbqo_ray.types import Array

COVERAGE = 0.95


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
