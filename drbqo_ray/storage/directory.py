"""The directory of one run: its name, its private files, the lock of its one writer and the mark of
what that writer has acknowledged.

Directories made here have mode 0700 and files mode 0600 whatever the umask. Symbolic links are
not followed to any file of a run.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from drbqo_ray.errors import InvalidInput, JournalError, JournalLocked, short_repr

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_LOCK = "lock"
_LOCAL = {"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
ACKED = "acked"
_MARK = re.compile(rb"([0-9]{20})( [0-9a-f]{8})? ([0-9a-f]{8})\n")
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


@contextmanager
def as_journal_error(doing: str, cure: str) -> Iterator[None]:
    """Turn an OSError of the block into a JournalError that says what was tried and the cure."""
    try:
        yield
    except OSError as error:
        why = str(error.strerror or error).rstrip(".")
        raise JournalError(f"Cannot {doing}: {why}. {cure}") from error


def check_run_name(name: str) -> None:
    """Raise InvalidInput unless `name` is safe as a directory name on every system."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or _DEVICE.fullmatch(name):
        raise InvalidInput(
            "The name of a run must be 1 to 64 ASCII letters, digits, dots, underscores or hyphens,"
            " start with a letter or digit, and be no device name such as CON.",
            name,
            'Choose a name such as "svm-glass-1".',
        )


def run_directory(storage: str | Path, name: str) -> Path:
    """The directory of run `name` directly below `storage`; nothing is created.

    Raises:
        InvalidInput: the name breaks the rules, or is a symbolic link.
    """
    check_run_name(name)
    with as_journal_error(
        f"look into {short_repr(str(storage))}", "Choose another storage directory."
    ):
        if "\0" in str(storage):
            raise OSError(errno.EINVAL, "the path holds a NUL character")
        root = Path(os.path.realpath(os.path.expanduser(storage)))
        directory = root / name
        target = os.path.realpath(directory)
        if directory.is_symlink() or target != str(directory):
            raise InvalidInput(
                "The directory of a run must lie inside its storage.",
                f"{directory}, a link to {target}",
                "Remove the link or choose another name.",
            )
    return directory


def make_directory(directory: Path) -> None:
    """Make `directory` and its missing parents, mode 0700, each one durable."""
    if directory.is_dir():
        return
    if directory.parent != directory:
        make_directory(directory.parent)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        if not directory.is_dir():
            raise
        return
    os.chmod(directory, 0o700)
    parent = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def written_by_others(directory: Path, *names: str) -> str | None:
    """Who else may have written a directory or these files of it, as a phrase; None if nobody."""
    for path in (directory, *(directory / name for name in names)):
        with as_journal_error(f"look at {path}", "Check that you may read it."):
            found = os.lstat(path)
        if found.st_uid != os.geteuid():
            return f"{path}, which belongs to user {found.st_uid}"
        if stat.S_ISLNK(found.st_mode):
            return f"{path}, which is a link"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"{path}, which others may write (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def is_local(device: int) -> bool:
    """Whether a device holds a file system whose files all processes see alike at any moment; not
    so on a network, or where it cannot be told."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False
    mounts = [line.partition(" - ") for line in lines if line.split()[2:3] == [number]]
    return any(kind.split()[:1] and kind.split()[0] in _LOCAL for _, _, kind in mounts)


def open_private(name: str, flags: int, directory_fd: int) -> int:
    """Open a regular file of a run; with O_CREAT a missing one is made with mode 0600."""
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    missing = False
    try:
        fd = os.open(name, flags & ~os.O_CREAT, dir_fd=directory_fd)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        missing = True
        fd = os.open(name, flags, 0o600, dir_fd=directory_fd)
    try:
        if missing:
            os.fchmod(fd, 0o600)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, f"{name} is not a regular file")
    except BaseException:
        os.close(fd)
        raise
    return fd


class RunLock:
    """The right to write in a run directory, held by one process at a time.

    The kernel frees it when its owner ends, however it ends. Both the lock and the journal are
    locked: whoever removes the lock, or has another name of the journal, still finds it taken. Some
    network file systems grant a lock to two, so `is_held` is asked again before a record counts.
    """

    def __init__(self, directory_fd: int, where: Path) -> None:
        """Take the lock of the directory open as `directory_fd`; JournalLocked when it is held."""
        with as_journal_error(f"open the lock in {where}", "Check that you may write there."):
            self._fd = open_private(_LOCK, os.O_RDWR | os.O_CREAT, directory_fd)
        self._name = str(where / _LOCK)
        try:
            with as_journal_error(f"look at the lock in {where}", "Check the disk."):
                found = os.fstat(self._fd)
            self._identity = (found.st_dev, found.st_ino)
            self._acquire(where)
        except BaseException:
            os.close(self._fd)
            raise

    def _acquire(self, where: Path) -> None:
        self._flock(self._fd, where, self._owner)
        owner = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}) + "\n"
        with as_journal_error(f"write the lock in {where}", "Check the disk and its free space."):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, owner.encode("ascii"), 0)

    def cover(self, fd: int, where: Path) -> None:
        """Lock another file of the directory too; JournalLocked when another process has it."""
        self._flock(fd, where, lambda: "another process, by another name or without its lock")

    def _flock(self, fd: int, where: Path, owner: Callable[[], str]) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise JournalLocked(
                f"The run in {where} is open in {owner()}. Wait for it, stop it, or choose"
                " another name; the lock frees itself when that process and its children end."
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise JournalError(f"Cannot lock {where}: {error.strerror}.") from error
            raise JournalError(
                f"The file system of {where} has no file locks ({error.strerror}), so two"
                " processes could damage the run. Put the storage on a local disk, or have the"
                " file system mounted with locks."
            ) from error

    def is_held(self) -> bool:
        """Whether the lock at the path of the directory is the file that was locked."""
        try:
            found = os.stat(self._name, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def _owner(self) -> str:
        # The owner writes its name just after it gets the lock: allow it a moment.
        for _ in range(20):
            try:
                owner = json.loads(os.pread(self._fd, 1000, 0))
                return f"process {int(owner['pid'])} on host {short_repr(str(owner['host']), 80)}"
            except (ValueError, TypeError, KeyError, OSError, RecursionError):
                time.sleep(0.01)
        return "another process"

    def release(self) -> None:
        """Free the lock; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The last acknowledged record: its number and its checksum, None where that was not kept."""

    seq: int
    checksum: int | None = None


class AckMark:
    """The file `acked` of a run directory: the last acknowledged record.

    It is written after each flush of the journal and is itself not flushed, so it costs no fsync
    and can only lag behind the journal. When it is ahead, the disk has lost acknowledged records.
    When it names another record than the journal has, two processes have written the run.
    """

    def __init__(self, directory_fd: int) -> None:
        """Open or make the file in the directory open as `directory_fd`."""
        self._fd = open_private(ACKED, os.O_RDWR | os.O_CREAT, directory_fd)

    def write(self, seq: int, checksum: int) -> None:
        """Set the mark to record `seq` with this checksum."""
        text = b"%020d %08x" % (seq, checksum)
        os.pwrite(self._fd, b"%s %08x\n" % (text, crc32(text)), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def read_ack_mark(directory_fd: int) -> Acknowledged | None:
    """The mark, or None when it is absent, unfinished or damaged."""
    try:
        fd = open_private(ACKED, os.O_RDONLY, directory_fd)
    except FileNotFoundError:
        return None
    try:
        match = _MARK.fullmatch(os.pread(fd, 64, 0))
    finally:
        os.close(fd)
    if match is None or b"%08x" % crc32(match[1] + (match[2] or b"")) != match[3]:
        return None
    return Acknowledged(int(match[1]), int(match[2], 16) if match[2] else None)
