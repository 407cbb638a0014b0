from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from drbqo_ray.errors import InvalidInput, JournalError, JournalLocked
from drbqo_ray.storage import format as journal_format
from drbqo_ray.storage.journal import Journal, read_journal
from drbqo_ray.storage.mirror import ObjectStoreMirror, is_object_store, local_directory

PROBLEM = {"contexts": 3, "seed": 0}
HEADER = journal_format.encode_header(PROBLEM)


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return f"file://{tmp_path}/store"


def write_run(directory: Path, content: bytes) -> Path:
    directory.mkdir()
    (directory / "journal.jsonl").write_bytes(content)
    return directory


def mirrored(store: str, directory: Path, interval: float = 60.0) -> ObjectStoreMirror:
    return ObjectStoreMirror(store, "run", directory, interval)


def test_a_run_moves_to_another_machine_through_the_object_store(tmp_path, store):
    first = mirrored(store, tmp_path / "one")
    assert first.restore() == 0
    with Journal.attach(first.directory, PROBLEM) as run:
        run.append("tell", {"id": 0})
        assert first.upload()
        assert not first.upload()
        run.append("tell", {"id": 1})
    first.close()
    second = mirrored(store, tmp_path / "two")
    assert second.restore() == (tmp_path / "one" / "journal.jsonl").stat().st_size
    with Journal.attach(second.directory, PROBLEM) as run:
        assert [r.data.get("id") for r in run.records()] == [None, 0, 1]
        run.append("tell", {"id": 2})
    second.close()
    assert mirrored(store, tmp_path / "one").restore() > 0
    assert len(list(read_journal(tmp_path / "one"))) == 4
    assert stat.S_IMODE((tmp_path / "one" / "journal.jsonl").stat().st_mode) == 0o600


def test_the_mirror_uploads_in_the_background_and_outlives_a_failing_store(tmp_path, store):
    mirror_ = mirrored(store, tmp_path / "one", interval=0.02)
    copy = tmp_path / "store" / "run" / "journal.jsonl"
    put, fail = mirror_._put, threading.Event()

    def unreliable(content: bytes) -> None:
        if fail.is_set():
            raise OSError("the network is down")
        put(content)

    mirror_._put = unreliable
    waiter = threading.Event()

    def wait_for(condition) -> None:
        for _ in range(500):
            if condition():
                return
            waiter.wait(0.01)
        raise AssertionError("waited 5 s in vain")

    with Journal.attach(mirror_.directory, PROBLEM) as run:
        mirror_.start()
        wait_for(copy.exists)
        fail.set()
        run.append("tell", {"id": 0})
        wait_for(lambda: mirror_.trouble is not None)
        assert "network is down" in mirror_.trouble
        with pytest.raises(JournalError, match="local journal is intact"):
            mirror_.upload()
        fail.clear()
        wait_for(lambda: len(list(read_journal(copy))) == 2)
        run.append("tell", {"id": 1})
    assert mirror_.close() is None
    assert len(list(read_journal(copy))) == 3


def test_the_mirror_never_uploads_half_a_record(tmp_path, store):
    mirror_ = mirrored(store, tmp_path / "one")
    run = write_run(tmp_path / "one", HEADER + b'{"crc":"0')
    assert mirror_.upload()
    assert (tmp_path / "store" / "run" / "journal.jsonl").read_bytes() == HEADER
    assert (run / "journal.jsonl").read_bytes().endswith(b'{"crc":"0')


def test_restoring_over_a_torn_local_journal_keeps_the_torn_bytes(tmp_path, store):
    line = journal_format.encode_record(1, "note", {})
    mirror_ = mirrored(store, tmp_path / "one")
    write_run(tmp_path / "one", HEADER + line[:9])
    (tmp_path / "store" / "run").mkdir()
    (tmp_path / "store" / "run" / "journal.jsonl").write_bytes(HEADER + line)
    assert mirror_.restore() == len(line)
    assert (tmp_path / "one" / "journal.jsonl").read_bytes() == HEADER + line
    assert (tmp_path / "one" / "journal.jsonl.torn").read_bytes() == line[:9]


def test_two_writers_of_one_copy_are_noticed(tmp_path, store):
    one, two = mirrored(store, tmp_path / "one"), mirrored(store, tmp_path / "two")
    for number, each in enumerate((one, two)):
        each.restore()
        with Journal.attach(each.directory, PROBLEM) as run:
            run.append("tell", {"id": number})
    assert one.upload()
    with pytest.raises(JournalError, match="another writer"):
        two.upload()
    with pytest.raises(JournalError, match="differ"):
        mirrored(store, tmp_path / "two").restore()
    assert [r.data.get("id") for r in read_journal(tmp_path / "store" / "run")] == [None, 0]


def test_a_mirror_does_not_touch_a_local_run_that_is_open(tmp_path, store):
    with Journal.create(tmp_path / "one", PROBLEM), pytest.raises(JournalLocked):
        mirrored(store, tmp_path / "one").restore()


def test_bad_mirror_arguments_are_refused_and_secrets_are_not_shown(tmp_path):
    assert is_object_store("s3://bucket/runs")
    assert not is_object_store("runs/here")
    assert not is_object_store(tmp_path)
    for storage, name, interval in (
        ("runs", "run", 1),
        ("s3://b/r", "../x", 1),
        (f"file://{tmp_path}", "run", 0),
    ):
        with pytest.raises(InvalidInput):
            ObjectStoreMirror(storage, name, tmp_path, interval)
    with pytest.raises(JournalError) as caught:
        ObjectStoreMirror("nosuch://me:hunter2@bucket/runs?token=hunter3", "run", tmp_path).exists()
    assert "hunter" not in str(caught.value)
    assert "nosuch://bucket/runs" in str(caught.value)
    assert local_directory("s3://b/r/", "run") == local_directory("s3://b/r", "run")
    assert local_directory("s3://b/r", "run") != local_directory("s3://b/q", "run")
