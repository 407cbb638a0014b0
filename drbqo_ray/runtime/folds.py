"""The evaluations of one run that are under way: started, retried, timed and cancelled."""

from __future__ import annotations

import time
from dataclasses import dataclass

from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.executor import EvaluationLost, RunHost, Ticket
from drbqo_ray.runtime.plan import Limits

CANCEL_SECONDS = 10.0


@dataclass
class Fold:
    """One evaluation under way.

    Attributes:
        suggestion: what is evaluated.
        attempt: how often it was started.
        submitted: when it was handed to the executor.
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

    Lost workers, lost nodes and lack of memory are answered here, for every executor, by starting
    the evaluation again, at most `max_retries` times.

    Args:
        limits: how evaluations are run.
        host: the run on its executor.
    """

    def __init__(self, limits: Limits, host: RunHost) -> None:
        self._limits = limits
        self._host = host
        self._folds: dict[Ticket, Fold] = {}
        self._ending = False

    def __len__(self) -> int:
        return len(self._folds)

    @property
    def tickets(self) -> list[Ticket]:
        """What to wait for."""
        return list(self._folds)

    def start(self, suggestion: Suggestion, attempt: int = 1) -> None:
        """Hand an evaluation to the executor."""
        ticket = self._host.start(suggestion, attempt)
        self._folds[ticket] = Fold(suggestion, attempt, time.monotonic())

    def collect(self, ticket: Ticket) -> Observation | None:
        """The outcome of an evaluation that has ended; None without one, or if started again."""
        fold = self._folds.pop(ticket, None)
        if fold is None:
            return None
        try:
            outcome: Observation = self._host.result(ticket)
            return outcome
        except EvaluationLost as lost:
            if lost.cause == "error":
                return self._failed(fold, "error", str(lost))
            if fold.cancelled is not None:
                return None if self._ending else self._timed_out(fold)
            if fold.attempt <= self._limits.max_retries:
                if not self._ending:
                    self.start(fold.suggestion, fold.attempt + 1)
                return None
            reason = f"{lost.cause}: {lost} (started {fold.attempt} times)"
            return self._failed(fold, lost.cause, reason)

    def cancel_all(self) -> None:
        """End every evaluation for good; what does not end by itself has no outcome."""
        self._ending = True
        for ticket, fold in self._folds.items():
            self._cancel(ticket, fold)

    def overdue(self) -> list[Observation]:
        """Cancel what has run too long; outcomes of what would not even be cancelled."""
        now = time.monotonic()
        limit = self._limits.timeout_seconds
        if limit is not None:
            ages = self._host.ages()
            for ticket, fold in self._folds.items():
                age = ages.get((fold.suggestion.id, fold.attempt))
                if fold.started is None and age is not None:
                    fold.started = now - age
                if fold.started is not None and now - fold.started >= limit:
                    self._cancel(ticket, fold)
        given_up = [
            ticket
            for ticket, fold in self._folds.items()
            if fold.cancelled is not None and now - fold.cancelled > CANCEL_SECONDS
        ]
        folds = [self._folds.pop(ticket) for ticket in given_up]
        return [] if self._ending else [self._timed_out(fold) for fold in folds]

    def _cancel(self, ticket: Ticket, fold: Fold) -> None:
        if fold.cancelled is None:
            fold.cancelled = time.monotonic()
            self._host.cancel(ticket)

    def _timed_out(self, fold: Fold) -> Observation:
        limit = self._limits.timeout_seconds
        return self._failed(fold, "timeout", f"timeout: stopped after {limit:g} seconds")

    def _failed(self, fold: Fold, cause: str, reason: str) -> Observation:
        seconds = (fold.cancelled or time.monotonic()) - (fold.started or fold.submitted)
        return Observation.failure(
            fold.suggestion, cause, reason, seconds=seconds, attempts=fold.attempt
        )
