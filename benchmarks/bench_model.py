"""Which model foretells scores it was not told? Variants beside the model of `foldwise`.

    OMP_NUM_THREADS=1 python -m benchmarks.bench_model [--seeds 20] [--group development]

Configs are random. Few scores are those of a search that has just begun: some configs on one fold
each. Of many, some configs are told on all folds. The model is asked for the folds that are
missing, and for configs it has never seen. Better is the higher log density of these scores.
Differences are paired by seed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.cells import settle
from benchmarks.model_variants import BOUNDED, VARIANTS, Sample, plain
from benchmarks.problems import GROUPS, PROBLEMS, open_problem
from benchmarks.table import Line, add_save_option, mean_interval, publish

SIZES = ("few", "many")
FEW, WHOLE, SINGLE, FRESH = 12, 6, 30, 16
ACCURACY = [name for name, task in PROBLEMS.items() if task.data not in ("diabetes", "logistic")]


def samples(name: str, seed: int) -> dict[str, Sample]:
    """Random configs of a problem with few and with many scores told."""
    problem, rng = open_problem(name, seed), np.random.default_rng(seed)
    points = rng.random((WHOLE + SINGLE + FRESH, len(problem.space)))
    configs = [problem.space.from_unit(u) for u in points]
    scores = np.array([[problem.score(c, i) for i in range(problem.n_folds)] for c in configs])
    one = np.arange(problem.n_folds) == rng.integers(problem.n_folds, size=(len(configs), 1))
    place = np.arange(len(configs))[:, None]
    many = (place < WHOLE) | (one & (place < WHOLE + SINGLE))
    told = {"few": one & (place < FEW), "many": many}
    return {size: Sample(problem, configs, scores, known) for size, known in told.items()}


def gains(name: str, seed: int) -> dict[tuple[str, str], float]:
    """What each variant gains in mean log density over the model of `foldwise`, by size."""
    found = {}
    for size, sample in samples(name, seed).items():
        usual = plain(sample)
        for variant, density in VARIANTS.items():
            if variant != BOUNDED or name in ACCURACY:
                found[variant, size] = float(np.mean(density(sample) - usual))
    return found


def lines(problems: list[str], seeds: int, processes: int) -> Iterator[Line]:
    """The gain of each variant on each problem, and the mean over the problems of a group."""
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=settle
    ) as pool:
        running = {name: pool.map(partial(gains, name), range(seeds)) for name in problems}
        found = {name: list(results) for name, results in running.items()}
    for key, (group, members) in product(product(VARIANTS, SIZES), GROUPS.items()):
        by_problem = {
            name: [gain[key] for gain in found[name]]
            for name in members
            if name in found and key in found[name][0]
        }
        for name, values in by_problem.items():
            yield _line(*key, name, values, f"{len(values)} seeds")
        if len(by_problem) > 1:
            means = [float(np.mean(values)) for values in by_problem.values()]
            yield _line(*key, group, means, f"{len(means)} problems")


def _line(variant: str, size: str, where: str, values: list[float], note: str) -> Line:
    mean, low, high = mean_interval(values)
    setting = f"{where}, {size} scores"
    return Line("model", f"log density, {variant}", setting, mean, "", low, high, note=note)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--group", choices=GROUPS, help="only these problems")
    parser.add_argument("--problems", nargs="+", default=None, choices=PROBLEMS)
    parser.add_argument("--processes", type=int, default=2)
    add_save_option(parser)
    args = parser.parse_args()
    problems = args.problems or list(GROUPS.get(args.group, PROBLEMS))
    return publish(lines(problems, args.seeds, args.processes), args.save)


if __name__ == "__main__":
    sys.exit(main())
