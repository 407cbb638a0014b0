"""The counts of one run, or of all runs of a `run_many`, as a display needs them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from drbqo_ray.cluster.keeper import Snapshot
from drbqo_ray.records import Observation


class Standing:
    """Counts that the sessions keep current.

    Args:
        show: called with each observation and the counts.
        slots: evaluations that can run at a time.
        fold_counts: whether folds are counted; across different runs that says nothing.
    """

    def __init__(
        self, show: Callable[[Observation, dict[str, Any]], None], slots: Callable[[], int]
    ) -> None:
        self._show = show
        self._slots = slots
        self._done = self._failed = self._running = 0
        self._folds: dict[int, int] = {}
        self._best: dict[str, float] = {}
        self._busy = 0.0
        self._earlier = 0.0
        self._begin = time.monotonic()
        self._capacity = 0.0
        self._last = self._begin

    def resumed(self, snapshot: Snapshot) -> None:
        """A run was opened that has come this far."""
        self._done += snapshot.n_done
        self._failed += snapshot.n_failed
        for fold, count in snapshot.fold_counts.items():
            self._folds[fold] = self._folds.get(fold, 0) + count
        self._earlier = max(self._earlier, snapshot.seconds)

    def started(self) -> None:
        """An evaluation was started."""
        self._pass_time()
        self._running += 1

    def ended(self, observation: Observation, seconds: float) -> None:
        """An outcome was acknowledged."""
        self._pass_time()
        self._running -= 1
        self._done += 1
        self._failed += observation.status == "failed"
        self._folds[observation.context] = self._folds.get(observation.context, 0) + 1
        self._busy += seconds

    def best(self, best: dict[str, float]) -> None:
        """The best value so far is this."""
        self._best = best

    def show(self, observation: Observation) -> None:
        """Pass an observation and the counts on to the display."""
        self._show(observation, self.status())

    def status(self) -> dict[str, Any]:
        """The counts."""
        self._pass_time()
        status: dict[str, Any] = {
            "done": self._done,
            "failed": self._failed,
            "running": self._running,
            "slots": self._slots(),
            "seconds": self._earlier + time.monotonic() - self._begin,
            "fold_counts": dict(self._folds),
            **self._best,
        }
        if self._capacity > 0:
            status["utilization"] = min(1.0, self._busy / self._capacity)
        return status

    def _pass_time(self) -> None:
        now = time.monotonic()
        self._capacity += self._slots() * (now - self._last)
        self._last = now
