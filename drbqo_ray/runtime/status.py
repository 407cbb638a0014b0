"""The status of a run: what is done, what is under way, and how long the rest will take.

There is one `RunStatus` for a run, or for all runs of a `run_many`. Sessions keep it current, and
displays read it. Times come from a clock that never goes back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from drbqo_ray.records import Observation, Recommendation, Suggestion
from drbqo_ray.runtime.callbacks import Callbacks
from drbqo_ray.runtime.terminal import printable

Clock = Callable[[], float]
RECENT = 20
"""Outcomes, or one a slot if that is more, by whose pace the rest is estimated."""
MOST_NAMED, NAME_SHOWN = 10, 40


def utilization(busy: float, room: float) -> float | None:
    """Share of the slots' time in which evaluations ran, None while there was no such time.

    The time counts from the start of the first evaluation to the end of the last one: Ray and
    the workers starting up is not in it, a slot that waits for its next evaluation is.

    Args:
        busy: seconds that the evaluations ran, added up.
        room: slots times seconds, from the first start to the last end.
    """
    return min(busy / room, 1.0) if room > 0 else None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a run came through; what its summary always says.

    Attributes:
        n_folds: number of folds.
        missing: folds without a single score.
        n_failed: evaluations that failed.
        context_names: names of the folds; empty where they are counted.
    """

    n_folds: int
    missing: tuple[int, ...]
    n_failed: int
    context_names: tuple[str, ...] = ()

    @staticmethod
    def of(
        observations: Iterable[Observation], n_folds: int, context_names: tuple[str, ...] = ()
    ) -> Coverage:
        """The coverage of these outcomes."""
        scored, n_failed = set(), 0
        for seen in observations:
            if seen.status == "ok":
                scored.add(seen.context)
            else:
                n_failed += 1
        missing = tuple(fold for fold in range(n_folds) if fold not in scored)
        return Coverage(n_folds, missing, n_failed, context_names)

    def __str__(self) -> str:
        trained = f"trained on {self.n_folds - len(self.missing)} of {self.n_folds} folds"
        plural = "" if self.n_failed == 1 else "s"
        text = f"{trained}, {self.n_failed} evaluation{plural} failed"
        if not self.missing:
            return text
        names = self.context_names or range(self.n_folds)
        named = ", ".join(printable(names[fold], NAME_SHOWN) for fold in self.missing[:MOST_NAMED])
        more = len(self.missing) - MOST_NAMED
        found = f"{text}; no score on {'' if self.context_names else 'fold '}{named}"
        return found + (f" and {more} more" if more > 0 else "")


class RunStatus:
    """Counts and times of one run, or of the runs of a `run_many` together.

    A display may read it from a thread of its own: values are replaced, never changed in place.

    Args:
        title: what the display is headed with.
        n_evaluations: the whole budget, None for as many as there is time for.
        slots: asked for the evaluations that can run at a time.
        n_folds: number of folds.
        display: told of every change by `on_start(status)`, `on_change()` and `on_finish()`.
        clock: seconds that never go back.
        context_names: names of the folds; empty where they are counted.
        time_budget: seconds that the run may take, None without limit.

    Attributes:
        slots: evaluations that could run at a time when that was last asked for.
        done: evaluations with an outcome, failed ones included.
        failed: evaluations that failed; `failed_here` those since this was made.
        running: evaluations handed out and not answered yet.
        fold_counts: evaluations done, by fold.
        best: the recommendation so far, None before there is one.
        last_failure: the last evaluation that failed here, None when none did.
        utilization: see `utilization`; None before the first evaluation ended here.
        fold_seconds: mean seconds of an evaluation, None before one ended here.
        stop_reason: what the stop rule said when it stopped the run, None when it did not.
        coverage: how much came through, None until the run is over.
    """

    def __init__(
        self,
        title: str,
        n_evaluations: int | None,
        slots: Callable[[], int],
        n_folds: int,
        display: object = None,
        clock: Clock = time.monotonic,
        context_names: tuple[str, ...] = (),
        time_budget: float | None = None,
    ) -> None:
        self.context_names = context_names
        self.title = title
        self.time_budget = time_budget
        self._ends = math.inf
        self.n_evaluations = n_evaluations
        self.n_folds = n_folds
        self.clock = clock
        self.slots = slots()
        self.done = self.failed = self.failed_here = self.running = 0
        self.fold_counts: dict[int, int] = {}
        self.best: Recommendation | None = None
        self.last_failure: Observation | None = None
        self.utilization: float | None = None
        self.fold_seconds: float | None = None
        self.stop_reason: str | None = None
        self.coverage: Coverage | None = None
        self._display = Callbacks([display])
        self._ask_slots = slots
        self._begun: dict[tuple[str, int], float] = {}
        self._busy = self._earlier = 0.0
        self._ended = 0
        self._opened = clock()
        self._first = self._last = float("inf")
        self._offers = [(self._opened, self.slots)]
        self._arrivals: tuple[float, ...] = ()
        self._display.call("on_start", self)

    # what sessions say

    def resumed(
        self,
        done: int,
        failed: int,
        fold_counts: Mapping[int, int],
        seconds: float,
        ends: float = math.inf,
    ) -> None:
        """A run was opened that has come this far, and has time until the clock says `ends`."""
        self._ends = ends
        self.done += done
        self.failed += failed
        self._count_folds(fold_counts)
        self._earlier = max(self._earlier, seconds)
        self._change()

    def started(self, run: str, suggestion: Suggestion) -> None:
        """An evaluation of a run was started."""
        self._begun[run, suggestion.id] = self.clock()
        self._change()

    def trained(self, run: str, number: int) -> None:
        """An evaluation has left its slot; its outcome is not acknowledged yet."""
        self._begun.pop((run, number), None)

    def ended(self, run: str, observation: Observation) -> None:
        """An outcome was acknowledged."""
        self._begun.pop((run, observation.id), None)
        self._last = self.clock()
        self._first = min(self._first, self._last - observation.seconds)
        self._busy += observation.seconds
        self._ended += 1
        self.done += 1
        if observation.status == "failed":
            self.failed += 1
            self.failed_here += 1
            self.last_failure = observation
        self._count_folds({observation.context: 1})
        slots = max(self.slots, 1)
        self._arrivals = (*self._arrivals, self._last)[-(max(RECENT, slots) + slots) :]
        self._change()

    def found(self, best: Recommendation | None) -> None:
        """The best config so far is this."""
        if best != self.best:
            self.best = best
            self._change()

    def finish(
        self,
        best: Recommendation | None = None,
        stop_reason: str | None = None,
        coverage: Coverage | None = None,
    ) -> None:
        """The run is over, with this answer if it has one."""
        self.best = best or self.best
        self.stop_reason, self.coverage = stop_reason, coverage
        self.running = 0
        self._display.call("on_finish")

    def _count_folds(self, counts: Mapping[int, int]) -> None:
        added = {fold: self.fold_counts.get(fold, 0) + count for fold, count in counts.items()}
        self.fold_counts = self.fold_counts | added

    def _change(self) -> None:
        now, self.slots = self.clock(), self._ask_slots()
        if self.slots != self._offers[-1][1]:
            self._offers.append((now, self.slots))
        self.running = len(self._begun)
        if self._ended:
            self.fold_seconds = self._busy / self._ended
            self.utilization = self._use(now if self._begun else self._last)
        self._display.call("on_change")

    def _use(self, end: float) -> float | None:
        """The utilization up to `end`; what runs counts from when it was handed out."""
        running = sum(end - max(start, self._first) for start in self._begun.values())
        offers = [*self._offers, (end, 0)]
        room = sum(
            slots * max(min(after, end) - max(begin, self._first), 0.0)
            for (begin, slots), (after, _) in pairwise(offers)
        )
        return utilization(self._busy + running, room)

    # what displays read

    @property
    def seconds(self) -> float:
        """Seconds that the run has been worked on, those before a resume included."""
        return self._earlier + self.clock() - self._opened

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the run will go on: until its time is over, or until the rest is done at the
        recent pace if that is sooner. None while neither is known."""
        by_clock = max(self._ends - self.clock(), 0.0)
        by_pace = self._seconds_at_pace()
        if math.isinf(by_clock):
            return by_pace
        return by_clock if by_pace is None else min(by_clock, by_pace)

    def _seconds_at_pace(self) -> float | None:
        """Seconds the rest will take at the recent pace, None while there is none.

        The pace is that from an outcome to the one as many later as there are slots, since those
        of several slots often come together. So the start of Ray and of its workers is not in it.
        An outcome that is overdue slows it down.
        """
        if self._left is None:
            return None
        if not self._left:
            return 0.0
        arrivals, slots, now = self._arrivals, max(self.slots, 1), self.clock()
        rounds = [late - early for early, late in zip(arrivals, arrivals[slots:], strict=False)]
        if not rounds:
            return None
        usual = sum(rounds) / len(rounds)
        usual = max(usual, (sum(rounds) + now - arrivals[-slots]) / (len(rounds) + 1))
        return max(usual / slots * self._left - min(now - arrivals[-1], usual), 0.0)

    @property
    def least_seconds_left(self) -> float | None:
        """Seconds the rest will take at the least, if nothing but folds takes time."""
        if self.fold_seconds is None or self._left is None:
            return None
        return self.fold_seconds * max(self._left - self.running, 0) / max(self.slots, 1)

    @property
    def share(self) -> float:
        """How much of the run is done, 0 to 1: of its evaluations or of its time, if that is
        more."""
        done = 0.0 if self.n_evaluations is None else self.done / max(self.n_evaluations, 1)
        if self.time_budget is not None and math.isfinite(self._ends):
            done = max(done, 1 - (self._ends - self.clock()) / self.time_budget)
        return min(max(done, 0.0), 1.0)

    @property
    def counts(self) -> str:
        """Evaluations done, and how many there will be if that is known."""
        return f"{self.done}" + ("" if self.n_evaluations is None else f"/{self.n_evaluations}")

    @property
    def _left(self) -> int | None:
        return None if self.n_evaluations is None else max(self.n_evaluations - self.done, 0)
