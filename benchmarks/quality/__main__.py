"""Quality of the answer at equal fold evaluations, beside the peers and the paper's methods.

    OMP_NUM_THREADS=1 python -m benchmarks.quality --out DIR [--group fresh] [--searchers random]
    python -m benchmarks.quality --out DIR --page > quality.md
    python -m benchmarks.quality --out DIR --figure quality.svg --group fresh fresh-random

Each searcher spends fold evaluations on the problems of `benchmarks.quality.problems`. After 30,
60, 100 and (in the later groups, unless it is slow) 200 it names a config, which is judged by its
robust value on all folds (chi-square ball, radius 1) and by the test score of a model fitted on all
folds. Every finished cell is a line of DIR/SEARCHER.jsonl, and a second call goes on from there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.quality.cells import Cell, Key, read_cells, run_missing
from benchmarks.quality.measures import lines
from benchmarks.quality.page import groups_of, page, save_figure
from benchmarks.quality.problems import GROUPS, PROBLEMS, is_here
from benchmarks.quality.searchers import SEARCHERS
from benchmarks.table import add_save_option, publish

BUDGETS = [30, 60, 100]
LONG = [*BUDGETS, 200]
LONG_GROUPS = ("dev-random", "fresh", "fresh-random")
CUTS, SLOW_CUTS = 20, 10


def usual_budgets(problem: str, searcher: str) -> list[int]:
    """The budgets of a cell."""
    long = any(problem in GROUPS[group] for group in LONG_GROUPS)
    return LONG if long and not SEARCHERS[searcher].slow else BUDGETS


def wanted_cells(
    problems: Iterable[str], searchers: Iterable[str], cuts: int | None, budgets: list[int] | None
) -> list[tuple[Key, list[int]]]:
    """Cells and their budgets, searcher by searcher in the order given; without those whose data or
    programs are missing here, which is said."""
    problems, found = list(problems), []
    for problem in problems:
        if not is_here(problem):
            print(f"{problem} is left out: no DRBQO_DATA/shift/{PROBLEMS[problem].data}.csv.gz")
    for name in searchers:
        if not SEARCHERS[name].is_here:
            print(f"{name} is left out: {SEARCHERS[name].needs} is not installed")
            continue
        count = cuts if cuts is not None else SLOW_CUTS if SEARCHERS[name].slow else CUTS
        found += [
            ((problem, name, seed), budgets or usual_budgets(problem, name))
            for seed in range(count)
            for problem in problems
            if is_here(problem)
        ]
    return found


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--out", type=Path, default=Path("runs/quality"), help="directory of the cells")
    add("--group", nargs="+", choices=GROUPS, help="only these problems")
    add("--problems", nargs="+", choices=PROBLEMS, help="only these problems")
    add("--searchers", nargs="+", default=list(SEARCHERS), choices=SEARCHERS)
    add("--peers", action="store_true", help="only searchers that are not ours")
    add("--cuts", type=int, help="seeds from 0 on; as a rule 20, of slow searchers 10")
    add("--budgets", type=int, nargs="+", help="folds after which a config is named")
    add("--redo", nargs="+", default=[], choices=SEARCHERS, help="run these anew")
    add("--processes", type=int, default=2)
    add("--minutes", type=float, help="begin no cell after so many minutes")
    add("--read", action="store_true", help="run nothing, read what is there")
    add("--page", action="store_true", help="print the page of what is there")
    add("--figure", type=Path, help="draw what is there, as PNG or SVG")
    add_save_option(parser)
    return parser


def main() -> int:
    args = options().parse_args()
    named = [name for group in args.group or () for name in GROUPS[group]]
    problems = [*named, *(args.problems or ())] or list(PROBLEMS)
    args.out.mkdir(parents=True, exist_ok=True)
    if not (args.read or args.page or args.figure):
        searchers = [n for n in args.searchers if SEARCHERS[n].peer or not args.peers]
        run(args, wanted_cells(problems, searchers, args.cuts, args.budgets))
    cells = [
        cell
        for cell in read_cells(args.out).values()
        if cell.problem in problems and (args.cuts is None or cell.seed < args.cuts)
    ]
    if args.figure:
        save_figure(cells, args.figure, args.group)
    if args.page:
        print("\n".join(page(cells)))
    if args.page or args.figure:
        return 0
    print("commits:", ", ".join(sorted({cell.commit for cell in cells})))
    return publish(lines(cells, groups_of(cells)), args.save)


def run(args: argparse.Namespace, wanted: list[tuple[Key, list[int]]]) -> None:
    """Run the cells that are not there with all their budgets, or that are to be run anew."""
    done = read_cells(args.out)
    missing = [
        (key, budgets)
        for key, budgets in wanted
        if key[1] in args.redo or not has(done.get(key), budgets)
    ]
    os.nice(10)
    left = run_missing(missing, args.out, args.processes, args.minutes)
    if left:
        print(f"time is over, {left} cells are left: call again to go on")


def has(cell: Cell | None, budgets: list[int]) -> bool:
    """Whether a cell is there with all budgets."""
    return cell is not None and cell.budgets >= set(budgets)


if __name__ == "__main__":
    sys.exit(main())
