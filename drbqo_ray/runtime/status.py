"""The counts of one run, or of all runs of a `run_many`, as a display needs them."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.callbacks import Callbacks
from drbqo_ray.runtime.coordinator import Snapshot
from drbqo_ray.runtime.tally import Clock, utilization


class RunStatus:
    """Counts that the sessions keep current.

    Args:
        shown: displays, told of every change.
        slots: evaluations that can run at a time.
        clock: seconds that never go back.

    Attributes:
        failed_here: evaluations that failed since this was made.
    """

    def __init__(
        self, shown: Callbacks, slots: Callable[[], int], clock: Clock = time.monotonic
    ) -> None:
        self._shown = shown
        self._slots = slots
        self._clock = clock
        self.failed_here = 0
        self._done = self._failed = self._ended = 0
        self._folds: dict[int, int] = {}
        self._best: dict[str, Any] = {}
        self._running: dict[tuple[str, int], float] = {}
        self._busy = 0.0
        self._earlier = 0.0
        self._opened = clock()
        self._first = self._last = float("inf")
        self._offers = [(self._opened, slots())]

    def resumed(self, snapshot: Snapshot) -> None:
        """A run was opened that has come this far."""
        self._done += snapshot.n_done
        self._failed += snapshot.n_failed
        for fold, count in snapshot.fold_counts.items():
            self._folds[fold] = self._folds.get(fold, 0) + count
        self._earlier = max(self._earlier, snapshot.seconds)
        self._shown.call("on_status", self.status())

    def started(self, run: str, suggestion: Suggestion) -> None:
        """An evaluation of a run was started."""
        self._running[run, suggestion.id] = self._clock()
        self._shown.call("on_status", self.status())

    def trained(self, run: str, number: int) -> None:
        """An evaluation has left its slot; its outcome is not acknowledged yet."""
        self._running.pop((run, number), None)

    def ended(self, run: str, observation: Observation) -> None:
        """An outcome was acknowledged."""
        self._running.pop((run, observation.id), None)
        self._last = self._clock()
        self._first = min(self._first, self._last - observation.seconds)
        self._busy += observation.seconds
        self._done += 1
        self._ended += 1
        self._failed += observation.status == "failed"
        self.failed_here += observation.status == "failed"
        self._folds[observation.context] = self._folds.get(observation.context, 0) + 1
        self._shown.call("on_observation", observation, self.status())

    def best(self, best: dict[str, Any]) -> None:
        """The best value so far is this."""
        if best != self._best:
            self._best = best
            self._shown.call("on_status", self.status())

    def status(self) -> dict[str, Any]:
        """The counts."""
        now, slots = self._clock(), self._slots()
        if slots != self._offers[-1][1]:
            self._offers.append((now, slots))
        status: dict[str, Any] = {
            "done": self._done,
            "failed": self._failed,
            "running": len(self._running),
            "slots": slots,
            "seconds": self._earlier + now - self._opened,
            "fold_counts": dict(self._folds),
            **self._best,
        }
        if self._ended:
            status["fold_seconds"] = self._busy / self._ended
            status["utilization"] = self._utilization(now if self._running else self._last)
        return status

    def _utilization(self, end: float) -> float | None:
        """See `utilization`; what runs counts from when it was handed out."""
        running = sum(end - max(start, self._first) for start in self._running.values())
        offers = [*self._offers, (end, 0)]
        room = sum(
            slots * max(min(after, end) - max(begin, self._first), 0.0)
            for (begin, slots), (after, _) in pairwise(offers)
        )
        return utilization(self._busy + running, room)
