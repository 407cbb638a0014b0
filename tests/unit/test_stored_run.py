"""A journal whose records are intact and wrong: one error that names the record, never a crash."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from drbqo_ray.cli.main import cli
from drbqo_ray.cli.saved_run import SavedRun
from drbqo_ray.errors import JournalCorrupt, JournalError
from drbqo_ray.storage.format import JournalRecord, encode_record, key_of
from drbqo_ray.storage.journal import JOURNAL, Journal, read_journal

GOLDEN = Path(__file__).parent.parent / "golden" / "run-format-1.jsonl"
RECORDS = list(read_journal(GOLDEN))
VALUES = [None, True, -1, 10**30, 1.5, 1e300, "x", [], [1], {}, {"a": 1}]


def written(directory: Path, records: list[JournalRecord]) -> Path:
    """A run directory with these records, every checksum right."""
    directory.mkdir(exist_ok=True)
    lines = [encode_record(r.seq, r.kind, r.data) for r in records]
    (directory / JOURNAL).write_bytes(b"".join(lines))
    return directory


def places(data: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The path to every field, fields of fields included."""
    for name, value in data.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *rest) for rest in places(value))


def changed(record: JournalRecord, place: tuple[str, ...], *value: object) -> JournalRecord:
    """The record with another value at a place, or with none."""
    data = json.loads(json.dumps(record.data))
    inner = data
    for name in place[:-1]:
        inner = inner[name]
    del inner[place[-1]]
    if value:
        inner[place[-1]] = value[0]
    return JournalRecord(record.seq, record.kind, data)


def first(kind: str) -> JournalRecord:
    return next(record for record in RECORDS if record.kind == kind)


def with_change(kind: str, place: tuple[str, ...], *value: object) -> list[JournalRecord]:
    bad = changed(first(kind), place, *value)
    return [bad if record.seq == bad.seq else record for record in RECORDS]


WRONG = [
    ("ask", ("id",), "0"),
    ("ask", ("id",), True),
    ("ask", ("config",), ["C"]),
    ("ask", ("config", "C"), "0.5"),
    ("ask", ("config", "C"), 1e9),
    ("ask", ("config", "kernel"), {"__option__": 7}),
    ("ask", ("context",), 3),
    ("ask", ("context",), -1),
    ("ask", ("context",), 1.0),
    ("ask", ("context",), "1"),
    ("ask", ("seed",), None),
    ("ask", ("at",), "soon"),
    ("tell", ("id",), [0]),
    ("tell", ("score",), "0.9"),
    ("tell", ("score",), None),
    ("tell", ("score",), True),
    ("tell", ("score",), 1e300),
    ("tell", ("seconds",), "long"),
    ("tell", ("node",), 7),
    ("tell", ("attempts",), "one"),
    ("fail", ("reason",), ["no", "rows"]),
    ("fail", ("cause",), {}),
    ("fit", ("fit",), None),
    ("fit", ("fit", "parameters"), [0.0]),
    ("fit", ("fit", "parameters"), "none"),
    ("fit", ("fit", "parameters"), ["a"] * 7),
    ("fit", ("fit", "size"), "4"),
    ("fit", ("fit", "size"), -1),
    ("fit", ("fit", "scale"), 0.0),
    ("fit", ("fit", "center"), None),
    ("session", ("n_evaluations",), "many"),
    ("session", ("resources",), "all"),
    ("session", ("stop_when",), 3),
    ("finish", ("reason",), 5),
    ("finish", ("at",), {}),
]


@pytest.mark.parametrize(("kind", "place", "value"), WRONG, ids=str)
def test_a_field_of_the_wrong_type_is_named_by_the_number_of_its_record(
    tmp_path: Path, kind: str, place: tuple[str, ...], value: object
) -> None:
    records = with_change(kind, place, value)
    run = written(tmp_path / "run", records)
    with pytest.raises(JournalCorrupt, match=rf"Record {first(kind).seq} of the journal"):
        SavedRun.read(str(run))
    result = CliRunner().invoke(cli, ["status", str(run)])
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert f"Record {first(kind).seq} " in result.stderr


@pytest.mark.parametrize(
    "place", [("id",), ("config",), ("config", "C"), ("context",), ("seed",)], ids=str
)
def test_a_field_that_is_missing_is_named_the_same_way(tmp_path: Path, place: tuple[str]) -> None:
    run = written(tmp_path / "run", with_change("ask", place))
    with pytest.raises(JournalCorrupt, match=rf"Record {first('ask').seq} of the journal"):
        SavedRun.read(str(run))


@pytest.mark.parametrize("contexts", [10**9, 2**53, 0, "3", 2.5, [[1.0], [2.0, 3.0]], None])
def test_a_number_of_contexts_that_no_run_has_is_refused_before_memory_is_asked_for(
    tmp_path: Path, contexts: object
) -> None:
    run = written(tmp_path / "run", with_change("header", ("problem", "contexts"), contexts))
    with pytest.raises(JournalCorrupt, match="Record 0 of the journal"):
        SavedRun.read(str(run))


def test_whatever_stands_in_a_field_a_run_is_read_or_refused_and_nothing_else(
    tmp_path: Path,
) -> None:
    read, refused = 0, []
    kinds = ("header", "session", "fit", "ask", "tell", "fail", "finish")
    for kind in kinds:
        for place, value in itertools.product(places(first(kind).data), VALUES):
            run = written(tmp_path / "run", with_change(kind, place, value))
            try:
                SavedRun.read(str(run))
                read += 1
            except JournalError as error:
                refused.append(str(error))
    assert read > 50
    assert len(refused) > 200
    assert all(text.startswith("Record ") or "header" in text for text in refused)


def test_a_golden_run_of_format_1_is_read_and_gone_on_with(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / JOURNAL).write_bytes(GOLDEN.read_bytes())
    saved = SavedRun.read(str(run))
    assert (len(saved.run.suggestions), len(saved.run.outcomes)) == (7, 7)
    assert saved.run.outcomes[3].reason == (
        "Traceback (most recent call last):\nValueError: no rows"
    )
    assert [o.score for o in saved.run.outcomes.values()][:3] == [0.4, 0.46, 0.52]
    assert saved.run.optimizer.last_fit is not None
    assert saved.run.optimizer.last_fit.size == 6
    assert saved.run.session["n_evaluations"] == 8
    assert " robust, " in "\n".join(saved.lines())
    with Journal.open(run, saved.run.problem.header()) as journal:
        assert journal.append("session", {"at": 2.0}) == 21
    assert key_of(RECORDS[0]) == 0
    assert SavedRun.read(str(run)).run.stopped is None


@pytest.mark.parametrize("version", [2, 3])
def test_a_golden_run_of_a_later_format_is_read_and_gone_on_with(
    tmp_path: Path, version: int
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    golden = GOLDEN.with_name(f"run-format-{version}.jsonl").read_bytes()
    (run / JOURNAL).write_bytes(golden)
    saved = SavedRun.read(str(run))
    assert (len(saved.run.suggestions), len(saved.run.outcomes)) == (9, 9)
    assert saved.run.outcomes[0].score == 0.41881631649661877
    assert saved.run.outcomes[4].cause == "error"
    assert saved.run.optimizer.last_fit is not None
    assert saved.run.stop_when == "probability > 0.999"
    with Journal.open(run, saved.run.problem.header()) as journal:
        assert journal.append("session", {"at": 20.0}) == 27
    assert (run / JOURNAL).read_bytes().startswith(golden)
    assert SavedRun.read(str(run)).run.stopped is None


def test_golden_runs_of_two_formats_are_the_same_run(tmp_path: Path) -> None:
    records = [read_journal(GOLDEN.with_name(f"run-format-{version}.jsonl")) for version in (2, 3)]
    for old, new in zip(*records, strict=True):
        assert old.seq == new.seq
        assert old.kind == new.kind
        assert old.seq == 0 or old.data == new.data
