"""The running count of a run: what is done, what is under way, and how long the rest will take.

Counts that the runner passes in a status are believed; whatever it leaves out is counted here
from the asks and observations. Times come from a clock that never goes back.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from drbqo_ray.records import Config, Observation, Recommendation, Suggestion
from drbqo_ray.runtime.coverage import Coverage

Clock = Callable[[], float]
RECENT = 20
"""Outcomes, or one a slot if that is more, whose pace tells how long the rest will take."""


def utilization(busy: float, room: float) -> float | None:
    """Share of the slots' time in which evaluations ran, None while there was no such time.

    The time counts from the start of the first evaluation to the end of the last one: Ray and
    the workers starting up is not in it, a slot that waits for its next evaluation is.

    Args:
        busy: seconds that the evaluations ran, added up.
        room: slots times seconds, from the first start to the last end.
    """
    return min(busy / room, 1.0) if room > 0 else None


class Tally:
    """Counts of one run.

    Attributes:
        run_name: name of the run.
        n_evaluations: the whole budget.
        slots: evaluations that can run side by side, None when unknown.
        n_folds: number of folds, None when unknown.
        done: evaluations with an outcome, failed ones included.
        failed: evaluations that failed.
        running: evaluations handed out and not answered yet.
        best_robust: best robust value so far, None when there is none.
        best_std: its posterior standard deviation, None when there is none.
        best_config: the config that has it, None when there is none.
        fold_counts: evaluations done by fold.
        last_failure: the last evaluation that failed, None when there is none.
        stop_reason: what the stop rule said when it ended the run, None when it did not.
        coverage: of how many folds there are scores, once the run is over.
    """

    def __init__(
        self,
        run_name: str,
        n_evaluations: int,
        slots: int | None,
        clock: Clock = time.monotonic,
        n_folds: int | None = None,
    ) -> None:
        self.run_name = run_name
        self.n_evaluations = n_evaluations
        self.slots = slots
        self.n_folds = n_folds
        self.done = 0
        self.failed = 0
        self.running = 0
        self.best_robust: float | None = None
        self.best_std: float | None = None
        self.best_config: Config | None = None
        self.fold_counts: dict[int, int] = {}
        self.last_failure: Observation | None = None
        self.stop_reason: str | None = None
        self.coverage: Coverage | None = None
        self._clock = clock
        self._start = self._last = clock()
        self._begin: float | None = None
        self._seconds: float | None = None
        self._told_seconds = self._start
        self._arrivals: deque[float] = deque()
        self._busy = 0.0
        self._utilization: float | None = None
        self._fold_seconds: float | None = None

    def ask(self, suggestion: Suggestion) -> None:
        """Count an evaluation that was handed out."""
        self._pass_time()
        if self._begin is None:
            self._begin = self._last
        self.running += 1

    def observe(self, observation: Observation, status: Mapping[str, Any]) -> None:
        """Count an outcome, then take over what the status knows better."""
        self._pass_time()
        self._arrivals.append(self._last)
        slots = max(self.slots or 1, 1)
        while len(self._arrivals) > max(RECENT, slots) + slots:
            self._arrivals.popleft()
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
        config = status.get("best_config")
        if isinstance(config, Mapping):
            self.best_config = dict(config)
        self._utilization = _number(status.get("utilization"))
        self._fold_seconds = _number(status.get("fold_seconds"))
        self._take_seconds(_number(status.get("seconds")))
        counts = status.get("fold_counts")
        if isinstance(counts, Mapping):
            self.fold_counts = _counts(counts.items())
        elif isinstance(counts, (list, tuple)):
            self.fold_counts = _counts(enumerate(counts))

    def finish(self, result: object) -> None:
        """The run is over: take over recommendation and stop reason, if the result has them."""
        self._take_seconds(self.seconds)
        self.running = 0
        reason = getattr(result, "stop_reason", None)
        self.stop_reason = reason if isinstance(reason, str) else None
        coverage = getattr(result, "coverage", None)
        self.coverage = coverage if isinstance(coverage, Coverage) else None
        found = getattr(result, "recommendation", None)
        if isinstance(found, Recommendation):
            self.best_robust, self.best_std = found.robust_value, found.std
            self.best_config = found.config

    @property
    def seconds(self) -> float:
        """Seconds since the start; those before a resume count if the status says so."""
        if self._seconds is None:
            return self._clock() - self._start
        return self._seconds + self._clock() - self._told_seconds

    @property
    def seconds_left(self) -> float | None:
        """Seconds the rest will take at the pace of late, None while there is none.

        The pace is that from an outcome to the one as many later as there are slots, since those
        of several slots often come together. So the start of Ray and of its workers is not in it.
        An outcome that is overdue slows it down.
        """
        if not self._left:
            return 0.0
        arrivals, slots, now = list(self._arrivals), max(self.slots or 1, 1), self._clock()
        rounds = [late - early for early, late in zip(arrivals, arrivals[slots:], strict=False)]
        if not rounds:
            return None
        usual = sum(rounds) / len(rounds)
        usual = max(usual, (sum(rounds) + now - arrivals[-slots]) / (len(rounds) + 1))
        return max(usual / slots * self._left - min(now - arrivals[-1], usual), 0.0)

    @property
    def least_seconds_left(self) -> float | None:
        """Seconds the rest will take at the least, if nothing but folds takes time."""
        if self._fold_seconds is None:
            return None
        waiting = max(self._left - self.running, 0)
        return self._fold_seconds * waiting / max(self.slots or 1, 1)

    @property
    def utilization(self) -> float | None:
        """See `utilization`; None when unknown."""
        if self._utilization is not None:
            return self._utilization
        begin = self._last if self._begin is None else self._begin
        return utilization(self._busy, (self.slots or 0) * (self._last - begin))

    @property
    def _left(self) -> int:
        return max(self.n_evaluations - self.done, 0)

    def _take_seconds(self, seconds: float | None) -> None:
        if seconds is not None:
            self._seconds, self._told_seconds = seconds, self._clock()

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
