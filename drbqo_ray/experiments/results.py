"""The results of an experiment as CSV, and back.

`results.csv.gz` has a row for each change of what a series reports:

| column     | meaning                                                                      |
|------------|------------------------------------------------------------------------------|
| method     | name of the series                                                           |
| radius     | chi-square radius it is scored at                                            |
| seed       | repetition                                                                   |
| t          | evaluations after the initial ones; the row holds until the next of its kind |
| mean       | plain average of the true scores of the reported config                      |
| robust     | robust value of the true scores of the reported config                       |
| regret     | robust optimum minus that, where the optimum is known                        |
| test_error | error on the test set, where there is one                                    |

The last t of every series has a row. Numbers have ten digits, rows are sorted, and there is no
date in it, so the same seeds give the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from drbqo_ray.core.sets import ChiSquareBall
from drbqo_ray.errors import InvalidInput
from drbqo_ray.experiments.cell import (
    Cell,
    FinishedCell,
    cells_of,
    read_cell,
    report_label,
    trace_of,
)
from drbqo_ray.experiments.presets import Preset
from drbqo_ray.experiments.problems import Judgment
from drbqo_ray.experiments.synthetic import RobustOptimum
from drbqo_ray.types import Array

METRICS = ("mean", "robust", "regret", "test_error")
COLUMNS = ("method", "radius", "seed", "t", *METRICS)
RESULTS, TRAJECTORY, RUN = "results.csv.gz", "trajectory.csv", "run.json"


@dataclass(frozen=True)
class Results:
    """All series of an experiment.

    Attributes:
        values: by (method, radius, metric), as reported at t: (seeds, horizon + 1).
        run: how they came about: preset, seeds, command, commit, date, optima.
        folder: where they are kept.
    """

    values: dict[tuple[str, float, str], Array]
    run: dict[str, Any]
    folder: Path

    @property
    def methods(self) -> list[str]:
        """Names of the series, in the order of the preset."""
        return list(self.run["methods"])

    @property
    def radii(self) -> list[float]:
        """The radii."""
        return [float(radius) for radius in self.run["radii"]]

    def has(self, metric: str) -> bool:
        """Whether the metric was measured."""
        return any(key[2] == metric for key in self.values)


def finished_cells(preset: Preset, storage: Path) -> dict[tuple[str, float | None, int], Any]:
    """All cells of an experiment, by trace name, radius and seed."""
    cells: list[Cell] = cells_of(preset)
    return {(c.trace.name, c.radius, c.seed): read_cell(c, storage) for c in cells}


def write_results(
    preset: Preset, storage: Path, folder: Path, optima: dict[float, RobustOptimum]
) -> list[str]:
    """Write results.csv.gz, and trajectory.csv for spaces of two parameters; the commits of the
    code that ran the cells."""
    cells = finished_cells(preset, storage)
    with _compressed(folder / RESULTS) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for method in sorted(preset.methods):
            for radius in preset.radii:
                for seed in preset.seeds:
                    cell = _cell(cells, method, radius, seed)
                    best = optima[radius].value if radius in optima else None
                    rows = _series_rows(cell, report_label(method, radius), radius, best, preset)
                    writer.writerows([method, f"{radius:g}", seed, *row] for row in rows)
    if preset.experiment == "logistic":
        _write_trajectory(preset, cells, folder)
    return sorted({cell.commit for cell in cells.values()})


@contextmanager
def _compressed(path: Path) -> Iterator[TextIO]:
    """A text file written through gzip, without name and time in it."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as file,
    ):
        yield file


def _cell(cells: dict[Any, Any], method: str, radius: float, seed: int) -> FinishedCell:
    trace = trace_of(method)
    found: FinishedCell = cells[trace.name, radius if trace.robust else None, seed]
    return found


def _series_rows(
    cell: FinishedCell, label: str, radius: float, best: float | None, preset: Preset
) -> Iterator[list[str]]:
    numbers = cell.reports[label]
    last = None
    for t, number in enumerate(numbers):
        if number in cell.judgments and (number != last or t == len(numbers) - 1):
            if preset.problem.judge_all or t == len(numbers) - 1:
                yield [str(t), *_metrics(cell.judgments[number], radius, best)]
            last = number


def _metrics(judgment: Judgment, radius: float, best: float | None) -> list[str]:
    mean = robust = None
    if judgment.contexts is not None:
        mean = float(np.mean(judgment.contexts))
        robust = float(ChiSquareBall(radius).worst_case(judgment.contexts)[0])
    regret = None if best is None or robust is None else best - robust
    return ["" if v is None else f"{v:.10g}" for v in (mean, robust, regret, judgment.test_error)]


def _write_trajectory(preset: Preset, cells: dict[Any, Any], folder: Path) -> None:
    """The reported point at each t, averaged over seeds (figure 1)."""
    with (folder / TRAJECTORY).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["method", "radius", "t", "x0", "x1"])
        for method in ("bqo-ts", "drbqo"):
            for radius in preset.radii:
                paths = []
                for seed in preset.seeds:
                    cell = _cell(cells, method, radius, seed)
                    numbers = cell.reports[report_label(method, radius)]
                    paths.append([list(cell.configs[k].values()) for k in numbers])
                for t, x in enumerate(np.mean(paths, axis=0)):
                    writer.writerow([method, f"{radius:g}", t, *(f"{v:.6g}" for v in x)])


def read_results(folder: Path) -> Results:
    """The results in a folder.

    Raises:
        InvalidInput: there are none.
    """
    if not (folder / RESULTS).is_file() or not (folder / RUN).is_file():
        raise InvalidInput(
            f"A folder with results holds {RESULTS} and {RUN}.",
            str(folder),
            "Run the experiment first, or pass --out of the run.",
        )
    run = json.loads((folder / RUN).read_text("utf-8"))
    seeds = {seed: row for row, seed in enumerate(run["seeds"])}
    width = int(run["horizon"]) + 1
    values: dict[tuple[str, float, str], Array] = {}
    with gzip.open(folder / RESULTS, "rt", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for metric in METRICS:
                if row[metric] != "":
                    key = (row["method"], float(row["radius"]), metric)
                    table = values.setdefault(key, np.full((len(seeds), width), np.nan))
                    table[seeds[int(row["seed"])], int(row["t"]) :] = float(row[metric])
    return Results(values, run, folder)
