"""Ctrl-C: once asks a run to stop, twice ends it."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


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
