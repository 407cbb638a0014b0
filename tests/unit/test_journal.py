from __future__ import annotations

import ast
import logging
import math
import os
import pickle
import threading
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest

from drbqo_ray.errors import (
    InvalidInput,
    JournalCorrupt,
    JournalError,
    ProblemChanged,
)
from drbqo_ray.storage import directory as run_directory
from drbqo_ray.storage import format as journal_format
from drbqo_ray.storage import journal, mirror
from drbqo_ray.storage.journal import Journal, problem_changes, read_journal

PROBLEM = {"space": {"C": {"low": 0.1, "high": 10.0}}, "contexts": 3, "radius": 1.0, "seed": 0}


def header_line() -> bytes:
    return journal_format.encode_header(PROBLEM)


def write_run(directory: Path, content: bytes) -> Path:
    directory.mkdir()
    (directory / "journal.jsonl").write_bytes(content)
    return directory


def test_what_was_appended_reads_back_in_order_after_reopening(tmp_path):
    with Journal.create(tmp_path / "run", PROBLEM) as first:
        assert first.append("ask", {"id": 0, "config": {"C": 0.1}}) == 1
        assert first.append_many([("tell", {"id": 0}), ("note", {})]) == [2, 3]
        assert first.append_many([]) == []
        assert first.last_seq == 3
    with Journal.open(tmp_path / "run", PROBLEM) as second:
        records = list(second.records())
        assert second.append("note", {"again": True}) == 4
    assert [(r.seq, r.kind) for r in records] == [
        (0, "header"),
        (1, "ask"),
        (2, "tell"),
        (3, "note"),
    ]
    assert records[0].data == {"format": 3, "run": ANY, "problem": PROBLEM}
    assert records[1].data == {"id": 0, "config": {"C": 0.1}}
    assert [r.seq for r in read_journal(tmp_path / "run")] == [0, 1, 2, 3, 4]


def test_records_are_the_same_from_the_opening_and_from_the_disk(tmp_path):
    with Journal.create(tmp_path / "run", PROBLEM) as first:
        first.append("tell", {"id": 0, "score": 0.5})
    with Journal.open(tmp_path / "run") as second:
        assert [r.seq for r in second.records()] == [0, 1]
        assert list(second.records()) == list(read_journal(tmp_path / "run"))
    with Journal.open(tmp_path / "run") as third:
        third.append("tell", {"id": 1, "score": 0.25})
        assert list(third.records()) == list(read_journal(tmp_path / "run"))


def test_what_records_hand_out_is_not_the_problem_itself(tmp_path):
    with Journal.create(tmp_path / "run", PROBLEM):
        pass
    with Journal.open(tmp_path / "run") as run:
        next(run.records()).data["problem"].clear()
        assert run.header == PROBLEM


def test_a_clean_reopening_reports_nothing_lost_and_warns_of_nothing(tmp_path, caplog):
    with Journal.create(tmp_path / "run", PROBLEM) as first:
        first.append("note", {})
    with caplog.at_level(logging.WARNING), Journal.open(tmp_path / "run") as second:
        assert second.recovery == journal.Recovery(0, 0)
    assert caplog.records == []


def test_attach_starts_a_run_once_and_then_continues_it(tmp_path):
    for expected in (1, 2, 3):
        with Journal.attach(tmp_path / "run", PROBLEM) as run:
            assert run.append("note", {}) == expected


def test_a_run_named_by_a_relative_path_survives_a_change_of_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Journal.create("run", PROBLEM) as run:
        monkeypatch.chdir("/")
        run.append("note", {})
        assert len(list(run.records())) == 2
    assert run.path == tmp_path / "run" / "journal.jsonl"


def test_create_refuses_a_directory_that_holds_a_run_and_leaves_it_alone(tmp_path):
    Journal.create(tmp_path / "run", PROBLEM).close()
    before = (tmp_path / "run" / "journal.jsonl").read_bytes()
    with pytest.raises(JournalError, match="already holds a run"):
        Journal.create(tmp_path / "run", PROBLEM)
    assert (tmp_path / "run" / "journal.jsonl").read_bytes() == before


def test_open_refuses_a_directory_without_a_run_and_makes_nothing_there(tmp_path):
    with pytest.raises(JournalError, match="holds no run"):
        Journal.open(tmp_path)
    with pytest.raises(JournalError, match="holds no run"):
        Journal.open(tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        ({"score": math.nan}, "data.score"),
        ({"a": [0, -math.inf]}, r"data.a\[1\]"),
        ({"a": (1, 2)}, "data.a"),
        ({"a": {1: 2}}, "data.a"),
        ({"a": np.int64(3)}, "data.a"),
        ({"a": np.zeros(2)}, "data.a"),
        ({"a": b"x"}, "data.a"),
        ({"a": 1j}, "data.a"),
        ([1], "dict"),
        ({"a": 10**5000}, "cannot be written"),
        ({"a": "x" * (1 << 20)}, "may take 1048576 bytes"),
    ],
)
def test_data_that_are_not_plain_are_refused_and_the_journal_stays_usable(tmp_path, payload, place):
    with Journal.create(tmp_path / "run", PROBLEM) as run:
        before = run.path.read_bytes()
        with pytest.raises(InvalidInput, match=place):
            run.append_many([("note", {}), ("tell", payload)])
        assert run.path.read_bytes() == before
        assert run.append("note", {}) == 1


def test_data_may_nest_thirty_two_levels_and_no_more(tmp_path):
    deep: dict = {}
    for _ in range(31):
        deep = {"d": deep}
    with Journal.create(tmp_path / "run", PROBLEM) as run:
        run.append("note", deep)
        with pytest.raises(InvalidInput, match="32 levels"):
            run.append("note", {"d": deep})
        loop: list = []
        loop.append(loop)
        with pytest.raises(InvalidInput, match="32 levels"):
            run.append("note", {"loop": loop})
        assert [r.data for r in run.records()][1:] == [deep]


@pytest.mark.parametrize("kind", ["", "header", "two words", "1st", "né", "a" * 65, 'x","y', None])
def test_a_kind_must_be_an_identifier(tmp_path, kind):
    with Journal.create(tmp_path / "run", PROBLEM) as run:
        with pytest.raises(InvalidInput, match="kind"):
            run.append(kind, {})
        assert run.last_seq == 0


def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path):
    run = write_run(tmp_path / "run", b"my own notes\n")
    for opening in (
        lambda: Journal.open(run),
        lambda: Journal.attach(run, PROBLEM),
        lambda: list(read_journal(run)),
    ):
        with pytest.raises(JournalError):
            opening()
    assert (run / "journal.jsonl").read_bytes() == b"my own notes\n"


def test_a_crash_while_the_header_was_written_does_not_block_the_run(tmp_path):
    line = header_line()
    for cut in [*range(12), 50, len(line) - 1]:
        for number, fill in enumerate((b"", bytes(7))):
            run = write_run(tmp_path / f"run{cut}-{number}", line[:cut] + fill)
            with Journal.attach(run, PROBLEM) as attached:
                assert attached.append("note", {}) == 1
            assert [r.seq for r in read_journal(run)] == [0, 1]


def test_a_lost_header_that_was_acknowledged_is_an_error_not_a_new_run(tmp_path):
    Journal.create(tmp_path / "run", PROBLEM).close()
    (tmp_path / "run" / "journal.jsonl").write_bytes(b"")
    with pytest.raises(JournalCorrupt, match="acknowledged"):
        Journal.attach(tmp_path / "run", PROBLEM)


def test_lost_acknowledged_records_are_reported_loudly_and_noted_in_the_journal(tmp_path, caplog):
    with Journal.create(tmp_path / "run", PROBLEM) as first:
        first.append_many([("tell", {"id": i}) for i in range(5)])
        path = first.path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:10])
    with caplog.at_level(logging.WARNING), Journal.open(tmp_path / "run") as second:
        assert second.recovery == journal.Recovery(torn_bytes=10, lost_records=2)
        notes = [r.data for r in second.records() if r.kind == "note"]
    assert notes == [{"lost_records": 2, "first": 4, "last": 5}]
    assert [r.levelname for r in caplog.records] == ["WARNING", "ERROR"]
    assert "LOST 2 acknowledged records" in caplog.text
    caplog.clear()
    with Journal.open(tmp_path / "run") as third:
        assert third.recovery == journal.Recovery(0, 0)
    assert caplog.records == []


@pytest.mark.parametrize("content", [b"", b"7", b"\0" * 30, b"00000000000000000009 00000000\n"])
def test_a_damaged_high_water_mark_raises_no_false_alarm(tmp_path, content):
    Journal.create(tmp_path / "run", PROBLEM).close()
    (tmp_path / "run" / "acked").write_bytes(content)
    with Journal.open(tmp_path / "run") as run:
        assert run.recovery.lost_records == 0


def test_a_changed_problem_is_refused_with_each_difference_and_the_cure(tmp_path):
    Journal.create(tmp_path / "run", PROBLEM).close()
    before = (tmp_path / "run" / "journal.jsonl").read_bytes()
    changed = {"space": {"C": {"low": 0.1, "high": 20.0}}, "contexts": 3, "radius": 1, "data": "x"}
    for opening in (
        lambda: Journal.open(tmp_path / "run", changed),
        lambda: Journal.attach(tmp_path / "run", changed),
    ):
        with pytest.raises(ProblemChanged) as caught:
            opening()
        text = str(caught.value)
        assert "space.C.high: 10.0 -> 20.0" in text
        assert "seed: 0 -> absent" in text
        assert "data: absent -> 'x'" in text
        assert "low" not in text
        assert "radius" not in text
        assert "another name" in text
        assert "old values back" in text
    assert (tmp_path / "run" / "journal.jsonl").read_bytes() == before
    Journal.open(tmp_path / "run", PROBLEM).close()


def test_a_refused_problem_leaves_a_torn_tail_where_it_is(tmp_path):
    content = header_line() + b'{"crc":'
    run = write_run(tmp_path / "run", content)
    with pytest.raises(ProblemChanged):
        Journal.open(run, {**PROBLEM, "seed": 1})
    assert (run / "journal.jsonl").read_bytes() == content
    assert not (run / "journal.jsonl.torn").exists()


def test_problems_differ_by_type_of_truth_order_of_lists_and_length():
    assert problem_changes({"a": True}, {"a": 1}) == ["a: True -> 1"]
    assert problem_changes({"contexts": 2}, {"contexts": ["north", "south"]}) == []
    assert problem_changes({"contexts": 3}, {"contexts": ["north", "south"]}) != []
    assert problem_changes({"contexts": ["north", "south"]}, {"contexts": 2}) != []
    assert problem_changes({"a": [1, 2]}, {"a": [2, 1]}) == ["a[0]: 1 -> 2", "a[1]: 2 -> 1"]
    assert problem_changes({"a": [1]}, {"a": [1, 2]}) == ["a: [1] -> [1, 2]"]
    assert problem_changes({"a": None}, {}) == ["a: None -> absent"]
    assert problem_changes({"a": 1, "b": 2}, {"b": 2.0, "a": 1}) == []


def test_the_header_of_a_journal_is_a_copy(tmp_path):
    with Journal.create(tmp_path / "run", PROBLEM) as run:
        run.header["seed"] = 99
        assert run.header == PROBLEM


def test_a_long_diff_is_shortened_and_says_so():
    with pytest.raises(ProblemChanged, match="and 80 more"):
        journal.refuse_changes({"a": list(range(100))}, {"a": list(range(1, 101))}, "here")


def test_a_failed_opening_gives_the_lock_and_every_file_back(tmp_path):
    run = write_run(tmp_path / "run", header_line())
    open_files = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(ProblemChanged):
            Journal.open(run, {})
    assert len(os.listdir("/proc/self/fd")) == open_files
    Journal.open(run).close()
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_a_closed_journal_refuses_work_and_may_be_closed_again(tmp_path):
    run = Journal.create(tmp_path / "run", PROBLEM)
    run.close()
    run.close()
    for call in (lambda: run.append("note", {}), lambda: run.append_many([]), run.records):
        with pytest.raises(JournalError, match=r"is closed.*Open the journal again"):
            call()


def test_an_interrupt_inside_a_write_leaves_no_usable_handle(tmp_path, monkeypatch):
    run = Journal.create(tmp_path / "run", PROBLEM)

    def interrupt(_fd):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run.append("tell", {"id": 0})
    with pytest.raises(JournalError, match="interrupted"):
        run.append("tell", {"id": 1})
    run.close()
    with Journal.open(tmp_path / "run") as again:
        again.append("tell", {"id": 2})
        assert [r.data.get("id") for r in again.records()] == [None, 0, 2]


def test_a_forked_child_may_not_write(tmp_path, monkeypatch):
    with Journal.create(tmp_path / "run", PROBLEM) as run:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            with pytest.raises(JournalError, match="forked child"):
                run.append("note", {})
        assert run.append("note", {}) == 1


def test_threads_share_a_journal_without_losing_or_mixing_records(tmp_path):
    with Journal.create(tmp_path / "run", PROBLEM) as run:

        def write(thread: int) -> None:
            for i in range(20):
                run.append("tell", {"thread": thread, "i": i})
                assert next(run.records()).kind == "header"

        threads = [threading.Thread(target=write, args=(t,)) for t in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    told = [r.data for r in read_journal(tmp_path / "run")][1:]
    assert len(told) == 80
    assert all([d["i"] for d in told if d["thread"] == t] == list(range(20)) for t in range(4))


def test_nothing_in_a_run_directory_is_ever_executed(tmp_path):
    marker = tmp_path / "marker"

    class Payload:
        def __reduce__(self):
            return Path.touch, (marker,)

    evil = pickle.dumps(Payload())
    pickle.loads(evil)
    assert marker.exists()
    marker.unlink()
    run = tmp_path / "run"
    text = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    with Journal.create(run, {"py/reduce": [text], "objective": text}) as first:
        first.append("note", {"__class__": text, "!!python/object/apply": [text]})
    good = {name: (run / name).read_bytes() for name in ("journal.jsonl", "acked", "lock")}
    for name, content in good.items():
        for planted in (evil, content + evil, evil + content):
            (run / name).write_bytes(planted)
            try:
                Journal.open(run).close()
                list(read_journal(run))
            except JournalError:
                pass
            for other, bytes_ in good.items():
                (run / other).write_bytes(bytes_)
    assert not marker.exists()


def test_the_journal_modules_import_no_code_loader_and_no_ray():
    banned = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml", "ray"}
    for module in (journal, journal_format, mirror, run_directory):
        tree = ast.parse(Path(module.__file__).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not banned & {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in banned
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}
