"""Fold objectives for the tests of the runtime; Ray's workers import them from here."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import drbqo_ray as dr

SPACE = dr.Space({"x": dr.Float(0.0, 1.0), "y": dr.Float(1e-3, 1.0, log=True)})


def smooth(config: Mapping[str, Any], fold: int, seed: int) -> Any:
    return -((config["x"] - 0.2 - 0.1 * fold) ** 2) - 0.05 * np.log10(config["y"]) ** 2


class Slow:
    """`smooth` after some seconds; leaves a file for every call that begins, named by its seed."""

    def __init__(self, seconds: float, calls: Any = None) -> None:
        self.seconds = seconds
        self.calls = calls

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        if self.calls is not None:
            name = f"{seed}-{os.getpid()}-{uuid.uuid4().hex}"
            (Path(self.calls) / name).touch()
        time.sleep(self.seconds)
        return smooth(config, fold, seed)


class SlowUntil:
    """`smooth` after some seconds; at once as soon as a file exists."""

    def __init__(self, seconds: float, file: Any) -> None:
        self.seconds = seconds
        self.file = file

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        if not Path(self.file).exists():
            time.sleep(self.seconds)
        return smooth(config, fold, seed)


class Unpicklable(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


def stubborn(config: Mapping[str, Any], fold: int, seed: int) -> Any:
    """Fold 1 always raises something that cannot be pickled."""
    if fold == 1:
        raise Unpicklable(f"fold one breaks at x={config['x']:.3f}")
    return smooth(config, fold, seed)


def always_raises(config: Mapping[str, Any], fold: int, seed: int) -> float:
    raise ValueError("no luck at all")


def exits(config: Mapping[str, Any], fold: int, seed: int) -> float:
    raise SystemExit(3)


BAD_VALUES: list[Any] = [
    float("nan"),
    float("inf"),
    -float("inf"),
    None,
    "0.5",
    1j,
    1e308,
    [1.0],
    {},
    True,
]


class Odd:
    """Every second evaluation returns something that is no score."""

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        pick = seed % (2 * len(BAD_VALUES))
        return BAD_VALUES[pick] if pick < len(BAD_VALUES) else np.float32(config["x"])


class Hangs:
    """Evaluations with x below a threshold never end."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        if config["x"] < self.threshold:
            time.sleep(3600)
        return smooth(config, fold, seed)


class DiesOnce:
    """Ends its process the first time that it is called with a seed, and always for fold 1."""

    def __init__(self, notes: Any) -> None:
        self.notes = notes

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        note = Path(self.notes) / str(seed)
        if fold == 1 or not note.exists():
            note.touch()
            os._exit(7)
        return smooth(config, fold, seed)


def threads(config: Mapping[str, Any], fold: int, seed: int) -> Any:
    """The largest number of threads a loaded numerical library would use."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    return max(pool["num_threads"] for pool in threadpool_info())


def private_bytes() -> Any:
    """Memory of this process that it shares with no other."""
    total = 0
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_"):
            total += 1024 * int(line.split()[1])
    return total


class HasData:
    """Reads all of a large array and tells how much private memory that cost."""

    def __init__(self, data: Any, fingerprint: Any = None) -> None:
        self.data = data
        if fingerprint is not None:
            self.fingerprint = fingerprint

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        before = private_bytes()
        assert not self.data.flags.writeable
        total = 0.0
        for _ in range(3):
            total += float(sum(part.sum() for part in np.array_split(self.data, 64)))
            time.sleep(0.3)
        assert total == 3 * self.data.size
        return private_bytes() - before


def clock_jumps(config: Mapping[str, Any], fold: int, seed: int) -> Any:
    """The wall clock is set back by an hour while the fold runs."""
    true = time.time
    time.time = lambda: true() - 3600.0
    try:
        time.sleep(0.05)
        return smooth(config, fold, seed)
    finally:
        time.time = true


class TwoFolds:
    """Data of two folds only, whatever number of folds is asked for."""

    peaks = (0.2, 0.3)

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        return -((config["x"] - self.peaks[fold]) ** 2)
