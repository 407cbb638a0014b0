"""One run as its driver sees it: what runs, what waits to be told, what to ask for next.

A session never blocks. It starts calls and evaluations and is told when one of them is ready.

    opening --snapshot--> running --budgets used or stop()--> finishing --final--> done
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from drbqo_ray.problem import Limits
from drbqo_ray.records import Observation, Recommendation, Suggestion
from drbqo_ray.runtime.callbacks import Callbacks
from drbqo_ray.runtime.coordinator import Final, Plan, Snapshot
from drbqo_ray.runtime.deadline import Deadline
from drbqo_ray.runtime.executor import EvaluationFailed, EvaluationLost, RunHost, Ticket
from drbqo_ray.runtime.failures import Failures
from drbqo_ray.runtime.result import Result, result_of
from drbqo_ray.runtime.status import RunStatus
from drbqo_ray.runtime.terminal import error_line, printable_lines

BEST_SECONDS = 0.25
UPLOAD_SECONDS = 5.0
_logger = logging.getLogger(__name__)
CANCEL_SECONDS = 10.0
MOST_LATE = 5
TIME_UP = "time budget used up ({:g} s)"


class Session:
    """Drives one run.

    Args:
        plan: what to run.
        host: the run on its executor.
        callbacks: told of every ask and observation.
        status: shown to the user, shared by the runs of one `run_many`.
        watch_best: whether the best value so far is wanted for a display.
        since: when its time began; None: now.
    """

    def __init__(
        self,
        plan: Plan,
        host: RunHost,
        callbacks: Callbacks,
        status: RunStatus,
        watch_best: bool,
        since: float | None = None,
    ) -> None:
        self._plan = plan
        self._since = status.clock() if since is None else since
        self._alone = since is not None
        self._deadline = Deadline(plan.limits, plan.problem, status.clock)
        self._late = 0
        self._callbacks = callbacks
        self._status = status
        self._next_best = 0.0 if watch_best else float("inf")
        self._next_upload = float("inf") if plan.place.remote is None else 0.0
        self._upload_trouble: str | None = None
        self._host = host
        self._folds = Folds(plan.limits, host, status.clock, self._deadline.fits)
        self._calls: dict[Ticket, Callable[[Any], None]] = {}
        self._ready: deque[Suggestion] = deque()
        self._outbox: list[Observation] = []
        self._told: list[Observation] = []
        self._next_id = 0
        self._opened = self._taking = self._telling = self._finishing = False
        self._reason: str | None = None
        self._failure: str | None = None
        self._failures = Failures(
            plan.limits.max_consecutive_failures,
            plan.problem.n_folds,
            plan.problem.space,
            plan.problem.context_names,
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
        if self._deadline.passed and not self._used_up:
            self._end_in_time()
        going = not self._doubtful
        while self._ready and going and not self._reason and min(free, limit - self.running) > 0:
            free -= self._start(self._ready.popleft())
        if self._reason is None:
            self._request(limit)
        if self._idle and (self._reason or self._used_up):
            self._finishing = True
            reason = self._reason or "finished"
            late = TIME_UP.format(self._plan.limits.time_budget) if self._deadline.refused else None
            self._call(self._on_final, "finish", reason, self._plan.answered, late)

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
        """What is due by the clock: time limits, asking for the best value and for the copy."""
        if not self._opened or self.done:
            return
        self._outbox += self._folds.overdue()
        if self._plan.limits.at_deadline == "stop" and self.running and self._deadline.passed:
            self._end_in_time()
            self.cancel()
        now = self._status.clock()
        if now >= self._next_best and not self._finishing:
            self._next_best = float("inf")
            self._call(self._on_best, "best")
        if now >= self._next_upload and not self._finishing:
            self._next_upload = float("inf")
            self._call(self._on_upload_trouble, "upload_trouble")

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
        return self._next_id >= self._plan.limits.most and not self._ready

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
        room = min(room, self._plan.limits.most - self._next_id)
        if room > 0 and not self._taking:
            self._taking = True
            self._call(self._on_suggestions, "take", self._next_id, room, limit)

    def _start(self, suggestion: Suggestion) -> bool:
        """Start an evaluation; False if it would end after the time of the run.

        Others may still fit, so the run goes on until several in a row do not.
        """
        if not self._deadline.fits(suggestion):
            self._late += 1
            if self._late >= MOST_LATE:
                self._end_in_time()
            return False
        self._late = 0
        self._folds.start(suggestion)
        self._status.started(self._plan.place.name, suggestion)
        self._callbacks.call("on_ask", suggestion)
        return True

    def _end_in_time(self) -> None:
        self._deadline.refused = True
        self.stop("finished")

    def _send_outcomes(self) -> None:
        batch, self._outbox = self._outbox, []
        self._told = batch
        self._telling = True
        self._call(self._on_told, "tell", batch)

    def _on_trained(self, outcome: Observation | None) -> None:
        if outcome is not None:
            if outcome.cause not in (None, "value") and self._plan.raise_failures:
                raise EvaluationFailed(outcome)
            self._outbox.append(outcome)
            self._status.trained(self._plan.place.name, outcome.id)

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        self._opened = True
        self._ready.extend(snapshot.pending[: self._plan.limits.most - snapshot.n_done])
        self._next_id = snapshot.n_suggestions
        now = snapshot
        self._deadline.begin(self._since, now.earlier, now.timed)
        ends = self._deadline.ends if self._alone else math.inf
        self._status.resumed(now.n_done, now.n_failed, now.fold_counts, now.seconds, ends)
        self._failures.resumed(now.fold_counts, now.fold_failures)

    def _on_suggestions(self, suggestions: list[Suggestion]) -> None:
        self._taking = False
        self._ready.extend(suggestions)
        self._next_id += len(suggestions)
        if not suggestions:  # the stop rule is met
            self.stop("finished")

    def _on_told(self, observations: list[Observation]) -> None:
        self._telling = False
        self._told = []
        for observation in observations:
            self._status.ended(self._plan.place.name, observation)
            if observation.status == "ok":
                self._deadline.saw(observation.config, observation.context, observation.seconds)
            self._callbacks.call("on_observation", observation)
            if observation.status == "failed" and observation.raised is None:  # else he has it
                _warn(observation, whole=self._status.failed_here == 1)
            self._count_failures(observation)

    def _count_failures(self, observation: Observation) -> None:
        why = self._failures.count(observation)
        if why is None or self._reason is not None:
            return
        place = self._plan.place
        self._failure = why if place.temporary else f"{why} It is kept in {place.address}."
        self._reason = "failed"
        self.cancel()

    def _on_best(self, best: Recommendation | None) -> None:
        self._status.found(best)
        self._next_best = self._status.clock() + BEST_SECONDS

    def _on_upload_trouble(self, trouble: str | None) -> None:
        """Say once that uploads fail, and once that they work again."""
        if trouble is not None and self._upload_trouble is None:
            _logger.warning("%s The run goes on, and the upload is tried again.", trouble)
        elif trouble is None and self._upload_trouble is not None:
            _logger.warning("Uploads to %s work again.", self._plan.place.address)
        self._upload_trouble = trouble
        self._next_upload = self._status.clock() + UPLOAD_SECONDS

    def _on_final(self, final: Final) -> None:
        reason = self._reason or "finished"
        plan = self._plan
        if final.stop_reason is not None:
            _logger.info("The run in %s stopped: %s.", plan.place.address, final.stop_reason)
        self.result = result_of(plan.place, final, reason, self._failure, plan.labels)
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
        clock: seconds that never go back.
        may_start: whether there is time to start an evaluation again.
    """

    def __init__(
        self,
        limits: Limits,
        host: RunHost,
        clock: Callable[[], float] = time.monotonic,
        may_start: Callable[[Suggestion], bool] = lambda suggestion: True,
    ) -> None:
        self._may_start = may_start
        self._clock = clock
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
        self._folds[ticket] = Fold(suggestion, attempt, self._clock())

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
                if not self._ending and self._may_start(fold.suggestion):
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
        now = self._clock()
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
            fold.cancelled = self._clock()
            self._host.cancel(ticket)

    def _timed_out(self, fold: Fold) -> Observation:
        limit = self._limits.timeout_seconds
        return self._failed(fold, "timeout", f"timeout: stopped after {limit:g} seconds")

    def _failed(self, fold: Fold, cause: str, reason: str) -> Observation:
        seconds = (fold.cancelled or self._clock()) - (fold.started or fold.submitted)
        return Observation.failure(
            fold.suggestion, cause, reason, seconds=seconds, attempts=fold.attempt
        )
