from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drbqo_ray.errors import JournalCorrupt, JournalError, JournalLocked
from drbqo_ray.storage.format import MAX_LINE, encode_record
from drbqo_ray.storage.journal import Journal, read_journal

ROOT = Path(__file__).parent.parent.parent
CRASHER = ROOT / "tests" / "support" / "journal_crasher.py"
PROBLEM = {"space": {"C": [0.01, 1000.0]}, "contexts": 10, "method": "drbqo", "seed": 0}


@pytest.fixture
def ram() -> Iterator[Path]:
    """A directory in memory, where there is one: these tests are about order, not about disks."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)


long_or_short = pytest.mark.parametrize(
    "long", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["short", "long"]
)


# Killed processes (F1, F19).


@contextmanager
def crasher(directory: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, str(CRASHER), str(directory), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def acknowledged_until_killed(directory: Path, rng: random.Random, *options: str) -> list[int]:
    """Ids that a writer acknowledged before it was killed at a random moment."""
    with crasher(directory, *options) as process:
        if rng.random() < 0.8:
            assert process.stdout.readline() == b"open\n", process.stderr.read()
            time.sleep(rng.uniform(0.0, 0.05))
        else:
            time.sleep(rng.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().split(b"\n")[:-1]
    return [int(line) for line in lines if line != b"open"]


def kill_often(directory: Path, kills: int, seed: int, *options: str) -> tuple[list, list]:
    rng = random.Random(seed)
    acked: list[int] = []
    for _ in range(kills):
        acked += acknowledged_until_killed(directory, rng, *options)
    Journal.attach(directory, PROBLEM).close()
    return acked, [r.data["id"] for r in read_journal(directory) if r.kind == "tell"]


@long_or_short
def test_a_writer_killed_at_random_points_loses_and_doubles_nothing(tmp_path, long):
    acked, found = kill_often(tmp_path / "run", 200 if long else 15, 1)
    assert len(acked) >= (500 if long else 30)
    assert len(set(acked)) == len(acked)
    assert len(set(found)) == len(found)
    assert set(acked) <= set(found)
    scores = {r.data["id"]: r.data["score"] for r in read_journal(tmp_path / "run") if r.seq}
    assert scores == {number: number / 7 for number in found}


def test_a_mutant_that_acknowledges_before_it_writes_is_caught_by_kills(tmp_path):
    acked, found = kill_often(tmp_path / "run", 10, 2, "--mutant", "early-ack")
    lost_or_doubled = set(acked) - set(found), len(acked) - len(set(acked))
    assert lost_or_doubled != (set(), 0)


def test_a_second_process_fails_at_once_and_changes_nothing(tmp_path):
    with crasher(tmp_path / "run", "--hold") as owner:
        assert owner.stdout.readline() == b"open\n"
        before = (tmp_path / "run" / "journal.jsonl").read_bytes()
        start = time.monotonic()
        with pytest.raises(JournalLocked, match=f"process {owner.pid} on host"):
            Journal.attach(tmp_path / "run", PROBLEM)
        assert time.monotonic() - start < 2
        assert (tmp_path / "run" / "journal.jsonl").read_bytes() == before
    Journal.open(tmp_path / "run").close()


# Damaged files (F4, F5, F6).


def written(directory: Path, count: int) -> list[bytes]:
    """The lines of a closed journal with a header and `count` records; no high-water mark."""
    with Journal.create(directory, PROBLEM) as journal:
        for i in range(count):
            journal.append("tell", {"id": i, "score": random.Random(i).gauss(0, 1)})
    (directory / "acked").unlink()
    return (directory / "journal.jsonl").read_bytes().splitlines(keepends=True)


def outcome(call: Callable) -> tuple[object, JournalError | None]:
    try:
        return call(), None
    except JournalError as error:
        return None, error


def reset(directory: Path, content: bytes) -> None:
    (directory / "journal.jsonl").write_bytes(content)
    for name in ("journal.jsonl.torn", "acked"):
        (directory / name).unlink(missing_ok=True)


def check_repair(directory: Path, kept: bytes, tail: bytes) -> None:
    """Open, append, open again: the prefix is exact, the tail kept aside, the append visible."""
    reset(directory, kept + tail)
    with Journal.open(directory) as journal:
        assert journal.path.read_bytes() == kept
        assert journal.recovery.torn_bytes == len(tail)
        seq = journal.append("note", {"after": "repair"})
    torn = directory / "journal.jsonl.torn"
    assert (torn.read_bytes() if torn.exists() else b"") == tail
    last = list(read_journal(directory))[-1]
    assert (last.seq, last.data) == (seq, {"after": "repair"})
    assert seq == kept.count(b"\n")


def test_a_journal_cut_at_every_byte_of_its_last_three_records_opens_with_the_prefix(ram):
    lines = written(ram / "run", 5)
    for whole in range(3, 6):
        for cut in range(len(lines[whole])):
            check_repair(ram / "run", b"".join(lines[:whole]), lines[whole][:cut])


def garbage(rng: random.Random, lines: list[bytes]) -> bytes:
    torn = lines[-1][: rng.randrange(len(lines[-1]))]
    choice = rng.randrange(5)
    if choice == 0:
        return torn + bytes(rng.randrange(1, 5000))
    if choice == 1:
        return torn + rng.randbytes(rng.randrange(1, 5000))
    if choice == 2:
        return torn[:-1] + lines[-1]
    if choice == 3:
        return torn + b"\n" * rng.randrange(1, 4) + rng.randbytes(rng.randrange(100))
    return lines[-2] + torn


@long_or_short
def test_a_garbage_tail_is_cut_and_the_next_append_is_seen(ram, long):
    lines = written(ram / "run", 5)
    rng = random.Random(3)
    for _ in range(5000 if long else 500):
        tail = garbage(rng, lines)
        kept = lines[:-1]
        if tail.startswith(lines[-1]):
            kept, tail = lines, tail[len(lines[-1]) :]
        check_repair(ram / "run", b"".join(kept), tail)


def test_no_flipped_bit_changes_a_value_silently(ram):
    lines = written(ram / "run", 5)
    content = b"".join(lines)
    path = ram / "run" / "journal.jsonl"
    original = list(read_journal(path))
    last_two = len(content) - len(lines[-1]) - len(lines[-2])
    raised = torn = 0
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found, error = outcome(lambda: list(read_journal(path)))
        if error is not None:
            raised += 1
            assert "byte" in str(error)
            assert bit // 8 < len(content) - len(lines[-1])
        else:
            torn += 1
            assert found == original[: len(found)]
            assert len(found) < len(original)
            assert bit // 8 >= last_two
    assert raised + torn == 8 * len(content)
    assert raised > 4 * torn > 0


def test_a_flipped_bit_in_an_acknowledged_last_record_is_reported_as_a_loss(ram):
    with Journal.create(ram / "run", PROBLEM) as journal:
        journal.append("tell", {"id": 0, "score": 1.25})
        path = journal.path
    content = path.read_bytes()
    path.write_bytes(content.replace(b"1.25", b"9.25"))
    with Journal.open(ram / "run") as journal:
        assert journal.recovery.lost_records == 1
        assert [r.kind for r in journal.records()] == ["header", "note"]


def test_damage_in_the_middle_is_refused_with_its_offset_and_the_file_left_alone(ram):
    lines = written(ram / "run", 5)
    path = ram / "run" / "journal.jsonl"
    for number in range(1, 5):
        offset = sum(map(len, lines[:number]))
        for bad in (b"", b"\n", bytes(50), lines[number][:-9] + b"\n", lines[number - 1]):
            content = b"".join([*lines[:number], bad, *lines[number + 1 :]])
            if not bad.endswith(b"\n") and bad:
                content = content.replace(bad, bad + b"\n")
            reset(ram / "run", content)
            for opening in (lambda: Journal.open(ram / "run"), lambda: [*read_journal(path)]):
                with pytest.raises(JournalCorrupt, match=f"byte {offset}"):
                    opening()
            assert path.read_bytes() == content
            assert not (ram / "run" / "journal.jsonl.torn").exists()


def test_an_endless_line_is_a_torn_tail_even_when_a_record_ends_it(ram):
    lines = written(ram / "run", 1)
    check_repair(ram / "run", b"".join(lines), b"x" * 5_000_000)
    follower = encode_record(2, "note", {})
    check_repair(ram / "run", b"".join(lines), b"x" * (MAX_LINE + 1) + follower)


# A full disk (F8) and a live reader.


def test_a_full_disk_gives_a_clear_error_and_the_run_resumes_after(tmp_path):
    with crasher(tmp_path / "run", "--size-limit", "2000") as process:
        out, error = process.communicate(timeout=20)
    acked = [int(line) for line in out.split() if line != b"open"]
    assert process.returncode == 3
    assert b"not acknowledged" in error
    assert b"free space" in error
    assert len(acked) > 5
    with Journal.open(tmp_path / "run") as journal:
        found = [r.data["id"] for r in journal.records() if r.kind == "tell"]
        assert found == acked
        assert 0 < journal.recovery.torn_bytes < 200
        journal.append("note", {})


def test_a_reader_beside_a_live_writer_always_sees_an_intact_prefix(tmp_path):
    with crasher(tmp_path / "run") as process:
        assert process.stdout.readline() == b"open\n"
        seen = 0
        for _ in range(30):
            while select.select([process.stdout], [], [], 0)[0]:
                os.read(process.stdout.fileno(), 65536)
            ids = [r.data["id"] for r in read_journal(tmp_path / "run") if r.kind == "tell"]
            assert ids == list(range(len(ids)))
            assert len(ids) >= seen
            seen = len(ids)
            time.sleep(0.005)
    assert seen > 0
