"""The state file of a Tune searcher: plain JSON, replaced whole, readable by its owner only.

Tune copies the files of its own directory to the storage of the run, over those that are there, so
a crash may cut a copy short. Hence the states of a run take turns under three names, and a name is
out of Tune's sight while the next two are written: an older copy is always whole.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from drbqo_ray.errors import DrbqoError, InvalidInput, UnknownSuggestion

logger = logging.getLogger(__name__)

FORMAT = "drbqo-tune-searcher"
VERSION = 1
LARGEST_FILE = 1 << 30
TURNS = "abc"


class DamagedState(InvalidInput):
    """A state file was cut short, or is no state file at all."""


def write_state(path: str | Path, state: dict[str, Any]) -> None:
    """Put the state in the file, or leave the file as it was if that fails."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **state}, allow_nan=False)
    target = Path(path)
    fd, temporary = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_state(path: str | Path) -> dict[str, Any]:
    """The state in the file.

    Raises:
        InvalidInput: others can write to the file, or it is no state of a searcher of ours.
    """
    with open(path, "rb") as file:
        _refuse_foreign(file.fileno(), Path(path))
        content = file.read(LARGEST_FILE)
    try:
        state = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DamagedState(
            "A searcher's state is a JSON file.", f"{path}: {error}", "Restore another file."
        ) from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise InvalidInput(
            "The file must be one that DRBQOSearch.save wrote.", str(path), "Restore another file."
        )
    if state.get("version") != VERSION:
        raise InvalidInput(
            f"This version reads searcher states of version {VERSION}.",
            state.get("version"),
            "Restore it with the version of drbqo_ray that wrote it.",
        )
    return state


@contextmanager
def next_state(directory: str | Path, template: str, session: str, number: int) -> Iterator[Path]:
    """The name under which state `number` of a session is to be written in the directory."""
    turn = number % len(TURNS)
    yield Path(directory, template.format(f"{session}-{TURNS[turn]}"))
    gone = Path(directory, template.format(f"{session}-{TURNS[turn - 2]}"))
    gone.unlink(missing_ok=True)


def newest_state(directory: str | Path, template: str) -> Path:
    """The file with the newest state that is whole, of all sessions in a directory.

    Raises:
        RuntimeError: there is none.
        InvalidInput: others can write the newest.
    """
    found: list[tuple[int, Path]] = []
    damaged = []
    for path in sorted(Path(directory).glob(template.format("*"))):
        try:
            found.append((int(read_state(path)["saves"]), path))
        except DamagedState as error:
            damaged.append(error)
            logger.warning("The state %s is damaged; an older one is used.", path)
    if not found:
        raise RuntimeError(f"There is no state of a searcher in {directory}.") from (
            damaged[0] if damaged else None
        )
    return max(found)[1]


@contextmanager
def refusing_damage(path: str | Path) -> Iterator[None]:
    """Turn what goes wrong while a state is put to use into DamagedState."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, DrbqoError) and not isinstance(error, UnknownSuggestion):
            raise
        raise DamagedState(
            "A searcher's state holds all it was saved with.",
            f"{path}: {error!r}",
            "Restore another file.",
        ) from error


def _refuse_foreign(fd: int, path: Path) -> None:
    """Refuse a file that others own, or that lies where anyone can replace it."""
    if not hasattr(os, "geteuid"):
        return
    file, directory = os.fstat(fd), path.absolute().parent.stat()
    trusted = (os.geteuid(), 0)
    open_to_all = directory.st_mode & stat.S_IWOTH and not directory.st_mode & stat.S_ISVTX
    if file.st_uid not in trusted or directory.st_uid not in trusted:
        problem = "belongs to another user"
    elif file.st_mode & stat.S_IWOTH or open_to_all:
        problem = "can be written by everybody"
    else:
        return
    raise InvalidInput(
        "A searcher's state is restored only where no other user can write it.",
        f"{path}, which (or whose directory) {problem}",
        "Copy it to a directory of your own if you trust it.",
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
