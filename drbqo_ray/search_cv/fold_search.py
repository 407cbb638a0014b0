"""The search of RobustSearchCV in this process: ask for a fold, train it, tell its score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drbqo_ray.design import GRID_LIMIT
from drbqo_ray.errors import NothingObserved
from drbqo_ray.optimizer import Optimizer
from drbqo_ray.progress import make_progress
from drbqo_ray.records import Config
from drbqo_ray.search_cv.fold_fit import CrossValidation, FoldFit
from drbqo_ray.space import Space

TITLE = "RobustSearchCV"


@dataclass(frozen=True)
class TrainedFold:
    """One evaluation of a search."""

    config: Config
    fold: int
    fit: FoldFit


@dataclass(frozen=True)
class SearchPlan:
    """What a search may do, whoever runs it.

    Attributes:
        space: the search space.
        settings: `method`, `uncertainty` and `seed` of the optimizer.
        n_evaluations: fold fits in all.
        error_score: "raise", or the score of a fold that fails.
        verbose: whether to show progress.
    """

    space: Space
    settings: dict[str, Any]
    n_evaluations: int
    error_score: str | float
    verbose: bool

    def value(self, fit: FoldFit) -> float:
        """The score that the optimizer is told; raises where a failed fold must."""
        if fit.score is not None:
            return fit.score
        if self.error_score == "raise":
            assert fit.exception is not None
            raise fit.exception
        return float(self.error_score)

    def budget(self, n_folds: int) -> int:
        """Fold fits to make: no more than a small finite space has pairs of config and fold."""
        grid = self.space.grid(GRID_LIMIT)
        return self.n_evaluations if grid is None else min(self.n_evaluations, len(grid) * n_folds)


def search_in_process(plan: SearchPlan, folds: CrossValidation) -> list[TrainedFold]:
    """Every evaluation of a search that runs one fold after the other, in order."""
    optimizer = Optimizer(plan.space, folds.n_folds, **plan.settings)
    display = make_progress(None if plan.verbose else False)
    trained: list[TrainedFold] = []
    budget = plan.budget(folds.n_folds)
    display.on_start(TITLE, budget, 1)
    try:
        while len(trained) < budget:
            suggestion = optimizer.ask()
            display.on_ask(suggestion)
            fit = folds.train(suggestion.config, suggestion.context)
            observation = optimizer.tell(suggestion.id, plan.value(fit))
            trained.append(TrainedFold(suggestion.config, suggestion.context, fit))
            display.on_observation(observation, _standing(optimizer) if plan.verbose else {})
    finally:
        display.on_finish()
    return trained


def _standing(optimizer: Optimizer) -> dict[str, float]:
    try:
        best = optimizer.recommend()
    except NothingObserved:
        return {}
    return {"best_robust": best.robust_value, "best_std": best.std}
