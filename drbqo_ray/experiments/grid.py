"""All cells of an experiment, side by side on Ray; finished ones are never run again."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from drbqo_ray.errors import DrbqoError, JournalLocked, RunFailed
from drbqo_ray.experiments.cell import Cell, is_finished, run_cell
from drbqo_ray.threads import limit_threads

LOCK_PATIENCE_SECONDS = 60.0
SAY_EVERY_SECONDS = 30.0
_SHOWN_FAILURES = 5


def run_grid(cells: list[Cell], storage: Path) -> None:
    """Run every cell that is not finished.

    A cell that cannot be run does not stop the others.

    Raises:
        RunFailed: some cells could not be finished; the message names them and says why.
    """
    failures: dict[str, str] = {}
    waiting = []
    for cell in cells:
        try:
            if not is_finished(cell, storage):
                waiting.append(cell)
        except DrbqoError as error:
            failures[cell.name] = str(error)
    _say(f"{len(cells)} cells, {len(cells) - len(waiting) - len(failures)} of them finished")
    if waiting:
        try:
            failures |= _on_ray(waiting, storage)
        except KeyboardInterrupt:
            _say("interrupted; finished cells are kept, and the same command goes on from here")
            raise
    if failures:
        shown = list(failures.items())[:_SHOWN_FAILURES]
        lines = "".join(f"\n  {name}: {message}" for name, message in shown)
        raise RunFailed(
            f"{len(failures)} of {len(cells)} cells could not be finished; the others are"
            f" complete and kept in {storage}.{lines}\nMend the cause, or move the directory of"
            " such a cell away to have it run anew, and give the same command again."
        )


def _on_ray(cells: list[Cell], storage: Path) -> dict[str, str]:
    import ray

    from drbqo_ray.runtime.ray_cluster import connection

    failures: dict[str, str] = {}
    with connection():
        task = ray.remote(num_cpus=1, max_retries=3)(_cell_task)
        width = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        queue = list(reversed(cells))
        running: dict[Any, Cell] = {}
        progress = _Progress(len(cells))
        while queue or running:
            while queue and len(running) < width:
                cell = queue.pop()
                running[task.remote(cell, str(storage))] = cell
            ready, _ = ray.wait(list(running), timeout=SAY_EVERY_SECONDS)
            for reference in ready:
                cell = running.pop(reference)
                try:
                    ray.get(reference)
                    progress.count()
                except ray.exceptions.RayTaskError as error:
                    failures[cell.name] = str(error.cause or error)
                except ray.exceptions.RayError as error:
                    failures[cell.name] = f"its process was lost: {error}"
            progress.say()
    return failures


def _cell_task(cell: Cell, storage: str) -> None:
    """Run a cell in a Ray worker, on one thread.

    Right after a kill the lock of a cell may still be held by a dying worker, so it is waited for.
    """
    limit_threads(1)
    patience = time.monotonic() + LOCK_PATIENCE_SECONDS
    while True:
        try:
            return run_cell(cell, Path(storage))
        except JournalLocked:
            if time.monotonic() > patience:
                raise
            time.sleep(1.0)


class _Progress:
    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._start = self._last = time.monotonic()

    def count(self) -> None:
        self._done += 1

    def say(self) -> None:
        now = time.monotonic()
        if now - self._last >= SAY_EVERY_SECONDS or self._done == self._total:
            self._last = now
            minutes = (now - self._start) / 60
            _say(f"{self._done} of {self._total} cells run, {minutes:.1f} minutes")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
