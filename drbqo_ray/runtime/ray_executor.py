"""Runs on Ray: each evaluation a task, the coordinator in an actor.

A run without storage has its coordinator in the driver instead: its journal goes when the driver
does, so an actor that outlives a crash would save nothing, and cost the start of a process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from drbqo_ray.errors import DrbqoError, RunFailed
from drbqo_ray.objective import FoldObjective
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.actor import start_actor
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.runtime.executor import CoordinatorHere, EvaluationLost, RunHost, not_picklable
from drbqo_ray.runtime.ray_cluster import connection
from drbqo_ray.runtime.slots import Slots, task_options
from drbqo_ray.runtime.tasks import evaluate_fold

CLOSE_SECONDS = 5.0
LOOK_SECONDS = 0.25
SETTLE_SECONDS = 0.5
_TASK = ray.remote(evaluate_fold)


@contextmanager
def open_executor(
    objective: FoldObjective, resources: Mapping[str, float], in_flight: int | None
) -> Iterator[RayExecutor]:
    """An executor on the Ray there is, or on one that ends with the block."""
    with connection() as local:
        yield RayExecutor(objective, Slots(resources, in_flight, local))


class RayExecutor:
    """Runs on a Ray cluster; see `Executor`.

    Args:
        objective: put into the object store once, with the data inside it.
        slots: how many evaluations fit.
    """

    def __init__(self, objective: FoldObjective, slots: Slots) -> None:
        self._slots = slots
        try:
            self._objective = ray.put(objective)
        except Exception as error:
            raise not_picklable(error) from error

    @property
    def slots(self) -> int:
        """See `Slots`."""
        self._slots.refresh()
        return self._slots.count

    def open(self, plan: Plan) -> RunHost:
        """Start the run's actor, which a run with time limits needs too: it holds the clocks."""
        if plan.place.temporary and plan.limits.timeout_seconds is None:
            return PassingHost(plan, self._objective)
        return RayHost(plan, self._objective)

    def poll(self, tickets: Sequence[Any], seconds: float) -> list[Any]:
        """Wait for the first, and take all that are ready with it."""
        futures = [ticket for ticket in tickets if isinstance(ticket, Future)]
        references = [ticket for ticket in tickets if not isinstance(ticket, Future)]
        ready = list(wait(futures, seconds, FIRST_COMPLETED).done) if futures else []
        if references:
            patience = 0.0 if futures else seconds
            found, rest = ray.wait(references, num_returns=1, timeout=patience)
            if found and rest:
                found += ray.wait(rest, num_returns=len(rest), timeout=0)[0]
            ready += found
        return ready


class PassingHost:
    """One run on Ray that is not kept: its coordinator is in this process. Tickets are futures.

    See `RunHost`.
    """

    def __init__(self, plan: Plan, objective: Any) -> None:
        self._objective = objective
        self._threads = plan.limits.threads
        self._task = _task(plan)
        self._coordinator = CoordinatorHere(plan)
        self._running: dict[Future[Any], tuple[Any, float]] = {}

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call the coordinator in a thread."""
        return self._coordinator.call(method, *arguments)

    def start(self, suggestion: Suggestion, attempt: int) -> Future[Any]:
        """Submit a task."""
        reference = self._task.remote(self._objective, suggestion, attempt, self._threads, None)
        ticket: Future[Any] = reference.future()
        self._running[ticket] = reference, time.monotonic()
        return ticket

    def result(self, ticket: Future[Any]) -> Any:
        """What the coordinator or a task returned."""
        reference, _ = self._running.pop(ticket, (None, 0.0))
        return ticket.result() if reference is None else _outcome(reference)

    def ages(self) -> Mapping[tuple[int, int], float]:
        """None: there is no time limit."""
        return {}

    def cancel(self, ticket: Future[Any]) -> None:
        """Kill the worker of a task."""
        if ticket in self._running:
            _cancel(*self._running[ticket])

    def close(self, wait: bool) -> None:
        """Close the journal."""
        self._coordinator.close()


class RayHost:
    """One run on Ray with its actor; tickets are object references. See `RunHost`."""

    def __init__(self, plan: Plan, objective: Any) -> None:
        self._plan = plan
        self._objective = objective
        self._actor = start_actor(plan.place, plan.problem, plan.limits.most, plan.session())
        self._task = _task(plan)
        self._running: dict[Any, tuple[int, int]] = {}
        self._submitted: dict[Any, float] = {}
        self._begun: dict[tuple[int, int], float] = {}
        self._look: Any = None
        self._next_look = 0.0
        self._incarnation: str | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Call the actor."""
        return getattr(self._actor, method).remote(*arguments)

    def start(self, suggestion: Suggestion, attempt: int) -> Any:
        """Submit a task; with a time limit it tells the actor when it begins."""
        limits = self._plan.limits
        watcher = self._actor if limits.timeout_seconds is not None else None
        ticket = self._task.remote(self._objective, suggestion, attempt, limits.threads, watcher)
        self._running[ticket] = (suggestion.id, attempt)
        self._submitted[ticket] = time.monotonic()
        return ticket

    def result(self, ticket: Any) -> Any:
        """Fetch what the actor or a task returned."""
        key = self._running.pop(ticket, None)
        if key is not None:
            self._begun.pop(key, None)
            self._submitted.pop(ticket, None)
            return _outcome(ticket)
        try:
            return ray.get(ticket)
        except RayTaskError as error:
            raise error.cause if isinstance(error.cause, DrbqoError) else error from None
        except RayError as error:
            raise RunFailed(
                f"The central actor of the run is gone for good: {error}. What was acknowledged is"
                f" safe; go on with `{self._plan.place.resume_command}`."
            ) from error

    def ages(self) -> Mapping[tuple[int, int], float]:
        """What the actor said last; it is asked again now and then, without waiting."""
        now = time.monotonic()
        if self._look is not None and ray.wait([self._look], timeout=0)[0]:
            look, self._look = self._look, None
            with suppress(RayError):
                incarnation, ages = ray.get(look)
                self._note_starts(incarnation, ages, now)
        if self._look is None and self._running and now >= self._next_look:
            limit = self._plan.limits.timeout_seconds or LOOK_SECONDS
            self._next_look = now + min(LOOK_SECONDS, limit / 20)
            self._look = self._actor.ages.remote()
        return {key: now - begun for key, begun in self._begun.items()}

    def _note_starts(
        self, incarnation: str, ages: Mapping[tuple[int, int], float], now: float
    ) -> None:
        """An actor that was restarted may have forgotten a start: then it counts from now."""
        restarted = self._incarnation not in (None, incarnation)
        self._incarnation = incarnation
        for key in self._running.values():
            if key in ages or restarted:
                self._begun.setdefault(key, now - ages.get(key, 0.0))

    def cancel(self, ticket: Any) -> None:
        """Kill the worker of a task."""
        if ticket in self._submitted:
            _cancel(ticket, self._submitted[ticket])

    def close(self, wait: bool) -> None:
        """End the actor."""
        if wait:
            with suppress(Exception):
                ray.get(self._actor.close.remote(), timeout=CLOSE_SECONDS)
        ray.kill(self._actor)


def _task(plan: Plan) -> Any:
    """What evaluates a fold of the run.

    Lost workers and nodes are not answered by Ray's own retries, which would go on without end
    when memory runs out.
    """
    return _TASK.options(max_retries=0, **task_options(plan.limits.resources))


def _cancel(reference: Any, submitted: float) -> None:
    """Kill the worker of a task, unless the task is about to end by itself.

    Ray aborts the driver when a task is cancelled in the instant in which it ends ("Tried to
    complete task that was not pending"). A long fold all but never ends in that instant; a quick
    one just submitted may, so it gets a moment first.
    """
    left = submitted + SETTLE_SECONDS - time.monotonic()
    with suppress(RayError, ValueError):
        if not ray.wait([reference], timeout=max(left, 0.0), fetch_local=False)[0]:
            ray.cancel(reference, force=True)


def _outcome(ticket: Any) -> Observation:
    try:
        found: Observation = ray.get(ticket)
        return found
    except RayTaskError as error:
        raise EvaluationLost("error", str(error)) from error
    except RayError as error:
        cause = "oom" if isinstance(error, OutOfMemoryError) else "lost"
        raise EvaluationLost(cause, str(error).strip() or type(error).__name__) from error
