"""What the runtime costs: overhead per evaluation, and how busy it keeps two slots.

    python benchmarks/bench_runtime.py [--overhead 500] [--evaluations 60] [--seconds 1.0]

Overhead: folds that return at once, method random, two slots; wall time from the 50th to the last
outcome, per evaluation. At most 15 ms. Utilization: folds that sleep, method drbqo, two slots;
time in folds over slots times wall time, from the first start to the last outcome. At least 95 %.
Beside them what Ray alone needs for the same folds, and one flush of the journal's disk.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import ray

import drbqo_ray as dr
from drbqo_ray.cluster.connection import protect_token
from drbqo_ray.cluster.runner import run

SPACE = dr.Space({"x": dr.Float(0.0, 1.0), "y": dr.Float(1e-3, 1.0, log=True)})
WARM_UP = 50
MOST_OVERHEAD_MS = 15.0
LEAST_UTILIZATION = 0.95


class Fold:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, config: dict[str, float], fold: int, seed: int) -> float:
        if self.seconds:
            time.sleep(self.seconds)
        return -((config["x"] - 0.1 * fold) ** 2) * config["y"]


class Clock:
    """When evaluations were started and when their outcomes were safe."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.told: list[float] = []

    def on_ask(self, suggestion: dr.Suggestion) -> None:
        self.asked.append(time.perf_counter())

    def on_observation(self, observation: dr.Observation) -> None:
        self.told.append(time.perf_counter())


def overhead_ms(size: int, in_flight: int, storage: Path) -> float:
    clock = Clock()
    run(
        Fold(0.0), SPACE, 5, n_evaluations=size, method="random", storage=storage, progress=False,
        max_in_flight=in_flight, callbacks=[clock],
    )  # fmt: skip
    return 1e3 * (clock.told[-1] - clock.told[WARM_UP]) / (size - 1 - WARM_UP)


def utilization(size: int, seconds: float, storage: Path) -> float:
    clock = Clock()
    result = run(
        Fold(seconds), SPACE, 5, n_evaluations=size, storage=storage, progress=False,
        max_in_flight=2, callbacks=[clock],
    )  # fmt: skip
    busy = float(result.to_dataframe()["seconds"].sum())
    return busy / (2 * (clock.told[-1] - clock.asked[0]))


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


def flush_ms(directory: Path, size: int = 50) -> float:
    with open(directory / "flush", "wb", buffering=0) as file:
        start = time.perf_counter()
        for _ in range(size):
            file.write(b"x" * 200)
            os.fsync(file.fileno())
        return 1e3 * (time.perf_counter() - start) / size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--overhead", type=int, default=500, help="evaluations that return at once")
    parser.add_argument("--evaluations", type=int, default=60, help="evaluations that sleep")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long they sleep")
    args = parser.parse_args()
    protect_token()
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        logging_level="ERROR",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        storage = Path(name)
        print(f"load average            {os.getloadavg()[0]:8.1f} on {os.cpu_count()} cores")
        print(f"one flush of the disk   {flush_ms(storage):8.2f} ms")
        print(f"Ray alone, a task       {ray_alone_ms(args.overhead):8.2f} ms")
        two = overhead_ms(args.overhead, 2, storage / "two")
        print(f"overhead, two slots     {two:8.2f} ms  (at most {MOST_OVERHEAD_MS:g})")
        print(f"overhead, one slot      {overhead_ms(args.overhead, 1, storage / 'one'):8.2f} ms")
        share = utilization(args.evaluations, args.seconds, storage / "busy")
        print(f"utilization             {100 * share:8.1f} %   (at least {LEAST_UTILIZATION:.0%})")
    ray.shutdown()
    return 0 if two <= MOST_OVERHEAD_MS and share >= LEAST_UTILIZATION else 1


if __name__ == "__main__":
    sys.exit(main())
