"""The loop that keeps every slot of an executor busy with the evaluations of one or many runs.

Ctrl-C once asks the runs to stop, twice ends them.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from drbqo_ray.runtime.executor import Executor
from drbqo_ray.runtime.session import Session

TICK_SECONDS = 0.2
FAST_TICK_SECONDS = 0.05
STOP_GRACE_SECONDS = 5.0
_logger = logging.getLogger(__name__)


class Interrupts:
    """Catches SIGINT for the time of a `with` block in the main thread.

    Attributes:
        stopping: whether Ctrl-C was pressed once. The second time raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.stopping = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._caught)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True  # the loop says so: nothing may be written inside a signal handler


class Loop:
    """Drives sessions until all are done.

    Args:
        openers: each opens the session of one run.
        executor: where they are worked on.
        fast: whether the clock is looked at often, for short time limits.
    """

    def __init__(
        self, openers: Iterable[Callable[[], Session]], executor: Executor, fast: bool = False
    ) -> None:
        self._waiting = deque(openers)
        self._executor = executor
        self._tick = FAST_TICK_SECONDS if fast else TICK_SECONDS
        self._active: list[Session] = []
        self._stop_at: float | None = None

    def run(self) -> bool:
        """Work until every session is done; True when Ctrl-C cut it short.

        An exception, such as that of a second Ctrl-C, lets go of all runs and is raised again.
        """
        with Interrupts() as interrupts:
            try:
                while self._active or self._waiting:
                    self._step(interrupts)
            except BaseException as error:
                for session in self._active:
                    session.abandon(wait=not isinstance(error, KeyboardInterrupt))
                raise
            return interrupts.stopping

    def _step(self, interrupts: Interrupts) -> None:
        slots = self._executor.slots
        self._admit(slots)
        if interrupts.stopping:
            self._stop()
        free = slots - sum(session.running for session in self._active)
        for session in self._active:
            before = session.running
            session.pump(slots, free)
            free -= session.running - before
        for session in self._ready():
            session.tick()
        self._active = [session for session in self._active if not session.done]
        # Whoever came last goes first next time, so that runs share the slots.
        self._active = self._active[1:] + self._active[:1]

    def _admit(self, slots: int) -> None:
        """Open sessions: one per slot, and a few more to evaluate while others think."""
        most = slots + max(1, slots // 4)
        while self._waiting and len(self._active) < most:
            self._active.append(self._waiting.popleft()())

    def _stop(self) -> None:
        self._waiting.clear()
        now = time.monotonic()
        if self._stop_at is None:
            self._stop_at = now + STOP_GRACE_SECONDS
            _logger.warning(
                "Stopping: running folds get a moment to end. Press Ctrl-C again to leave at once."
            )
            for session in self._active:
                session.stop("interrupted")
        elif now >= self._stop_at:
            for session in self._active:
                session.cancel()

    def _ready(self) -> list[Session]:
        """Wait a moment, let sessions take what is ready, and return all of them."""
        owner = {ticket: session for session in self._active for ticket in session.tickets}
        if not owner:
            time.sleep(self._tick)
            return self._active
        for ticket in self._executor.poll(list(owner), self._tick):
            owner[ticket].on_ready(ticket)
        return self._active
