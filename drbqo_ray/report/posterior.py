"""How the optimizer judges the configs of a run, kept to the range that its scores imply.

A Gaussian process has no ends: next to an AUC of 1.0 it may estimate 1.0014 for a fold that was not
trained. Such a value is no score. What the report shows is kept to the range that the observed
scores imply:

| observed scores, larger is better | kept to                                  |
|-----------------------------------|------------------------------------------|
| none above 0                      | at most 0: losses                        |
| none above 1                      | at most 1: accuracy, AUC, F1, R²         |
| none above 100, none below 0      | at most 100: the same in percent         |
| none below 0                      | at least 0                               |

Only what is shown is kept to it. Configs are ranked by the estimates as they are, as the optimizer
ranks them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from drbqo_ray.errors import NothingObserved
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.optimizer.scoring import Scoring
from drbqo_ray.records import BAND
from drbqo_ray.report.wording import short
from drbqo_ray.types import Array


@dataclass(frozen=True)
class ScoreRange:
    """Ends of the scores on the user's scale; infinite where there is none."""

    low: float = -math.inf
    high: float = math.inf

    def keep(self, values: npt.ArrayLike) -> Array:
        """Values of any shape, those beyond an end moved to it; no zero is negative."""
        return np.clip(np.asarray(values, dtype=np.float64), self.low, self.high) + 0.0

    @property
    def words(self) -> str:
        """The range in words, e.g. "between 0 and 1"; it has an end."""
        if math.isinf(self.low):
            return f"at most {short(self.high)}"
        if math.isinf(self.high):
            return f"at least {short(self.low)}"
        return f"between {short(self.low)} and {short(self.high)}"


def implied_range(scores: Array, sign: float) -> ScoreRange:
    """The range of scores (N,), NaN where there is none; sign is -1 when smaller is better."""
    gains = sign * scores[~np.isnan(scores)]
    least, most = float(gains.min()), float(gains.max())
    low = 0.0 if least >= 0 else -math.inf
    tops = (0.0, 1.0, 100.0) if least >= 0 else (0.0, 1.0)
    high = next((top for top in tops if most <= top), math.inf)
    return ScoreRange(low, high) if sign > 0 else ScoreRange(0.0 - high, 0.0 - low)


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
