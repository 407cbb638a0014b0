"""Ranks and paired differences of series over problems and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from scipy.stats import rankdata

from benchmarks.cells import Cell

Measure = Literal["robust", "test"]
Scores = dict[str, dict[int, float]]  # series -> seed -> score


def scores_of(cells: Iterable[Cell], problem: str, budget: int, measure: Measure) -> Scores:
    """What the series reached on a problem with a budget; without those that have no such score."""
    found: Scores = {}
    for cell in cells:
        if cell.problem == problem:
            for answer in cell.answers:
                value = getattr(answer, measure)
                if answer.budget == budget and value is not None:
                    found.setdefault(answer.series, {})[cell.seed] = value
    return found


def shared_seeds(scores: Scores, series: Sequence[str]) -> list[int]:
    """The seeds that all of the series have run."""
    return sorted(set.intersection(*(set(scores.get(name, {})) for name in series)))


def gaps(scores: Scores, series: str, other: str) -> list[float]:
    """What a series is better than another by, seed by seed."""
    seeds = shared_seeds(scores, [series, other])
    return [scores[series][seed] - scores[other][seed] for seed in seeds]


def ranks(scores: Scores, series: Sequence[str]) -> np.ndarray:
    """Rank of every series with every shared seed, (seeds, series); 1 is best, ties share it."""
    seeds = shared_seeds(scores, series)
    table = np.array([[scores[name][seed] for name in series] for seed in seeds])
    return rankdata(-table.round(12), axis=1) if len(seeds) else np.empty((0, len(series)))


def complete(
    cells: Iterable[Cell], problems: Sequence[str], names: Sequence[str], budget: int
) -> list[str]:
    """Those of the series that have run as many seeds as any of them, on every problem."""
    cells = list(cells)
    tables = [scores_of(cells, problem, budget, "robust") for problem in problems]
    runs = {name: [len(table.get(name, {})) for table in tables] for name in names}
    most = [max(counts) for counts in zip(*runs.values(), strict=True)]
    return [name for name in names if problems and runs[name] == most and min(most) > 0]


def mean_ranks(
    cells: Iterable[Cell],
    problems: Sequence[str],
    series: Sequence[str],
    budget: int,
    measure: Measure,
) -> np.ndarray:
    """Mean rank of every series on every problem that has the measure, (problems, series)."""
    cells = list(cells)
    tables = [ranks(scores_of(cells, name, budget, measure), series) for name in problems]
    return np.array([table.mean(axis=0) for table in tables if len(table)])
