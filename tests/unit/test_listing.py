"""`dr.list_runs`: every run below a folder, whatever state it is in, and none left out."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from drbqo_ray.experiments.cell import cells_of
from drbqo_ray.experiments.presets import find_preset
from drbqo_ray.storage.checkpoint import JUDGMENT
from drbqo_ray.storage.directory import make_directory
from drbqo_ray.storage.journal import JOURNAL, Journal
from drbqo_ray.storage.mirror import ObjectStoreMirror
from tests.support.report_runs import write_run

GOLDEN = Path(__file__).parents[1] / "golden"


def put(folder: Path, content: bytes) -> Path:
    folder.mkdir(parents=True)
    (folder / JOURNAL).write_bytes(content)
    return folder


def end(directory: Path, reason: str) -> None:
    with Journal.open(directory) as journal:
        journal.append("session", {"at": 20.0, "n_evaluations": 99})
        journal.append("finish", {"reason": reason, "at": 21.0})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder of all kinds of runs."""
    root = tmp_path_factory.mktemp("all") / "runs"
    write_run(root / "finished", evaluations=10)
    write_run(root / "cut-off", evaluations=10, finished=False)
    write_run(root / "interrupted", evaluations=10)
    end(root / "interrupted", "interrupted")
    write_run(root / "failed", evaluations=3, fails=lambda *_: "KeyError: 'a'")
    end(root / "failed", "failed")
    write_run(root / "lower-is-better" / "nested", evaluations=10, mode="min", seed=3)
    whole = (root / "finished" / JOURNAL).read_bytes()
    put(root / "corrupt", whole[:500] + b"#" + whole[501:])
    put(root / "torn", whole[:-40])
    put(root / "empty", b"")
    put(root / "noise", os.urandom(300))
    for k in (1, 2, 3, 4):
        put(root / f"golden-{k}", (GOLDEN / f"journal-format-{k}.jsonl").read_bytes())
    put(root / "first-release", (GOLDEN / "run-format-1.jsonl").read_bytes())
    (root / "directory" / JOURNAL).mkdir(parents=True)
    (root / "no-run").mkdir()
    (root / "no-run" / "notes.txt").write_text("nothing")
    return root


@pytest.fixture(scope="module")
def listed(folder) -> dict[str, dr.RunSummary]:
    return {run.name: run for run in dr.list_runs(folder)}


STATES = {
    "finished": "finished",
    "cut-off": "cut off",
    "interrupted": "interrupted",
    "failed": "failed",
    "lower-is-better/nested": "finished",
    "corrupt": "unreadable",
    "torn": "open",
    "empty": "unreadable",
    "noise": "unreadable",
    "golden-1": "unreadable",
    "golden-2": "unreadable",
    "golden-3": "unreadable",
    "golden-4": "unreadable",
    "first-release": "interrupted",
    "directory": "unreadable",
}


def test_every_run_is_listed_with_its_state(listed):
    assert {name: run.state for name, run in listed.items()} == STATES


def test_what_cannot_be_read_says_why(listed):
    for run in listed.values():
        assert (run.note is not None) == (run.state == "unreadable"), run
    assert "byte" in listed["corrupt"].note
    assert "format 4" in listed["golden-4"].note


def test_what_can_be_read_has_the_best_that_load_recommends(listed, folder):
    for name, run in listed.items():
        if run.state == "unreadable":
            assert run.best is None
            continue
        found = dr.load(folder / name)
        best = found.recommendation
        assert run.best == (None if best is None else best.robust_value), name
        assert run.best_config == (None if best is None else best.config)
        assert (run.n_done, run.n_folds) == (len(found.observations), found.n_folds)


def test_a_summary_says_what_the_run_is_about(listed):
    run = listed["lower-is-better/nested"]
    assert (run.kind, run.objective, run.method, run.mode) == (
        "run",
        "tests:two_peaks",
        "drbqo",
        "min",
    )
    assert (run.seed, run.n_folds, run.parameters) == (3, 4, ("x", "rate", "kind"))
    assert (run.n_evaluations, run.n_done, run.n_failed, run.n_pending) == (10, 10, 0, 0)
    assert run.problem == "tests:two_peaks (x, rate, kind), 4 folds, drbqo"
    assert listed["failed"].n_failed == 3
    assert listed["interrupted"].n_evaluations == 99


def test_a_summary_is_frozen_and_plain(listed):
    for run in listed.values():
        with pytest.raises(AttributeError):
            run.best = 1.0
        assert json.loads(json.dumps(run.to_dict()))["state"] == run.state


def test_a_run_with_a_writer_is_running(tmp_path):
    directory = write_run(tmp_path / "runs" / "r", evaluations=4, finished=False)
    with Journal.open(directory):
        assert dr.list_runs(tmp_path / "runs")[0].state == "running"
    assert dr.list_runs(tmp_path / "runs")[0].state == "cut off"


def test_looking_takes_no_lock(tmp_path, monkeypatch):
    directory = write_run(tmp_path / "runs" / "r", evaluations=4)
    monkeypatch.setattr("fcntl.flock", lambda *_: pytest.fail("a lock was touched"))
    assert dr.list_runs(directory.parent)[0].state == "finished"


def test_a_run_of_another_machine_without_a_last_record_is_open(tmp_path):
    directory = write_run(tmp_path / "runs" / "r", evaluations=4, finished=False)
    (directory / "lock").write_text('{"pid": 1, "host": "elsewhere"}\n')
    assert dr.list_runs(directory.parent)[0].state == "open"


def test_the_cell_of_an_experiment_of_the_first_version_is_listed_as_one(tmp_path):
    cell = cells_of(find_preset("beale", "small"))[0]
    directory = cell.directory(tmp_path)
    make_directory(directory)
    header = {
        "format": 1,
        "problem": {"kind": "synthetic", "name": "beale", "options": {}},
        "trace": cell.trace.name,
        "radius": cell.radius,
        "seed": cell.seed,
        "n_initial": cell.preset.n_initial,
        "horizon": cell.preset.horizon,
        "reports": ["robust-1"],
    }
    with Journal.create(directory, header) as journal:
        journal.append("initial", {"config": {"x": 0.5}, "context": 0, "score": 1.0})
        journal.append(
            "initial", {"config": {"x": 0.6}, "context": 0, "score": None, "reason": "d"}
        )
    (run,) = dr.list_runs(tmp_path)
    assert (run.kind, run.state, run.n_done, run.n_failed) == ("cell", "cut off", 2, 1)
    assert run.method == cell.trace.name
    assert run.n_evaluations == cell.preset.horizon + cell.preset.n_initial
    assert run.best is None
    assert run.note is None


def test_links_are_not_followed(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert dr.list_runs(tmp_path) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="folder"):
        dr.list_runs(tmp_path / "none")


def test_a_run_itself_can_be_listed(folder):
    (run,) = dr.list_runs(folder / "finished")
    assert run.name == "finished"


def test_the_newest_comes_first(tmp_path):
    for age, name in ((30, "old"), (10, "new"), (20, "middle")):
        directory = write_run(tmp_path / name, evaluations=2)
        now = (directory / JOURNAL).stat().st_mtime
        os.utime(directory / JOURNAL, (now - age, now - age))
    runs = dr.list_runs(tmp_path)
    assert [run.name for run in runs] == ["new", "middle", "old"]
    assert 29 < runs[-1].age_seconds < 90


def test_runs_in_an_object_store_are_fetched_and_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = (tmp_path / "store").as_uri()
    for name in ("a", "b"):
        mirror = ObjectStoreMirror(store, name)
        write_run(mirror.directory, evaluations=4)
        mirror.upload()
    shutil.rmtree(tmp_path / "cache")
    runs = dr.list_runs(store)
    assert sorted(run.name for run in runs) == ["a", "b"]
    assert all(run.state == "finished" and run.best is not None for run in runs)
    assert dr.load(store, "a").recommendation.robust_value == runs[0].best


def test_what_is_kept_makes_the_list_quick(tmp_path, monkeypatch):
    directory = write_run(tmp_path / "r", evaluations=8)
    (first,) = dr.list_runs(tmp_path)
    assert (directory / JUDGMENT).exists()
    monkeypatch.setattr("drbqo_ray.storage.listing.judged_run", lambda _: pytest.fail("replayed"))
    assert dr.list_runs(tmp_path) == [first]
