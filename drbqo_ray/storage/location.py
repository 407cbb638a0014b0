"""Where a run is kept, and opening it: every mistake about storage is found before Ray starts."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drbqo_ray.errors import InvalidInput, JournalError, JournalLocked
from drbqo_ray.problem import Problem
from drbqo_ray.storage.directory import run_directory
from drbqo_ray.storage.journal import JOURNAL, Journal
from drbqo_ray.storage.mirror import (
    ObjectStoreMirror,
    address_of,
    is_object_store,
    local_directory,
)
from drbqo_ray.storage.stored_run import ReplayedRun, replay

LOCK_PATIENCE_SECONDS = 1.0
_RETRY_SECONDS = 0.05


@dataclass(frozen=True)
class RunLocation:
    """Where one run is kept.

    Attributes:
        directory: the run directory on this machine.
        name: the name of the run.
        remote: address of the object store that the journal is copied to, None without one.
        temporary: whether the directory goes away with the result.
    """

    directory: Path
    name: str
    remote: str | None = None
    temporary: bool = False

    @property
    def address(self) -> str:
        """What the run is called wherever it is named: its directory, or its address in an object
        store without credentials. `status`, `resume` and `load` take it."""
        return str(self.directory) if self.remote is None else address_of(self.remote, self.name)

    @property
    def resume_command(self) -> str:
        """The command that goes on with the run."""
        return f"drbqo resume {shlex.quote(self.address)}"

    def mirror(self) -> ObjectStoreMirror | None:
        """What keeps the copy in an object store, None without one."""
        remote = self.remote
        return None if remote is None else ObjectStoreMirror(remote, self.name, self.directory)


def find_location(
    storage: str | Path | None, name: str | None, resume: bool = False
) -> RunLocation:
    """The place a user means; nothing is created but a directory for a run without storage.

    Args:
        storage: a directory, a URI of an object store, or None for a temporary directory.
        name: name of the run below `storage`; None when `storage` is the run's own directory.
        resume: whether an earlier run is to be continued.
    """
    if storage is None:
        if resume:
            raise InvalidInput(
                "A run can be resumed only from storage.", None, 'Pass storage="runs".'
            )
        return RunLocation(Path(tempfile.mkdtemp(prefix="drbqo-")), name or "run", temporary=True)
    if is_object_store(storage):
        name = name or "run"
        return RunLocation(local_directory(str(storage), name), name, remote=str(storage))
    if name is not None:
        return RunLocation(run_directory(storage, name), name)
    if not str(storage) or "\0" in str(storage):
        raise InvalidInput("Storage is a directory.", storage, 'Pass e.g. storage="runs/first".')
    directory = Path(os.path.realpath(os.path.expanduser(storage)))
    return RunLocation(directory, directory.name or "run")


def prepare(place: RunLocation, problem: Problem, resume: bool) -> ReplayedRun | None:
    """The run that is there, checked to be for this problem; None if there is none.

    Nothing is begun: a run that is refused later, by the cluster say, leaves no journal behind.

    Raises:
        JournalError: there is a run already and `resume` is False, or the storage is unusable.
        JournalLocked: another process works on the run.
        ProblemChanged: the run was started for another problem.
    """
    mirror = place.mirror()
    if mirror is not None:
        mirror.restore()
    if not _holds_a_run(place.directory):
        _check_writable(place.directory)
        return None
    _check_resumed(place, resume)
    with open_when_free(place.directory, problem, LOCK_PATIENCE_SECONDS) as journal:
        return replay(journal.records(), problem)


def upload_missing(place: RunLocation) -> str | None:
    """Upload what the copy of a run that stands still lacks; what is missing after that, if any."""
    mirror = place.mirror()
    return None if mirror is None else mirror.close()


def begin(
    place: RunLocation,
    problem: Problem,
    resume: bool,
    first: Sequence[tuple[str, dict[str, Any]]] = (),
) -> None:
    """Make the run's journal if there is none, for the actor to open; raises as `prepare` does.

    Args:
        place, problem, resume: as for `prepare`.
        first: records that the journal starts with; those that are missing are written as long as
            nobody has worked on the run.
    """
    _check_resumed(place, resume)
    patience, durable = LOCK_PATIENCE_SECONDS, not place.temporary
    with open_when_free(place.directory, problem, patience, durable) as journal:
        if first:
            there = list(journal.records())[1:]
            if not any(record.kind == "session" for record in there):
                journal.append_many(first[len(there) :])


def open_when_free(
    directory: Path, problem: Problem, patience: float, durable: bool = True
) -> Journal:
    """Open or start the journal; a lock whose owner is just ending is waited for."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return Journal.attach(directory, problem.header(), durable)
        except JournalLocked:
            if time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_SECONDS)


def _check_resumed(place: RunLocation, resume: bool) -> None:
    if not resume and _holds_a_run(place.directory):
        raise JournalError(
            f"{place.address} already holds a run. Pass resume=True to go on with it, or choose"
            " another name or storage for a new one."
        )


def _holds_a_run(directory: Path) -> bool:
    try:
        return (directory / JOURNAL).stat().st_size > 0
    except OSError:
        return False


def _check_writable(directory: Path) -> None:
    """Raise JournalError unless a run can be begun in `directory`; nothing is made."""
    there = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    wrong = "you may not write there" if there.is_dir() else "it is not a directory"
    raise JournalError(
        f"Cannot make {directory}: {there}: {wrong}. Choose storage you may write to."
    )
