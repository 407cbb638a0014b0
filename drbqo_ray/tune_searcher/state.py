"""The state file of a Tune searcher: plain JSON, replaced whole, readable by its owner only.

It is one line that begins with its checksum, as a record of a journal does:

    {"crc":"89abcdef","format": "drbqo-tune-searcher", "version": 2, ...}

The checksum is looked at before anything is interpreted. States of version 1 had none, and are read
without.

Tune copies the files of its own directory to the storage of the run, over those that are there, so
a crash may cut a copy short. Hence the states of a run take turns under three names, and a name is
out of Tune's sight while the next two are written: an older copy is always whole. The names end in
".pkl" although nothing is pickled: under such names Tune's wrappers look for the state of the
searcher inside them.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from zlib import crc32

from drbqo_ray.errors import DrbqoError, InvalidInput, UnknownSuggestion
from drbqo_ray.storage.format import has_right_checksum

logger = logging.getLogger(__name__)

FORMAT = "drbqo-tune-searcher"
VERSION = 2
WITHOUT_CHECKSUM = 1
LARGEST_FILE = 1 << 30
TURNS = "abc"
NAMES = "searcher-state-{}.pkl"
EARLIER_NAMES = "searcher-state-{}.json"
_TURN = re.compile(r"searcher-state-.+-[abc]\.(pkl|json)")


class DamagedState(InvalidInput):
    """A state file was cut short or changed, or is no state file at all."""


def encode_state(state: dict[str, Any]) -> bytes:
    """The content of the file for a state.

    Raises:
        InvalidInput: it cannot be written as JSON.
    """
    try:
        text = json.dumps({"format": FORMAT, "version": VERSION, **state}, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            "The state of a search is saved as plain data.",
            str(error),
            "Use plain numbers, strings, lists and dicts in the settings, and NaN nowhere.",
        ) from error
    body = text[1:].encode("ascii")
    return b'{"crc":"%08x",%s\n' % (crc32(body), body)


def decode_state(content: bytes, name: str) -> dict[str, Any]:
    """The state in the content of the file of this name.

    Raises:
        DamagedState: it is damaged, or no state of a searcher of ours.
        InvalidInput: another version wrote it.
    """
    whole = has_right_checksum(content)
    if not whole and content.startswith(b'{"crc":"'):
        _refuse_damage(name)
    try:
        state = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DamagedState(
            "A searcher's state is a JSON file.", f"{name}: {error}", "Restore another file."
        ) from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise DamagedState(
            "The file must be one that DRBQOSearch.save wrote.", name, "Restore another file."
        )
    version = state.get("version")
    if version not in (WITHOUT_CHECKSUM, VERSION):
        raise InvalidInput(
            f"This version reads searcher states up to version {VERSION}.",
            version,
            "Restore it with the version of drbqo_ray that wrote it.",
        )
    if not whole and version == VERSION:
        _refuse_damage(name)
    return state


def _refuse_damage(name: str) -> NoReturn:
    raise DamagedState(
        "A searcher's state has the checksum of its content.",
        f"{name}, which was cut short or changed",
        "Restore another file.",
    )


def write_state(path: str | Path, state: dict[str, Any]) -> None:
    """Put the state in the file, or leave the file as it was if that fails.

    Raises:
        InvalidInput: the state cannot be written as JSON.
    """
    content, target = encode_state(state), Path(path)
    fd, temporary = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_state(path: str | Path) -> dict[str, Any]:
    """The state in the file.

    Raises:
        DamagedState: it is damaged, or no state of a searcher of ours.
        InvalidInput: others can write to the file, or another version wrote it.
    """
    with open(path, "rb") as file:
        _refuse_foreign(file.fileno(), Path(path))
        content = file.read(LARGEST_FILE)
    return decode_state(content, str(path))


@contextmanager
def next_state(directory: str | Path, session: str, number: int) -> Iterator[Path]:
    """The name under which state `number` of a session is to be written in the directory."""
    turn = number % len(TURNS)
    yield Path(directory, NAMES.format(f"{session}-{TURNS[turn]}"))
    gone = Path(directory, NAMES.format(f"{session}-{TURNS[turn - 2]}"))
    gone.unlink(missing_ok=True)


def is_turn(path: str | Path) -> bool:
    """Whether a file is one of those that the states of a run take turns in."""
    return _TURN.fullmatch(Path(path).name) is not None


def newest_state(directory: str | Path) -> Path:
    """The file with the newest state that is whole, of all sessions in a directory.

    Raises:
        RuntimeError: there is none.
        InvalidInput: others can write the newest.
    """
    found: list[tuple[int, Path]] = []
    damaged = []
    patterns = [template.format("*") for template in (EARLIER_NAMES, NAMES)]
    for path in sorted(path for pattern in patterns for path in Path(directory).glob(pattern)):
        try:
            state = read_state(path)
            with refusing_damage(path):
                found.append((int(state["saves"]), path))
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
    except Exception as error:
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
