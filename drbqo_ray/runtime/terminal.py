"""What is safe to print, and a region at the foot of a terminal that is redrawn.

Text from data can neither move the cursor, color the screen nor hide. Whatever is printed or logged
while a region is shown would tear it apart: the next drawing would begin at the wrong line and
leave the head of the last one behind. So for that time standard output and standard error, and the
handlers of loggers that write to them, go through the region.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast

_FRAME = re.compile(r'\s*File ".*", line \d+')
DRAWINGS_PER_SECOND = 8
MARGIN = 4  # columns left free, so that an echoed ^C cannot wrap the last line and scroll
WIDEST = 116


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


class LiveRegion:
    """Shows what `draw` returns, several times a second, until it is stopped.

    Args:
        stream: the terminal.
        draw: called with the columns there are, returns anything that rich can print.
        vanish: whether nothing is left of the region once it is stopped.
    """

    def __init__(self, stream: TextIO, draw: Callable[[int], Any], vanish: bool = False) -> None:
        from rich.console import Console
        from rich.live import Live

        self._stream = stream
        console = Console(
            file=cast(TextIO, TolerantStream(stream)), markup=False, highlight=False, emoji=False
        )
        self._console = console
        self._live = Live(
            get_renderable=lambda: draw(max(min(console.width - MARGIN, WIDEST), 1)),
            console=console,
            auto_refresh=False,
            transient=vanish,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        # One at a time: rich itself lets a drawing and a line come between each other.
        self.lock = threading.RLock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._redraw, name="live region", daemon=True)
        self._replaced: dict[str, tuple[TextIO, AboveRegion]] = {}

    @property
    def shown(self) -> bool:
        """Whether the region is on the screen."""
        return self._live.is_started

    def start(self) -> None:
        """Show the region."""
        atexit.register(self.stop)
        with self.lock:
            self._live.start(refresh=True)
        for name in ("stdout", "stderr"):
            before = getattr(sys, name)
            if before is self._stream or is_terminal(before):
                self._replaced[name] = (before, AboveRegion(before, self))
                setattr(sys, name, self._replaced[name][1])
        for before, above in self._replaced.values():
            _swap_in_loggers(before, above)
        self._thread.start()

    def stop(self) -> None:
        """Draw it for the last time and give the terminal back; a second call does nothing."""
        atexit.unregister(self.stop)
        if self._stopped.is_set():
            return
        self._stopped.set()
        for name, (before, above) in self._replaced.items():
            if getattr(sys, name) is above:
                setattr(sys, name, before)
            _swap_in_loggers(above, before)
            above.finish()
        with self.lock:
            self._live.stop()

    def write_above(self, lines: str) -> None:
        """Write whole lines above the region."""
        from rich.text import Text

        self._console.print(Text.from_ansi(lines), overflow="fold")

    def _redraw(self) -> None:
        while not self._stopped.wait(1 / DRAWINGS_PER_SECOND):
            with self.lock:
                if self.shown:
                    self._live.refresh()


class AboveRegion:
    """Stands for a stream of the terminal: what is written to it appears above the region.

    Lines are written when they are complete. Once the region is gone, and in forked processes,
    all goes to the stream itself.
    """

    def __init__(self, stream: TextIO, region: LiveRegion) -> None:
        self._stream = stream
        self._region = region
        self._process = os.getpid()
        self._begun = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the lines that are complete."""
        if os.getpid() != self._process:
            return self._stream.write(text)
        with self._region.lock:
            if not self._region.shown:
                self._stream.write(self._begun + text)
                self._begun = ""
                return len(text)
            lines, end, self._begun = (self._begun + text).rpartition("\n")
            if end:
                self._region.write_above(lines)
        return len(text)

    def flush(self) -> None:
        """Flush the stream; a line that is not complete waits for its end."""
        self._stream.flush()

    def finish(self) -> None:
        """Write a line that is not complete all the same."""
        if self._begun:
            self.write("\n")


def is_terminal(stream: Any) -> bool:
    """Whether a stream is an open terminal."""
    try:
        return stream is not None and bool(stream.isatty())
    except (AttributeError, OSError, ValueError):
        return False


def _swap_in_loggers(before: Any, after: Any) -> None:
    """Let the handlers of all loggers that write to one stream write to another."""
    for handler in _handlers():
        if isinstance(handler, logging.StreamHandler) and handler.stream is before:
            handler.setStream(after)


def _handlers() -> Iterator[logging.Handler]:
    yield from logging.getLogger().handlers
    for logger in list(logging.Logger.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            yield from logger.handlers
