"""The running count of a run: what is done, what is under way, and how long the rest will take.

Counts that the runner passes in a status are believed; whatever it leaves out is counted here
from the asks and observations. Times come from a clock that never goes back.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from drbqo_ray.coverage import Coverage
from drbqo_ray.records import Observation, Recommendation, Suggestion

Clock = Callable[[], float]


class Tally:
    """Counts of one run.

    Attributes:
        run_name: name of the run.
        n_evaluations: the whole budget.
        slots: evaluations that can run side by side, None when unknown.
        done: evaluations with an outcome, failed ones included.
        failed: evaluations that failed.
        running: evaluations handed out and not answered yet.
        best_robust: best robust value so far, None when there is none.
        best_std: its posterior standard deviation, None when there is none.
        fold_counts: evaluations done by fold.
        last_failure: the last evaluation that failed, None when there is none.
        stop_reason: what the stop rule said when it ended the run, None when it did not.
        coverage: of how many folds there are scores, once the run is over.
    """

    def __init__(
        self, run_name: str, n_evaluations: int, slots: int | None, clock: Clock = time.monotonic
    ) -> None:
        self.run_name = run_name
        self.n_evaluations = n_evaluations
        self.slots = slots
        self.done = 0
        self.failed = 0
        self.running = 0
        self.best_robust: float | None = None
        self.best_std: float | None = None
        self.fold_counts: dict[int, int] = {}
        self.last_failure: Observation | None = None
        self.stop_reason: str | None = None
        self.coverage: Coverage | None = None
        self._clock = clock
        self._start = self._last = clock()
        self._seconds: float | None = None
        self._answered = 0
        self._busy = 0.0
        self._utilization: float | None = None

    def ask(self, suggestion: Suggestion) -> None:
        """Count an evaluation that was handed out."""
        self._pass_time()
        self.running += 1

    def observe(self, observation: Observation, status: Mapping[str, Any]) -> None:
        """Count an outcome, then take over what the status knows better."""
        self._pass_time()
        self._answered += 1
        self.running = max(self.running - 1, 0)
        self.done += 1
        if observation.status == "failed":
            self.failed += 1
            self.last_failure = observation
        counts = Counter(self.fold_counts)
        counts[observation.context] += 1
        self.fold_counts = dict(counts)
        self.update(status)

    def update(self, status: Mapping[str, Any]) -> None:
        """Take over the values of a status; missing or odd ones change nothing."""
        for name in ("done", "failed", "running", "slots"):
            count = _number(status.get(name))
            if count is not None:
                setattr(self, name, int(count))
        for name in ("best_robust", "best_std"):
            value = _number(status.get(name))
            if value is not None:
                setattr(self, name, value)
        self._utilization = _number(status.get("utilization", status.get("utilisation")))
        self._seconds = _number(status.get("seconds"))
        counts = status.get("fold_counts")
        if isinstance(counts, Mapping):
            self.fold_counts = _counts(counts.items())
        elif isinstance(counts, (list, tuple)):
            self.fold_counts = _counts(enumerate(counts))

    def finish(self, result: object) -> None:
        """Take over the recommendation of a result, if it has one, and why it was stopped."""
        reason = getattr(result, "stop_reason", None)
        self.stop_reason = reason if isinstance(reason, str) else None
        coverage = getattr(result, "coverage", None)
        self.coverage = coverage if isinstance(coverage, Coverage) else None
        found = getattr(result, "recommendation", None)
        if isinstance(found, Recommendation):
            self.best_robust, self.best_std = found.robust_value, found.std

    @property
    def seconds(self) -> float:
        """Seconds since the start; those before a resume count if the status says so."""
        here = self._clock() - self._start
        if self._seconds is None:
            return here
        return self._seconds + self._clock() - self._last

    @property
    def seconds_left(self) -> float | None:
        """Seconds the rest will take at the pace of this session, None before the first outcome."""
        if not self._answered:
            return None
        pace = (self._last - self._start) / self._answered
        since = self._clock() - self._last
        return max(pace * max(self.n_evaluations - self.done, 0) - since, 0.0)

    @property
    def utilization(self) -> float | None:
        """Share of the slots' time spent on evaluations, None when unknown."""
        if self._utilization is not None:
            return self._utilization
        available = (self.slots or 0) * (self._last - self._start)
        return min(self._busy / available, 1.0) if available > 0 else None

    def _pass_time(self) -> None:
        now = self._clock()
        self._busy += self.running * (now - self._last)
        self._last = now


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _counts(pairs: Iterable[tuple[Any, Any]]) -> dict[int, int]:
    found = {}
    for fold, count in pairs:
        number, size = _number(fold), _number(count)
        if number is not None and size is not None:
            found[int(number)] = int(size)
    return found
