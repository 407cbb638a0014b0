"""Quality of the answer at equal fold evaluations, beside the peers.

    OMP_NUM_THREADS=1 python -m benchmarks.bench_quality --out DIR [--seeds 20] [--redo drbqo]

The SVM on sonar and on glass (5 folds, cut anew for every seed) and the logistic problem (10
samples). Each searcher spends 100 fold evaluations; after 30, 60 and 100 it names a config, whose
robust value (chi-square ball, radius 1) is computed from its scores on all folds. Differences are
paired by seed. Every finished cell is a line of DIR/cells.jsonl; a second call goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import drbqo_ray as dr
from benchmarks.peers import OWN, SEARCHERS, FoldProblem, Purse, answers, show_no_warnings
from benchmarks.table import Line, add_save_option, mean_interval, publish
from drbqo_ray.experiments.provenance import provenance
from drbqo_ray.experiments.synthetic import find_surface

PROBLEMS = ("svm-sonar", "svm-glass", "logistic")
BUDGETS = [30, 60, 100]
RADIUS = 1.0
CELLS = "cells.jsonl"

Cell = dict[str, Any]
Key = tuple[str, str, int]


def open_problem(name: str, seed: int) -> FoldProblem:
    """The problem of one seed; the seed cuts the folds of the SVM."""
    if name == "logistic":
        surface = find_surface("logistic")

        def value(config: dict[str, float], fold: int) -> float:
            return float(surface.values(np.array([list(config.values())]))[0, fold])

        bounds = {f"x{k}": (surface.low, surface.high, False) for k in range(surface.d)}
        return FoldProblem(bounds, len(surface.samples), value, 0.0, surface.samples)
    from workers.svm import SVMFolds

    folds = SVMFolds(name.removeprefix("svm-"), n_folds=5, split_seed=seed)
    bounds = {k: (item["low"], item["high"], item["log"]) for k, item in folds.space.items()}
    return FoldProblem(bounds, 5, lambda config, fold: float(folds(config, fold, 0)), 1.0)


def judge(problem: FoldProblem, config: dict[str, float]) -> float:
    """The robust value of a config on all folds."""
    scores = [problem.score(config, fold) for fold in range(problem.n_folds)]
    return float(dr.ChiSquareBall(RADIUS).worst_case(scores)[0])


def run_cell(budgets: list[int], name: str, searcher: str, seed: int) -> Cell:
    """One searcher on one problem with one seed."""
    problem = open_problem(name, seed)
    purse = Purse(problem, RADIUS)
    start = time.process_time()
    found = answers(SEARCHERS[searcher](purse, seed, max(budgets)), purse, budgets)
    seconds = time.process_time() - start
    values = {str(budget): judge(problem, config) for budget, config in found.items()}
    return {"problem": name, "searcher": searcher, "seed": seed, "values": values,
            "configs": {str(b): c for b, c in found.items()}, "spent": purse.spent,
            "cpu_seconds": round(seconds, 3), "commit": provenance("")["commit"]}  # fmt: skip


def key_of(cell: Cell) -> Key:
    return cell["problem"], cell["searcher"], cell["seed"]


def read_cells(path: Path) -> dict[Key, Cell]:
    """The finished cells of a file; a line cut off by a crash is left out."""
    cells = {}
    for text in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            cell = json.loads(text)
        except ValueError:
            continue
        cells[key_of(cell)] = cell
    return cells


def settle() -> None:
    """A quiet process with one thread, for torch too where it is installed."""
    show_no_warnings()
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


def run_missing(keys: list[Key], path: Path, processes: int, budgets: list[int] = BUDGETS) -> None:
    """Run cells side by side and append each to the file as it comes in."""
    context = get_context("spawn")
    cut_off = path.exists() and not path.read_bytes().endswith(b"\n")
    with (
        ProcessPoolExecutor(processes, mp_context=context, initializer=settle) as pool,
        open(path, "a", encoding="utf-8") as file,
    ):
        file.write("\n" if cut_off else "")
        running = [pool.submit(run_cell, budgets, *key) for key in keys]
        for count, future in enumerate(as_completed(running), 1):
            cell = future.result()
            file.write(json.dumps(cell) + "\n")
            file.flush()
            shown = " ".join(f"{value:.4f}" for value in cell["values"].values())
            print(f"{count}/{len(keys)} {cell['problem']} {cell['searcher']} seed {cell['seed']}:"
                  f" {shown} ({cell['cpu_seconds']:.1f} CPU s)", flush=True)  # fmt: skip


def lines(cells: dict[Key, Cell], problems: list[str], names: list[str]) -> Iterator[Line]:
    """Means of every searcher, and the paired advantage of our methods over each peer."""
    for problem in problems:
        for budget in map(str, BUDGETS):
            setting = f"{problem}, {budget} folds"
            by_name = {
                name: {c["seed"]: c["values"][budget] for c in cells.values()
                       if (c["problem"], c["searcher"]) == (problem, name)}
                for name in names
            }  # fmt: skip
            for name, values in by_name.items():
                if values:
                    mean, low, high = mean_interval(list(values.values()))
                    yield Line("quality", f"robust value, {name}", setting, mean, "", low, high,
                               note=f"{len(values)} seeds")  # fmt: skip
            yield from advantages(by_name, setting)


def advantages(by_name: dict[str, dict[int, float]], setting: str) -> Iterator[Line]:
    """Each method of ours less each peer, on the seeds that both have run."""
    for own in (name for name in OWN if name in by_name):
        for peer in (name for name in by_name if name not in OWN):
            seeds = sorted(by_name[own].keys() & by_name[peer].keys())
            if seeds:
                gaps = [by_name[own][seed] - by_name[peer][seed] for seed in seeds]
                mean, low, high = mean_interval(gaps)
                yield Line("quality", f"{own} less {peer}", setting, mean, "", low, high,
                           least=0.0, note=f"{len(seeds)} seeds")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmark_quality"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=PROBLEMS)
    parser.add_argument("--searchers", nargs="+", default=list(SEARCHERS), choices=SEARCHERS)
    parser.add_argument("--redo", nargs="+", default=[], choices=SEARCHERS, help="run these anew")
    parser.add_argument("--processes", type=int, default=2)
    add_save_option(parser)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    done = read_cells(args.out / CELLS)
    wanted = [
        (problem, name, seed)
        for seed in range(args.seeds)
        for problem in args.problems
        for name in args.searchers
    ]
    missing = [key for key in wanted if key not in done or key[1] in args.redo]
    if missing:
        os.nice(10)
        run_missing(missing, args.out / CELLS, args.processes)
    cells = read_cells(args.out / CELLS)
    chosen = {key: cells[key] for key in wanted}
    print("commits:", ", ".join(sorted({cell["commit"] for cell in chosen.values()})))
    return publish(lines(chosen, args.problems, args.searchers), args.save)


if __name__ == "__main__":
    sys.exit(main())
