"""Text that is safe to print: data can neither move the cursor, color the screen nor hide."""

from __future__ import annotations

import re
from typing import Any, TextIO

_FRAME = re.compile(r'\s*File ".*", line \d+')


def printable(text: object, limit: int = 200) -> str:
    """One line in which every character that is not printable is spelled out, e.g. as \\x1b.

    Covers control characters and escape sequences, line breaks, characters that turn the
    direction of writing, and halves of surrogate pairs. Longer texts end in "...".

    Args:
        text: what to show; `str(text)` is taken.
        limit: most characters of the result.
    """
    found: list[str] = []
    length = 0
    for character in str(text):
        piece = character if character.isprintable() else _spelled(character)
        length += len(piece)
        if length > limit:
            return "".join(found)[: limit - 3] + "..."
        found.append(piece)
    return "".join(found)


def printable_lines(text: object, limit: int = 4000) -> str:
    """Like `printable`, with line breaks and indentation kept; for tracebacks.

    A longer text loses its beginning, because the end of a traceback says what went wrong.
    """
    lines = str(text).expandtabs(4).split("\n")
    clean = "\n".join(printable(line, limit) for line in lines)
    return clean if len(clean) <= limit else "..." + clean[3 - limit :]


def error_line(reason: str | None, limit: int = 200) -> str:
    """What went wrong, as one line: the exception of a traceback with its whole message.

    Args:
        reason: a traceback, or any text, of which the first line is taken.
        limit: most characters of the result.
    """
    lines = [line for line in (reason or "").splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if frames:
        after = range(frames[-1] + 1, len(lines))
        begin = next((number for number in after if not lines[number][0].isspace()), len(lines) - 1)
        found = lines[begin:]
    else:
        found = lines[-1:] if lines[0].startswith("Traceback") else lines[:1]
    return printable(" ".join(line.strip() for line in found), limit)


def speaks_unicode(stream: Any) -> bool:
    """Whether every character can be written to a stream as it is."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return str(encoding).lower().replace("-", "").startswith("utf")


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


class TolerantStream:
    """A stream that drops what cannot be written, and everything after it.

    Characters that its encoding lacks are spelled out. All else is left to the stream itself.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._broken = stream is None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text, or drop it."""
        if not self._broken and self._stream is not None:
            try:
                encoding = getattr(self._stream, "encoding", None) or "utf-8"
                self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            except (OSError, ValueError):
                self._broken = True
        return len(text)

    def flush(self) -> None:
        """Flush, if there is still something to flush to."""
        if not self._broken and self._stream is not None:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._broken = True
