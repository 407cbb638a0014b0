"""The loop of a search: ask for a fold, have it trained, tell its score."""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

from drbqo_ray.errors import NothingObserved, RunFailed
from drbqo_ray.optimizer.design import GRID_LIMIT
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import Config, Observation, Suggestion
from drbqo_ray.runtime.display import make_progress
from drbqo_ray.search_cv.callbacks import FitTasks
from drbqo_ray.search_cv.fold_fit import CrossValidation, FoldFit
from drbqo_ray.space.space import Space

logger = logging.getLogger(__name__)

TITLE = "RobustSearchCV"
AHEAD_SHARE = 0.1
"""Time for a suggestion, as a share of that for a fold, from which one is made ahead."""


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
        settings: `method`, `uncertainty`, `seed` and `stop_when` of the optimizer.
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
            raise RunFailed(fit.error) if fit.exception is None else fit.exception
        return float(self.error_score)

    def tell(self, optimizer: Optimizer, number: int, fit: FoldFit) -> Observation:
        """Tell the optimizer what came of a suggestion."""
        value = self.value(fit)
        if math.isfinite(value):
            return optimizer.tell(number, value)
        return optimizer.fail(number, fit.error or "no reason given")

    def budget(self, n_folds: int) -> int:
        """Fold fits to make: no more than a small finite space has pairs of config and fold."""
        grid = self.space.grid(GRID_LIMIT)
        return self.n_evaluations if grid is None else min(self.n_evaluations, len(grid) * n_folds)


class Crew(Protocol):
    """Whoever trains the folds."""

    @property
    def slots(self) -> int:
        """Folds trained at a time, at least 1; may change."""

    def start(self, suggestion: Suggestion) -> None:
        """Have a fold trained."""

    def finished(self, wait: bool) -> list[tuple[Suggestion, FoldFit]]:
        """What has been trained since the last call; with `wait`, after a moment if nothing has."""


class OwnProcess:
    """Trains one fold after the other in this process.

    Args:
        folds: what to train.
        tasks: told of every fold.
    """

    slots = 1

    def __init__(self, folds: CrossValidation, tasks: FitTasks) -> None:
        self._folds = folds
        self._tasks = tasks
        self._started: list[Suggestion] = []

    def start(self, suggestion: Suggestion) -> None:
        """Put a fold down for training."""
        self._started.append(suggestion)

    def finished(self, wait: bool) -> list[tuple[Suggestion, FoldFit]]:
        """Train what was put down, with `wait`."""
        if not wait:
            return []
        started, self._started = self._started, []
        return [(suggestion, self._train(suggestion)) for suggestion in started]

    def _train(self, suggestion: Suggestion) -> FoldFit:
        number, fold = suggestion.id, suggestion.context
        fit = self._folds.train(suggestion.config, fold, self._tasks.training(number, fold))
        self._tasks.ended(number)
        return fit


class Search:
    """One search that is kept in memory.

    With one slot every suggestion knows all earlier scores. With several, one suggestion is made
    ahead while all of them are busy, where a slot would otherwise wait for it noticeably; it
    does not know the score of the fold whose place it takes.

    Args:
        plan: what to search.
        n_folds: number of folds.
        crew: who trains them.

    Attributes:
        optimizer: chooses what to train, and is told every score.
        stop_reason: what the stop rule said, None if it did not stop the search.
    """

    def __init__(self, plan: SearchPlan, n_folds: int, crew: Crew) -> None:
        self._plan = plan
        self._crew = crew
        self._budget = plan.budget(n_folds)
        self.optimizer = Optimizer(plan.space, n_folds, **plan.settings)
        self.stop_reason: str | None = None
        self._display = make_progress(plan.verbose)
        self._ready: deque[Suggestion] = deque()
        self._asked = self._running = 0
        self._think_seconds = self._fold_seconds = 0.0
        self._trained: list[TrainedFold] = []

    def run(self) -> list[TrainedFold]:
        """Every evaluation, in the order told."""
        n_folds = self.optimizer.n_contexts
        self._display.on_start(TITLE, self._budget, self._crew.slots, n_folds)
        try:
            while len(self._trained) < self._budget:
                self._step()
        finally:
            self._display.on_finish()
        return self._trained

    def _step(self) -> None:
        """Start what can be, take what has been trained, and ask for more where there is room."""
        slots = self._crew.slots
        while self._ready and self._running < slots:
            self._start(self._ready.popleft())
        think = self._asked < self._budget and (self._running < slots or self._ahead(slots))
        for suggestion, fit in self._crew.finished(wait=not think):
            self._tell(suggestion, fit)
        if think:
            self._ask()

    def _ahead(self, slots: int) -> bool:
        """Whether to make a suggestion while all slots are busy."""
        if slots == 1 or self._ready or not self._trained:
            return False
        return self._think_seconds > AHEAD_SHARE * self._fold_seconds

    def _ask(self) -> None:
        start = perf_counter()
        self._ready.append(self.optimizer.ask())
        self._asked += 1
        self._think_seconds = _recent(self._think_seconds, perf_counter() - start)

    def _start(self, suggestion: Suggestion) -> None:
        self._crew.start(suggestion)
        self._running += 1
        self._display.on_ask(suggestion)

    def _tell(self, suggestion: Suggestion, fit: FoldFit) -> None:
        observation = self._plan.tell(self.optimizer, suggestion.id, fit)
        self._running -= 1
        self._trained.append(TrainedFold(suggestion.config, suggestion.context, fit))
        self._fold_seconds = _recent(self._fold_seconds, fit.fit_time + fit.score_time)
        self._display.on_observation(observation, self._standing() if self._plan.verbose else {})
        if self.stop_reason is None and (reason := self.optimizer.stop_reason()) is not None:
            logger.info("The search stops: %s.", reason)
            self.stop_reason = reason
            self._ready.clear()
            self._asked = self._budget = len(self._trained) + self._running

    def _standing(self) -> dict[str, Any]:
        try:
            best = self.optimizer.recommend()
        except NothingObserved:
            return {}
        return {
            "best_robust": best.robust_value,
            "best_std": best.std,
            "best_config": best.config,
        }


def _recent(before: float, now: float) -> float:
    """A mean that follows the latest values; a value that is not known changes nothing."""
    return 0.7 * before + 0.3 * now if now >= 0 else before
