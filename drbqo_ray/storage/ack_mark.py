"""The high-water mark: the number of the last acknowledged record, kept beside the journal.

It is written after each flush of the journal and is itself not flushed, so it costs no fsync and
can only lag behind the journal. When it is ahead, the disk has lost acknowledged records.
"""

from __future__ import annotations

import os
import re
from zlib import crc32

from drbqo_ray.storage.directory import open_private

ACKED = "acked"
_LINE = re.compile(rb"([0-9]{20}) ([0-9a-f]{8})\n")


class AckMark:
    """The file `acked` of a run directory, open for writing."""

    def __init__(self, directory_fd: int) -> None:
        """Open or make the file in the directory open as `directory_fd`."""
        self._fd = open_private(ACKED, os.O_RDWR | os.O_CREAT, directory_fd)

    def write(self, seq: int) -> None:
        """Set the mark to record `seq`."""
        digits = b"%020d" % seq
        os.pwrite(self._fd, b"%s %08x\n" % (digits, crc32(digits)), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def read_ack_mark(directory_fd: int) -> int | None:
    """The mark, or None when it is absent, unfinished or damaged."""
    try:
        fd = open_private(ACKED, os.O_RDONLY, directory_fd)
    except FileNotFoundError:
        return None
    try:
        match = _LINE.fullmatch(os.pread(fd, 64, 0))
    finally:
        os.close(fd)
    if match is None or b"%08x" % crc32(match[1]) != match[2]:
        return None
    return int(match[1])
