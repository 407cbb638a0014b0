"""The journal of a run: an append-only record on disk that survives the death of its writer.

`Journal.append` returns only after the record has been flushed to the disk with fsync, so what was
acknowledged can be replayed after a crash. A run directory holds

    journal.jsonl        the records, one line each (see format)
    journal.jsonl.torn   bytes cut from the end of the journal when a crash left half a record
    acked                the last acknowledged record (see `AckMark`), to tell such a torn record
                         from an acknowledged one that the disk has lost
    lock                 pid and host of the one writer

One process writes a run at a time, by the lock. Where that fails (a lock that was removed, or that
a network file system has granted twice; a journal with two names), nothing is acknowledged unless
the journal still is the file of this path and ends with the very bytes that this process wrote: of
two writers at most one can see that.

Limits. The tests kill processes, cut and damage files and fail system calls; they do not cut the
power of a real disk, and a disk that lies about fsync can lose records. After a failed fsync the
kernel may drop the pages it could not write, so the handle refuses all further work and the
journal has to be opened again. The journal of a run without storage, which goes away with the run,
is not flushed: it survives the death of its writer, but not that of the machine.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import secrets
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from drbqo_ray.errors import JournalCorrupt, JournalError, ProblemChanged, short_repr
from drbqo_ray.storage.directory import (
    ACKED,
    AckMark,
    Acknowledged,
    RunLock,
    as_journal_error,
    is_local,
    make_directory,
    open_private,
    read_ack_mark,
    run_directory,
)
from drbqo_ray.storage.format import (
    JournalRecord,
    ScanEnd,
    check_kind,
    checksum_of,
    encode_header,
    encode_record,
    scan,
)
from drbqo_ray.types import check_plain

__all__ = ["Journal", "JournalRecord", "Recovery", "read_journal", "run_directory"]

JOURNAL = "journal.jsonl"
TORN = "journal.jsonl.torn"

_CHUNK = 1 << 20
_DISK_CURE = "Check the disk and its free space, then open the run again."
_logger = logging.getLogger(__name__)
_ABSENT = object()
_SHOWN_CHANGES = 20


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening a journal had to put right.

    Attributes:
        torn_bytes: bytes of an unfinished write that were moved to journal.jsonl.torn.
        lost_records: acknowledged records that are no longer in the journal.
        rival_records: whole records of a second writer among those bytes.
        unmarked: whether nothing says which record was acknowledged last, so that a loss at the end
            could not be seen.
    """

    torn_bytes: int = 0
    lost_records: int = 0
    rival_records: int = 0
    unmarked: bool = False


class Journal:
    """The journal of one run, open for writing by this process alone; safe to use from threads.

    Get one from `create`, `open` or `attach`, and close it, or use it in a `with` block.

    Attributes:
        directory: the run directory.
        recovery: what opening had to put right.
    """

    def __init__(self, directory: str | Path, durable: bool = True) -> None:
        """Lock `directory` and open the files; `create`, `open` and `attach` do the rest."""
        self._durable = durable
        self.directory = Path(os.path.abspath(directory))
        self.recovery = Recovery()
        self._problem: dict[str, Any] = {}
        self._scanned: list[JournalRecord] | None = None
        self._end = ScanEnd()
        self._read = 0
        self._fault: str | None = "is not ready"
        self._guard = threading.Lock()
        self._pid = os.getpid()
        with ExitStack() as files:
            with as_journal_error(f"open {self.directory}", "Check that you may write there."):
                self._directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            files.callback(os.close, self._directory_fd)
            self._lock = RunLock(self._directory_fd, self.directory)
            files.callback(self._lock.release)
            with as_journal_error(f"open {self.path}", "Check that you may write there."):
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
                self._fd = open_private(JOURNAL, flags, self._directory_fd)
            files.callback(os.close, self._fd)
            self._lock.cover(self._fd, self.directory)
            with as_journal_error(f"look at {self.path}", "Check the disk."):
                found = os.fstat(self._fd)
            self._name, self._identity = str(self.path), (found.st_dev, found.st_ino)
            self._local = is_local(found.st_dev)
            self._files = files.pop_all()

    @classmethod
    def create(cls, directory: str | Path, header: dict[str, Any]) -> Journal:
        """Start the journal of a new run; `header` describes its problem in plain data."""
        return cls._prepare(directory, header, new=True)

    @classmethod
    def open(cls, directory: str | Path, expected_header: dict[str, Any] | None = None) -> Journal:
        """Open the journal of an existing run, cutting off a torn tail.

        Raises:
            ProblemChanged: `expected_header` is given and differs from the header of the run.
            JournalCorrupt: a record is damaged and intact ones follow; nothing was changed.
            JournalLocked: another process has the run open.
        """
        if not os.path.lexists(Path(directory) / JOURNAL):
            raise JournalError(
                f"{directory} holds no run: there is no {JOURNAL} in it. Check the path, or start"
                " a new run there."
            )
        return cls._prepare(directory, expected_header, new=False)

    @classmethod
    def attach(cls, directory: str | Path, header: dict[str, Any], durable: bool = True) -> Journal:
        """Open the run in `directory` if there is one for this problem, else start it.

        Args:
            directory: the run directory.
            header: its problem.
            durable: whether what is acknowledged has to survive the machine.
        """
        return cls._prepare(directory, header, new=None, durable=durable)

    @classmethod
    def _prepare(
        cls,
        directory: str | Path,
        problem: dict[str, Any] | None,
        new: bool | None,
        durable: bool = True,
    ) -> Journal:
        first_line = b"" if problem is None else encode_header(problem, secrets.token_hex(8))
        if new is not False:
            with as_journal_error(f"make {directory}", "Choose storage you may write to."):
                make_directory(Path(directory))
        journal = cls(directory, durable)
        try:
            end = journal._scan()
            if end.next_seq == 0 and new is False:
                raise JournalCorrupt(f"{journal.path} has no intact header at byte 0.")
            if end.next_seq > 0 and new:
                raise JournalError(
                    f"{journal.directory} already holds a run. Resume it, or choose another name."
                )
            if end.next_seq > 0 and problem is not None:
                journal.check_problem(problem)
            with as_journal_error(f"prepare {journal.path}", _DISK_CURE):
                if end.next_seq == 0:
                    journal._begin(first_line)
                else:
                    journal._recover(end)
        except BaseException:
            journal.close()
            raise
        return journal

    @property
    def path(self) -> Path:
        """The file that holds the records."""
        return self.directory / JOURNAL

    @property
    def header(self) -> dict[str, Any]:
        """A copy of the problem the run was started for."""
        return deepcopy(self._problem)

    @property
    def last_seq(self) -> int:
        """Sequence number of the last acknowledged record."""
        return self._end.next_seq - 1

    def check_problem(self, expected: dict[str, Any]) -> None:
        """Raise ProblemChanged, naming each difference, unless the run is for `expected`."""
        check_plain(expected)
        refuse_changes(self._problem, expected, str(self.directory))

    def append(self, kind: str, payload: dict[str, Any]) -> int:
        """Write one record, flush it to the disk, and return its sequence number.

        Raises:
            InvalidInput: the record cannot be written; the journal is unchanged and usable.
            JournalError: the disk failed, or another process writes the run; the record may or may
                not be there, and this handle is of no more use. Open the journal again to find out.
        """
        return self.append_many([(kind, payload)])[0]

    def append_many(self, entries: Iterable[tuple[str, dict[str, Any]]]) -> list[int]:
        """Like `append` for several (kind, payload) pairs with one flush, in order."""
        entries = list(entries)
        for kind, _ in entries:
            check_kind(kind)
        with self._guard:
            self._check_usable()
            numbers = list(range(self._end.next_seq, self._end.next_seq + len(entries)))
            lines: list[bytes] = []
            after = self._end.after
            for seq, (kind, payload) in zip(numbers, entries, strict=True):
                lines.append(encode_record(seq, kind, payload, self._end.key, after))
                after = None if after is None else checksum_of(lines[-1])
            if lines:
                self._commit(lines)
        return numbers

    def records(self) -> Iterator[JournalRecord]:
        """Every acknowledged record up to now, header first.

        Opening reads and checks all of them; the first call hands those over, unless records
        were appended since. Later calls read the disk again.
        """
        with self._guard:
            self._check_usable()
            scanned, self._scanned = self._scanned, None
            if scanned is not None:
                return iter(scanned)
            return itertools.islice(read_journal(self.path), self._end.next_seq)

    def close(self) -> None:
        """Release the files and the lock; a second call does nothing."""
        with self._guard:
            self._fault = self._fault or "is closed"
            self._scanned = None
            # All that was acknowledged is flushed, so a failing close can lose nothing.
            with suppress(OSError):
                self._files.close()

    def __enter__(self) -> Journal:
        """Return the journal itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the journal."""
        self.close()

    def _check_usable(self) -> None:
        if self._fault is not None:
            raise JournalError(
                f"This handle of {self.path} {self._fault}. Open the journal again to go on."
            )
        if os.getpid() != self._pid:
            raise JournalError(
                f"{self.path} was opened by process {self._pid}; a forked child may not write to"
                " it. Send the record to that process."
            )

    def _commit(self, lines: list[bytes]) -> None:
        # Set before the write, so that even an interrupt cannot leave a usable handle behind
        # whose next sequence number is already on the disk.
        self._fault = "was interrupted in the middle of a write"
        self._scanned = None
        written = b"".join(lines)
        try:
            self._check_alone()
            self._write_durably(written)
            self._check_ours(written)
            for line in lines:
                self._end.go_on(line)
            self._acked.write(self.last_seq, self._end.checksums[-1])
        except OSError as error:
            self._fault = f"failed to write ({error.strerror})"
            raise JournalError(
                f"Cannot write to {self.path}: {error.strerror}. The record is not acknowledged."
                f" {_DISK_CURE}"
            ) from error
        self._fault = None

    def _check_alone(self) -> None:
        """Raise JournalError if somebody else has written since; nothing is written then."""
        if os.lseek(self._fd, 0, os.SEEK_END) != self._end.offset:
            self._refuse("another process has written to it")

    def _check_ours(self, written: bytes) -> None:
        """Raise JournalError unless the run is ours and its journal ends with what was written."""
        size = self._end.offset + len(written)
        try:
            found = self._looked_at(written)
        except FileNotFoundError:
            self._refuse("it was removed, or its directory was moved")
        if (found.st_dev, found.st_ino) != self._identity:
            self._refuse("another file has taken its place")
        if found.st_size != size:
            self._refuse("another process has written to it at the same time")
        if not self._lock.is_held():
            self._refuse("its lock was removed or replaced, so another process may write to it")

    def _looked_at(self, written: bytes) -> os.stat_result:
        """What the file system says of the journal's path.

        A file server tells its true size only to who opens it anew, and may have let two clients
        write at the same place.
        """
        if self._local:
            return os.stat(self._name, follow_symlinks=False)
        with open(self._name, "rb", buffering=0, opener=_no_link) as file:
            if os.pread(file.fileno(), len(written), self._end.offset) != written:
                self._refuse("another process has written over it")
            return os.fstat(file.fileno())

    def _refuse(self, why: str) -> NoReturn:
        self._fault = f"may write no more: {why}"
        raise JournalError(
            f"{self.path} is no longer ours alone: {why}. The record is not acknowledged. See that"
            " one process at a time works on the run, then open it again."
        )

    def _write_durably(self, lines: bytes) -> None:
        written = os.write(self._fd, lines)
        if written != len(lines):
            raise OSError(errno.ENOSPC, f"only {written} of {len(lines)} bytes could be written")
        self._flush(self._fd)

    def _flush(self, fd: int) -> None:
        """Have the disk hold what was written to a file or directory."""
        if self._durable:
            os.fsync(fd)

    def _scan(self) -> ScanEnd:
        end = ScanEnd()
        with as_journal_error(f"read {self.path}", "Check the disk."):
            file = os.fdopen(open_private(JOURNAL, os.O_RDONLY, self._directory_fd), "rb", _CHUNK)
            with file:
                self._scanned = list(scan(file, end))
                self._read = file.tell()
        if self._scanned:
            self._problem = deepcopy(self._scanned[0].data["problem"])
        self._end = end
        return end

    def _begin(self, first_line: bytes) -> None:
        """Write the header into a journal that has no intact record."""
        if read_ack_mark(self._directory_fd) is not None:
            raise JournalCorrupt(
                f"{self.path} has no intact header at byte 0, although one was acknowledged."
                " Restore the file from a copy, or choose another name for a new run."
            )
        if not first_line.startswith(os.pread(self._fd, 8, 0).rstrip(b"\0")):
            raise JournalError(f"{self.path} is not a journal. Choose another directory.")
        self._quarantine(0)
        self._open_acked()
        self._commit([first_line])
        self._scan()

    def _recover(self, end: ScanEnd) -> None:
        """Cut a torn tail, make the rest durable, and say what was acknowledged but is gone."""
        acked = read_ack_mark(self._directory_fd)
        torn = self._quarantine(end.offset)
        self._flush(self._fd)
        self._open_acked()
        self._fault = None
        first, lost = _lost(end, acked)
        self.recovery = Recovery(torn, lost, len(end.rivals), acked is None and self.last_seq > 0)
        self._say_what_was_recovered(end, acked)
        if lost:
            last = acked.seq if acked is not None else first
            self.append("note", {"lost_records": lost, "first": first, "last": last})
        self._acked.write(self.last_seq, end.checksums[-1])

    def _say_what_was_recovered(self, end: ScanEnd, acked: Acknowledged | None) -> None:
        found = self.recovery
        if found.torn_bytes:
            _logger.warning(
                "%s ended in an unfinished write (%s): %d bytes at byte %d were moved to %s.",
                self.path,
                end.fault,
                found.torn_bytes,
                end.offset,
                TORN,
            )
        if found.rival_records:
            _logger.error(
                "%s had two writers: %d whole records of the second one, from record %d on, were"
                " moved to %s with these bytes. See that one process at a time works on the run.",
                self.path,
                found.rival_records,
                end.fork,
                TORN,
            )
        if found.lost_records and acked is not None:
            _logger.error(
                "%s has LOST %d acknowledged records: record %d was acknowledged, the last intact"
                " one is %d. The disk is faulty, the file was changed by hand, or it had two"
                " writers. The run goes on from what is left; see %s for bytes that were cut.",
                self.path,
                found.lost_records,
                acked.seq,
                end.next_seq - 1,
                TORN,
            )
        if found.unmarked:
            _logger.warning(
                "%s says nothing about which record of %s was acknowledged last: the file is"
                " missing or damaged. Whether records are lost at the end cannot be told; %d are"
                " intact. That is as expected if the journal alone was copied.",
                self.directory / ACKED,
                JOURNAL,
                end.next_seq,
            )

    def _open_acked(self) -> None:
        self._acked = AckMark(self._directory_fd)
        self._files.callback(self._acked.close)
        self._flush(self._directory_fd)

    def _quarantine(self, offset: int) -> int:
        """Move the bytes from `offset` on to the .torn file; how many there were."""
        size = os.fstat(self._fd).st_size
        if size != self._read:
            self._refuse("another process has written to it while it was opened")
        if size <= offset:
            return 0
        torn_fd = open_private(TORN, os.O_WRONLY | os.O_APPEND | os.O_CREAT, self._directory_fd)
        try:
            position = offset
            while position < size:
                piece = os.pread(self._fd, min(_CHUNK, size - position), position)
                if not piece:
                    raise OSError(errno.EIO, f"byte {position} cannot be read")
                position += os.write(torn_fd, piece)
            os.fsync(torn_fd)
        finally:
            os.close(torn_fd)
        os.fsync(self._directory_fd)
        os.ftruncate(self._fd, offset)
        os.fsync(self._fd)
        return size - offset


def _no_link(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _lost(end: ScanEnd, acked: Acknowledged | None) -> tuple[int, int]:
    """Number of the first acknowledged record that a journal lacks, and how many it lacks."""
    if acked is None:
        return end.next_seq, 0
    if acked.seq < end.next_seq and acked.checksum in (None, end.checksums[acked.seq]):
        return end.next_seq, 0
    if acked.checksum in end.rivals:
        return end.fork, acked.seq - end.fork + 1
    first = min(acked.seq, end.next_seq)
    return first, acked.seq - first + 1


def read_journal(path: str | Path) -> Iterator[JournalRecord]:
    """Yield the intact records of a journal, header first; nothing is locked or changed.

    Works on the journal of a live run: an unfinished last record is left out.

    Args:
        path: the journal file, or the run directory that holds it.

    Raises:
        JournalCorrupt: a damaged record is followed by an intact one, or the header is damaged.
        JournalError: the file cannot be read, is no journal, or has a later format.
    """
    path = Path(path)
    end = ScanEnd()
    with as_journal_error(f"read {path}", "Check the path and that you may read it."):
        if path.is_dir():
            path = path / JOURNAL
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", _CHUNK) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            yield from scan(file, end)
    if end.next_seq == 0:
        raise JournalCorrupt(f"{path} has no intact header at byte 0.")


def problem_changes(old: object, new: object) -> list[str]:
    """One line for each place where two problems differ, e.g. "space.C.high: 1.0 -> 10.0".

    Numbers compare by value, so a radius of 1 and one of 1.0 are the same; True and 1 are not.
    Folds that were only counted may get names.
    """
    if isinstance(old, dict) and isinstance(new, dict) and _named_now(old, new):
        new = {**new, "contexts": old["contexts"]}
    return _changes(old, new, "")


def _named_now(old: dict[str, Any], new: dict[str, Any]) -> bool:
    count, names = old.get("contexts"), new.get("contexts")
    named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return isinstance(count, int) and named and len(cast(list[str], names)) == count


def _changes(old: object, new: object, place: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        pairs = [
            (f"{place}.{k}" if place else k, old.get(k, _ABSENT), new.get(k, _ABSENT)) for k in keys
        ]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(f"{place}[{i}]", a, b) for i, (a, b) in enumerate(zip(old, new, strict=True))]
    else:
        return [] if _same(old, new) else [f"{place}: {_text(old)} -> {_text(new)}"]
    return [line for name, a, b in pairs for line in _changes(a, b, name)]


def _same(old: object, new: object) -> bool:
    return isinstance(old, bool) == isinstance(new, bool) and old == new


def _text(value: object) -> str:
    return "absent" if value is _ABSENT else short_repr(value)


def refuse_changes(old: dict[str, Any], new: dict[str, Any], where: str) -> None:
    """Raise ProblemChanged, naming every difference, unless the two problems are equal."""
    changes = problem_changes(old, new)
    if not changes:
        return
    lines = changes[:_SHOWN_CHANGES]
    if len(changes) > len(lines):
        lines.append(f"and {len(changes) - len(lines)} more")
    listing = "\n".join(f"  {line}" for line in lines)
    raise ProblemChanged(
        f"The run in {where} was started for another problem (old -> new):\n{listing}\n"
        "Put the old values back to resume it, or start the new problem under another name or"
        " directory."
    )
