"""How busy W workers are kept, and what they find: a simulation of real runs.

    OMP_NUM_THREADS=1 python -m benchmarks.simulate [--workers 2 16 64 512 4096] [--check]

The slots of `benchmarks.farm` run 20 evaluations per worker of the logistic problem, by the
coordinator, the session and the loop of `drbqo_ray.runtime`. The CPU time of its thoughts goes on
the simulated clock. Folds take no real time: how long one runs is drawn from a distribution, by the
seed of its suggestion. Utilization is time in folds over workers x time, from the first start to
the last; what is lost when a run ends and slots have no more work is in the note.

The driver's own costs were measured with real Ray by `benchmarks.runtime`. With --check a run
on real Ray, two slots and short folds that sleep, is set beside its simulation: their utilization
must agree to 2 points. There the optimizer is timed by the wall clock, as the real run has it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import drbqo_ray as dr
from benchmarks.farm import Costs, Log, Seconds, SimulatedExecutor, run_simulated
from benchmarks.table import Line, add_save_option, publish
from drbqo_ray.experiments.synthetic import find_optimum, find_surface, robust_values
from drbqo_ray.problem import Limits, Problem
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.storage.location import RunLocation

RADIUS = 1.0
SURFACE = find_surface("logistic")
LEAST = {64: 99.0, 512: 97.0, 4096: 90.0}
AGREEMENT = 2.0


@dataclass(frozen=True)
class FoldTimes:
    """How long folds run: a distribution with a mean, drawn by seed.

    Attributes:
        shape: "lognormal", "exponential", "uniform" (from 0 to twice the mean) or "constant".
        mean: mean in seconds.
        sigma: standard deviation of the logarithm, for "lognormal".
    """

    shape: str = "lognormal"
    mean: float = 60.0
    sigma: float = 0.5

    def __call__(self, seed: int) -> float:
        """Seconds of the fold with this seed."""
        rng = np.random.default_rng(seed)
        if self.shape == "lognormal":
            return float(rng.lognormal(np.log(self.mean) - self.sigma**2 / 2, self.sigma))
        if self.shape == "exponential":
            return float(rng.exponential(self.mean))
        return float(rng.uniform(0, 2 * self.mean)) if self.shape == "uniform" else self.mean

    def __str__(self) -> str:
        sigma = f", sigma {self.sigma:g}" if self.shape == "lognormal" else ""
        return f"{self.shape} {self.mean:g} s{sigma}"


def space() -> dr.Space:
    return dr.Space({f"x{k}": dr.Float(SURFACE.low, SURFACE.high) for k in range(SURFACE.d)})


def score(config: Mapping[str, Any], fold: int) -> float:
    x = np.array([list(config.values())])
    return float(SURFACE.values(x)[0, fold])


@dataclass(frozen=True)
class Simulated:
    """What came of one simulation.

    Attributes:
        log: what happened when.
        result: the result of the run.
        regret: how far the robust value of the recommendation is below the best one.
    """

    log: Log
    result: dr.Result
    regret: float


def simulate(
    workers: int,
    per_worker: int,
    times: FoldTimes,
    seed: int,
    costs: Costs | None = None,
    processor: Seconds = time.thread_time,
) -> Simulated:
    """One run of `per_worker` evaluations on each of `workers` slots."""

    def objective(config: Mapping[str, Any], fold: int, seed: int) -> float:
        return score(config, fold)

    settings = {"method": "drbqo", "uncertainty": RADIUS, "mode": "max", "seed": seed}
    executor = SimulatedExecutor(objective, workers, times, costs, processor)
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(
            Problem.of(space(), SURFACE.samples, settings, objective, "logistic"),
            RunLocation(Path(folder), "simulation"),
            Limits(workers * per_worker, max_in_flight=workers),
            resume=False,
        )
        result = run_simulated(plan, executor)
    assert result.recommendation is not None
    x = np.array([list(result.recommendation.config.values())])
    found = float(robust_values(SURFACE, x, RADIUS)[0])
    return Simulated(executor.log, result, find_optimum(SURFACE, RADIUS).value - found)


def lines_of(workers: int, per_worker: int, times: FoldTimes, seed: int) -> Iterator[Line]:
    found = simulate(workers, per_worker, times, seed)
    log, total = found.log, workers * per_worker
    setting = f"W = {workers}, {times}"
    note = (
        f"{total} evaluations; to the last outcome {100 * log.utilization_to_the_end:.1f} %;"
        f" optimizer {1e3 * log.thinking / total:.1f} CPU ms an evaluation, at work"
        f" {100 * log.load:.1f} %, longest thought {log.longest:.1f} s;"
        f" fits beside {100 * log.fitting / log.duration:.1f} %"
    )
    yield Line(
        "simulate",
        "utilisation",
        setting,
        100 * log.utilization,
        "%",
        least=LEAST.get(workers),
        note=note,
    )
    yield Line(
        "simulate",
        "robust regret at the end",
        setting,
        found.regret,
        "",
        note=f"radius {RADIUS:g}, {total} evaluations in {log.duration / 60:.1f} min",
    )


class SleepingLogistic:
    """The logistic problem as an objective whose folds sleep as long as the simulated ones."""

    def __init__(self, times: FoldTimes) -> None:
        self.times = times

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> float:
        time.sleep(self.times(seed))
        return score(config, fold)


def check(evaluations: int, times: FoldTimes, seed: int) -> Iterator[Line]:
    """Two slots on real Ray beside their simulation with the overhead of this very Ray."""
    from benchmarks.runtime.overhead import flush_ms, local_ray, overhead_ms, timed_run

    with local_ray() as storage:
        overhead = overhead_ms(300, 2, storage / "overhead") / 1e3
        flush = flush_ms(storage) / 1e3
        clock, seconds = timed_run(
            SleepingLogistic(times), space(), SURFACE.samples, evaluations, storage / "real", seed
        )
    real = 100 * clock.utilisation(seconds, 2)
    costs = Costs(start=overhead, latency=overhead, flush=flush)
    found = simulate(2, evaluations // 2, times, seed, costs, time.perf_counter)
    made = 100 * found.log.utilization
    yield Line(
        "simulate",
        "real run less its simulation",
        f"W = 2, {times}",
        abs(real - made),
        "points",
        most=AGREEMENT,
        note=f"utilisation {real:.2f} % on Ray, {made:.2f} % simulated,"
        f" {evaluations} evaluations, overhead {1e3 * overhead:.1f} ms",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 16, 64, 512, 4096])
    parser.add_argument("--per-worker", type=int, default=20, help="evaluations per worker")
    parser.add_argument(
        "--shape", default="lognormal", help="lognormal, exponential, uniform, constant"
    )
    parser.add_argument("--mean", type=float, default=60.0, help="mean seconds of a fold")
    parser.add_argument("--sigma", type=float, default=0.5, help="of the log-normal")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="set W = 2 beside real Ray")
    parser.add_argument("--check-mean", type=float, default=0.7, help="mean seconds of its folds")
    parser.add_argument("--check-evaluations", type=int, default=100)
    add_save_option(parser)
    args = parser.parse_args()
    times = FoldTimes(args.shape, args.mean, args.sigma)
    missed = 0
    for workers in args.workers:
        missed += publish(lines_of(workers, args.per_worker, times, args.seed), args.save)
    if args.check:
        short = FoldTimes(args.shape, args.check_mean, args.sigma)
        missed += publish(check(args.check_evaluations, short, args.seed), args.save)
    return missed


if __name__ == "__main__":
    sys.exit(main())
