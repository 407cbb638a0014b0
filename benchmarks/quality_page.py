"""The quality benchmark on one page: ranks, paired comparisons, means, stop rule, radius.

    python -m benchmarks.quality_page DIR [--seeds 20] > quality.md

DIR holds the cells that `bench_quality` ran.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.bench_quality import (
    BUDGETS,
    CELLS,
    CHAMPION,
    MEASURES,
    RANKED,
    difference_lines,
    variant_lines,
)
from benchmarks.cells import Cell, read_cells
from benchmarks.coverage import coverage_lines
from benchmarks.problems import GROUPS
from benchmarks.ranking import (
    Measure,
    Scores,
    complete,
    gaps,
    mean_ranks,
    scores_of,
    shared_seeds,
)
from benchmarks.savings import saving_lines
from benchmarks.table import Line, mean_interval

TITLES = {
    "held-out": "Problems set aside",
    "mixed": "Mixed spaces, added when the methods were done",
    "random": "Random training",
    "development": "Development problems",
}


def page(cells: Sequence[Cell]) -> Iterator[str]:
    """The page, line by line."""
    seeds = 1 + max(cell.seed for cell in cells)
    yield "# Answer quality at equal fold evaluations"
    yield ""
    yield "Made by `python -m benchmarks.bench_quality` and `python -m benchmarks.quality_page`"
    yield f"(docs/benchmarks.md says what is compared), seeds 0 to {seeds - 1}, commits"
    yield f"{', '.join(sorted({cell.commit for cell in cells}))}. Larger values are better."
    done = {cell.problem for cell in cells}
    for group in TITLES:
        problems = [name for name in GROUPS[group] if name in done]
        if problems:
            yield from _group(cells, problems, group)


def _group(cells: Sequence[Cell], problems: list[str], group: str) -> Iterator[str]:
    yield from ("", f"## {TITLES[group]}", "", f"Cuts of the data: {_cuts(cells, problems)}.", "")
    yield from ("Mean rank, 1 is best:", "")
    yield from _ranks(cells, problems)
    yield from ("", f"`{CHAMPION}` beside each peer, paired by seed, on {len(problems)} problems")
    yield from ("with three budgets each: 95 % interval above 0 / around 0 / below 0.", "")
    yield from _verdicts(cells, problems)
    yield from ("", f"What `{CHAMPION}` is better by, the mean over problems with a test set and")
    yield from ("its 95 % interval:", "")
    yield from _differences(cells, problems, group)
    for measure, words in zip(MEASURES, ("robust value", "test score"), strict=True):
        yield from ("", f"Mean {words} after {', '.join(map(str, BUDGETS))} folds:", "")
        yield from _means(cells, problems, measure)
    yield from ("", f"What a stop rule does to `{CHAMPION}`:", "")
    yield from _plain(saving_lines(cells, problems, group))
    intervals = list(coverage_lines(cells, problems, group))
    if intervals:
        yield from ("", "How often the 95 % interval of `certainty` holds the robust value:", "")
        yield from _plain(intervals)
    variants = [line for b in BUDGETS for line in variant_lines(cells, problems, group, b)]
    if variants:
        yield from ("", "What a radius changes against a search for the best mean, and what")
        yield from (f"another kernel or report changes against `{CHAMPION}`:", "")
        yield from _plain(variants)


def _cuts(cells: Sequence[Cell], problems: list[str]) -> str:
    """How many seeds every ranked searcher has run, problem by problem."""
    series = complete(cells, problems, RANKED, BUDGETS[0])
    scores = {name: scores_of(cells, name, BUDGETS[0], "robust") for name in problems}
    return ", ".join(f"{name} {len(shared_seeds(scores[name], series))}" for name in problems)


def _ranks(cells: Sequence[Cell], problems: list[str]) -> Iterator[str]:
    series = complete(cells, problems, RANKED, BUDGETS[0])
    found = {
        f"{measure}, {budget} folds": mean_ranks(cells, problems, series, budget, measure)
        for measure in MEASURES
        for budget in BUDGETS
    }
    columns = {name: table.mean(axis=0) for name, table in found.items() if len(table)}
    yield from _head(["searcher", *columns])
    by_robust = np.mean(list(columns.values())[: len(BUDGETS)], axis=0)
    for k in np.argsort(by_robust, kind="stable"):
        marks = ["**" if column[k] == column.min() else "" for column in columns.values()]
        ranks = [f"{column[k]:.2f}" for column in columns.values()]
        yield _row([series[k], *(m + rank + m for m, rank in zip(marks, ranks, strict=True))])


def _verdicts(cells: Sequence[Cell], problems: list[str]) -> Iterator[str]:
    yield from _head(["peer", *MEASURES])
    done = {answer.series for cell in cells if cell.problem in problems for answer in cell.answers}
    for peer in (name for name in RANKED[1:] if name in done):
        yield _row([peer, *(_verdict(cells, problems, peer, m) for m in MEASURES)])


def _differences(cells: Sequence[Cell], problems: list[str], group: str) -> Iterator[str]:
    columns = list(product(MEASURES, BUDGETS))
    yield from _head(["peer", *(f"{measure}, {budget} folds" for measure, budget in columns)])
    rows: dict[str, list[str]] = {}
    for measure, budget in columns:
        for line in difference_lines(list(cells), problems, group, budget, measure):
            rows.setdefault(line.what.partition(" less ")[2], []).append(_signed(line))
    yield from (_row([peer, *figures]) for peer, figures in rows.items())


def _signed(line: Line) -> str:
    assert line.low is not None
    return f"{line.value:+.4f} ±{line.value - line.low:.4f}"


def _verdict(cells: Sequence[Cell], problems: list[str], peer: str, measure: Measure) -> str:
    counts = [0, 0, 0]
    for problem in problems:
        for budget in BUDGETS:
            found = gaps(scores_of(cells, problem, budget, measure), CHAMPION, peer)
            if found:
                _, low, high = mean_interval(found)
                counts[0 if low > 0 else 2 if high < 0 else 1] += 1
    return " / ".join(map(str, counts))


def _means(cells: Sequence[Cell], problems: list[str], measure: Measure) -> Iterator[str]:
    series = complete(cells, problems, RANKED, BUDGETS[0])
    tables = {name: [scores_of(cells, name, b, measure) for b in BUDGETS] for name in problems}
    shown = [name for name in problems if CHAMPION in tables[name][0]]
    yield from _head(["searcher", *shown])
    for name in series:
        means = [
            " ".join(f"{_mean(scores, name, series):.3f}" for scores in tables[problem])
            for problem in shown
        ]
        yield _row([name, *means])


def _mean(scores: Scores, name: str, series: Sequence[str]) -> float:
    """The mean of one series over the seeds that all series have."""
    return float(np.mean([scores[name][seed] for seed in shared_seeds(scores, series)]))


def _plain(lines: Iterator[Line] | list[Line]) -> Iterator[str]:
    yield from _head(["", "", "mean [95 % interval over problems]"])
    for line in lines:
        yield _row([line.what, line.setting, line.figure])


def _head(cells: Sequence[str]) -> Iterator[str]:
    yield _row(cells)
    yield "|---" + "|--:" * (len(cells) - 1) + "|"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    args = parser.parse_args()
    found = read_cells(args.directory / CELLS).values()
    print("\n".join(page([cell for cell in found if cell.seed < args.seeds])))


if __name__ == "__main__":
    main()
