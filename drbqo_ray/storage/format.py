"""One line of a journal: how a record becomes bytes, and which bytes are a record.

A line is one ASCII JSON object ended by a newline:

    {"crc":"89abcdef","after":"01234567","seq":7,"kind":"tell","data":{"id":3,"score":0.91}}

`crc` is the CRC-32 of every byte after it up to the newline. It is checked before anything is
parsed, so a damaged line is never interpreted. `seq` counts from 0 without gaps; line 0 is the
header, whose data hold the format version, the id of the run and the problem. Data are plain: str,
bool, None, int, finite float, list and dict with str keys. They read back equal, floats bit for
bit.

The checksums of all lines but the header start from the id of the run, so that a line of another
run, intact as it is, is not taken for one of this run. `after` is the checksum of the line before,
so that a line counts only behind the very lines that its writer knew: what a second writer of the
run wrote is not taken for the next record. Journals of earlier formats are read, and written on,
as they are: those of format 2 have no `after`, those of format 1 no id, and their checksums start
from 0.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NoReturn
from zlib import crc32

from drbqo_ray.errors import InvalidInput, JournalCorrupt, JournalError, short_repr
from drbqo_ray.types import MAX_DEPTH, check_plain

FORMAT = 3
UNTIED, UNCHAINED = 1, 2
"""The formats before: records are not tied to their run, or not to the record before them."""
MAX_LINE = 1 << 20
HEADER = "header"

_KIND = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_RUN = re.compile(r"[0-9a-f]{16}")
_PREFIX = b'{"crc":"'
_BODY = len(_PREFIX) + 8 + len('",')
_AFTER = b'"after":"'
_FIELDS = ["seq", "kind", "data"]
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One record of a journal.

    Attributes:
        seq: its number, counted from 0 without gaps.
        kind: what happened: "header", "ask", "tell", "fail", "note" or any other identifier.
        data: what was recorded, plain data.
    """

    seq: int
    kind: str
    data: dict[str, Any]


@dataclass(slots=True)
class ScanEnd:
    """Where a scan stopped.

    Attributes:
        offset: number of bytes that hold intact records.
        next_seq: the sequence number the next record has to carry.
        fault: what is wrong with the bytes from `offset` on, None when there are none.
        key: what the checksums of the run start from, see `key_of`.
        version: the format of the journal.
        checksums: those of the intact records, by number.
        rivals: checksums of the intact records from `offset` on that a second writer left: they
            follow a record before the last one.
        fork: number of the first of them.
    """

    offset: int = 0
    next_seq: int = 0
    fault: str | None = None
    key: int = 0
    version: int = FORMAT
    checksums: array[int] = field(default_factory=lambda: array("I"))
    rivals: list[int] = field(default_factory=list)
    fork: int = 0

    @property
    def after(self) -> int | None:
        """The checksum that the next record has to name, None if it names none."""
        return self.checksums[-1] if self.version > UNCHAINED and self.checksums else None

    def take(self, line: bytes, record: JournalRecord) -> None:
        """Go on behind an intact record."""
        if record.seq == 0:
            self.key, self.version = key_of(record), record.data["format"]
        self.go_on(line)

    def go_on(self, line: bytes) -> None:
        """Go on behind the line of a record."""
        self.checksums.append(checksum_of(line))
        self.offset += len(line)
        self.next_seq += 1


def check_kind(kind: str) -> None:
    """Raise InvalidInput unless `kind` can name an appended record."""
    if not isinstance(kind, str) or not _KIND.fullmatch(kind) or kind == HEADER:
        raise InvalidInput(
            'The kind of a record must be an ASCII identifier other than "header".',
            kind,
            'Use a short word such as "tell".',
        )


def encode_record(
    seq: int, kind: str, data: dict[str, Any], key: int = 0, after: int | None = None
) -> bytes:
    """The line of one record, newline included; InvalidInput when it cannot be written.

    Args:
        seq: its number.
        kind: what happened.
        data: what is recorded, plain data.
        key: what the checksums of the run start from, see `key_of`; the header's starts from 0.
        after: the checksum of the line before; None for a header and in earlier formats.
    """
    check_plain(data)
    try:
        text = _encode(data)
    except ValueError as error:
        raise InvalidInput(
            f"The data of a {kind!r} record cannot be written: {error}.",
            sorted(data),
            "Use numbers of ordinary size.",
        ) from None
    link = "" if after is None else f'"after":"{after:08x}",'
    body = f'{link}"seq":{seq},"kind":"{kind}","data":{text}}}'.encode("ascii")
    line = b'%s%08x",%s\n' % (_PREFIX, crc32(body, key), body)
    if len(line) > MAX_LINE:
        raise InvalidInput(
            f"A record may take {MAX_LINE} bytes.",
            f"{len(line)} bytes in a {kind!r} record",
            "Store large data in a file of their own and record its name.",
        )
    return line


def encode_header(problem: dict[str, Any], run: str | None = None, version: int = FORMAT) -> bytes:
    """The first line of a journal for `problem`; without the id of a run, of the first format."""
    check_plain(problem)
    if run is None:
        return encode_record(0, HEADER, {"format": UNTIED, "problem": problem})
    return encode_record(0, HEADER, {"format": version, "run": run, "problem": problem})


def key_of(header: JournalRecord) -> int:
    """What the checksums of the records after this header start from."""
    return crc32(header.data.get("run", "").encode("ascii"))


def checksum_of(line: bytes) -> int:
    """The checksum that a whole line states."""
    return int(line[len(_PREFIX) : _BODY - 2], 16)


def _follows(line: bytes, checksum: int | None) -> bool:
    """Whether an intact line names this checksum as that of the line before it, or none."""
    if checksum is None:
        return not line.startswith(_AFTER, _BODY)
    return line.startswith(b'%s%08x",' % (_AFTER, checksum), _BODY)


def has_right_checksum(line: bytes, key: int = 0) -> bool:
    """Whether the line is whole, of this run, and no bit of it has changed since it was written."""
    if not line.startswith(_PREFIX) or not line.endswith(b"\n"):
        return False
    stated = line[len(_PREFIX) : _BODY]
    return stated == b'%08x",' % crc32(line[_BODY:-1], key)


def decode_line(line: bytes) -> JournalRecord:
    """The record of a line with the right checksum; ValueError says which rule it breaks."""
    try:
        parsed = _decoder.decode(line.decode("utf-8"))
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    names = list(parsed) if isinstance(parsed, dict) else []
    if names not in (["crc", *_FIELDS], ["crc", "after", *_FIELDS]):
        raise ValueError("its fields are not crc, after, seq, kind, data")
    seq, kind, data = parsed["seq"], parsed["kind"], parsed["data"]
    if type(seq) is not int or seq < 0:
        raise ValueError("its seq is not a count")
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise ValueError("its kind is not an identifier")
    if not isinstance(data, dict):
        raise ValueError("its data are not an object")
    # Only brackets nest, so few brackets are proof enough without walking the data.
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
    return JournalRecord(seq, kind, data)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"it holds the number {text[:20]}, which is too large")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it holds a key twice")
    return found


# A number beyond the range of a double would parse as infinity, hence the hook on floats.
_decoder = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique_keys
)


def _depth(data: dict[str, Any]) -> int:
    deepest = 0
    waiting: list[tuple[object, int]] = [(data, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, (dict, list)):
            deepest = max(deepest, depth)
            items = value.values() if isinstance(value, dict) else value
            waiting.extend((item, depth + 1) for item in items)
    return deepest


def scan(file: BinaryIO, end: ScanEnd) -> Iterator[JournalRecord]:
    """Yield the intact records of `file` from its start; afterwards `end` says where they stop.

    Bytes after the last intact record that hold no later record are what a cut-off write leaves:
    the scan stops before them and names the fault in `end`. Anything else that is wrong raises
    JournalCorrupt, or JournalError for a format this version does not know.
    """
    while line := file.readline(MAX_LINE + 1):
        if end.offset == 0:
            _check_format(line)
        if not has_right_checksum(line, end.key):
            end.fault = "it is incomplete, damaged or of another run"
            break
        record = _decode_at(line, end.offset, end)
        if record.seq < end.next_seq:
            end.fault = f"record {record.seq} stands there a second time"
            break
        if record.seq > end.next_seq:
            raise JournalCorrupt(
                f"Record {end.next_seq} of the journal is missing: record {record.seq} stands at"
                f" byte {end.offset} in its place. {_cure(end)}"
            )
        _check_first(record)
        if not _follows(line, end.after):
            end.fault = "a second writer wrote it, who did not know the record before it"
            break
        yield record
        end.take(line, record)
    if end.fault is not None:
        _refuse_later_record(file, line, end)


def _decode_at(line: bytes, offset: int, end: ScanEnd) -> JournalRecord:
    try:
        return decode_line(line)
    except ValueError as error:
        raise JournalCorrupt(
            f"The record at byte {offset} of the journal has the right checksum but breaks the"
            f" format: {error}. It was not written by this package. {_cure(end)}"
        ) from None


def _check_first(record: JournalRecord) -> None:
    if (record.kind == HEADER) != (record.seq == 0):
        raise JournalCorrupt(
            f"Only record 0 of a journal is its header, but record {record.seq} is of kind"
            f" {record.kind!r}. The file was not written by this package."
        )
    if record.seq == 0 and not _is_header(record.data):
        raise JournalCorrupt(
            "The header of the journal, at byte 0, does not hold a format, the id of a run and a"
            f" problem. Got {short_repr(record.data)}."
        )


def _is_header(data: dict[str, Any]) -> bool:
    version, run = data.get("format"), data.get("run")
    if type(version) is not int or not isinstance(data.get("problem"), dict):
        return False
    if version == UNTIED:
        return data.keys() == {"format", "problem"}
    tied = isinstance(run, str) and _RUN.fullmatch(run) is not None
    known = version in (UNCHAINED, FORMAT)
    return known and tied and data.keys() == {"format", "run", "problem"}


def _check_format(line: bytes) -> None:
    """Refuse a later format by name, even one whose lines look different from ours."""
    try:
        first = json.loads(line)
        version = first["data"]["format"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    if type(version) is int and not UNTIED <= version <= FORMAT:
        raise JournalError(
            f"This version of drbqo_ray reads journals of format {UNTIED} to {FORMAT}. Got one"
            f" that says format {short_repr(version)}. Upgrade drbqo_ray, or start a run in a new"
            " directory. If no other version wrote the file, its header at byte 0 is damaged."
        )


def _refuse_later_record(file: BinaryIO, line: bytes, end: ScanEnd) -> None:
    """Raise JournalCorrupt when a record that should follow stands after the bad one, unless both
    are of a second writer: those are counted, and no part of this journal."""
    offset, rival, whole = end.offset, _fork(line, end), False
    while line:
        if rival is not None and has_right_checksum(line, end.key) and _follows(line, rival):
            rival = checksum_of(line)
            end.rivals.append(rival)
        elif whole and _is_later_record(line, offset, end):
            raise JournalCorrupt(
                f"The record at byte {end.offset} of the journal cannot be used ({end.fault}), and"
                f" another follows at byte {offset}, so this is no cut-off write. {_cure(end)}"
            )
        offset += len(line)
        # The rest of an over-long line is no line of its own.
        whole = line.endswith(b"\n")
        line = file.readline(MAX_LINE + 1)


def _fork(line: bytes, end: ScanEnd) -> int | None:
    """The checksum of the record that a second writer knew last, who wrote this line; `end.fork` is
    then the number of the line. None when it is no such line."""
    if end.after is None or not has_right_checksum(line, end.key):
        return None
    number = _decode_at(line, end.offset, end).seq
    if not 0 < number < end.next_seq or not _follows(line, end.checksums[number - 1]):
        return None
    end.fork = number
    return end.checksums[number - 1]


def _is_later_record(line: bytes, offset: int, end: ScanEnd) -> bool:
    """Whether the line reads like a record that comes later, of this run or of another one."""
    if has_right_checksum(line, end.key):
        return _decode_at(line, offset, end).seq >= end.next_seq
    try:
        return line.endswith(b"\n") and decode_line(line).seq >= end.next_seq
    except ValueError:
        return False


def _cure(end: ScanEnd) -> str:
    return (
        "Nothing was changed. Restore the file from a copy, or keep only the"
        f" {end.next_seq} records before byte {end.offset} by cutting the file there."
    )
