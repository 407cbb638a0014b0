"""How the optimizer judges the configs of a run, kept to the range that its scores imply."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from drbqo_ray.errors import NothingObserved
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.optimizer.scoring import Scoring
from drbqo_ray.records import BAND
from drbqo_ray.report.score_range import ScoreRange, implied_range
from drbqo_ray.types import Array


@dataclass(frozen=True, eq=False)
class Posterior(Scoring):
    """The judgment of a run, told everything.

    Attributes:
        score_range: the range that values on the user's scale are kept to.
    """

    score_range: ScoreRange

    def user(self, gains: npt.ArrayLike) -> Array:
        """Standardized values of any shape on the user's scale, kept to the range of scores."""
        return self.score_range.keep(self.estimates(gains))

    def bands(self, values: npt.ArrayLike, stds: npt.ArrayLike) -> tuple[Array, Array]:
        """Lower and upper ends of 95 % bands around values, on the user's scale."""
        half = BAND * np.asarray(stds, dtype=np.float64)
        middle = np.asarray(values, dtype=np.float64)
        return self.score_range.keep(middle - half), self.score_range.keep(middle + half)


def read_posterior(optimizer: Optimizer) -> Posterior | None:
    """The judgment of an optimizer, None before it has a score."""
    try:
        now = optimizer.scoring()
    except NothingObserved:
        return None
    known = {field.name: getattr(now, field.name) for field in fields(now)}
    return Posterior(**known, score_range=implied_range(now.scores, now.sign))
