"""Two writers of one run: whatever becomes of the lock, they never both acknowledge."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import pytest

from drbqo_ray.errors import JournalCorrupt, JournalError, JournalLocked
from drbqo_ray.storage.journal import Journal, read_journal

ROOT = Path(__file__).parent.parent.parent
WRITER = ROOT / "tests" / "support" / "two_writers.py"
PROBLEM = {"contexts": 10, "seed": 0}
Process = subprocess.Popen[str]


@contextmanager
def writer(directory: Path, name: str, count: int = 30, *options: str) -> Iterator[Process]:
    process = subprocess.Popen(
        [sys.executable, str(WRITER), str(directory), name, str(count), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def go(*processes: Process) -> tuple[list[str], list[str]]:
    """Let processes write that have the journal open; what they acknowledged, and their errors."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate(timeout=30) for process in processes]
    return [line for out, _ in ends for line in out.split()], [error for _, error in ends]


def opened(process: Process) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "open\n"


def kept(directory: Path) -> list[str]:
    return [r.data["id"] for r in read_journal(directory) if r.kind == "tell"]


def test_a_writer_whose_lock_was_removed_is_not_joined_by_another_and_stops(tmp_path):
    run = tmp_path / "run"
    with writer(run, "first") as first:
        assert opened(first)
        (run / "lock").unlink()
        with pytest.raises(JournalLocked, match="without its lock"):
            Journal.attach(run, PROBLEM)
        acked, (error,) = go(first)
    assert first.returncode == 3
    assert "its lock was removed or replaced" in error
    assert acked == []
    with writer(run, "second", 3) as second:
        assert opened(second)
        acked, _ = go(second)
    assert acked == ["second:0", "second:1", "second:2"]
    assert set(acked) <= set(kept(run))


def test_a_journal_with_a_second_name_has_one_writer(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    Journal.create(one, PROBLEM).close()
    other.mkdir()
    os.link(one / "journal.jsonl", other / "journal.jsonl")
    with writer(one, "first", 3) as first:
        assert opened(first)
        with pytest.raises(JournalLocked, match="by another name"):
            Journal.open(other)
        acked, _ = go(first)
    assert acked == kept(one) == ["first:0", "first:1", "first:2"]


def race(run: Path, *options: str) -> tuple[list[str], list[str]]:
    """What two writers that both got the lock acknowledged, and what is there after a reopening."""
    with writer(run, "a", 30, *options) as one, writer(run, "b", 30, *options) as other:
        assert opened(one)
        assert opened(other)
        acked, _ = go(one, other)
    try:
        with Journal.open(run) as journal:
            lost = journal.recovery.lost_records
            assert lost == 0 or "unfenced" in options
    except JournalCorrupt:
        assert "unfenced" in options
        return acked, []
    return acked, kept(run)


def test_of_two_writers_that_both_got_the_lock_none_loses_what_it_acknowledged(tmp_path):
    total = 0
    for number in range(4):
        run = tmp_path / str(number)
        Journal.create(run, PROBLEM).close()
        acked, found = race(run, "--lying-lock")
        assert set(acked) <= set(found)
        assert len(set(found)) == len(found)
        assert len({name.partition(":")[0] for name in acked}) <= 1, "both have acknowledged"
        total += len(acked)
    assert total > 30


def test_without_the_checks_two_writers_lose_what_they_acknowledged(tmp_path):
    run = tmp_path / "run"
    Journal.create(run, PROBLEM).close()
    acked, found = race(run, "--lying-lock", "--mutant", "unfenced")
    assert set(acked) - set(found)


# The same, step by step in one process.


@pytest.fixture
def pair(tmp_path, monkeypatch) -> Iterator[tuple[Journal, Journal]]:
    """Two handles of one journal, whose lock was granted twice."""
    run = tmp_path / "run"
    with Journal.create(run, PROBLEM) as first:
        first.append("tell", {"id": "before"})
    monkeypatch.setattr(fcntl, "flock", lambda fd, how: None)
    with Journal.open(run) as one, Journal.open(run) as other:
        yield one, other


def test_whoever_comes_second_writes_nothing_and_the_first_goes_on(pair):
    one, other = pair
    one.append("tell", {"id": "one"})
    content = one.path.read_bytes()
    with pytest.raises(JournalError, match=r"another process has written to it\. .*acknowledged"):
        other.append("tell", {"id": "other"})
    with pytest.raises(JournalError, match="may write no more"):
        other.append("tell", {"id": "other"})
    assert one.path.read_bytes() == content
    one.append("tell", {"id": "two"})
    assert kept(one.directory) == ["before", "one", "two"]


def interrupted(journal: Journal, meanwhile: Callable[[], object], late: bool) -> Callable:
    """The writing of a journal with something else before it, or after it."""
    real = journal._write_durably

    def write(lines: bytes) -> None:
        if not late:
            meanwhile()
        real(lines)
        if late:
            meanwhile()

    return write


def test_a_writer_that_acknowledges_just_before_another_one_writes_keeps_its_record(pair, caplog):
    one, other = pair
    other._write_durably = interrupted(other, lambda: one.append("tell", {"id": "one"}), late=False)
    with pytest.raises(JournalError, match="at the same time"):
        other.append_many([("tell", {"id": "other"}), ("tell", {"id": "more"})])
    with caplog.at_level(logging.WARNING), Journal.open(one.directory) as again:
        assert again.recovery.lost_records == 0
        assert again.recovery.rival_records == 2
    assert "had two writers: 2 whole records" in caplog.text
    assert kept(one.directory) == ["before", "one"]
    torn = (one.directory / "journal.jsonl.torn").read_text()
    assert '"other"' in torn
    assert '"more"' in torn


def test_two_that_write_at_the_same_moment_both_refuse(pair):
    one, other = pair

    def meanwhile() -> None:
        with pytest.raises(JournalError, match="has written to it"):
            one.append("tell", {"id": "one"})

    other._write_durably = interrupted(other, meanwhile, late=True)
    assert other.append("tell", {"id": "other"}) == 2
    assert kept(one.directory) == ["before", "other"]
    one, other = other, Journal.open(one.directory)
    other._write_durably = interrupted(
        other, lambda: os.write(one._fd, b'{"crc":"half a line'), late=True
    )
    with pytest.raises(JournalError, match="at the same time"):
        other.append("tell", {"id": "lost"})


def test_a_loss_to_a_second_writer_is_counted_and_told(pair, caplog):
    """Both have acknowledged, as happens without the checks: the loss is not called 0."""
    one, other = pair
    other._check_alone = other._check_ours = lambda *given: None
    one.append("tell", {"id": "one"})
    other.append_many([("tell", {"id": "other"}), ("tell", {"id": "more"})])
    with caplog.at_level(logging.WARNING), Journal.open(one.directory) as again:
        assert (again.recovery.lost_records, again.recovery.rival_records) == (2, 2)
        notes = [r.data for r in again.records() if r.kind == "note"]
    assert notes == [{"lost_records": 2, "first": 2, "last": 3}]
    assert "LOST 2 acknowledged records" in caplog.text


def test_as_many_records_of_a_second_writer_as_of_the_first_are_counted_too(pair):
    one, other = pair
    other._check_alone = other._check_ours = lambda *given: None
    one.append("tell", {"id": "one"})
    other.append("tell", {"id": "other"})
    with Journal.open(one.directory) as again:
        assert (again.recovery.lost_records, again.recovery.rival_records) == (1, 1)


def test_a_journal_that_grows_while_it_is_opened_is_not_cut(tmp_path, monkeypatch):
    run = tmp_path / "run"
    first = Journal.create(run, PROBLEM)
    monkeypatch.setattr(fcntl, "flock", lambda fd, how: None)
    scan = Journal._scan

    def slow(self):
        end = scan(self)
        if self is not first:
            first.append("tell", {"id": "meanwhile"})
        return end

    monkeypatch.setattr(Journal, "_scan", slow)
    with pytest.raises(JournalError, match="while it was opened"):
        Journal.open(run)
    assert kept(run) == ["meanwhile"]
    assert not (run / "journal.jsonl.torn").exists()
    first.append("tell", {"id": "after"})
    first.close()


def copied(run: Path) -> None:
    shutil.copy(run / "journal.jsonl", run / "copy")
    os.replace(run / "copy", run / "journal.jsonl")


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        (lambda run: (run / "journal.jsonl").unlink(), "it was removed"),
        (lambda run: run.rename(run.with_name("moved")), "its directory was moved"),
        (copied, "another file has taken its place"),
        (lambda run: (run / "lock").unlink(), "its lock was removed"),
        (
            lambda run: (run / "lock").unlink() or (run / "lock").touch(),
            "its lock was removed or replaced",
        ),
        (lambda run: shutil.rmtree(run), "it was removed"),
    ],
    ids=["removed", "moved", "replaced", "lock removed", "lock replaced", "all removed"],
)
def test_what_is_no_longer_at_the_path_of_the_run_is_not_acknowledged(tmp_path, fault, word):
    run = tmp_path / "run"
    with Journal.create(run, PROBLEM) as journal:
        journal.append("tell", {"id": 0})
        fault(run)
        with pytest.raises(JournalError, match=rf"{word}.*not acknowledged"):
            journal.append("tell", {"id": 1})
        with pytest.raises(JournalError, match="may write no more"):
            journal.append("tell", {"id": 2})


def test_on_a_network_the_journal_is_read_again_and_an_overwritten_record_is_seen(pair):
    one, _ = pair
    one._local = False
    one.append("tell", {"id": "one"})

    def overwrite() -> None:
        with open(one.path, "r+b") as file:
            file.seek(-20, os.SEEK_END)
            file.write(b"x")

    one._write_durably = interrupted(one, overwrite, late=True)
    with pytest.raises(JournalError, match="written over it"):
        one.append("tell", {"id": "two"})


@pytest.mark.parametrize("content", [None, b"", b"damaged\n"])
def test_a_missing_mark_is_told_once(tmp_path, caplog, content):
    run = tmp_path / "run"
    with Journal.create(run, PROBLEM) as journal:
        journal.append("tell", {"id": 0})
    (run / "acked").unlink()
    if content is not None:
        (run / "acked").write_bytes(content)
    with caplog.at_level(logging.WARNING), Journal.open(run) as again:
        assert again.recovery.unmarked
        assert again.recovery.lost_records == 0
    assert "acked" in caplog.text
    assert "cannot be told; 2 are intact" in caplog.text
    caplog.clear()
    with Journal.open(run) as again:
        assert not again.recovery.unmarked
    assert caplog.records == []


def test_a_mark_of_the_version_before_is_read(tmp_path, caplog):
    run = tmp_path / "run"
    with Journal.create(run, PROBLEM) as journal:
        journal.append_many([("tell", {"id": k}) for k in range(3)])
    digits = b"%020d" % 5
    (run / "acked").write_bytes(b"%s %08x\n" % (digits, crc32(digits)))
    with caplog.at_level(logging.WARNING), Journal.open(run) as again:
        assert again.recovery.lost_records == 2
    assert "record 5 was acknowledged, the last intact one is 3" in caplog.text
