"""One cell: its journal, going on after a cut, and what its reports are."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.errors import JournalCorrupt, JournalError, ProblemChanged, RunFailed
from drbqo_ray.experiments.cell import Cell, cells_of, run_cell
from drbqo_ray.experiments.grid import run_grid
from drbqo_ray.experiments.journals import is_finished, read_cell
from drbqo_ray.experiments.presets import Preset, find_preset
from drbqo_ray.experiments.problems import open_problem
from drbqo_ray.experiments.results import RESULTS, write_results
from drbqo_ray.experiments.series import report_label
from drbqo_ray.experiments.synthetic import SURFACES
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import Suggestion
from drbqo_ray.storage.journal import JOURNAL, read_journal


def tiny(**changes) -> Preset:
    settings = {"n_initial": 4, "horizon": 4, "n_seeds": 2, "radii": (0.3, 1.0)}
    methods = ("drbqo", "emp-drbqo", "bqo-ts", "maximin-bqo-ts")
    return replace(find_preset("logistic", "small"), **{**settings, "methods": methods, **changes})


def first_cell(preset: Preset, trace: str) -> Cell:
    return next(cell for cell in cells_of(preset) if cell.trace.name == trace)


@pytest.mark.parametrize("trace", ["drbqo", "bqo-ts"])
def test_a_cell_cut_after_any_record_ends_with_the_same_bytes(tmp_path, trace):
    cell = first_cell(tiny(), trace)
    run_cell(cell, tmp_path / "whole")
    path = cell.directory(tmp_path / "whole") / JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    for cut in (1, 3, 6, 8, len(lines) - 1):
        storage = tmp_path / f"cut-{cut}"
        directory = cell.directory(storage)
        directory.mkdir(parents=True, mode=0o700)
        half = lines[cut][: len(lines[cut]) // 2]
        (directory / JOURNAL).write_bytes(b"".join(lines[:cut]) + half)
        assert not is_finished(cell, storage)
        run_cell(cell, storage)
        again = (directory / JOURNAL).read_bytes().splitlines(keepends=True)
        assert [line.split(b'"seq"')[1] for line in again[1:]] == [
            line.split(b'"seq"')[1] for line in lines[1:]
        ]


def test_a_finished_cell_is_not_touched_again(tmp_path):
    cell = first_cell(tiny(), "bqo-ts")
    run_cell(cell, tmp_path)
    path = cell.directory(tmp_path) / JOURNAL
    before = path.read_bytes(), path.stat().st_mtime_ns
    run_cell(cell, tmp_path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize(
    ("trace", "method", "radius"),
    [("drbqo", "drbqo", 0.3), ("drbqo", "emp-drbqo", 0.3), ("bqo-ts", "maximin-bqo-ts", 1.0)],
)
def test_a_report_is_what_the_method_itself_recommends_from_the_same_scores(
    tmp_path, trace, method, radius
):
    cell = first_cell(tiny(horizon=8), trace)
    run_cell(cell, tmp_path)
    finished = read_cell(cell, tmp_path)
    problem = open_problem(cell.preset.problem, cell.seed)
    twin = Optimizer(
        problem.space, problem.contexts, method=method, uncertainty=radius, n_initial=4, seed=0
    )
    recommended = []
    for record in list(read_journal(cell.directory(tmp_path)))[1:]:
        data = record.data
        if record.kind == "initial":
            twin.observe(data["config"], data["context"], data["score"])
        elif record.kind == "step":
            twin.last_fit = Fit.from_dict(data["fit"])
            twin.register(Suggestion(data["id"], data["config"], data["context"], data["seed"]))
            twin.tell(data["id"], data["score"])
        if record.kind in ("start", "step"):
            recommended.append(twin.recommend().config)
    numbers = finished.reports[report_label(method, radius)]
    assert recommended == [finished.configs[number] for number in numbers]
    assert len(set(numbers)) > 1


def test_judged_scores_are_those_of_the_true_function(tmp_path):
    cell = first_cell(tiny(), "bqo-ts")
    run_cell(cell, tmp_path)
    finished = read_cell(cell, tmp_path)
    for number, judgment in finished.judgments.items():
        x = np.array([list(finished.configs[number].values())])
        np.testing.assert_array_equal(judgment.contexts, SURFACES["logistic"].values(x)[0])
    assert set(finished.reports) == {"mean", "robust-0.3", "robust-1"}
    assert all(len(numbers) == 5 for numbers in finished.reports.values())


def test_a_cell_of_other_settings_is_refused_and_left_alone(tmp_path):
    cell = first_cell(tiny(), "bqo-ts")
    run_cell(cell, tmp_path)
    path = cell.directory(tmp_path) / JOURNAL
    before = path.read_bytes()
    other = first_cell(tiny(horizon=9), "bqo-ts")
    with pytest.raises(ProblemChanged, match="horizon"):
        run_cell(other, tmp_path)
    with pytest.raises(ProblemChanged, match="horizon"):
        is_finished(other, tmp_path)
    assert path.read_bytes() == before


def test_an_unfinished_cell_says_how_to_go_on(tmp_path):
    with pytest.raises(JournalError, match="goes on where it stopped"):
        read_cell(first_cell(tiny(), "bqo-ts"), tmp_path)


def test_a_damaged_cell_is_named_and_the_others_are_kept(tmp_path):
    preset = tiny(methods=("bqo-ts",))
    cells = cells_of(preset)
    for cell in cells:
        run_cell(cell, tmp_path)
    victim, other = (cell.directory(tmp_path) / JOURNAL for cell in cells)
    before = other.read_bytes()
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    with pytest.raises(JournalCorrupt):
        read_cell(cells[0], tmp_path)
    with pytest.raises(RunFailed, match=f"1 of 2 cells(.|\n)*{cells[0].name}"):
        run_grid(cells, tmp_path)
    assert other.read_bytes() == before
    shutil.rmtree(cells[0].directory(tmp_path))
    run_cell(cells[0], tmp_path)
    run_grid(cells, tmp_path)


def test_the_same_seeds_give_the_same_csv_byte_for_byte(tmp_path):
    preset = tiny()
    for name in ("one", "two"):
        for cell in cells_of(preset):
            run_cell(cell, tmp_path / name)
        (tmp_path / f"out-{name}").mkdir()
        write_results(preset, tmp_path / name, tmp_path / f"out-{name}", {})
    first, second = (tmp_path / f"out-{name}" / RESULTS for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
    assert Path(tmp_path / "out-one" / "trajectory.csv").exists()
