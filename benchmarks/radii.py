"""Does a radius above 0 give better test scores? Searchers that differ in the radius only.

The radius matters twice: for what is evaluated, and for what is recommended. One search looks for
the best mean (radius 0) and recommends by several radii; another works with the radius "auto", from
95 % confidence, all along. The third, radius 1 all along, is "foldwise" itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.learners import Config
from benchmarks.peers import Ours, Purse
from drbqo_ray.core.sets import as_uncertainty

METHOD = "foldwise"
PLAIN = "searched by 0, reported by 0"
OTHERS = [
    *(f"searched by 0, reported by {name}" for name in ("auto", "1", "spread")),
    "searched and reported by auto",
    METHOD,
]


class MeanSearch(Ours):
    """A search with radius 0; recommendations by radius 0, "auto", 1, and one from the spread."""

    def __init__(self, purse: Purse, seed: int) -> None:
        super().__init__(purse, seed, METHOD, {}, uncertainty=0.0)

    def recommend(self) -> dict[str, Config]:
        n = self.optimizer.n_contexts
        radii = {"0": 0.0, "auto": "auto", "1": 1.0, "spread": self._spread_radius()}
        scoring = self.optimizer.scoring()
        return {
            f"searched by 0, reported by {name}": replace(
                scoring, uncertainty=as_uncertainty(radius, n)
            )
            .recommend()
            .config
            for name, radius in radii.items()
        }

    def _spread_radius(self) -> float:
        """The largest radius that matters, times the share of the spread between folds that the
        uncertainty of their means does not explain."""
        best = self.optimizer.recommend()
        between = float(np.var(best.context_means, ddof=1))
        unsure = float(np.mean(np.square(best.context_stds)))
        share = between / (between + unsure) if between > 0 else 0.0
        return share * (self.optimizer.n_contexts - 1) / 2


class AutoSearch(Ours):
    """A search with the radius from 95 % confidence."""

    def __init__(self, purse: Purse, seed: int) -> None:
        reports = {"searched and reported by auto": None}
        super().__init__(purse, seed, METHOD, reports, uncertainty="auto")
