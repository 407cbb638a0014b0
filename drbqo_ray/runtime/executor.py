"""The seam between a run and the place where it is worked on.

`loop`, `session` and `folds` drive runs through the two protocols below and know nothing else of
Ray or of processes. Whatever takes time has a *ticket*: a name that can be waited for and then
turned into a result. A new executor is one module with a function `open_executor`, and a line in
`BACKENDS`; `drbqo_ray.testing.executors` says what it has to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib import import_module
from typing import Any, Protocol

from drbqo_ray.errors import InvalidInput, ObjectiveError
from drbqo_ray.objective import FoldObjective
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.coordinator import Coordinator, Plan, open_coordinator

OWN_RAY = (None, "", "local")
"""Values of RAY_ADDRESS with which a local Ray is started."""
BACKENDS = {
    "ray": "drbqo_ray.runtime.ray_executor",
    "local": "drbqo_ray.runtime.local_executor",
    "inline": "drbqo_ray.runtime.inline_executor",
}
Ticket = Any
_CALLS = 4


class EvaluationLost(Exception):
    """An evaluation came to its end without an outcome.

    Attributes:
        cause: "lost" (its process or node died) or "oom" (out of memory), where starting it again
            may help; "error" where it will not.
    """

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause


class EvaluationFailed(Exception):
    """An evaluation failed in a run whose plan says `raise_failures`.

    Attributes:
        observation: its outcome, which was not recorded.
    """

    def __init__(self, observation: Observation) -> None:
        super().__init__(observation.reason)
        self.observation = observation


class RunHost(Protocol):
    """One run on an executor: its coordinator, and its evaluations under way. Nothing waits."""

    def call(self, method: str, *arguments: Any) -> Ticket:
        """Call a method of the run's `Coordinator`."""

    def start(self, suggestion: Suggestion, attempt: int) -> Ticket:
        """Begin an evaluation, for the `attempt`-th time; its result is an `Observation`."""

    def result(self, ticket: Ticket) -> Any:
        """What came of a ticket that `Executor.poll` has returned.

        Raises:
            EvaluationLost: an evaluation has no outcome.
            DrbqoError: the coordinator raised it, or is gone.
        """

    def ages(self) -> Mapping[tuple[int, int], float]:
        """Seconds that evaluations have run, by (id, attempt); those known to have begun."""

    def cancel(self, ticket: Ticket) -> None:
        """End an evaluation by force; `EvaluationLost` is soon its result, if it still ran."""

    def close(self, wait: bool) -> None:
        """Let go of the run; with `wait` its journal is closed first, if that is quick."""


class Executor(Protocol):
    """A place where runs are worked on."""

    @property
    def slots(self) -> int:
        """Evaluations that can run at a time, at least 1; may change."""

    def open(self, plan: Plan) -> RunHost:
        """Open a run whose journal was begun; mistakes are told by its first call."""

    def poll(self, tickets: Sequence[Ticket], seconds: float) -> list[Ticket]:
        """The tickets that have come to their end; waits until there is one, but not longer."""


class CoordinatorHere:
    """The coordinator of a run in this process. Threads call it, and tickets are futures.

    Args:
        plan: the run, whose journal was begun.
    """

    def __init__(self, plan: Plan) -> None:
        self._threads = ThreadPoolExecutor(_CALLS, thread_name_prefix="call")
        self._opened: Future[Coordinator] = self._threads.submit(
            open_coordinator,
            plan.place,
            plan.problem,
            plan.limits.most,
            plan.session(),
        )

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """See `RunHost.call`."""
        return self._threads.submit(lambda: getattr(self._opened.result(), method)(*arguments))

    def close(self) -> None:
        """Close the journal, now or as soon as it is open."""
        self._opened.add_done_callback(_close)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _close(opened: Future[Coordinator]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()


def check_backend(
    backend: object, timeout_seconds: object = None, at_deadline: object = "finish"
) -> None:
    """Raise InvalidInput unless there is such a backend, and it can keep the time limit."""
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise InvalidInput(
            f"The backend is one of {', '.join(BACKENDS)}.", backend, 'Pass backend="local".'
        )
    if backend == "inline" and timeout_seconds is not None:
        raise InvalidInput(
            "An evaluation in this process cannot be ended, so it has no time limit.",
            timeout_seconds,
            'Leave timeout_seconds out, or pass backend="local".',
        )
    if backend == "inline" and at_deadline == "stop":
        raise InvalidInput(
            "An evaluation in this process cannot be ended when the time is over.",
            'at_deadline="stop"',
            'Pass at_deadline="finish", or backend="local".',
        )


@contextmanager
def open_executor(
    backend: str,
    objective: FoldObjective,
    resources: Mapping[str, float],
    in_flight: int | None,
    progress: bool | None,
) -> Iterator[Executor]:
    """The executor with this name for the time of a block.

    Args:
        backend: a name in `BACKENDS`.
        objective: what all runs evaluate; sent to workers once.
        resources: what one evaluation needs.
        in_flight: evaluations of all runs at a time, None for as many as fit.
        progress: whether to say that something is being started, see `run`.
    """
    if backend == "ray" and os.environ.get("RAY_ADDRESS") not in OWN_RAY:
        notice_lost_hosts()
    with ExitStack() as stack:
        with connecting(progress) if backend == "ray" else nullcontext():
            home = import_module(BACKENDS[backend])
            executor = stack.enter_context(home.open_executor(objective, resources, in_flight))
        yield executor


def notice_lost_hosts() -> None:
    """Let a Ray that is yet to be loaded notice a silent host in seconds instead of minutes.

    Ray reads these variables once, when it is loaded; those that the user has set stay.
    """
    for name in ("time", "timeout"):
        os.environ.setdefault(f"RAY_grpc_client_keepalive_{name}_ms", "5000")


def connecting(progress: bool | None) -> AbstractContextManager[None]:
    """Say that Ray is started or joined for the time of a block, unless it is connected already.

    Ray is not loaded to find out, as that takes its time too.
    """
    from drbqo_ray.runtime.display import waiting

    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return nullcontext()
    address = os.environ.get("RAY_ADDRESS")
    started = address in OWN_RAY
    return waiting("starting Ray" if started else f"joining Ray at {address}", progress)


def not_picklable(error: Exception) -> ObjectiveError:
    """What to say of an objective that cannot be sent to workers."""
    said = str(error).strip().splitlines() or [""]
    return ObjectiveError(
        "The objective must be fit to be sent to other processes (picklable). Got"
        f" {type(error).__name__}: {said[0][:300]}. Open files, locks and connections inside the"
        " objective, not around it."
    )
