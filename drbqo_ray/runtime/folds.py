"""The evaluations of one run that are under way: started, retried, timed and cancelled."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.plan import Limits
from drbqo_ray.runtime.slots import task_options
from drbqo_ray.runtime.tasks import evaluate_fold

CANCEL_SECONDS = 10.0
LOOK_SECONDS = 0.25
_TASK = ray.remote(evaluate_fold)


@dataclass
class Fold:
    """One evaluation under way.

    Attributes:
        suggestion: what is evaluated.
        attempt: how often it was started.
        submitted: when it was handed to Ray.
        started: when its worker began, None while that is not known.
        cancelled: when it was cancelled, None when it was not.
    """

    suggestion: Suggestion
    attempt: int
    submitted: float
    started: float | None = None
    cancelled: float | None = None


class Folds:
    """The evaluations of one run that are under way.

    Lost workers, lost nodes and lack of memory are answered here by starting the evaluation
    again, at most `max_retries` times, and not by Ray, which would retry without end when memory
    runs out.

    Args:
        limits: how evaluations are run.
        objective: reference of the objective in the object store.
        actor: the run's actor, told of starts when there is a time limit.
    """

    def __init__(self, limits: Limits, objective: Any, actor: Any) -> None:
        self._limits = limits
        self._objective = objective
        self._actor = actor
        self._task = _TASK.options(max_retries=0, **task_options(limits.resources))
        self._folds: dict[Any, Fold] = {}
        self._ending = False
        self._look: Any = None
        self._next_look = 0.0
        self._incarnation: str | None = None

    def __len__(self) -> int:
        return len(self._folds)

    @property
    def references(self) -> list[Any]:
        """The tasks to wait for."""
        return list(self._folds)

    def start(self, suggestion: Suggestion, attempt: int = 1) -> None:
        """Hand an evaluation to Ray."""
        watcher = self._actor if self._limits.timeout_seconds is not None else None
        reference = self._task.remote(
            self._objective, suggestion, attempt, self._limits.threads, watcher
        )
        self._folds[reference] = Fold(suggestion, attempt, time.monotonic())

    def collect(self, reference: Any) -> Observation | None:
        """The outcome of a task that has ended; None when it has none or was started again."""
        fold = self._folds.pop(reference, None)
        if fold is None:
            return None
        try:
            return ray.get(reference)
        except RayTaskError as error:
            return self._failed(fold, "error", str(error))
        except RayError as error:
            if fold.cancelled is not None:
                return None if self._ending else self._timed_out(fold)
            cause = "oom" if isinstance(error, OutOfMemoryError) else "lost"
            if fold.attempt <= self._limits.max_retries:
                if not self._ending:
                    self.start(fold.suggestion, fold.attempt + 1)
                return None
            text = str(error).strip() or type(error).__name__
            return self._failed(fold, cause, f"{cause}: {text} (started {fold.attempt} times)")

    def cancel_all(self) -> None:
        """End every evaluation for good; what does not end by itself has no outcome."""
        self._ending = True
        for reference, fold in self._folds.items():
            self._cancel(reference, fold)

    def overdue(self) -> list[Observation]:
        """Cancel what has run too long; outcomes of what would not even be cancelled."""
        now = time.monotonic()
        limit = self._limits.timeout_seconds
        if limit is not None:
            self._note_starts(now)
            for reference, fold in self._folds.items():
                if fold.started is not None and now - fold.started >= limit:
                    self._cancel(reference, fold)
        given_up = [
            reference
            for reference, fold in self._folds.items()
            if fold.cancelled is not None and now - fold.cancelled > CANCEL_SECONDS
        ]
        folds = [self._folds.pop(reference) for reference in given_up]
        return [] if self._ending else [self._timed_out(fold) for fold in folds]

    def _cancel(self, reference: Any, fold: Fold) -> None:
        if fold.cancelled is None:
            fold.cancelled = time.monotonic()
            with suppress(RayError, ValueError):
                ray.cancel(reference, force=True)

    def _note_starts(self, now: float) -> None:
        """Learn from the actor, without waiting, which evaluations have begun.

        An actor that was restarted may have forgotten a start: then it counts from now.
        """
        if self._look is not None:
            ready, _ = ray.wait([self._look], timeout=0)
            if not ready:
                return
            look, self._look = self._look, None
            with suppress(RayError):
                incarnation, ages = ray.get(look)
                restarted = self._incarnation not in (None, incarnation)
                self._incarnation = incarnation
                for fold in self._folds.values():
                    age = ages.get((fold.suggestion.id, fold.attempt))
                    if fold.started is None and (age is not None or restarted):
                        fold.started = now - (age or 0.0)
        if self._folds and now >= self._next_look:
            limit = self._limits.timeout_seconds or LOOK_SECONDS
            self._next_look = now + min(LOOK_SECONDS, limit / 20)
            self._look = self._actor.ages.remote()

    def _timed_out(self, fold: Fold) -> Observation:
        limit = self._limits.timeout_seconds
        return self._failed(fold, "timeout", f"timeout: stopped after {limit:g} seconds")

    def _failed(self, fold: Fold, cause: str, reason: str) -> Observation:
        seconds = (fold.cancelled or time.monotonic()) - (fold.started or fold.submitted)
        return Observation.failure(
            fold.suggestion, cause, reason, seconds=seconds, attempts=fold.attempt
        )
