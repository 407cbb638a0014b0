"""Runs on Ray: the coordinator in an actor, each evaluation a task."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from drbqo_ray.errors import DrbqoError, RunFailed
from drbqo_ray.objective import FoldObjective
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.actor import start_actor
from drbqo_ray.runtime.connection import connection
from drbqo_ray.runtime.executor import EvaluationLost, not_picklable
from drbqo_ray.runtime.plan import Plan
from drbqo_ray.runtime.slots import Slots, task_options
from drbqo_ray.runtime.tasks import evaluate

CLOSE_SECONDS = 5.0
LOOK_SECONDS = 0.25


def evaluate_fold(
    objective: FoldObjective, suggestion: Suggestion, attempt: int, threads: int, watcher: Any
) -> Observation:
    """One evaluation as a task; `watcher` is the actor to tell that the clock runs, or None."""
    if watcher is not None:
        watcher.started.remote(suggestion.id, attempt)
    node = ray.get_runtime_context().get_node_id()[:12]
    return evaluate(objective, suggestion, attempt, threads, node)


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

    def open(self, plan: Plan) -> RayHost:
        """Start the run's actor."""
        return RayHost(plan, self._objective)

    def poll(self, tickets: Sequence[Any], seconds: float) -> list[Any]:
        """Wait for the first, and take all that are ready with it."""
        ready, rest = ray.wait(list(tickets), num_returns=1, timeout=seconds)
        if ready and rest:
            more, _ = ray.wait(rest, num_returns=len(rest), timeout=0)
            ready += more
        return ready


class RayHost:
    """One run on Ray; tickets are object references. See `RunHost`.

    Lost workers and nodes are not answered by Ray's own retries, which would go on without end
    when memory runs out.
    """

    def __init__(self, plan: Plan, objective: Any) -> None:
        self._plan = plan
        self._objective = objective
        self._actor = start_actor(
            plan.place, plan.problem, plan.limits.n_evaluations, plan.session()
        )
        self._task = _TASK.options(max_retries=0, **task_options(plan.limits.resources))
        self._running: dict[Any, tuple[int, int]] = {}
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
        return ticket

    def result(self, ticket: Any) -> Any:
        """Fetch what the actor or a task returned."""
        key = self._running.pop(ticket, None)
        if key is not None:
            self._begun.pop(key, None)
            return _outcome(ticket)
        try:
            return ray.get(ticket)
        except RayTaskError as error:
            raise error.cause if isinstance(error.cause, DrbqoError) else error from None
        except RayError as error:
            raise RunFailed(
                f"The central actor of the run is gone for good: {error}. What was acknowledged is"
                f" safe in {self._plan.place.directory}; resume the run from there."
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
        with suppress(RayError, ValueError):
            ray.cancel(ticket, force=True)

    def close(self, wait: bool) -> None:
        """End the actor."""
        if wait:
            with suppress(Exception):
                ray.get(self._actor.close.remote(), timeout=CLOSE_SECONDS)
        ray.kill(self._actor)


def _outcome(ticket: Any) -> Observation:
    try:
        found: Observation = ray.get(ticket)
        return found
    except RayTaskError as error:
        raise EvaluationLost("error", str(error)) from error
    except RayError as error:
        cause = "oom" if isinstance(error, OutOfMemoryError) else "lost"
        raise EvaluationLost(cause, str(error).strip() or type(error).__name__) from error
