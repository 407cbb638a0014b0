"""System calls of the journal: their order (F7), and each of them failing (F8)."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drbqo_ray.errors import JournalError
from drbqo_ray.storage.journal import Journal

PROBLEM = {"contexts": 10, "seed": 0}

CALLS = (
    "open",
    "mkdir",
    "chmod",
    "fchmod",
    "fstat",
    "lseek",
    "stat",
    "write",
    "pwrite",
    "pread",
    "fsync",
    "ftruncate",
    "close",
)


@pytest.fixture
def ram() -> Iterator[Path]:
    """A directory in memory, where there is one: these tests are about order, not about disks."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)


def outcome(call: Callable) -> tuple[object, JournalError | None]:
    try:
        return call(), None
    except JournalError as error:
        return None, error


class SystemCalls:
    """While active, logs the calls of this thread and may make the one numbered `fail` fail."""

    def __init__(self, fail: int = -1, fault: int | str = errno.EIO) -> None:
        self.log: list[tuple[str, str]] = []
        self.fail = fail
        self.fault = fault
        self._thread = threading.get_ident()
        self._names: dict[int, str] = {}

    def __enter__(self) -> SystemCalls:
        self._real = {name: getattr(os, name) for name in CALLS}
        self._real_flock = fcntl.flock
        for name in CALLS:
            setattr(os, name, self._wrapped(name, self._real[name]))
        fcntl.flock = self._wrapped("flock", self._real_flock)
        return self

    def __exit__(self, *_exception: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)
        fcntl.flock = self._real_flock

    def _wrapped(self, name: str, real: Callable) -> Callable:
        def call(target, *args, **kwargs):
            if threading.get_ident() != self._thread:
                return real(target, *args, **kwargs)
            path = self._names.get(target, "?") if isinstance(target, int) else str(target)
            number = len(self.log)
            self.log.append((name, Path(path).name))
            if number == self.fail:
                if self.fault != "short":
                    if name == "close":
                        real(target)
                    raise OSError(self.fault, os.strerror(self.fault))
                if name == "write":
                    return real(target, args[0][: len(args[0]) // 2])
            result = real(target, *args, **kwargs)
            if name == "open":
                self._names[result] = path
            return result

        return call


def log_of_a_run(kind: type[Journal], directory: Path) -> list[tuple[str, str]]:
    """System calls of a new run with ("ack", "") wherever the journal acknowledged something."""
    with SystemCalls() as calls:
        journal = kind.create(directory, PROBLEM)
        calls.log.append(("ack", ""))
        for i in range(3):
            journal.append("tell", {"id": i})
            calls.log.append(("ack", ""))
        journal.append_many([("tell", {"id": 3}), ("tell", {"id": 4})])
        calls.log.append(("ack", ""))
        journal.close()
    return calls.log


def broken_promises(log: list[tuple[str, str]], directory: Path) -> set[str]:
    """Which rules of durable acknowledgement the log of a new run breaks."""
    write, flush = ("write", "journal.jsonl"), ("fsync", "journal.jsonl")
    made, made_durable = ("mkdir", directory.name), ("fsync", directory.parent.name)
    created, created_durable = ("open", "journal.jsonl"), ("fsync", directory.name)
    broken = set()
    start = 0
    for end in [i for i, call in enumerate(log) if call[0] == "ack"]:
        since_last = [call for call in log[start:end] if call in (write, flush)]
        if write not in since_last:
            broken.add("acknowledged before it was written")
        elif since_last[-1] != flush:
            broken.add("acknowledged before it was flushed")
        if made_durable not in log[log.index(made) : end]:
            broken.add("parent not flushed after the directory was made")
        if created_durable not in log[log.index(created) : end]:
            broken.add("directory not flushed after the journal was made")
        start = end
    return broken


class JournalWithoutFlush(Journal):
    def _write_durably(self, lines: bytes) -> None:
        os.write(self._fd, lines)


class JournalThatFlushesFirst(Journal):
    def _write_durably(self, lines: bytes) -> None:
        os.fsync(self._fd)
        os.write(self._fd, lines)


class JournalThatAcknowledgesEarly(Journal):
    _late: tuple | None = None

    def append_many(self, entries) -> list[int]:
        late, self._late = self._late, list(entries)
        if late:
            super().append_many(late)
        first = self.last_seq + 1
        return list(range(first, first + len(self._late)))


def test_every_acknowledgement_follows_the_flush_of_its_record(ram):
    assert broken_promises(log_of_a_run(Journal, ram / "run"), ram / "run") == set()


@pytest.mark.parametrize(
    ("mutant", "rule"),
    [
        (JournalWithoutFlush, "acknowledged before it was flushed"),
        (JournalThatFlushesFirst, "acknowledged before it was flushed"),
        (JournalThatAcknowledgesEarly, "acknowledged before it was written"),
    ],
)
def test_mutants_that_break_the_order_are_caught(ram, mutant, rule):
    assert rule in broken_promises(log_of_a_run(mutant, ram / "run"), ram / "run")


def test_a_log_without_the_flush_of_a_directory_is_caught(ram):
    log = log_of_a_run(Journal, ram / "run")
    for name, rule in (
        ("run", "directory not flushed after the journal was made"),
        (ram.name, "parent not flushed after the directory was made"),
    ):
        without = [call for call in log if call != ("fsync", name)]
        assert broken_promises(without, ram / "run") == {rule}


def test_one_append_makes_one_write_and_one_flush_of_the_journal(ram):
    with Journal.create(ram / "run", PROBLEM) as journal:
        with SystemCalls() as calls:
            journal.append_many([("tell", {"id": i}) for i in range(5)])
        names = [name for name, _ in calls.log]
    assert names == ["lseek", "write", "fsync", "stat", "stat", "pwrite"]


def run_with_faults(directory: Path, calls: SystemCalls) -> tuple[list[int], bool]:
    """Ids acknowledged by a run with a torn start in the middle, and whether anything failed."""
    acked: list[int] = []

    def write(first: int) -> None:
        journal = Journal.attach(directory, PROBLEM)
        try:
            for i in range(first, first + 3):
                journal.append("tell", {"id": i})
                acked.append(i)
        except JournalError:
            with pytest.raises(JournalError, match="Open the journal again"):
                journal.append("tell", {"id": 99})
            raise
        finally:
            journal.close()

    with calls:
        _, error = outcome(lambda: write(0))
        if error is None:
            with (directory / "journal.jsonl").open("ab") as file:
                file.write(b'{"crc":"torn')
            _, error = outcome(lambda: write(10))
    assert error is None or "Cannot" in str(error)
    return acked, error is not None


@pytest.mark.parametrize(
    "fault", [errno.EIO, errno.ENOSPC, "short"], ids=["eio", "enospc", "short"]
)
def test_whichever_system_call_fails_nothing_acknowledged_is_lost(ram, fault):
    clean = SystemCalls()
    assert run_with_faults(ram / "clean", clean) == ([0, 1, 2, 10, 11, 12], False)
    failures = 0
    for number in range(len(clean.log)):
        directory = ram / str(number)
        calls = SystemCalls(number, fault)
        acked, failed = run_with_faults(directory, calls)
        failures += failed
        with Journal.attach(directory, PROBLEM) as journal:
            found = [r.data["id"] for r in journal.records() if r.kind == "tell"]
            assert journal.recovery.lost_records == 0
            journal.append("tell", {"id": 100})
        assert set(acked) <= set(found)
        assert 99 not in found
        assert len(set(found)) == len(found)
        name = calls.log[number][0]
        if fault == "short":
            assert failed == (name == "write" and calls.log[number][1] == "journal.jsonl")
        elif name in ("write", "pwrite", "fsync", "ftruncate", "mkdir", "flock"):
            assert failed, f"{name} failed unnoticed"
    assert failures >= (7 if fault == "short" else 40)
