"""`drbqo experiment NAME`: run what is missing, write the CSV, draw figures and tables."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from drbqo_ray.errors import InvalidInput
from drbqo_ray.experiments.cell import cells_of
from drbqo_ray.experiments.grid import run_grid
from drbqo_ray.experiments.presets import Preset, difference, find_preset, members
from drbqo_ray.experiments.problems import FoldProblem, open_problem
from drbqo_ray.experiments.provenance import provenance
from drbqo_ray.experiments.results import RUN, read_results, write_results
from drbqo_ray.experiments.synthetic import RobustOptimum, find_optimum, find_surface

DEFAULT_STORAGE = "drbqo-experiments"


def main(
    name: str,
    preset: str = "paper",
    storage: str | Path | None = None,
    seeds: int | None = None,
    out: str | Path | None = None,
    redraw: bool = False,
) -> Path:
    """Run an experiment, or only draw it anew, and return the folder of its results.

    Args:
        name: an experiment, a group of them ("synthetic", "svm", "mnist"), or "theory".
        preset: "paper" or "small".
        storage: where journals are kept; the same command goes on with what is there.
        seeds: number of repetitions instead of the preset's.
        out: folder of CSV files, tables and figures; a folder below `storage` by default.
        redraw: draw tables and figures from the CSV files that are there; nothing is run.
    """
    root = Path(storage or DEFAULT_STORAGE).expanduser()
    folder = Path(out).expanduser() if out else root / "results" / f"{name}-{preset}"
    if name == "theory":
        from drbqo_ray.experiments.theory import run_theory

        return run_theory(folder, preset, seeds, redraw)
    chosen = [find_preset(member, preset, seeds) for member in members(name)]
    folders = [folder if len(chosen) == 1 else folder / c.experiment for c in chosen]
    if not redraw:
        _check_data(chosen)
        for one, place in zip(chosen, folders, strict=True):
            run_experiment(one, root, place, _command(name, preset, seeds))
    draw(chosen, folders, folder)
    return folder


def run_experiment(preset: Preset, storage: Path, folder: Path, command: str) -> None:
    """Run the cells that are missing and write the CSV files of one experiment."""
    print(f"{preset.experiment}: {difference(preset)}", file=sys.stderr, flush=True)
    run_grid(cells_of(preset), storage)
    folder.mkdir(parents=True, exist_ok=True)
    optima = _optima(preset)
    commits = write_results(preset, storage, folder, optima)
    run = {
        "experiment": preset.experiment,
        "preset": preset.name,
        "difference": difference(preset),
        "notes": list(preset.notes),
        "methods": list(preset.methods),
        "radii": list(preset.radii),
        "seeds": list(preset.seeds),
        "n_initial": preset.n_initial,
        "horizon": preset.horizon,
        "optima": [asdict(best) for best in optima.values()],
        **provenance(command),
        "commits of cells": commits,
    }
    (folder / RUN).write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")


def draw(presets: list[Preset], folders: list[Path], folder: Path) -> None:
    """Write the tables of each experiment, and the figure of them all, from the CSV files."""
    from drbqo_ray.experiments.figures import draw_errors, draw_logistic, draw_surfaces, draw_svm
    from drbqo_ray.experiments.table import write_tables

    parts = [read_results(place) for place in folders]
    for results in parts:
        write_tables(results)
    spec = presets[0].problem
    if presets[0].experiment == "logistic":
        draw_logistic(parts[0])
    elif spec.kind == "surface":
        draw_surfaces(folder, parts)
    elif spec.judge_all:
        draw_svm(folder, parts)
    else:
        draw_errors(folder, parts)


def _optima(preset: Preset) -> dict[float, RobustOptimum]:
    if preset.problem.kind != "surface":
        return {}
    surface = find_surface(preset.problem.name)
    return {radius: find_optimum(surface, radius) for radius in preset.radii}


def _check_data(presets: list[Preset]) -> None:
    """Raise InvalidInput when a data set is missing, before anything is started."""
    for preset in presets:
        problem = open_problem(preset.problem, 0)
        if isinstance(problem, FoldProblem):
            try:
                problem.load()
            except (RuntimeError, OSError, ValueError) as error:
                raise InvalidInput(
                    f"The experiment {preset.experiment} needs its data.",
                    preset.problem.name,
                    str(error),
                ) from error


def _command(name: str, preset: str, seeds: int | None) -> str:
    return f"drbqo experiment {name} --preset {preset}" + (f" --seeds {seeds}" if seeds else "")
