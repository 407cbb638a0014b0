"""How busy W workers are kept, and what they find: a simulation with the real optimizer.

    OMP_NUM_THREADS=1 python -m benchmarks.simulate [--workers 2 16 64 512 4096] [--check]

The farm of `benchmarks.farm` runs 20 evaluations per worker of the logistic problem. Every ask and
tell is made by a real `Optimizer`; its CPU time goes on the simulated clock. Folds take no real
time: how long one runs is drawn from a distribution, by the seed of its suggestion. Utilisation is
time in folds over workers x time, from the first start to the last; what is lost when a run ends
and slots have no more work is in the note.

The driver's own costs were measured with real Ray by `benchmarks.bench_runtime`. With --check a run
on real Ray, two slots and short folds that sleep, is set beside its simulation: their utilisation
must agree to 2 points. There the optimizer is timed by the wall clock, as the real run has it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import drbqo_ray as dr
from benchmarks.farm import Farm, Job, Log
from benchmarks.table import Line, add_save_option, publish
from drbqo_ray.core.surrogate import Fit
from drbqo_ray.experiments.optimum import find_optimum, robust_values
from drbqo_ray.experiments.synthetic import find_surface
from drbqo_ray.runtime.background_fit import SMALL
from drbqo_ray.runtime.coordinator import BATCH

RADIUS = 1.0
SURFACE = find_surface("logistic")
LEAST = {64: 99.0, 512: 97.0, 4096: 90.0}
AGREEMENT = 2.0
Clock = Callable[[], float]


@dataclass(frozen=True)
class Costs:
    """What the runtime itself takes, as `bench_runtime` measures it on two cores.

    Attributes:
        start: seconds of the driver for one evaluation, if nothing else held it up.
        latency: seconds from there to the beginning of the evaluation. Two slots that are filled
            in turn give 1 / overhead evaluations a second, so a slot stands empty for twice the
            overhead: once in the driver's hands, once on the way.
        turn: seconds of one turn of its loop, for each evaluation under way.
        flush: seconds of one flush of the journal.
    """

    start: float = 0.005
    latency: float = 0.005
    turn: float = 3e-6
    flush: float = 0.002


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


def score(config: dict[str, float], fold: int) -> float:
    x = np.array([list(config.values())])
    return float(SURFACE.values(x)[0, fold])


class MeasuredOptimizer:
    """A real optimizer as the mind of a farm; its CPU seconds are what a thought takes, or those
    of another clock.

    Fits are made as `BackgroundFit` has them: they start when one is due, run on a core of their
    own, and are put into use by the first ask after their end. What an ask has to compute anew with
    other hyperparameters is part of that ask.
    """

    def __init__(
        self, slots: int, times: FoldTimes, seed: int, clock: Clock = time.process_time
    ) -> None:
        self.optimizer = dr.Optimizer(space(), SURFACE.samples, uncertainty=RADIUS, seed=seed)
        self.fitting = 0.0
        self.longest = 0.0
        self._times, self._clock = times, clock
        self._beside = slots > 1
        self._fit: tuple[float, Fit] | None = None

    def tell(self, jobs: Sequence[Job]) -> float:
        scores = [score(job.content.config, job.content.context) for job in jobs]
        start = self._clock()
        for job, value in zip(jobs, scores, strict=True):
            self.optimizer.tell(job.content.id, value)
        return self._clock() - start

    def ask(self, count: int, now: float) -> tuple[list[Job], float]:
        self._follow(now)
        start = self._clock()
        made = self.optimizer.ask(min(count, BATCH))
        took = self._clock() - start
        self.longest = max(self.longest, took)
        return [Job(s.id, self._times(s.seed), s) for s in made], took

    def _follow(self, now: float) -> None:
        """`BackgroundFit.follow` by the simulated clock."""
        model = self.optimizer.model
        last = model.last_fit
        model.fits_in_background = self._beside and last is not None and last.size >= SMALL
        if not model.fits_in_background:
            return
        if self._fit is not None:
            if now < self._fit[0]:
                return
            model.last_fit = self._fit[1]
            self._fit = None
        job = model.fit_job()
        if job is not None:
            start = self._clock()
            found = job()
            took = self._clock() - start
            self.fitting += took
            self._fit = (now + took, found)

    @property
    def regret(self) -> float:
        """How far the robust value of the recommendation is below the best one."""
        self.optimizer.model.fits_in_background = False
        x = np.array([list(self.optimizer.recommend().config.values())])
        found = float(robust_values(SURFACE, x, RADIUS)[0])
        return find_optimum(SURFACE, RADIUS).value - found


@dataclass(frozen=True)
class Simulated:
    """What came of one simulation: its log, the regret of its recommendation, and the mind."""

    log: Log
    regret: float
    mind: MeasuredOptimizer


def simulate(
    workers: int,
    per_worker: int,
    times: FoldTimes,
    seed: int,
    costs: Costs | None = None,
    clock: Clock = time.process_time,
) -> Simulated:
    """One run of `per_worker` evaluations on each of `workers` slots."""
    costs = costs or Costs()
    mind = MeasuredOptimizer(workers, times, seed, clock)
    log = Farm(
        workers,
        workers * per_worker,
        mind,
        costs.start,
        costs.turn * workers,
        costs.flush,
        costs.latency,
    ).run()
    return Simulated(log, mind.regret, mind)


def lines_of(workers: int, per_worker: int, times: FoldTimes, seed: int) -> Iterator[Line]:
    found = simulate(workers, per_worker, times, seed)
    log, mind, total = found.log, found.mind, workers * per_worker
    setting = f"W = {workers}, {times}"
    note = (
        f"{total} evaluations; to the last outcome {100 * log.utilisation_to_the_end:.1f} %;"
        f" optimizer {1e3 * log.thinking / total:.1f} CPU ms an evaluation, at work"
        f" {100 * log.load:.1f} %, longest ask {mind.longest:.1f} s;"
        f" fits beside {100 * mind.fitting / log.duration:.1f} %"
    )
    yield Line(
        "simulate",
        "utilisation",
        setting,
        100 * log.utilisation,
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

    def __call__(self, config: dict[str, float], fold: int, seed: int) -> float:
        time.sleep(self.times(seed))
        return score(config, fold)


def check(evaluations: int, times: FoldTimes, seed: int) -> Iterator[Line]:
    """Two slots on real Ray beside their simulation with the overhead of this very Ray."""
    from benchmarks.bench_runtime import flush_ms, local_ray, overhead_ms, timed_run

    with local_ray() as storage:
        overhead = overhead_ms(300, 2, storage / "overhead") / 1e3
        flush = flush_ms(storage) / 1e3
        clock, seconds = timed_run(
            SleepingLogistic(times), space(), SURFACE.samples, evaluations, storage / "real", seed
        )
    real = 100 * clock.utilisation(seconds, 2)
    costs = Costs(start=overhead, latency=overhead, flush=flush)
    found = simulate(2, evaluations // 2, times, seed, costs, time.perf_counter)
    made = 100 * found.log.utilisation
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
