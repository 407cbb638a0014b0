"""What a stop rule saves and what it costs, read from the looks of finished cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from benchmarks.cells import Cell, Look
from benchmarks.table import Line, mean_interval

LIMITS = (0.001, 0.002, 0.005, 0.01, 0.02)
LEAST_SAVED, MOST_LOST = 20.0, 0.005
RECOMMENDED = 0.005


def stop_at(looks: Sequence[Look], limit: float) -> Look:
    """The look at which a search stops: the second in a row with a loss below the limit, or the
    last one."""
    for before, now in pairwise(looks):
        if max(before.loss, now.loss) < limit:
            return now
    return looks[-1]


def savings(cells: Sequence[Cell], limit: float) -> tuple[list[float], list[float]]:
    """Per cent of the budget saved and robust value lost by stopping, cell by cell."""
    saved, lost = [], []
    for cell in cells:
        stop, end = stop_at(cell.looks, limit), cell.looks[-1]
        saved.append(100 * (1 - stop.spent / end.spent))
        lost.append(end.robust - stop.robust)
    return saved, lost


def saving_lines(cells: Sequence[Cell], problems: Sequence[str], group: str) -> Iterator[Line]:
    """Means over the problems of a group, for several limits."""
    by_problem = [[c for c in cells if c.looks and c.problem == name] for name in problems]
    by_problem = [members for members in by_problem if members]
    if not by_problem:
        return
    for limit in LIMITS:
        pairs = [savings(members, limit) for members in by_problem]
        setting = f'{group}, stop_when="loss < {limit:g}"'
        asked = limit == RECOMMENDED
        for k, (what, unit) in enumerate((("budget saved", "%"), ("robust value lost", ""))):
            middle, low, high = mean_interval([float(np.mean(pair[k])) for pair in pairs])
            yield Line(
                "quality",
                what,
                setting,
                middle,
                unit,
                low,
                high,
                least=LEAST_SAVED if asked and k == 0 else None,
                most=MOST_LOST if asked and k == 1 else None,
                note=f"{len(pairs)} problems",
            )
