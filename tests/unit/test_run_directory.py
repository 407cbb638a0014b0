from __future__ import annotations

import errno
import fcntl
import os
import stat

import pytest

from drbqo_ray.errors import InvalidInput, JournalError, JournalLocked
from drbqo_ray.storage import format as journal_format
from drbqo_ray.storage.journal import Journal, read_journal, run_directory

PROBLEM = {"contexts": 3, "seed": 0}


ATTACK_NAMES = [
    "",
    ".",
    "..",
    "../x",
    "../../etc/x",
    "/etc/x",
    "a/b",
    "a/../../x",
    "a\\b",
    "..\\x",
    "C:\\x",
    "x\0y",
    "\0",
    "x\n",
    "x\r\n",
    " x",
    "x ",
    "-rf",
    ".hidden",
    "_x",
    "~",
    "~root",
    "$HOME",
    "x;rm",
    "x|y",
    "x*",
    "a" * 65,
    "a" * 300,
    "CON",
    "nul.txt",
    "com1",
    "\u2024\u2024/x",
    "\uff0e\uff0e",
    "é",
    "x\u202ey",
    "%2e%2e%2fx",
    "link-outside",
    "link-dangling",
    "link-loop",
    None,
    7,
    b"x",
]


@pytest.mark.parametrize("name", ATTACK_NAMES, ids=ascii)
def test_no_name_reaches_outside_the_storage(tmp_path, name):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link-outside").symlink_to(outside)
    (root / "link-dangling").symlink_to(outside / "absent")
    (root / "link-loop").symlink_to(root / "link-loop")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInput):
        Journal.create(run_directory(root, name), PROBLEM).close()
    assert sorted(tmp_path.rglob("*")) == before


def test_good_names_give_a_directory_inside_the_storage(tmp_path):
    assert len(ATTACK_NAMES) >= 30
    (tmp_path / "real").mkdir()
    (tmp_path / "storage").symlink_to(tmp_path / "real")
    for name in ("a", "A.b-c_d", "0", "a" * 64, "console", "svm-glass-1"):
        assert run_directory(tmp_path / "storage", name) == tmp_path / "real" / name


def test_files_of_a_run_that_are_links_or_pipes_are_not_opened(tmp_path):
    for name in ("journal.jsonl", "lock", "acked", "journal.jsonl.torn"):
        for plant in (lambda p: p.symlink_to(tmp_path / "victim"), os.mkfifo):
            run = tmp_path / f"{name}-{plant.__name__.strip('<>')}"
            (tmp_path / "victim").write_bytes(b"precious")
            run.mkdir()
            (run / "journal.jsonl").write_bytes(journal_format.encode_header(PROBLEM) + b"torn")
            (run / name).unlink(missing_ok=True)
            plant(run / name)
            reason = "regular file|No such device" if plant is os.mkfifo else "symbolic links"
            with pytest.raises(JournalError, match=reason):
                Journal.attach(run, PROBLEM)
            assert (tmp_path / "victim").read_bytes() == b"precious"
    with pytest.raises(JournalError, match="regular file"):
        list(read_journal(tmp_path / "journal.jsonl-mkfifo"))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_directories_are_0700_and_files_0600_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        run = run_directory(tmp_path / "a" / "b", "run")
        with Journal.create(run, PROBLEM) as created:
            created.append("note", {})
        with (run / "journal.jsonl").open("ab") as file:
            file.write(b"torn")
        Journal.open(run).close()
    finally:
        os.umask(before)
    for directory in (tmp_path / "a", tmp_path / "a" / "b", run):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in run.iterdir()}
    assert modes == dict.fromkeys(["journal.jsonl", "journal.jsonl.torn", "acked", "lock"], 0o600)


def test_storage_that_cannot_be_written_is_named_with_a_cure(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    with pytest.raises(JournalError, match=r"Cannot make .*Choose storage you may write to"):
        Journal.create(run_directory(tmp_path / "file", "run"), PROBLEM)
    with pytest.raises(JournalError, match="NUL"):
        run_directory("a\0b", "run")

    def refuse(*_args, **_kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(JournalError, match="Permission denied"):
        Journal.create(tmp_path / "new", PROBLEM)


def test_a_second_opener_in_the_same_process_is_refused_by_name_of_the_owner(tmp_path):
    with Journal.create(tmp_path / "run", PROBLEM):
        with pytest.raises(JournalLocked, match=f"process {os.getpid()} on host"):
            Journal.open(tmp_path / "run")
        assert len(list(read_journal(tmp_path / "run"))) == 1
    Journal.open(tmp_path / "run").close()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_refused_with_a_cure(tmp_path, monkeypatch, code):
    def refuse(*_args):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(JournalError, match=r"no file locks.*local disk"):
        Journal.create(tmp_path / "run", PROBLEM)


def test_the_owner_is_named_even_when_the_lock_file_is_unreadable(tmp_path):
    with Journal.create(tmp_path / "run", PROBLEM):
        (tmp_path / "run" / "lock").write_bytes(b"\xff[[[")
        with pytest.raises(JournalLocked, match="another process"):
            Journal.open(tmp_path / "run")
