"""Kills the central actor of a run again and again, and measures how soon it is back."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from drbqo_ray.storage.journal import JOURNAL

SESSION, TOLD = b'"kind":"session"', (b'"kind":"tell"', b'"kind":"fail"')
EARLY = 5
PAUSE_SECONDS = (0.05, 0.8)


def owner(directory: Path) -> int | None:
    """The process that has the run open: its actor."""
    try:
        text = (directory / "lock").read_text()
        return int(text.split('"pid": ')[1].split(",")[0])
    except (OSError, IndexError, ValueError):
        return None


class ActorKiller(threading.Thread):
    """Kills by SIGKILL and by `os._exit` inside the actor, in turns.

    Every fifth time the actor dies as soon as it has come back, else after it has recorded some
    outcomes.

    Args:
        directory: the run directory.
        kills: how often to kill.
        actors: filled with the handle of the actor by whoever starts it.

    Attributes:
        killed: process ids, in order.
        back: seconds from a death to the next outcome on the disk.
    """

    def __init__(self, directory: Path, kills: int, actors: list[Any]) -> None:
        super().__init__(name="killer")
        self._directory, self._kills, self._actors = directory, kills, actors
        self._given_up = threading.Event()
        self._rng = random.Random(kills)
        self.killed: list[int] = []
        self.back: list[float] = []

    def run(self) -> None:
        died: float | None = None
        while len(self.killed) < self._kills:
            early = len(self.killed) % EARLY == EARLY - 1
            if not self._wait(told=not early):
                return
            if died is not None and not early:
                self._note_return(died)
            if not early:
                time.sleep(self._rng.uniform(*PAUSE_SECONDS))
            died = self._kill()
        if self._wait(told=True) and died is not None:
            self._note_return(died)

    def give_up(self) -> None:
        """Stop, whatever is left to do."""
        self._given_up.set()
        self.join()

    def _note_return(self, died: float) -> None:
        self.back.append(time.monotonic() - died)

    def _wait(self, told: bool) -> bool:
        """Wait until the next actor has taken over and, with `told`, has recorded an outcome."""
        sessions = len(self.killed) + 1
        while not self._given_up.is_set():
            content = b""
            with suppress(OSError):
                content = (self._directory / JOURNAL).read_bytes()
            after = content.rpartition(SESSION)[2]
            if content.count(SESSION) == sessions and (not told or any(k in after for k in TOLD)):
                return True
            time.sleep(0.02)
        return False

    def _kill(self) -> float:
        """Kill the actor; when it was dead."""
        pid = owner(self._directory)
        assert pid is not None
        assert pid != os.getpid()
        if len(self.killed) % 2 == 0:
            os.kill(pid, signal.SIGKILL)
        else:
            # Ray may repeat the call in the next actor, which is to live.
            leave = lambda _, victim: os._exit(1) if os.getpid() == victim else None  # noqa: E731
            self._actors[-1].__ray_call__.remote(leave, pid)
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            while process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.005)
        self.killed.append(pid)
        return time.monotonic()
