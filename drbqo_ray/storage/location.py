"""Where a run is kept, and opening it: every mistake about storage is found before Ray starts."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from drbqo_ray.errors import InvalidInput, JournalError, JournalLocked
from drbqo_ray.problem import RunProblem
from drbqo_ray.storage.directory import run_directory
from drbqo_ray.storage.journal import JOURNAL, Journal
from drbqo_ray.storage.mirror import ObjectStoreMirror, is_object_store, local_directory
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


def prepare(place: RunLocation, problem: RunProblem, resume: bool) -> ReplayedRun:
    """The run that is there, checked to be for this problem, or an empty one.

    Nothing is begun: a run that is refused later, by the cluster say, leaves no journal behind.

    Raises:
        JournalError: there is a run already and `resume` is False, or the storage is unusable.
        JournalLocked: another process works on the run.
        ProblemChanged: the run was started for another problem.
    """
    if place.remote is not None:
        ObjectStoreMirror(place.remote, place.name, place.directory).restore()
    if not _holds_a_run(place.directory):
        _check_writable(place.directory)
        return replay([], problem)
    journal = open_when_free(place.directory, problem, LOCK_PATIENCE_SECONDS, resume)
    with journal:
        return replay(journal.records(), problem)


def begin(place: RunLocation, problem: RunProblem, resume: bool) -> None:
    """Make the run's journal if there is none, for the actor to open; raises as `prepare` does."""
    open_when_free(place.directory, problem, LOCK_PATIENCE_SECONDS, resume).close()


def open_when_free(
    directory: Path, problem: RunProblem, patience: float, resume: bool = True
) -> Journal:
    """Open or start the journal; a lock whose owner is just ending is waited for."""
    if not resume and _holds_a_run(directory):
        raise JournalError(
            f"{directory} already holds a run. Pass resume=True to go on with it, or choose"
            " another name or storage for a new one."
        )
    deadline = time.monotonic() + patience
    while True:
        try:
            return Journal.attach(directory, problem.header())
        except JournalLocked:
            if time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_SECONDS)


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
