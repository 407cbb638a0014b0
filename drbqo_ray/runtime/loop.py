"""The loop that keeps every slot of the cluster busy with the evaluations of one or many runs."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

import ray

from drbqo_ray.runtime.interrupts import Interrupts
from drbqo_ray.runtime.session import Session
from drbqo_ray.runtime.slots import Slots

TICK_SECONDS = 0.2
FAST_TICK_SECONDS = 0.05
STOP_GRACE_SECONDS = 5.0
_logger = logging.getLogger(__name__)


class Loop:
    """Drives sessions until all are done.

    Args:
        openers: each opens the session of one run.
        slots: how many evaluations run at a time.
        fast: whether the clock is looked at often, for short time limits.
    """

    def __init__(
        self, openers: Iterable[Callable[[], Session]], slots: Slots, fast: bool = False
    ) -> None:
        self._waiting = deque(openers)
        self._slots = slots
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
        self._slots.refresh()
        self._admit()
        if interrupts.stopping:
            self._stop()
        free = self._slots.count - sum(session.running for session in self._active)
        for session in self._active:
            before = session.running
            session.pump(self._slots.count, free)
            free -= session.running - before
        for session in self._ready():
            session.tick()
        self._active = [session for session in self._active if not session.done]
        # Whoever came last goes first next time, so that runs share the slots.
        self._active = self._active[1:] + self._active[:1]

    def _admit(self) -> None:
        """Open sessions: one per slot, and a few more to evaluate while others think."""
        most = self._slots.count + max(1, self._slots.count // 4)
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
        owner = {ref: session for session in self._active for ref in session.references}
        if not owner:
            time.sleep(self._tick)
            return self._active
        references = list(owner)
        ready, rest = ray.wait(references, num_returns=1, timeout=self._tick)
        if ready and rest:
            more, _ = ray.wait(rest, num_returns=len(rest), timeout=0)
            ready += more
        for reference in ready:
            owner[reference].on_ready(reference)
        return self._active
