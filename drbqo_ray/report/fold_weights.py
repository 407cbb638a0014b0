"""Which folds the adversary picks for the recommended config."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drbqo_ray.report.posterior import (
    Posterior,
)
from drbqo_ray.report.ranking import Ranking


@dataclass(frozen=True)
class FoldWeights:
    """Worst-case weights of one config.

    Attributes:
        config: its number.
        weights: weight of every fold (n,), non-negative, summing to 1.
        reference: reference weight of every fold (n,).
        fold_means: value in every fold (n,), user's scale.
        fold_stds: its deviation (n,).
        measure: name of the distance between weights and reference, None when it has no simple one.
        distance: that distance.
        limit: the largest distance the set allows.
    """

    config: int
    weights: tuple[float, ...]
    reference: tuple[float, ...]
    fold_means: tuple[float, ...]
    fold_stds: tuple[float, ...]
    measure: str | None
    distance: float | None
    limit: float | None


def weigh_folds(posterior: Posterior, ranking: Ranking) -> FoldWeights | None:
    """The weights of the recommended config, None without one."""
    row = ranking.row(ranking.chosen)
    if row is None:
        return None
    p, q = np.array(row.weights), posterior.reference
    n = len(q)
    stds = posterior.judged_stds(np.full(n, row.number), np.eye(n))
    measure, distance, limit = posterior.set.divergence(p, q) or (None, None, None)
    return FoldWeights(
        config=row.number,
        weights=row.weights,
        reference=tuple(float(w) for w in q),
        fold_means=row.fold_means,
        fold_stds=tuple(float(s) for s in stds),
        measure=measure,
        distance=distance,
        limit=limit,
    )
