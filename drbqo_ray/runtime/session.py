"""One run as its driver sees it: what runs, what waits to be told, what to ask for next.

A session never blocks. It starts calls and evaluations and is told when one of them is ready.

    opening --snapshot--> running --budget used or stop()--> finishing --final--> done
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from textwrap import indent
from typing import Any

from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.callbacks import Callbacks
from drbqo_ray.runtime.coordinator import Final, Snapshot
from drbqo_ray.runtime.executor import RunHost, Ticket
from drbqo_ray.runtime.failures import Failures
from drbqo_ray.runtime.folds import Folds
from drbqo_ray.runtime.plan import Plan
from drbqo_ray.runtime.result import Result, result_of
from drbqo_ray.runtime.status import RunStatus
from drbqo_ray.runtime.terminal import error_line, printable_lines

BEST_SECONDS = 0.25
_logger = logging.getLogger(__name__)


class Session:
    """Drives one run.

    Args:
        plan: what to run.
        host: the run on its executor.
        callbacks: told of every ask and observation.
        standing: counts shown to the user, shared by the runs of one `run_many`.
        watch_best: whether the best value so far is wanted for a display.
    """

    def __init__(
        self,
        plan: Plan,
        host: RunHost,
        callbacks: Callbacks,
        standing: RunStatus,
        watch_best: bool,
    ) -> None:
        self._plan = plan
        self._callbacks = callbacks
        self._standing = standing
        self._next_best = 0.0 if watch_best else float("inf")
        self._host = host
        self._folds = Folds(plan.limits, host)
        self._calls: dict[Ticket, Callable[[Any], None]] = {}
        self._ready: deque[Suggestion] = deque()
        self._outbox: list[Observation] = []
        self._told: list[Observation] = []
        self._next_id = 0
        self._opened = self._taking = self._telling = self._finishing = False
        self._reason: str | None = None
        self._stop_reason: str | None = None
        self._failure: str | None = None
        self._failures = Failures(
            plan.limits.max_consecutive_failures, plan.problem.n_folds, plan.problem.space
        )
        self.result: Result | None = None
        self.error: BaseException | None = None
        self._call(self._on_snapshot, "snapshot")

    # what the loop sees

    @property
    def done(self) -> bool:
        """Whether the run has ended, with a result or an error."""
        return self.result is not None or self.error is not None

    @property
    def running(self) -> int:
        """Evaluations that occupy a slot."""
        return len(self._folds)

    @property
    def tickets(self) -> list[Ticket]:
        """Everything the session waits for."""
        return [*self._calls, *self._folds.tickets]

    def pump(self, slots: int, free: int) -> None:
        """Tell what is known, start what fits into `free` of `slots`, ask for more."""
        if not self._opened or self._finishing:
            return
        if self._outbox and not self._telling:
            self._send_outcomes()
        limit = self._plan.limits.max_in_flight or slots
        going = not self._reason and not self._doubtful
        while self._ready and going and min(free, limit - self.running) > 0:
            self._start(self._ready.popleft())
            free -= 1
        if self._reason is None:
            self._request(limit)
        if self._idle and (self._reason or self._used_up):
            self._finishing = True
            reason = self._reason or "finished"
            self._call(self._on_final, "finish", reason, self._stop_reason)

    def on_ready(self, ticket: Ticket) -> None:
        """A call or an evaluation has come to its end."""
        if self.done:
            return
        handler = self._calls.pop(ticket, None)
        if handler is None:
            self._on_trained(self._folds.collect(ticket))
            return
        try:
            found = self._host.result(ticket)
        except Exception as error:
            self._abort(error)
        else:
            handler(found)

    def tick(self) -> None:
        """What is due by the clock: time limits, and a look at the best value."""
        if not self._opened or self.done:
            return
        self._outbox += self._folds.overdue()
        now = time.monotonic()
        if now >= self._next_best and not self._finishing:
            self._next_best = float("inf")
            self._call(self._on_best, "best")

    def stop(self, reason: str) -> None:
        """Ask for nothing more; what runs may come to its end."""
        self._reason = self._reason or reason

    def cancel(self) -> None:
        """End what runs; it counts as not evaluated."""
        self._folds.cancel_all()

    def abandon(self, wait: bool = True) -> None:
        """Let go of everything; with `wait` the journal is closed first if that is quick."""
        self.cancel()
        self._host.close(wait)

    # inside

    @property
    def _used_up(self) -> bool:
        return self._next_id >= self._plan.limits.n_evaluations and not self._ready

    @property
    def _doubtful(self) -> bool:
        """Whether too many have failed in a row, counting those not acknowledged yet."""
        return self._failures.too_many(o.status == "failed" for o in (*self._told, *self._outbox))

    @property
    def _idle(self) -> bool:
        """Whether nothing is on its way; calls that are merely asked for may still be."""
        return not (self._folds or self._outbox or self._telling)

    def _call(self, handler: Callable[[Any], None], method: str, *arguments: Any) -> None:
        self._calls[self._host.call(method, *arguments)] = handler

    def _request(self, limit: int) -> None:
        """Ask for as many suggestions as there are places for them.

        With one place the next suggestion has to know every outcome, so it is asked for only
        when all of them are acknowledged.
        """
        room = limit - self.running - len(self._ready)
        if limit == 1 and (self._outbox or self._telling):
            return
        room = min(room, self._plan.limits.n_evaluations - self._next_id)
        if room > 0 and not self._taking:
            self._taking = True
            self._call(self._on_suggestions, "take", self._next_id, room, limit)

    def _start(self, suggestion: Suggestion) -> None:
        self._folds.start(suggestion)
        self._standing.started(self._plan.place.name, suggestion)
        self._callbacks.call("on_ask", suggestion)

    def _send_outcomes(self) -> None:
        batch, self._outbox = self._outbox, []
        self._told = batch
        self._telling = True
        self._call(self._on_told, "tell", batch)

    def _on_trained(self, outcome: Observation | None) -> None:
        if outcome is not None:
            self._outbox.append(outcome)
            self._standing.trained(self._plan.place.name, outcome.id)

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        self._opened = True
        self._ready.extend(snapshot.pending[: self._plan.limits.n_evaluations - snapshot.n_done])
        self._next_id = snapshot.n_suggestions
        self._standing.resumed(snapshot)
        self._failures.resumed(snapshot.fold_counts, snapshot.fold_failures)

    def _on_suggestions(self, suggestions: list[Suggestion]) -> None:
        if not suggestions:
            self._call(self._on_stop_reason, "stop_reason")
            return
        self._taking = False
        self._ready.extend(suggestions)
        self._next_id += len(suggestions)

    def _on_stop_reason(self, reason: str | None) -> None:
        self._taking = False
        if reason is not None and self._reason is None:
            self._reason, self._stop_reason = "finished", reason
            _logger.info("The run in %s stops: %s.", self._plan.place.directory, reason)

    def _on_told(self, observations: list[Observation]) -> None:
        self._telling = False
        self._told = []
        for observation in observations:
            self._standing.ended(self._plan.place.name, observation)
            self._callbacks.call("on_observation", observation)
            if observation.status == "failed":
                _warn(observation, whole=self._standing.failed_here == 1)
            self._count_failures(observation)

    def _count_failures(self, observation: Observation) -> None:
        why = self._failures.count(observation)
        if why is None or self._reason is not None:
            return
        place = self._plan.place
        self._failure = why if place.temporary else f"{why} It is kept in {place.directory}."
        self._reason = "failed"
        self.cancel()

    def _on_best(self, best: dict[str, Any]) -> None:
        self._standing.best(best)
        self._next_best = time.monotonic() + BEST_SECONDS

    def _on_final(self, final: Final) -> None:
        reason = self._reason or "finished"
        plan = self._plan
        self.result = result_of(
            plan.place, final, reason, self._failure, plan.labels, self._stop_reason
        )
        self._calls.clear()
        self._host.close(wait=False)

    def _abort(self, error: BaseException) -> None:
        self.error = error
        self._calls.clear()
        self.abandon()


def _warn(observation: Observation, whole: bool) -> None:
    """Log a failed evaluation: one warning each; with `whole`, its traceback too."""
    reason = observation.reason or ""
    said = error_line(reason)
    if whole and len(reason.splitlines()) > 1:
        said += "\n" + indent(printable_lines(reason), "  ")
    _logger.warning("Evaluation %d (fold %d) failed: %s", observation.id, observation.context, said)
