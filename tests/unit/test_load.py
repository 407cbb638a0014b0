"""`dr.load`: the result of a run from its journal, and the judgment that is kept beside it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput, JournalCorrupt
from drbqo_ray.storage import checkpoint
from drbqo_ray.storage.checkpoint import JUDGMENT
from drbqo_ray.storage.journal import JOURNAL, Journal
from drbqo_ray.storage.stored_run import how_sure, read_run, recommend
from tests.support.report_runs import write_run

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    fails = lambda config, fold, id: "ValueError: no" if id == 3 else None  # noqa: E731
    return write_run(tmp_path_factory.mktemp("runs") / "one", fails=fails)


@pytest.fixture
def run(original, tmp_path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "runs" / "one"))


def quadratic(config, fold, seed) -> float:
    return -((config["x"] - 0.3) ** 2) - 0.01 * fold


def test_a_loaded_result_is_the_one_that_run_returned(tmp_path):
    space = {"x": dr.Float(0, 1)}
    made = dr.run(
        quadratic, space, 3, n_evaluations=9, storage=tmp_path / "r", backend="local", seed=4
    )
    found = dr.load(tmp_path / "r")
    assert found == made
    assert found.certainty == made.certainty
    assert found.to_dataframe().equals(made.to_dataframe())


def test_a_run_keeps_its_judgment_when_it_ends(tmp_path):
    dr.run(quadratic, {"x": dr.Float(0, 1)}, 3, n_evaluations=5, storage=tmp_path, backend="local")
    kept = json.loads((tmp_path / JUDGMENT).read_text())
    assert kept["recommendation"]["config"] == dr.load(tmp_path).recommendation.config
    assert (tmp_path / JUDGMENT).stat().st_mode & 0o777 == 0o600


def test_loading_judges_as_the_replay_does_with_and_without_what_is_kept(run):
    replayed = read_run(run)
    expected = recommend(replayed.optimizer), how_sure(replayed.optimizer)
    assert not (run / JUDGMENT).exists()
    for _ in range(2):
        found = dr.load(run)
        assert (found.recommendation, found.certainty) == expected
        assert (run / JUDGMENT).exists()


def test_what_is_kept_is_used(run, monkeypatch):
    expected = dr.load(run)
    monkeypatch.setattr(checkpoint, "judge", lambda optimizer: pytest.fail("judged again"))
    assert dr.load(run) == expected


def test_a_report_is_the_same_with_and_without_what_is_kept(run, tmp_path):
    pages = []
    for k in range(2):
        pages.append(dr.load(run).report(tmp_path / f"{k}.html").read_text())
        (run / JUDGMENT).unlink()
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: b"",
        lambda kept: b"[1, 2]",
        lambda kept: b"[" * 100_000,
        lambda kept: kept[: len(kept) // 2],
        lambda kept: kept.replace(b'"format": 2', b'"format": 99'),
        lambda kept: kept.replace(b'"sha256": "', b'"sha256": "0'),
        lambda kept: kept.replace(b'"std": ', b'"std": "x", "s": '),
        lambda kept: kept.replace(b'"robust_value": ', b'"robust_value": NaN, "s": '),
        lambda kept: kept.replace(b'"weights": [', b'"weights": [0.0, '),
        lambda kept: kept.replace(b'"parameters": [', b'"parameters": [0.0, '),
        lambda kept: kept.replace(b'"kind": "', b'"kind": "z'),
        lambda kept: kept.replace(b'"expected": ', b'"expected": NaN, "s": '),
        lambda kept: kept.replace(b'"forecast": ', b'"forecasts": '),
    ],
)
def test_whatever_is_wrong_with_what_is_kept_changes_nothing(run, damage):
    expected = dr.load(run)
    kept = (run / JUDGMENT).read_bytes()
    assert damage(kept) != kept
    (run / JUDGMENT).write_bytes(damage(kept))
    assert dr.load(run) == expected
    assert (run / JUDGMENT).read_bytes() == kept, "it is made again"


def test_what_was_kept_of_another_journal_does_not_count(run, original, tmp_path):
    other = write_run(tmp_path / "other", seed=1)
    dr.load(other)
    expected = dr.load(run)
    shutil.copy(other / JUDGMENT, run / JUDGMENT)
    assert dr.load(run) == expected


def test_a_journal_that_went_on_is_judged_anew(run):
    before = dr.load(run)
    best = before.recommendation.config
    with Journal.open(run) as journal:
        journal.append("session", {"at": 30.0, "n_evaluations": 25})
        for k, score in ((24, 9.0),):
            journal.append("ask", {"id": k, "config": best, "context": 1, "seed": 1})
            journal.append("tell", {"id": k, "score": score})
    after = dr.load(run)
    assert len(after.observations) == 25
    assert after.recommendation.mean_value > before.recommendation.mean_value
    assert after.stopped == "cut off"


def test_a_run_that_goes_on_is_loaded_and_nothing_is_kept(tmp_path):
    directory = write_run(tmp_path / "r", finished=False)
    with Journal.open(directory):
        assert dr.load(directory).stopped == "running"
    assert dr.load(directory).stopped == "cut off"
    assert not (directory / JUDGMENT).exists()


def test_a_folder_that_cannot_be_written_to_is_loaded(run, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(checkpoint.os, "replace", refuse)
    assert dr.load(run).recommendation is not None
    assert {path.name for path in run.iterdir()} == {"acked", "lock", JOURNAL}


def test_a_run_of_the_first_release_is_loaded(tmp_path):
    shutil.copy(GOLDEN / "run-format-1.jsonl", tmp_path / JOURNAL)
    found = dr.load(tmp_path)
    assert len(found.observations) == 7
    assert found.recommendation.config in [seen.config for seen in found.observations]


def test_a_failed_run_says_why(tmp_path):
    directory = write_run(
        tmp_path / "r", evaluations=4, fails=lambda *_: "Traceback\nKeyError: 'a'"
    )
    with Journal.open(directory) as journal:
        journal.append("session", {"at": 9.0})
        journal.append("finish", {"reason": "failed", "at": 9.0})
    found = dr.load(directory)
    assert found.recommendation is None
    assert found.certainty is None
    assert "evaluation 3 (fold " in found.failure
    assert found.failure.endswith("KeyError: 'a'")


def test_a_folder_with_one_run_stands_for_it_and_with_two_is_refused(run):
    assert dr.load(run.parent).name == "one"
    shutil.copytree(run, run.parent / "two")
    with pytest.raises(InvalidInput, match="one"):
        dr.load(run.parent)
    assert dr.load(run.parent, "two").name == "two"


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="journal"):
        dr.load(tmp_path)


def test_a_damaged_run_is_refused(run):
    data = bytearray((run / JOURNAL).read_bytes())
    data[len(data) // 2] ^= 1
    (run / JOURNAL).write_bytes(data)
    with pytest.raises(JournalCorrupt):
        dr.load(run)


def test_loading_and_listing_need_no_ray(run):
    code = (
        "import sys, drbqo_ray as dr;"
        "dr.load(sys.argv[1]).to_dataframe(); dr.list_runs(sys.argv[1]);"
        "print([m for m in ('ray', 'torch', 'matplotlib', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
