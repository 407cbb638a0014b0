"""How often the interval given for a robust value holds it, from the looks of finished cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.cells import Cell
from benchmarks.table import Line, mean_interval

ROUNDING = 1e-9  # an interval may be a point


def coverage_lines(cells: Sequence[Cell], problems: Sequence[str], group: str) -> Iterator[Line]:
    """The share of intervals that hold the value, the mean over problems: at all looks, and at
    those where folds were missing, so that the interval is more than a point."""
    by_problem = [_looks(cells, name) for name in problems]
    wide = [looks[looks[:, 2] - looks[:, 0] > ROUNDING] for looks in by_problem]
    for what, chosen in (("interval holds", by_problem), ("interval holds, folds missing", wide)):
        shares = [100 * float(np.mean(_held(looks))) for looks in chosen if len(looks)]
        if shares:
            middle, low, high = mean_interval(shares)
            count = sum(map(len, chosen))
            yield Line(
                "quality",
                what,
                group,
                middle,
                "%",
                low,
                high,
                note=f"{len(shares)} problems, {count} looks",
            )


def _looks(cells: Sequence[Cell], problem: str) -> np.ndarray:
    """Low end, robust value and high end (k, 3) at all looks that have an interval."""
    rows = [(x.low, x.robust, x.high) for c in cells if c.problem == problem for x in c.looks]
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return table[~np.isnan(table).any(axis=1)]


def _held(looks: np.ndarray) -> np.ndarray:
    low, robust, high = looks.T
    return (robust >= low - ROUNDING) & (robust <= high + ROUNDING)
