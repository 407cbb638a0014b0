"""Quality of the answer at equal fold evaluations, beside the peers and the paper's methods.

    OMP_NUM_THREADS=1 python -m benchmarks.bench_quality --out DIR [--seeds 20] [--group mixed]

Twenty-two problems (`benchmarks.problems`); methods were chosen on the six for development. Each
searcher spends 100 fold evaluations; after 30, 60 and 100 it names a config, which is judged by its
robust value on all folds (chi-square ball, radius 1) and by the test score of a model fitted on all
folds. Differences are paired by seed. Every finished cell is a line of DIR/cells.jsonl; a second
call goes on from there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.cells import Cell, read_cells, run_missing
from benchmarks.coverage import coverage_lines
from benchmarks.problems import GROUPS, PROBLEMS
from benchmarks.radii import OTHERS, PLAIN
from benchmarks.ranking import Measure, complete, gaps, mean_ranks, scores_of
from benchmarks.savings import saving_lines
from benchmarks.searchers import MATERN, OWN, SEARCHERS, SMOOTHED
from benchmarks.table import Line, add_save_option, mean_interval, publish

BUDGETS = [30, 60, 100]
CELLS = "cells.jsonl"
CHAMPION = "foldwise"
RANKED = [
    CHAMPION,
    "drbqo",
    "emp-drbqo",
    "bqo-ts",
    "maximin-bqo-ts",
    "bqo-ei",
    "maximin-bqo-ei",
    "mtbo",
    "random mean",
    "random robust",
    "optuna-tpe mean",
    "optuna-tpe robust",
    "optuna-gp mean",
    "optuna-gp robust",
    "botorch cvar",
    "smac folds",
]
MEASURES: tuple[Measure, ...] = ("robust", "test")


def lines(cells: list[Cell], problems: list[str]) -> Iterator[Line]:
    """Ranks and paired differences, what a stop rule saves, how often intervals hold, and what
    other radii, kernels and reports change: by group of problems."""
    for group, members in GROUPS.items():
        chosen = [name for name in members if name in problems]
        yield from saving_lines(cells, chosen, group)
        yield from coverage_lines(cells, chosen, group)
        for budget in BUDGETS:
            yield from variant_lines(cells, chosen, group, budget)
        for measure, budget in product(MEASURES, BUDGETS):
            yield from rank_lines(cells, chosen, group, budget, measure)
            yield from difference_lines(cells, chosen, group, budget, measure)


def rank_lines(
    cells: list[Cell], problems: list[str], group: str, budget: int, measure: Measure
) -> Iterator[Line]:
    """The mean rank of every series over the problems of a group."""
    series = complete(cells, problems, RANKED, budget)
    if not series:
        return
    found = mean_ranks(cells, problems, series, budget, measure)
    if not len(found):
        return
    means = found.mean(axis=0)
    for k in np.argsort(means, kind="stable"):
        least = float(means.min()) if (series[k], measure) == (CHAMPION, "robust") else None
        yield Line(
            "quality",
            f"rank by {measure}, {series[k]}",
            f"{group}, {budget} folds",
            float(means[k]),
            "",
            most=least,
            note=f"of {len(series)}, {len(found)} problems",
        )


def difference_lines(
    cells: list[Cell], problems: list[str], group: str, budget: int, measure: Measure
) -> Iterator[Line]:
    """What our method is better by than each other one. Only problems with a test set: the scores
    of the others have another scale."""
    scaled = [name for name in problems if scores_of(cells, name, budget, "test")]
    for peer in RANKED[1:]:
        found = _mean_gap(cells, scaled, budget, measure, CHAMPION, peer)
        if found is not None:
            middle, low, high = found
            yield Line(
                "quality",
                f"{measure}, {CHAMPION} less {peer}",
                f"{group}, {budget} folds",
                middle,
                "",
                low,
                high,
                least=0.0 if measure == "robust" else None,
                note=f"{len(scaled)} problems",
            )


def variant_lines(
    cells: list[Cell], problems: list[str], group: str, budget: int
) -> Iterator[Line]:
    """What a radius gains over none, and what a Matern kernel and another report gain over the
    champion."""
    pairs = [(series, PLAIN, "radius 0") for series in OTHERS]
    pairs += [(series, CHAMPION, CHAMPION) for series in (MATERN, SMOOTHED)]
    for measure, (series, base, called) in product(MEASURES, pairs):
        found = _mean_gap(cells, problems, budget, measure, series, base)
        if found is not None:
            middle, low, high = found
            yield Line(
                "quality",
                f"{measure}, {series} less {called}",
                f"{group}, {budget} folds",
                middle,
                "",
                low,
                high,
            )


def _mean_gap(
    cells: list[Cell], problems: list[str], budget: int, measure: Measure, series: str, base: str
) -> tuple[float, float, float] | None:
    """What a series gains over another, paired by seed: the mean over problems and its interval;
    None if they share no seed."""
    by_problem = [gaps(scores_of(cells, p, budget, measure), series, base) for p in problems]
    means = [float(np.mean(found)) for found in by_problem if found]
    return mean_interval(means) if means else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/quality"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--group", choices=GROUPS, help="only these problems")
    parser.add_argument("--problems", nargs="+", default=None, choices=PROBLEMS)
    parser.add_argument("--searchers", nargs="+", default=list(SEARCHERS), choices=SEARCHERS)
    parser.add_argument("--redo", nargs="+", default=[], choices=OWN, help="run these anew")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--read", action="store_true", help="run nothing, read what is there")
    add_save_option(parser)
    args = parser.parse_args()
    problems = args.problems or list(GROUPS.get(args.group, PROBLEMS))
    args.out.mkdir(parents=True, exist_ok=True)
    done = read_cells(args.out / CELLS)
    wanted = [
        (problem, name, seed)
        for seed in range(args.seeds)
        for problem in problems
        for name in args.searchers
    ]
    missing = [key for key in wanted if key not in done or key[1] in args.redo]
    if missing and not args.read:
        os.nice(10)
        run_missing(missing, args.out / CELLS, args.processes, BUDGETS)
    cells = [cell for cell in read_cells(args.out / CELLS).values() if cell.seed < args.seeds]
    print("commits:", ", ".join(sorted({cell.commit for cell in cells})))
    return publish(lines(cells, problems), args.save)


if __name__ == "__main__":
    sys.exit(main())
