"""What the runtime costs: overhead per evaluation, and how busy it keeps two slots.

    python -m benchmarks.runtime.overhead [--overhead 500] [--evaluations 60] [--seconds 1.0]

Overhead: folds that return at once, method random, two slots; wall time from the 50th to the last
outcome, per evaluation. At most 15 ms. Utilisation: folds that sleep, method drbqo, two slots;
time in folds over slots times wall time, from the first start to the last outcome. At least 95 %.
Beside them what Ray alone needs for the same folds, one flush of the journal's disk, and one look
of the driver at thousands of evaluations under way.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import ray

import drbqo_ray as dr
from benchmarks.farm import utilization as utilisation
from benchmarks.table import Line, add_save_option, publish
from drbqo_ray.runtime.ray_cluster import protect_token
from drbqo_ray.runtime.run import run

SPACE = dr.Space({"x": dr.Float(0.0, 1.0), "y": dr.Float(1e-3, 1.0, log=True)})
WARM_UP = 50
MOST_OVERHEAD_MS = 15.0
LEAST_UTILISATION = 95.0
MANY = 4096


class Fold:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> float:
        if self.seconds:
            time.sleep(self.seconds)
        return -((config["x"] - 0.1 * fold) ** 2) * config["y"]


class Clock:
    """When evaluations were started and when their outcomes were safe, in order of the events."""

    def __init__(self) -> None:
        self.asked: dict[int, float] = {}
        self.told: list[float] = []

    def on_ask(self, suggestion: dr.Suggestion) -> None:
        self.asked[suggestion.id] = time.perf_counter()

    def on_observation(self, observation: dr.Observation) -> None:
        self.told.append(time.perf_counter())

    def utilisation(self, seconds: dict[int, float], slots: int) -> float:
        """Share of the slots' time in folds, from the first start to the last one."""
        ids = sorted(self.asked)
        return utilisation([self.asked[i] for i in ids], [seconds[i] for i in ids], slots)

    def utilisation_to_the_end(self, seconds: dict[int, float], slots: int) -> float:
        """The same to the last outcome."""
        whole = self.told[-1] - min(self.asked.values())
        return sum(seconds.values()) / (slots * whole)


@contextmanager
def local_ray() -> Iterator[Path]:
    """A Ray of our own with two CPUs, and a directory for its runs."""
    protect_token()
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    try:
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
    finally:
        ray.shutdown()


def timed_run(
    objective: Any, space: dr.Space, contexts: Any, size: int, storage: Path, seed: int = 0
) -> tuple[Clock, dict[int, float]]:
    """A run on two slots: its clock, and the seconds of its folds by id."""
    clock = Clock()
    result = run(
        objective,
        space,
        contexts,
        n_evaluations=size,
        storage=storage,
        progress=False,
        max_in_flight=2,
        method="drbqo",
        callbacks=[clock],
        seed=seed,
    )
    frame = result.to_dataframe()
    return clock, dict(zip(frame["id"], frame["seconds"], strict=True))


def overhead_ms(size: int, in_flight: int, storage: Path) -> float:
    clock = Clock()
    run(
        Fold(0.0),
        SPACE,
        5,
        n_evaluations=size,
        method="random",
        storage=storage,
        progress=False,
        max_in_flight=in_flight,
        callbacks=[clock],
    )
    return 1e3 * (clock.told[-1] - clock.told[WARM_UP]) / (size - 1 - WARM_UP)


def ray_alone_ms(size: int) -> float:
    """The same folds as bare Ray tasks, two in flight."""
    fold = ray.put(Fold(0.0))
    task = ray.remote(lambda fold, config: fold(config, 0, 0))
    config = {"x": 0.5, "y": 0.5}
    running = [task.remote(fold, config) for _ in range(2)]
    ray.get(running)
    start = time.perf_counter()
    for _ in range(size):
        _, running = ray.wait(running, num_returns=1)
        running.append(task.remote(fold, config))
    ray.get(running)
    return 1e3 * (time.perf_counter() - start) / size


def look_ms(count: int) -> float:
    """One `ray.wait` of the driver's loop on `count` evaluations, one of them ready."""
    never = ray.remote(resources={"nowhere": 1})(lambda: None)
    waiting = [never.remote() for _ in range(count - 1)]
    times = []
    for _ in range(10):
        references = [*waiting, ray.put(1)]
        start = time.perf_counter()
        ready, rest = ray.wait(references, num_returns=1, timeout=1.0)
        ray.wait(rest, num_returns=len(rest), timeout=0)
        times.append(time.perf_counter() - start)
        assert len(ready) == 1
    for reference in waiting:
        ray.cancel(reference, force=True)
    return 1e3 * statistics.median(times)


def flush_ms(directory: Path, size: int = 50) -> float:
    with open(directory / "flush", "wb", buffering=0) as file:
        start = time.perf_counter()
        for _ in range(size):
            file.write(b"x" * 200)
            os.fsync(file.fileno())
        return 1e3 * (time.perf_counter() - start) / size


def lines(overhead: int, evaluations: int, seconds: float, looks: Sequence[int]) -> Iterator[Line]:
    def line(what: str, setting: str, value: float, unit: str = "ms", **rest: Any) -> Line:
        return Line("runtime", what, setting, value, unit, **rest)

    with local_ray() as storage:
        flush = flush_ms(storage)
        alone = ray_alone_ms(overhead)
        two = overhead_ms(overhead, 2, storage / "two")
        note = f"Ray alone {alone:.2f} ms, one flush of the disk {flush:.2f} ms"
        yield line("overhead of an evaluation", "two slots", two, most=MOST_OVERHEAD_MS, note=note)
        one = overhead_ms(overhead, 1, storage / "one")
        yield line("overhead of an evaluation", "one slot", one, note="nothing made ahead")
        clock, took = timed_run(Fold(seconds), SPACE, 5, evaluations, storage / "busy")
        share = 100 * clock.utilisation_to_the_end(took, 2)
        setting = f"two slots, {seconds:g} s folds"
        yield line("utilisation", setting, share, "%", least=LEAST_UTILISATION)
        for count in looks:
            yield line("one look of the driver", f"{count} under way", look_ms(count))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--overhead", type=int, default=500, help="evaluations that return at once")
    parser.add_argument("--evaluations", type=int, default=60, help="evaluations that sleep")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long they sleep")
    parser.add_argument("--looks", type=int, nargs="*", default=[64, 512, MANY])
    add_save_option(parser)
    args = parser.parse_args()
    found = lines(args.overhead, args.evaluations, args.seconds, args.looks)
    return publish(found, args.save)


if __name__ == "__main__":
    sys.exit(main())
