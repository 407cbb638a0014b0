"""Which model foretells scores it was not told? Variants beside the model of `foldwise`.

    OMP_NUM_THREADS=1 python -m benchmarks.bench_model [--seeds 20] [--half development]

Configs are random. Some are told on all folds and some on one, about as a search comes to know
them; the model is asked for the folds that are missing, and for configs it has never seen. Better
is the higher log density of these scores. Differences are paired by seed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.cells import settle
from benchmarks.model_variants import BOUNDED, VARIANTS, Sample, plain
from benchmarks.problems import DEVELOPMENT, HELD_OUT, PROBLEMS, open_problem
from benchmarks.table import Line, add_save_option, mean_interval, publish

HALVES = {"development": list(DEVELOPMENT), "held-out": list(HELD_OUT)}
WHOLE, SINGLE, FRESH = 6, 30, 16
ACCURACY = ("svm-sonar", "svm-glass", "forest-sonar", "boosting-sonar", "svm-breast-cancer",
            "elastic-net-breast-cancer", "forest-glass", "cnn-digits")  # fmt: skip


def draw_sample(name: str, seed: int) -> Sample:
    """Random configs of a problem: some told whole, some in one fold, some not at all."""
    problem, rng = open_problem(name, seed), np.random.default_rng(seed)
    points = rng.random((WHOLE + SINGLE + FRESH, len(problem.space)))
    configs = [problem.space.from_unit(u) for u in points]
    scores = np.array([[problem.score(c, i) for i in range(problem.n_folds)] for c in configs])
    told = np.zeros(scores.shape, dtype=bool)
    told[:WHOLE] = True
    told[np.arange(WHOLE, WHOLE + SINGLE), rng.integers(problem.n_folds, size=SINGLE)] = True
    return Sample(problem, configs, scores, told)


def gains(name: str, seed: int) -> dict[str, float]:
    """What each variant gains in mean log density over the model of `foldwise`."""
    sample = draw_sample(name, seed)
    usual = plain(sample)
    return {
        variant: float(np.mean(density(sample) - usual))
        for variant, density in VARIANTS.items()
        if variant != BOUNDED or name in ACCURACY
    }


def lines(problems: list[str], seeds: int, processes: int) -> Iterator[Line]:
    """The gain of each variant on each problem, and the mean over the problems of a half."""
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=settle
    ) as pool:
        running = {name: pool.map(partial(gains, name), range(seeds)) for name in problems}
        found = {name: list(results) for name, results in running.items()}
    for variant in VARIANTS:
        for half, members in HALVES.items():
            by_problem = {
                name: [gain[variant] for gain in found[name]]
                for name in members
                if name in found and variant in found[name][0]
            }
            for name, values in by_problem.items():
                yield _line(variant, name, values, f"{len(values)} seeds")
            if len(by_problem) > 1:
                means = [float(np.mean(values)) for values in by_problem.values()]
                yield _line(variant, half, means, f"{len(means)} problems")


def _line(variant: str, setting: str, values: list[float], note: str) -> Line:
    mean, low, high = mean_interval(values)
    return Line("model", f"log density, {variant}", setting, mean, "", low, high, note=note)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--half", choices=HALVES, help="only these problems")
    parser.add_argument("--problems", nargs="+", default=None, choices=PROBLEMS)
    parser.add_argument("--processes", type=int, default=2)
    add_save_option(parser)
    args = parser.parse_args()
    problems = args.problems or HALVES.get(args.half, list(PROBLEMS))
    return publish(lines(problems, args.seeds, args.processes), args.save)


if __name__ == "__main__":
    sys.exit(main())
