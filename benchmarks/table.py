"""One table of measurements: a line each, printed, and saved as JSON and Markdown."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Line:
    """One measured figure beside its yardstick.

    Attributes:
        bench: which benchmark it comes from.
        what: what was measured.
        setting: for which size or case.
        value: the figure.
        unit: its unit; "x" for a ratio.
        low, high: ends of its interval, None when it has none.
        most, least: the bound it should keep, None when there is none.
        note: what the reader must know, such as the yardstick's own figure.
    """

    bench: str
    what: str
    setting: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    most: float | None = None
    least: float | None = None
    note: str = ""

    @property
    def kept(self) -> bool | None:
        """Whether the bound is kept; None when there is none."""
        if self.most is None and self.least is None:
            return None
        below = self.most is None or self.value <= self.most
        return below and (self.least is None or self.value >= self.least)

    @property
    def bound(self) -> str:
        """The bound in words."""
        parts = [f"at most {shown(self.most)}"] if self.most is not None else []
        parts += [f"at least {shown(self.least)}"] if self.least is not None else []
        return ", ".join(parts)

    @property
    def figure(self) -> str:
        """The value with its unit and interval."""
        text = f"{shown(self.value)} {self.unit}".strip()
        if self.low is not None and self.high is not None:
            text += f" [{shown(self.low)}, {shown(self.high)}]"
        return text

    def __str__(self) -> str:
        verdict = {None: "", True: "kept", False: "MISSED"}[self.kept]
        tail = "; ".join(part for part in (self.bound, verdict, self.note) if part)
        return f"{self.what:34} {self.setting:28} {self.figure:>26}  {tail}".rstrip()


def shown(value: float) -> str:
    """A number with three or four figures."""
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.4g}"
    return f"{value:.2e}"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of paired ratios and its 95 % interval (Student, on the logarithms).

    Args:
        ours: times (r,), one per round.
        theirs: times (r,) of the yardstick in the same rounds.
    """
    middle, low, high = mean_interval(np.log(np.array(ours) / np.array(theirs)))
    return math.exp(middle), math.exp(low), math.exp(high)


def mean_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float, float]:
    """Mean of values (r,) and its 95 % interval; the interval of one value is unbounded."""
    from scipy.stats import t

    middle = float(np.mean(values))
    if len(values) < 2:
        return middle, -math.inf, math.inf
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    reach = float(t.ppf(0.975, len(values) - 1)) * error
    return middle, middle - reach, middle + reach


def add_save_option(parser: argparse.ArgumentParser) -> None:
    """The option by which `python -m benchmarks` collects lines."""
    parser.add_argument("--save", type=Path, help="append the lines to this file, as JSON lines")


def publish(lines: Iterable[Line], save: Path | None) -> int:
    """Print lines as they come and append them to a file; how many missed their bound."""
    missed = 0
    for line in lines:
        print(line, flush=True)
        missed += line.kept is False
        if save is not None:
            with open(save, "a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(line)) + "\n")
    return missed


def read_lines(path: Path) -> list[Line]:
    """The lines of a file that `publish` wrote; none if there is no file."""
    if not path.exists():
        return []
    return [Line(**json.loads(text)) for text in path.read_text(encoding="utf-8").splitlines()]


def markdown(lines: Sequence[Line], about: dict[str, Any], missing: Sequence[str] = ()) -> str:
    """The table as a Markdown page."""
    head = ["# Benchmarks", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    if missing:
        head += ["Not run to their end: " + ", ".join(missing) + ".", ""]
    head += ["| benchmark | what | setting | figure [95 % interval] | bound | kept | note |"]
    head += ["|---|---|---|--:|---|---|---|"]
    words = {None: "", True: "yes", False: "**no**"}
    rows = [
        f"| {x.bench} | {x.what} | {x.setting} | {x.figure} | {x.bound} | {words[x.kept]} |"
        f" {x.note} |"
        for x in lines
    ]
    return "\n".join([*head, *rows]) + "\n"


def save_table(
    directory: Path, lines: Sequence[Line], about: dict[str, Any], missing: Sequence[str] = ()
) -> Path:
    """Write benchmarks.json and benchmarks.md; the path of the latter."""
    os.makedirs(directory, exist_ok=True)
    whole = {"about": about, "missing": list(missing), "lines": [asdict(line) for line in lines]}
    (directory / "benchmarks.json").write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    page = directory / "benchmarks.md"
    page.write_text(markdown(lines, about, missing), "utf-8")
    return page
