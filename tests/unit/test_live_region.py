"""Whatever is written while a region is shown scrolls above it, and the region stays whole."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, ConsoleOptions
from rich.text import Text

from drbqo_ray.runtime.terminal import AboveRegion, LiveRegion
from tests.support.screen import Terminal, lines_on_screen


class Region:
    """A region of so many lines, on a terminal of 60 columns that standard error goes to.

    pytest sets standard error anew before each test, so that no fixture can do it.
    """

    def __init__(self, stream: Terminal, vanish: bool = False) -> None:
        self.height = 3
        self.stream = stream
        self.region = LiveRegion(stream, self.draw, vanish)

    def draw(self, width: int) -> Text:
        assert width <= 56
        return Text("\n".join(["HEAD", *(f"row {n}" for n in range(1, self.height))]))

    def __enter__(self) -> Region:
        self.before, sys.stderr = sys.stderr, self.stream
        self.region.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.region.stop()
        assert sys.stderr is self.stream
        sys.stderr = self.before


@pytest.fixture(autouse=True)
def _sixty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "40")


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture
def logger(terminal: Terminal) -> Iterator[logging.Logger]:
    found = logging.getLogger("tests.live_region")
    handler = logging.StreamHandler(terminal)
    found.addHandler(handler)
    yield found
    found.removeHandler(handler)


def test_records_and_prints_scroll_above_a_region_that_grows(
    terminal: Terminal, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", terminal)
    with Region(terminal) as shown:
        for number in range(20):
            shown.height = 3 + number % 4
            logger.warning("failure %d", number)
            print("printed", number)
            print("told", number, file=sys.stderr)
    expected = [f"{word} {n}" for n in range(20) for word in ("failure", "printed", "told")]
    seen = lines_on_screen(terminal.getvalue(), 60)
    assert seen == [*expected, "HEAD", *(f"row {n}" for n in range(1, 6)), ""]


class Slow:
    """Takes its time to be drawn, so that others get in between if they can."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        time.sleep(0.002)
        yield self.text


def test_many_threads_may_write_while_the_region_is_drawn(
    terminal: Terminal, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drbqo_ray.runtime.terminal.DRAWINGS_PER_SECOND", 500)
    draw = Region.draw
    monkeypatch.setattr(Region, "draw", lambda self, width: Slow(draw(self, width)))
    with Region(terminal) as shown:

        def write(name: int) -> None:
            for number in range(30):
                shown.height = 3 + (name + number) % 4
                logger.warning("%d-%d", name, number)

        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen = lines_on_screen(terminal.getvalue(), 60)
    assert seen.count("HEAD") == 1
    assert sorted(seen[:120]) == sorted(f"{a}-{b}" for a in range(4) for b in range(30))


def test_the_echo_of_an_interrupt_does_not_strand_the_head(terminal: Terminal) -> None:
    with Region(terminal) as shown:
        terminal.write("^C")
        shown.region.write_above("Stopping")
    assert lines_on_screen(terminal.getvalue(), 60) == ["Stopping", "HEAD", "row 1", "row 2", ""]


def test_long_lines_are_folded_and_colors_are_kept(terminal: Terminal) -> None:
    with Region(terminal):
        print("y" * 70, "\x1b[32mgreen\x1b[0m", file=sys.stderr)
    seen = lines_on_screen(terminal.getvalue(), 60)
    assert "".join(seen[:2]).replace(" ", "") == "y" * 70 + "green"
    assert seen[2] == "HEAD"
    assert "\x1b[32mgreen" in terminal.getvalue()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(alphabet="ab \n", max_size=8), max_size=8))
def test_pieces_become_the_lines_they_make(pieces: list[str]) -> None:
    stream = Terminal()
    with Region(stream):
        for piece in pieces:
            sys.stderr.write(piece)
    text = "".join(pieces)
    whole = text if text.endswith("\n") or not text else text + "\n"
    expected = [line.rstrip() for line in whole.split("\n")[:-1]]
    assert lines_on_screen(stream.getvalue(), 60)[: len(expected) + 1] == [*expected, "HEAD"]


def test_a_region_that_vanishes_leaves_only_what_was_written(terminal: Terminal) -> None:
    with Region(terminal, vanish=True):
        print("kept", file=sys.stderr)
    assert [line for line in lines_on_screen(terminal.getvalue(), 60) if line] == ["kept"]


def test_streams_and_handlers_are_given_back(terminal: Terminal, logger: logging.Logger) -> None:
    handler: Any = logger.handlers[0]
    with Region(terminal) as shown:
        above = sys.stderr
        assert isinstance(above, AboveRegion)
        assert handler.stream is above
        assert above.isatty()
    shown.region.stop()
    assert handler.stream is terminal
    size = len(terminal.getvalue())
    above.write("late")  # a library may have kept it
    assert terminal.getvalue()[size:] == "late"
    assert terminal.getvalue().count("\x1b[?25h") == terminal.getvalue().count("\x1b[?25l") == 1


def test_a_file_that_output_goes_to_is_left_alone(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    with Region(terminal):
        assert sys.stdout is file
        print("data")
    assert file.getvalue() == "data\n"
    assert "data" not in terminal.getvalue()


def test_a_forked_process_writes_to_the_stream_itself(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Region(terminal) as shown, shown.region.lock:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        writer = threading.Thread(target=sys.stderr.write, args=("from a child",))
        writer.start()
        writer.join(timeout=5)
        assert not writer.is_alive(), "it waits for a lock that nobody will give back"
        monkeypatch.undo()
    assert "from a child" in terminal.getvalue()
