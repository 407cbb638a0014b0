"""What runs there are below a folder, one small record each, however they are doing.

Nothing is locked or changed but for the judgment that is kept of a run that stands still (see
`checkpoint`). A run that cannot be read is listed with the reason; none is left out.

| state       | meaning                                                                      |
|-------------|------------------------------------------------------------------------------|
| running     | a process on this machine holds its lock                                     |
| finished    | its budget was used up, or its stop rule was met                             |
| interrupted | it was stopped by hand                                                       |
| failed      | too many evaluations failed                                                  |
| cut off     | it has no last record, and nobody on this machine works on it                |
| open        | the same, but another machine began it, so nobody here can tell              |
| unreadable  | its journal is damaged, of a later format, or not that of a run; see `note`  |
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from drbqo_ray.errors import DrbqoError, InvalidInput, JournalError, JournalLocked
from drbqo_ray.problem import Problem
from drbqo_ray.records import Config
from drbqo_ray.storage.checkpoint import judged_run, read_judgment
from drbqo_ray.storage.journal import JOURNAL, read_journal
from drbqo_ray.storage.location import RunLocation, find_location
from drbqo_ray.storage.mirror import is_object_store, own_address, stored_names

DEEPEST = 4
STOPPED = {reason: reason for reason in ("finished", "interrupted", "failed")}
CELL = frozenset({"trace", "radius", "horizon", "problem"})
"""What the header of an experiment's cell holds."""


@dataclass(frozen=True)
class RunSummary:
    """One run, as its journal tells it without the model.

    Attributes:
        name: its path below the folder that was listed.
        path: its directory.
        kind: "run", "cell" of an experiment, or "unknown".
        state: see the module.
        note: why it cannot be read or judged, None when it can.
        objective, method, mode, seed: what it is about, as far as its header says.
        parameters: names of the parameters.
        n_folds: number of folds, None when unknown.
        n_evaluations: its budget, None when unknown.
        n_done, n_failed, n_pending: outcomes, failed ones among them, evaluations handed out
            without one.
        seconds: how long it was worked on.
        modified: when its journal was last written, seconds since 1970.
        stop_reason: what its stop rule said, None when it did not stop the run.
        best: robust value of its recommendation; None when there is none, or none was asked for.
        best_config: the recommended config, None without one.
        judged: whether `best` was looked for.
    """

    name: str
    path: Path
    kind: str = "unknown"
    state: str = "unreadable"
    note: str | None = None
    objective: str | None = None
    method: str | None = None
    mode: str | None = None
    seed: int | None = None
    parameters: tuple[str, ...] = ()
    n_folds: int | None = None
    n_evaluations: int | None = None
    n_done: int = 0
    n_failed: int = 0
    n_pending: int = 0
    seconds: float = 0.0
    modified: float = 0.0
    stop_reason: str | None = None
    best: float | None = None
    best_config: Config | None = field(default=None, hash=False)
    judged: bool = False

    @property
    def age_seconds(self) -> float:
        """Seconds since its journal was last written."""
        return max(time.time() - self.modified, 0.0)

    @property
    def problem(self) -> str:
        """What it is about, on one line."""
        folds = "" if self.n_folds is None else f", {self.n_folds} folds"
        names = ", ".join(self.parameters[:4]) + (", ..." if len(self.parameters) > 4 else "")
        return f"{self.objective or 'unknown'} ({names}){folds}, {self.method or 'unknown'}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain |= {"path": str(self.path), "parameters": list(self.parameters)}
        return plain | {"age_seconds": round(self.age_seconds, 1), "problem": self.problem}


def list_runs(storage: str | Path = "runs") -> list[RunSummary]:
    """Every run at or below a folder, the one written last first.

    Args:
        storage: a folder, or the address of an object store, whose journals are copied first.

    Raises:
        InvalidInput: there is no such folder.
        JournalError: the object store cannot be read.
    """
    locks = HeldLocks()
    runs = [judged(summarize(place, name, locks)) for name, place in places(storage)]
    return sorted(runs, key=lambda run: (-run.modified, run.name))


def places(storage: str | Path) -> list[tuple[str, RunLocation]]:
    """Where the runs below a folder or an address are, with their names below it."""
    if is_object_store(storage):
        return [(name, _fetched(str(storage), name)) for name in stored_names(str(storage))]
    root = Path(os.path.realpath(os.path.expanduser(storage)))
    if not root.is_dir():
        raise InvalidInput(
            "Runs are listed from a folder that exists.", str(storage), 'Pass e.g. "runs".'
        )
    found = []
    for directory in _directories(root, DEEPEST):
        inside = directory.relative_to(root)
        name = str(inside) if inside.parts else root.name
        found.append((name, RunLocation(directory, directory.name)))
    return found


def find_run(storage: str | Path, name: str | None = None) -> RunLocation:
    """The run kept in `storage`, below `name` if it has one.

    A directory or an address that holds one run and is none itself stands for that run. What an
    object store has is fetched each time; records that only this machine has are kept.

    Raises:
        InvalidInput: there is no run, or there are several.
        JournalError: the object store cannot be read, or holds another run than this machine.
    """
    if is_object_store(storage):
        return _find_stored(str(storage), name)
    place = find_location(storage, name, resume=True)
    if (place.directory / JOURNAL).is_file():
        return place
    below = _below(place.directory)
    if len(below) == 1:
        return RunLocation(below[0], below[0].name)
    if below:
        names = [path.name for path in below]
        raise InvalidInput("The directory must hold one run.", names, "Choose one by its name.")
    raise InvalidInput(
        f"The directory of a run holds a {JOURNAL}.",
        str(place.directory),
        "Pass the storage of a run, and its name if it has one.",
    )


def _find_stored(storage: str, name: str | None) -> RunLocation:
    if name is not None:
        places = [(storage, name)]
    else:
        itself = own_address(storage)
        places = [(storage, "run"), *([] if itself is None else [itself])]
    for where, called in places:
        place = _fetched(where, called)
        if (place.directory / JOURNAL).is_file():
            return place
    names = stored_names(storage) if name is None else []
    if len(names) == 1:
        return _fetched(storage, names[0])
    address = find_location(storage, name).address
    if names:
        raise InvalidInput("The address must hold one run.", names, "Choose one by its name.")
    raise InvalidInput(
        f"The address of a run holds a {JOURNAL}.",
        address,
        "Pass the storage of a run, and its name if it has one.",
    )


def holds_several(storage: str | Path) -> bool:
    """Whether a folder is no run itself and holds more than one."""
    if is_object_store(storage):
        return len(stored_names(str(storage))) > 1
    with suppress(OSError, ValueError):
        root = Path(os.path.expanduser(storage))
        return not (root / JOURNAL).exists() and len(_below(root)) > 1
    return False


def _below(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob(f"*/{JOURNAL}"))


def _directories(root: Path, depth: int) -> Iterator[Path]:
    """Directories at or below `root` with a journal, and those that may not be looked into; links
    are not followed."""
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError:
        yield root
        return
    if any(entry.name == JOURNAL for entry in entries):
        yield root
    for entry in entries if depth else ():
        if entry.is_dir(follow_symlinks=False):
            yield from _directories(Path(entry.path), depth - 1)


def _fetched(storage: str, name: str) -> RunLocation:
    """The local copy of a run in an object store, brought up to date unless it is at work here."""
    place = find_location(storage, name)
    mirror = place.mirror()
    assert mirror is not None
    with suppress(JournalLocked):  # a process here writes it: the local journal is ahead
        mirror.restore()
    return place


def summarize(place: RunLocation, name: str, locks: HeldLocks) -> RunSummary:
    """The summary of one run, not judged; never fails."""
    empty = RunSummary(name, place.directory)
    try:
        modified = (place.directory / JOURNAL).stat().st_mtime
        empty = replace(empty, modified=modified)
        return _scanned(empty, locks)
    except (DrbqoError, OSError) as error:
        return replace(empty, note=str(error))
    except Exception as error:  # whoever can write a file can write anything into it
        return replace(empty, note=f"Its journal cannot be read: {type(error).__name__}: {error}")


def judged(run: RunSummary) -> RunSummary:
    """The summary with the best value, from the judgment that is kept if there is one."""
    if run.judged or run.kind != "run" or run.state == "unreadable":
        return replace(run, judged=True)
    try:
        _, found = judged_run(run.path)
    except (DrbqoError, OSError) as error:
        return replace(run, note=str(error), judged=True)
    best = found.recommendation
    if best is None:
        return replace(run, judged=True)
    return replace(run, best=best.robust_value, best_config=best.config, judged=True)


def _scanned(run: RunSummary, locks: HeldLocks) -> RunSummary:
    records = read_journal(run.path)
    header = next(records).data["problem"]
    counts = {"ask": 0, "tell": 0, "fail": 0, "initial": 0, "step": 0}
    seconds, session, finish, lost = 0.0, {}, None, 0
    for record in records:
        data = record.data
        seconds = max(seconds, _number(data.get("at")))
        if record.kind in counts:
            counts[record.kind] += 1
            lost += record.kind in ("initial", "step") and data.get("score") is None
        elif record.kind == "session":
            session, finish = data, None
        elif record.kind == "finish":
            finish = data
    cell = header.keys() >= CELL
    done = counts["initial"] + counts["step"] if cell else counts["tell"] + counts["fail"]
    if finish is None:
        state = locks.state_of(run.path)
    else:
        state = "finished" if cell else STOPPED[finish["reason"]]
    run = replace(
        run,
        state=state,
        n_done=done,
        n_failed=lost if cell else counts["fail"],
        n_pending=0 if cell else counts["ask"] - done,
        seconds=seconds,
        stop_reason=_text((finish or {}).get("stop_reason")),
    )
    return _cell(run, header) if cell else _run(run, header, session)


def _cell(run: RunSummary, header: dict[str, Any]) -> RunSummary:
    return replace(
        run,
        kind="cell",
        objective=_text(header["problem"].get("name")),
        method=_text(header["trace"]),
        seed=header.get("seed"),
        n_evaluations=header["horizon"] + header.get("n_initial", 0),
    )


def _run(run: RunSummary, header: dict[str, Any], session: dict[str, Any]) -> RunSummary:
    try:
        problem = Problem.from_header(header)
    except JournalError as error:
        return replace(run, state="unreadable", note=str(error))
    run = replace(
        run,
        kind="run",
        objective=problem.objective,
        method=str(problem.settings.get("method", "drbqo")),
        mode=str(problem.settings.get("mode", "max")),
        seed=problem.settings.get("seed", 0),
        parameters=tuple(problem.space.parameters),
        n_folds=problem.n_folds,
        n_evaluations=session.get("n_evaluations"),
    )
    kept = read_judgment(run.path, problem)
    if kept is None:
        return run
    best = kept.recommendation
    return replace(
        run,
        best=None if best is None else best.robust_value,
        best_config=None if best is None else best.config,
        judged=True,
    )


class HeldLocks:
    """Which runs have a writer on this machine, without touching any lock.

    Linux lists the inode of every lock that is held. Where that list is missing, a run without a
    last record is "open".
    """

    @cached_property
    def _inodes(self) -> frozenset[int] | None:
        try:
            lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
        except (OSError, ValueError):
            return None
        flocks = (line.split() for line in lines if " FLOCK " in line)
        return frozenset(int(words[5].rpartition(":")[2]) for words in flocks if len(words) > 5)

    def state_of(self, directory: Path) -> str:
        """ "running", "cut off" or "open", for a run without a last record."""
        try:
            found = os.stat(directory / "lock", follow_symlinks=False)
            with open(directory / "lock", "rb") as file:
                owner = json.loads(file.read(1000))["host"]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return "open"
        if self._inodes is None or (owner != socket.gethostname()):
            return "open"
        return "running" if found.st_ino in self._inodes else "cut off"


def _number(value: object) -> float:
    return float(value) if type(value) in (int, float) else 0.0  # type: ignore[arg-type]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
