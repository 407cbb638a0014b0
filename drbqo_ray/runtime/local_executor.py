"""Runs on this machine without Ray: the coordinator in this process, evaluations in others.

An evaluation runs in a process of its own, so that it can be ended by force, and so that its crash
is its own. Processes are fresh interpreters that are kept for the next evaluation. Objective and
configs reach them by cloudpickle through a pipe, as they would on Ray: a function of a script or a
notebook will do, and a script needs no `if __name__ == "__main__"`. Nothing on a disk is unpickled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from typing import Any

import cloudpickle

from drbqo_ray.errors import InvalidInput
from drbqo_ray.objective import FoldObjective
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.runtime.executor import CoordinatorHere, EvaluationLost, not_picklable
from drbqo_ray.runtime.slots import capacity

KILL_SECONDS = 5.0
LOOK_SECONDS = 0.5
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from drbqo_ray.runtime.local_worker import main; main(int(sys.argv[2]))"
)


@contextmanager
def open_executor(
    objective: FoldObjective, resources: Mapping[str, float], in_flight: int | None
) -> Iterator[LocalExecutor]:
    """An executor whose processes end with the block."""
    fitting = fitting_here(resources)
    executor = LocalExecutor(objective, min(fitting, in_flight or fitting))
    try:
        yield executor
    finally:
        executor.close()


def fitting_here(resources: Mapping[str, float]) -> int:
    """How many evaluations fit on this machine's processors.

    Raises:
        InvalidInput: not one does, or something else than processors is asked for.
    """
    known = hasattr(os, "sched_getaffinity")  # not everywhere
    cpus = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    offered = {"CPU": float(cpus)}
    fitting = capacity([{"Alive": True, "Resources": offered}], resources)
    if fitting == 0:
        raise InvalidInput(
            f"One evaluation must fit on this machine, which offers {offered}.",
            dict(resources),
            'Ask for less, or share other resources among evaluations with backend="ray".',
        )
    return fitting


class LocalExecutor:
    """Runs on this machine; see `Executor`. Tickets are futures.

    Args:
        objective: what all runs evaluate.
        slots: evaluations at a time.
    """

    def __init__(self, objective: FoldObjective, slots: int) -> None:
        try:
            payload = cloudpickle.dumps(objective)
        except Exception as error:
            raise not_picklable(error) from error
        self.slots = slots
        self._workers = Workers(payload)
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="evaluation")

    def open(self, plan: Plan) -> LocalHost:
        """Open the run's coordinator in this process."""
        return LocalHost(plan, self._workers, self._threads)

    def poll(self, tickets: Sequence[Future[Any]], seconds: float) -> list[Future[Any]]:
        """Wait for the first."""
        return list(wait(tickets, seconds, FIRST_COMPLETED).done)

    def close(self) -> None:
        """End all processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._workers.close()


@dataclass
class Evaluation:
    """One evaluation under way: what, and, once it has begun, since when and where."""

    suggestion: Suggestion
    attempt: int
    worker: Worker | None = None
    begun: float | None = None
    cancelled: bool = False


class LocalHost:
    """One run on this machine; see `RunHost`."""

    def __init__(self, plan: Plan, workers: Workers, threads: ThreadPoolExecutor) -> None:
        self._workers = workers
        self._evaluating = threads
        self._threads = plan.limits.threads
        self._running: dict[Future[Any], Evaluation] = {}
        self._lock = threading.Lock()
        self._coordinator = CoordinatorHere(plan)

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call the coordinator in a thread."""
        return self._coordinator.call(method, *arguments)

    def start(self, suggestion: Suggestion, attempt: int) -> Future[Observation]:
        """Send the evaluation to a process that is free, or to a new one."""
        evaluation = Evaluation(suggestion, attempt)
        ticket = self._evaluating.submit(self._evaluate, evaluation)
        self._running[ticket] = evaluation
        return ticket

    def _evaluate(self, evaluation: Evaluation) -> Observation:
        job = (evaluation.suggestion, evaluation.attempt, self._threads)
        try:
            order = cloudpickle.dumps(job)
        except Exception as error:
            text = f"The config cannot be sent to a process: {type(error).__name__}: {error}"
            raise EvaluationLost("error", text) from error
        with self._workers.one() as worker:
            with self._lock:
                evaluation.worker, evaluation.begun = worker, time.monotonic()
                if evaluation.cancelled:
                    worker.kill()
            try:
                return worker.evaluate(order)
            finally:
                with self._lock:
                    evaluation.worker = None  # from here on it is another's to be killed

    def result(self, ticket: Future[Any]) -> Any:
        """What the thread returned or raised."""
        self._running.pop(ticket, None)
        try:
            return ticket.result()
        except CancelledError as error:
            raise EvaluationLost("lost", "cancelled before it began") from error

    def ages(self) -> Mapping[tuple[int, int], float]:
        """From when a process that was ready got the evaluation."""
        now = time.monotonic()
        return {
            (one.suggestion.id, one.attempt): now - one.begun
            for one in self._running.values()
            if one.begun is not None
        }

    def cancel(self, ticket: Future[Any]) -> None:
        """Kill the process of an evaluation, and the processes it has made."""
        ticket.cancel()
        evaluation = self._running.get(ticket)
        if evaluation is not None and not ticket.done():
            with self._lock:
                evaluation.cancelled = True
                if evaluation.worker is not None:
                    evaluation.worker.kill()

    def close(self, wait: bool) -> None:
        """Close the journal."""
        self._coordinator.close()


class Workers:
    """The processes, each with the objective in it.

    Args:
        payload: the objective, pickled.
    """

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._lock = threading.Lock()
        self._all: set[Worker] = set()
        self._free: list[Worker] = []
        self._closed = False

    @contextmanager
    def one(self) -> Iterator[Worker]:
        """A process for the time of a block; it is kept if it has survived it."""
        with self._lock:
            worker = self._free.pop() if self._free else None
        worker = worker or self._new()
        try:
            worker.load(self._payload)
            yield worker
        except BaseException:
            worker.kill()
            raise
        finally:
            with self._lock:
                if worker.alive and not self._closed:
                    self._free.append(worker)
                else:
                    self._all.discard(worker)
                    worker.kill()

    def _new(self) -> Worker:
        with self._lock:
            if self._closed:
                raise EvaluationLost("lost", "the run has ended")
            worker = Worker()
            self._all.add(worker)
            return worker

    def close(self) -> None:
        """End all processes at once."""
        with self._lock:
            self._closed = True
            for worker in self._all:
                worker.kill()
            self._all.clear()


class Worker:
    """One process, see `local_worker`. It leads a session of its own: Ctrl-C does not reach it, and
    what it starts is ended with it.
    """

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        self._loaded = False
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CHILD, json.dumps(sys.path), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def load(self, payload: bytes) -> None:
        """Send the objective, once."""
        if not self._loaded:
            self._answer(payload)
            self._loaded = True

    def evaluate(self, order: bytes) -> Observation:
        """The outcome of an evaluation."""
        outcome: Observation = self._answer(order)
        return outcome

    def _answer(self, order: bytes) -> Any:
        """Send something and wait for the answer, as long as the process lives."""
        try:
            self._pipe.send_bytes(order)
            while not self._pipe.poll(LOOK_SECONDS):
                if not self.alive and not self._pipe.poll(0):
                    raise EOFError
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise EvaluationLost("lost", f"the process of the evaluation {self._end()}") from None
        if isinstance(answer, str):
            raise EvaluationLost("error", f"It cannot be sent to another process:\n{answer}")
        return answer

    def _end(self) -> str:
        self.kill()
        code = self._process.returncode
        if code is None:
            return "answers no more and cannot be ended"
        if code >= 0:
            return f"ended with exit code {code}"
        said = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        return said + (", perhaps for lack of memory" if -code == signal.SIGKILL else "")

    def kill(self) -> None:
        """End the process and what it has started; a second call does nothing."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_SECONDS)
