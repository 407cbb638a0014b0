"""How often the interval that was given for a robust value holds it: from looks of finished cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.cells import Cell, Look
from benchmarks.table import Line, mean_interval

ROUNDING = 1e-9  # an interval may be a point


def holds(look: Look) -> bool:
    """Whether the robust value lies in the interval."""
    assert look.low is not None and look.high is not None
    return look.low - ROUNDING <= look.robust <= look.high + ROUNDING


def is_wide(look: Look) -> bool:
    """Whether the interval is more than a point: folds of the config were missing."""
    assert look.low is not None and look.high is not None
    return look.high - look.low > ROUNDING


def coverage_lines(cells: Sequence[Cell], problems: Sequence[str], group: str) -> Iterator[Line]:
    """The share of intervals that hold the value, the mean over problems: at all looks, and at
    those where folds were missing."""
    looks = {
        name: [look for c in cells if c.problem == name for look in c.looks if look.low is not None]
        for name in problems
    }
    wide = {name: [look for look in members if is_wide(look)] for name, members in looks.items()}
    for what, chosen in (("interval holds", looks), ("interval holds, folds missing", wide)):
        shares = [100 * sum(map(holds, v)) / len(v) for v in chosen.values() if v]
        if shares:
            middle, low, high = mean_interval(shares)
            count = sum(map(len, chosen.values()))
            yield Line("quality", what, group, middle, "%", low, high,
                       note=f"{len(shares)} problems, {count} looks")  # fmt: skip
