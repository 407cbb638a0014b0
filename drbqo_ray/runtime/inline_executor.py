"""Runs in this very process: evaluations one at a time, in the thread that waits for them.

Nothing is started and nothing is sent anywhere, so an objective may be whatever can be called, and
it runs as if the user had called it: in his thread, with his settings of numerical libraries, and
with Ctrl-C raising KeyboardInterrupt in it. The price: an evaluation cannot be ended by force, and
what ends the process ends the run. Its journal can be resumed like any other.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import Any

from drbqo_ray.objective import FoldObjective
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.runtime.executor import CoordinatorHere, EvaluationLost
from drbqo_ray.runtime.local_executor import fitting_here
from drbqo_ray.runtime.tasks import evaluate


@contextmanager
def open_executor(
    objective: FoldObjective, resources: Mapping[str, float], in_flight: int | None
) -> Iterator[InlineExecutor]:
    """An executor in this process."""
    fitting_here(resources)
    yield InlineExecutor(objective)


class InlineExecutor:
    """Runs in this process; see `Executor`. Tickets are futures.

    Args:
        objective: what all runs evaluate.
    """

    slots = 1

    def __init__(self, objective: FoldObjective) -> None:
        self._objective = objective
        self._waiting: dict[Future[Observation], tuple[Suggestion, int]] = {}
        self._node = socket.gethostname()
        self._on_interrupt = signal.getsignal(signal.SIGINT)

    def open(self, plan: Plan) -> InlineHost:
        """Open the run's coordinator in this process."""
        return InlineHost(plan, self._waiting)

    def poll(self, tickets: Sequence[Future[Any]], seconds: float) -> list[Future[Any]]:
        """Evaluate the first evaluation in line, if nothing else is ready."""
        ready = wait(tickets, 0, FIRST_COMPLETED).done
        ours = next((ticket for ticket in tickets if ticket in self._waiting), None)
        if ours is not None and not ready:
            ours.set_result(self._evaluate(*self._waiting.pop(ours)))
        return list(ready or wait(tickets, seconds, FIRST_COMPLETED).done)

    def _evaluate(self, suggestion: Suggestion, attempt: int) -> Observation:
        with interrupted_by(self._on_interrupt):
            return evaluate(self._objective, suggestion, attempt, None, self._node)


class InlineHost:
    """One run in this process; see `RunHost`.

    Args:
        plan: the run.
        waiting: evaluations in line, with how often each was started.
    """

    def __init__(self, plan: Plan, waiting: dict[Future[Any], tuple[Suggestion, int]]) -> None:
        self._waiting = waiting
        self._coordinator = CoordinatorHere(plan)

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call the coordinator in a thread."""
        return self._coordinator.call(method, *arguments)

    def start(self, suggestion: Suggestion, attempt: int) -> Future[Observation]:
        """Put the evaluation in line."""
        ticket: Future[Observation] = Future()
        self._waiting[ticket] = (suggestion, attempt)
        return ticket

    def result(self, ticket: Future[Any]) -> Any:
        """What came of it."""
        return ticket.result()

    def ages(self) -> Mapping[tuple[int, int], float]:
        """None: whoever asks is not evaluating."""
        return {}

    def cancel(self, ticket: Future[Any]) -> None:
        """Take an evaluation out of the line."""
        if self._waiting.pop(ticket, None) is not None:
            ticket.set_exception(EvaluationLost("lost", "cancelled before it began"))

    def close(self, wait: bool) -> None:
        """Close the journal."""
        self._coordinator.close()


@contextmanager
def interrupted_by(handler: Any) -> Iterator[None]:
    """Let Ctrl-C do in a block what `handler` says, in the main thread, where signals arrive."""
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
