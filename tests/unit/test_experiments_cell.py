"""One cell: its journal, going on after a cut, and what its reports are."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.errors import JournalCorrupt, JournalError, ProblemChanged, RunFailed
from drbqo_ray.experiments.cell import (
    Cell,
    cells_of,
    is_finished,
    read_cell,
    report_label,
    run_cell,
)
from drbqo_ray.experiments.grid import run_grid
from drbqo_ray.experiments.presets import Preset, find_preset
from drbqo_ray.experiments.problems import open_problem
from drbqo_ray.experiments.results import RESULTS, write_results
from drbqo_ray.experiments.synthetic import SURFACES
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import Suggestion
from drbqo_ray.storage.journal import JOURNAL, read_journal
from drbqo_ray.storage.stored_run import read_run


def tiny(**changes) -> Preset:
    settings = {"n_initial": 4, "horizon": 4, "n_seeds": 2, "radii": (0.3, 1.0)}
    methods = ("drbqo", "emp-drbqo", "bqo-ts", "maximin-bqo-ts")
    return replace(find_preset("logistic", "small"), **{**settings, "methods": methods, **changes})


def first_cell(preset: Preset, trace: str) -> Cell:
    return next(cell for cell in cells_of(preset) if cell.trace.name == trace)


def told(cell: Cell, storage: Path) -> list[tuple[str, dict[str, object]]]:
    """What a cell did and found, without the times and sessions that differ from run to run."""
    records = read_journal(cell.directory(storage))
    passing = {"at", "seconds"}
    return [
        (record.kind, {name: data for name, data in record.data.items() if name not in passing})
        for record in records
        if record.kind in ("fit", "ask", "tell", "fail", "judged")
    ]


@pytest.mark.parametrize("trace", ["drbqo", "bqo-ts"])
def test_a_cell_cut_after_any_record_ends_with_the_same_records(tmp_path, trace):
    cell = first_cell(tiny(), trace)
    run_cell(cell, tmp_path / "whole")
    path = cell.directory(tmp_path / "whole") / JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    whole = told(cell, tmp_path / "whole")
    assert [kind for kind, _ in whole].count("tell") == 8
    for cut in (1, 3, 6, 8, 13, 17, 18, 19, len(lines) - 2, len(lines) - 1):
        storage = tmp_path / f"cut-{cut}"
        directory = cell.directory(storage)
        directory.mkdir(parents=True, mode=0o700)
        half = lines[cut][: len(lines[cut]) // 2]
        (directory / JOURNAL).write_bytes(b"".join(lines[:cut]) + half)
        assert not is_finished(cell, storage)
        run_cell(cell, storage)
        assert is_finished(cell, storage)
        assert told(cell, storage) == whole


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
    for record in read_journal(cell.directory(tmp_path)):
        data = record.data
        if record.kind == "fit":
            twin.last_fit = Fit.from_dict(data["fit"])
        elif record.kind == "ask":
            twin.register(Suggestion(data["id"], data["config"], data["context"], data["seed"]))
        elif record.kind == "tell":
            twin.tell(data["id"], data["score"])
            if data["id"] >= 3:
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


def test_every_method_starts_from_the_same_pairs(tmp_path):
    pairs = []
    for cell in (first_cell(tiny(), "drbqo"), first_cell(tiny(), "bqo-ts")):
        run_cell(cell, tmp_path)
        asks = [data for kind, data in told(cell, tmp_path) if kind == "ask"]
        pairs.append([(data["config"], data["context"], data["seed"]) for data in asks[:5]])
    assert pairs[0][:4] == pairs[1][:4]
    assert pairs[0][4] != pairs[1][4]


class Faulty:
    """The logistic problem, but the evaluation in turn fails."""

    def __init__(self, turn: int, error: Exception) -> None:
        self._inner = open_problem(find_preset("logistic").problem, 0)
        self.space, self.contexts, self.judge = (
            self._inner.space,
            self._inner.contexts,
            self._inner.judge,
        )
        self._turn, self._error = turn, error

    def evaluate(self, config, context, seed):
        self._turn -= 1
        if self._turn == 0:
            raise self._error
        return self._inner.evaluate(config, context, seed)


def test_training_that_diverges_is_a_result(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "drbqo_ray.experiments.cell.open_problem",
        lambda spec, seed: Faulty(6, FloatingPointError("the loss is not finite")),
    )
    cell = first_cell(tiny(), "drbqo")
    run_cell(cell, tmp_path)
    found = told(cell, tmp_path)
    (failed,) = [data for kind, data in found if kind == "fail"]
    assert failed["id"] == 5
    assert failed["info"] == {"diverged": "the loss is not finite"}
    assert len([data for kind, data in found if kind == "tell"]) == 7


def test_a_defect_ends_the_cell_and_is_evaluated_again_when_it_goes_on(tmp_path, monkeypatch):
    cell = first_cell(tiny(), "drbqo")
    run_cell(cell, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(
            "drbqo_ray.experiments.cell.open_problem",
            lambda spec, seed: Faulty(6, ValueError("no such file")),
        )
        with pytest.raises(RunFailed, match=f"{cell.name} failed(.|\n)*no such file"):
            run_cell(cell, tmp_path)
    assert not is_finished(cell, tmp_path)
    run_cell(cell, tmp_path)
    assert told(cell, tmp_path) == told(cell, tmp_path / "whole")


def test_a_cell_is_a_run_like_any_other(tmp_path):
    cell = first_cell(tiny(), "drbqo")
    run_cell(cell, tmp_path)
    run, finished = read_run(cell.directory(tmp_path)), read_cell(cell, tmp_path)
    assert len(run.outcomes) == 8
    assert run.stopped == "finished"
    last = finished.reports["robust-0.3"][-1]
    assert run.optimizer.recommend().config == finished.configs[last]


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
