"""The central actor: a coordinator in a process of its own that Ray restarts when it dies.

Its constructor replays the journal, and its calls may be repeated, so Ray may restart it and
retry calls as often as it likes. It lives on the driver's node, where the journal is, and ends
with its driver, which frees the journal's lock.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar, cast

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from drbqo_ray.errors import DrbqoError
from drbqo_ray.problem import Problem
from drbqo_ray.records import Observation, Recommendation, Suggestion
from drbqo_ray.runtime.coordinator import Coordinator, Final, Snapshot, open_coordinator
from drbqo_ray.storage.location import RunLocation

GROUPS = {"ask": 2, "tell": 1, "watch": 4}
F = TypeVar("F", bound=Callable[..., Any])


def _in_group(name: str) -> Callable[[F], F]:
    """Let a method run while those of other groups do, so that none waits behind a long ask."""
    return cast(Callable[[F], F], ray.method(concurrency_group=name))


class RunActor:
    """See `Coordinator`; an error while opening is kept for the first call."""

    def __init__(
        self, place: RunLocation, problem: Problem, n_evaluations: int, session: dict[str, Any]
    ) -> None:
        self._incarnation = uuid.uuid4().hex
        self._started: dict[tuple[int, int], float] = {}
        self._coordinator: Coordinator | None = None
        self._error: DrbqoError | None = None
        try:
            self._coordinator = open_coordinator(place, problem, n_evaluations, session)
        except DrbqoError as error:
            self._error = error

    @property
    def _open(self) -> Coordinator:
        if self._coordinator is None:
            assert self._error is not None
            raise self._error
        return self._coordinator

    @_in_group("watch")
    def snapshot(self) -> Snapshot:
        """Where the run stands."""
        return self._open.snapshot()

    @_in_group("ask")
    def take(self, first: int, count: int, slots: int) -> list[Suggestion]:
        """See `Coordinator.take`."""
        return self._open.take(first, count, slots)

    @_in_group("tell")
    def tell(self, outcomes: list[Observation]) -> list[Observation]:
        """See `Coordinator.tell`."""
        observed = self._open.tell(outcomes)
        for outcome in outcomes:
            for attempt in range(1, outcome.attempts + 1):
                self._started.pop((outcome.id, attempt), None)
        return observed

    @_in_group("watch")
    def best(self) -> Recommendation | None:
        """See `Coordinator.best`."""
        return self._open.best()

    @_in_group("watch")
    def upload_trouble(self) -> str | None:
        """See `Coordinator.upload_trouble`."""
        return self._open.upload_trouble()

    @_in_group("watch")
    def started(self, number: int, attempt: int) -> None:
        """A worker has begun an evaluation."""
        self._started.setdefault((number, attempt), time.monotonic())

    @_in_group("watch")
    def ages(self) -> tuple[str, dict[tuple[int, int], float]]:
        """Which life of the actor this is, and for how many seconds evaluations have run."""
        now = time.monotonic()
        return self._incarnation, {key: now - then for key, then in self._started.copy().items()}

    @_in_group("ask")
    def finish(self, reason: str, answered: bool = True, out_of_time: str | None = None) -> Final:
        """See `Coordinator.finish`."""
        return self._open.finish(reason, answered, out_of_time)

    @_in_group("watch")
    def close(self) -> None:
        """Release the journal without finishing the run."""
        if self._coordinator is not None:
            self._coordinator.close()


_ACTOR = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, concurrency_groups=GROUPS)(
    RunActor
)


def start_actor(
    place: RunLocation, problem: Problem, n_evaluations: int, session: dict[str, Any]
) -> Any:
    """Handle of a new actor on the driver's node; it needs no CPU of its own."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = _ACTOR.options(scheduling_strategy=here)
    return actor.remote(place, problem, n_evaluations, session)
