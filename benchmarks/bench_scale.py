"""Much data and many suggestions at once: time, memory, and what condensing the data costs.

    OMP_NUM_THREADS=1 python -m benchmarks.bench_scale [--sizes 2000 10000 20000] [--rounds 5]
        [--contexts 100 1000 10000]

Each size runs in a process of its own, whose largest memory is read at its end. A step is a tell
and an ask. Beyond 2,000 scores the model works on condensed data; its suggestions are judged by
the exact model on the same scores: the robust value it expects at the suggested configs, as a share
of what its own suggestions gain over random configs.

Many contexts: `foldwise` with 1,000 scores, each number of folds in a process of its own, as ratios
to the first number.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import drbqo_ray as dr
from benchmarks.speed.suggestion import Ours
from benchmarks.table import Line, add_save_option, mean_interval, publish, ratio
from drbqo_ray.core import surrogate
from drbqo_ray.core.surrogate import Fit

STEPS = 40
BATCH, BATCH_SIZE = 32, 500
MOST_STEP_MS, MOST_MEMORY = 250.0, 4.0
MOST_BATCH = 4.0
MANY_SCORES, MOST_OF_HUNDRED = 1000, 5.0
COMPARED, MOST_SHORTFALL = 4000, 2.0


def cpu_seconds(job: Callable[[], object]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def one_size(size: int) -> tuple[float, float, float, float]:
    """Seconds of the first ask, median and largest seconds of a step, and GiB of the process."""
    ours = Ours(size, 0)
    first = cpu_seconds(ours.optimizer.ask)
    steps = [cpu_seconds(ours.step) for _ in range(STEPS)]
    return first, statistics.median(steps), max(steps), largest_memory()


def largest_memory() -> float:
    """GiB this program has held at most. `getrusage` would count its parent's as well, from the
    moment between fork and exec."""
    status = Path("/proc/self/status").read_text("ascii")
    kilobytes = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    assert kilobytes is not None
    return int(kilobytes[1]) / 2**20


def size_lines(size: int) -> Iterator[Line]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        first, median, largest, memory = pool.submit(one_size, size).result()
    bounded = size == 10_000
    note = f"{STEPS} steps, the slowest {1e3 * largest:.0f} ms, the first ask {first:.1f} s"
    yield Line(
        "scale",
        "tell and ask, median",
        f"N = {size}",
        1e3 * median,
        "ms",
        most=MOST_STEP_MS if bounded else None,
        note=note,
    )
    yield Line(
        "scale",
        "memory of the process",
        f"N = {size}",
        memory,
        "GiB",
        most=MOST_MEMORY if bounded else None,
    )


def many_contexts(n: int) -> dict[str, float]:
    """CPU seconds of each look at `foldwise` with 1,000 scores in n folds, and GiB in all."""
    rng, names = np.random.default_rng(0), "abc"
    space = {name: dr.Float(0.0, 1.0) for name in names}
    opt = dr.Optimizer(space, n, method="foldwise", fixed_seed=True)

    def score(config: dict[str, float], fold: int) -> float:
        a, b, c = (config[name] for name in names)
        offset = 0.3 * np.sin(fold) * a
        return float(np.sin(3 * a) + b**2 - abs(c - 0.3) + offset + 0.05 * rng.standard_normal())

    for _ in range(MANY_SCORES):
        config, fold = opt.space.from_unit(rng.random(3)), int(rng.integers(n))
        opt.observe(config, fold, score(config, fold))
    found = {"first ask": cpu_seconds(opt.ask)}

    def step() -> None:
        (asked,) = opt.pending
        opt.tell(asked.id, score(asked.config, asked.context))
        opt.ask()

    found["tell and ask"] = statistics.median(cpu_seconds(step) for _ in range(5))
    found["recommend"] = cpu_seconds(opt.recommend)
    found["certainty"] = cpu_seconds(opt.certainty)
    return found | {"memory": largest_memory()}


def context_lines(counts: list[int]) -> Iterator[Line]:
    """Each look as a multiple of that with the first number of contexts."""
    first: dict[str, float] = {}
    for n in counts:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(many_contexts, n).result()
        first = first or found
        memory = found.pop("memory")
        for name, seconds in found.items():
            yield Line(
                "scale",
                f"{name} / that with {counts[0]} folds",
                f"n = {n}",
                seconds / first[name],
                "x",
                most=MOST_OF_HUNDRED if n == 1000 and counts[0] == 100 else None,
                note=f"{seconds:.3g} s",
            )
        most = {1000: 1.0, 10_000: 4.0}.get(n)
        yield Line("scale", "memory of the process", f"n = {n}", memory, "GiB", most=most)


def batch_line(rounds: int) -> Iterator[Line]:
    """ask(32) beside ask(1) on the same scores, in turns."""
    many, one = [], []
    for seed in range(rounds):
        ask = Ours(BATCH_SIZE, seed).optimizer.ask
        ask()
        one.append(statistics.mean(cpu_seconds(partial(ask, 1)) for _ in range(5)))
        many.append(cpu_seconds(partial(ask, BATCH)))
    middle, low, high = ratio(many, one)
    note = f"{1e3 * statistics.median(many):.0f} and {1e3 * statistics.median(one):.0f} ms"
    yield Line(
        "scale",
        f"ask({BATCH}) / ask(1)",
        f"N = {BATCH_SIZE}",
        middle,
        "x",
        low,
        high,
        most=MOST_BATCH,
        note=note,
    )


def suggested(size: int, seed: int, limit: int, fit: Fit | None) -> tuple[Ours, np.ndarray]:
    """An optimizer with N scores, exact up to `limit`, and the points (32, p) it suggests."""
    usual, surrogate.EXACT_LIMIT = surrogate.EXACT_LIMIT, limit
    try:
        ours = Ours(size, seed)
        ours.optimizer.model.last_fit = fit
        asked = ours.optimizer.ask(BATCH)
    finally:
        surrogate.EXACT_LIMIT = usual
    return ours, np.array([ours.optimizer.space.to_unit(s.config) for s in asked])


def shortfall(size: int, seed: int) -> float:
    """Percent of the exact model's gain over random configs that condensing the data loses.

    Both have the hyperparameters that the condensed one finds.
    """
    first, condensed = suggested(size, seed, surrogate.EXACT_LIMIT, None)
    ours, own = suggested(size, seed, size, first.optimizer.model.last_fit)
    optimizer = ours.optimizer
    _, gp = optimizer.model.current()
    assert len(gp.y) == size

    def expected(U: np.ndarray) -> float:
        means = gp.means(optimizer.space.features(U))
        return float(np.mean(optimizer.uncertainty.solve(means, optimizer.reference)[0]))

    chance = expected(np.random.default_rng(seed).random((1024, own.shape[1])))
    return 100 * (expected(own) - expected(condensed)) / (expected(own) - chance)


def quality_line(rounds: int) -> Iterator[Line]:
    found = [shortfall(COMPARED, seed) for seed in range(rounds)]
    mean, low, high = mean_interval(found)
    yield Line(
        "scale",
        "value lost by condensing",
        f"N = {COMPARED}",
        mean,
        "%",
        low,
        high,
        most=MOST_SHORTFALL,
        note=f"{rounds} rounds of {BATCH} suggestions",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[2000, 10_000, 20_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contexts", type=int, nargs="*", default=[100, 1000, 10_000])
    add_save_option(parser)
    args = parser.parse_args()
    missed = publish(context_lines(args.contexts), args.save)
    missed += publish(batch_line(args.rounds), args.save) if args.rounds else 0
    missed += publish(quality_line(args.rounds), args.save) if args.rounds else 0
    for size in args.sizes:
        missed += publish(size_lines(size), args.save)
    return missed


if __name__ == "__main__":
    sys.exit(main())
