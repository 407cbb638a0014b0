"""Fold objectives of the fault tests that break, hoard memory or tell where they run."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray

from tests.support.fold_objectives import smooth

BROKEN = 2


def one_broken_fold(config: Mapping[str, Any], fold: int, seed: int) -> Any:
    """One of five folds always raises; the others are good, best at x = 0.3."""
    if fold == BROKEN:
        raise FileNotFoundError(f"the rows of fold {fold} are gone")
    return 1.0 - (config["x"] - 0.3) ** 2 - 0.01 * fold


class NotesItsNode:
    """`smooth` after some seconds, at once as soon as a file exists.

    While it runs there is a file in `notes`, named by its node and the time it began.
    """

    def __init__(self, seconds: float, notes: Any, over: Any) -> None:
        self.seconds = seconds
        self.notes = notes
        self.over = over

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        node = ray.get_runtime_context().get_node_id()[:12]
        note = Path(self.notes) / f"{node}-{time.monotonic()}-{uuid.uuid4().hex}"
        note.touch()
        if not Path(self.over).exists():
            time.sleep(self.seconds)
        note.unlink()
        return smooth(config, fold, seed)


class Hoards:
    """`smooth` after some seconds; below some x it takes five gigabytes, if it is let."""

    def __init__(self, below: Any, seconds: float) -> None:
        self.below = below
        self.seconds = seconds

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        if config["x"] < self.below:
            hoard = []
            for _ in range(100):
                hoard.append(b"1" * 50_000_000)
                time.sleep(0.01)
            time.sleep(60)
        time.sleep(self.seconds)
        return smooth(config, fold, seed)
