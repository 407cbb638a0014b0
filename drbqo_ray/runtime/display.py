"""What a run shows while it works: a live region with a bar, plain lines, or nothing.

`make_progress` picks one. All of them read a `RunStatus`. A display never ends a run: once its
stream fails it falls silent. Names, reasons and whatever else comes from the user are shown as
text, never as markup or escape sequences.

Failed evaluations are logged by whoever runs them, and a live region lets such lines scroll above
it. Displays only count them.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from drbqo_ray.records import BAND, Config, fold_text
from drbqo_ray.runtime.status import NAME_SHOWN, RunStatus
from drbqo_ray.runtime.terminal import (
    AboveRegion,
    LiveRegion,
    TolerantStream,
    error_line,
    is_terminal,
    printable,
    speaks_unicode,
)

SECONDS_BETWEEN_LINES = 5.0
MOST_SECONDS_BETWEEN_LINES = 60.0
SHARE_BETWEEN_LINES = 0.02  # of the time that has gone by
FOLDS_SHOWN = 20
CONFIG_SHOWN = 300
LONGEST_NAME = 24
SHORTEST_BAR, LONGEST_BAR = 10, 40


class Progress:
    """A display that shows nothing; others show what they override."""

    def on_start(self, status: RunStatus) -> None:
        """A run begins or is resumed; `status` is kept current."""

    def on_change(self) -> None:
        """The status has changed."""

    def on_finish(self) -> None:
        """The run is over; later calls change nothing."""


def make_progress(progress: bool | None, stream: TextIO | None = None) -> Progress:
    """The display for a stream: silent for False, else a live region or, on no terminal, lines.

    Args:
        progress: False for silence; True shows what suits the stream; None does so too, but is
            silent inside pytest.
        stream: where to write, standard error by default.
    """
    if not _wanted(progress):
        return Progress()
    stream = sys.stderr if stream is None else stream
    return LiveProgress(stream) if _can_redraw(stream) else LineProgress(stream)


@contextmanager
def waiting(what: str, progress: bool | None = None) -> Iterator[None]:
    """Say what a block waits for: a spinner on a terminal that vanishes with it, else a line.

    Args:
        what: e.g. "starting Ray".
        progress: see `make_progress`.
    """
    stream = sys.stderr
    if not _wanted(progress):
        yield
    elif _can_redraw(stream):
        from rich.spinner import Spinner
        from rich.text import Text

        start = time.monotonic()
        spinner = Spinner("dots" if speaks_unicode(stream) else "line", style="cyan")

        def draw(width: int) -> Any:
            text = f"{printable(what)} {duration(time.monotonic() - start)}"
            spinner.update(text=Text(text, no_wrap=True, overflow="ellipsis"))
            return spinner

        region = LiveRegion(stream, draw, vanish=True)
        region.start()
        try:
            yield
        finally:
            region.stop()
    else:
        tolerant = TolerantStream(stream)
        tolerant.write(f"{printable(what)}\n")
        tolerant.flush()
        yield


def _wanted(progress: bool | None) -> bool:
    return "PYTEST_CURRENT_TEST" not in os.environ if progress is None else progress


def _can_redraw(stream: Any) -> bool:
    """Whether a region can be shown; not when another one is shown already."""
    plain = os.environ.get("TERM") in (None, "", "dumb")
    return is_terminal(stream) and not plain and not isinstance(stream, AboveRegion)


class LineProgress(Progress):
    """Writes a line at the start and at the end, and at most one every few seconds in between.

    The longer a run has been going on, the rarer the lines.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = TolerantStream(stream)
        self._status: RunStatus | None = None
        self._start = self._written = 0.0

    def on_start(self, status: RunStatus) -> None:
        """Write how large the run is."""
        self._status = status
        self._start = status.clock()
        self._write(status, f"{budgets(status)}, {status.slots} at a time")

    def on_change(self) -> None:
        """Write a line when one is due."""
        if self._status is None:
            return
        now = self._status.clock()
        pause = SHARE_BETWEEN_LINES * (now - self._start)
        pause = min(max(pause, SECONDS_BETWEEN_LINES), MOST_SECONDS_BETWEEN_LINES)
        if now - self._written >= pause:
            self._write(self._status, summary(self._status))

    def on_finish(self) -> None:
        """Write the last line."""
        status, self._status = self._status, None
        if status is None:
            return
        whole = status.n_evaluations
        end = "finished" if whole is not None and status.done >= whole else "stopped"
        why = "" if status.stop_reason is None else f", {printable(status.stop_reason)}"
        text = summary(status, last=True)
        self._write(status, f"{end} after {duration(status.seconds)}{why}: {text}")

    def _write(self, status: RunStatus, text: str) -> None:
        self._written = status.clock()
        self._stream.write(f"{printable(status.title)}: {text}\n")
        self._stream.flush()


class LiveProgress(Progress):
    """Keeps a bar and a few lines at the foot of a terminal up to date, by a thread of its own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._status: RunStatus | None = None
        self._region: LiveRegion | None = None
        self._over = False

    def on_start(self, status: RunStatus) -> None:
        """Show the region."""
        self.on_finish()
        self._over = False
        self._status = status
        self._region = LiveRegion(self._stream, self._draw)
        self._region.start()

    def on_finish(self) -> None:
        """Leave the last state on the screen and give the terminal back."""
        if self._region is not None:
            self._over = True
            self._region.stop()
        self._region = self._status = None

    def _draw(self, width: int) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        status = self._status
        if status is None:
            return Text("")
        table = Table.grid(padding=(0, 2))
        table.width = width
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold", ratio=1)
        for name, value in rows(status, self._over):
            bad = name == "failed" and status.failed
            table.add_row(Text(name), Text(value, style="red" if bad else ""))
        return Group(self._bar(status, width), table)

    def _bar(self, status: RunStatus, width: int) -> Any:
        """Name, bar, counts and time in one line."""
        from rich.text import Text

        done, rest = ("━", "─") if speaks_unicode(self._stream) else ("#", "-")
        name = printable(status.title, LONGEST_NAME)
        times = f"{status.counts}  {clock_text(status, self._over)}"
        room = width - len(name) - len(times) - 4
        size = min(max(room, SHORTEST_BAR), LONGEST_BAR)
        filled = int(size * status.share + 1e-9)
        return Text.assemble(
            (name, "bold"),
            "  ",
            (done * filled, "green" if filled == size else "cyan"),
            (rest * (size - filled), "dim"),
            f"  {times}",
            no_wrap=True,
            overflow="ellipsis",
        )


def rows(status: RunStatus, over: bool = False) -> list[tuple[str, str]]:
    """What stands below the bar, as (name, text) pairs."""
    shown = []
    if status.best is not None:
        shown.append(("best", f"{best(status)} robust"))
        shown.append(("config", config_text(status.best.config)))
    shown += [
        ("per fold", folds(status)),
        ("slots", slots(status, over)),
        ("failed", _failed(status)),
    ]
    if status.coverage is not None:
        shown.append(("folds", str(status.coverage)))
    if status.stop_reason is not None:
        shown.append(("stopped", printable(status.stop_reason)))
    return shown


def summary(status: RunStatus, last: bool = False) -> str:
    """All of it as one line."""
    parts = [f"{status.counts} done"]
    if not last:
        parts.append(f"{status.running} running")
    parts.append(f"{status.failed} failed" if status.coverage is None else str(status.coverage))
    parts.append(f"best {best(status)}")
    if status.best is not None:
        parts[-1] += f" ({config_text(status.best.config)})"
    parts.append(f"folds {folds(status)}")
    if status.utilization is not None:
        parts.append(f"{100 * status.utilization:.0f} % busy")
    left = time_left(status)
    if left and not last:
        parts.append(left)
    return ", ".join(parts)


def budgets(status: RunStatus) -> str:
    """How large the run is."""
    known = [] if status.n_evaluations is None else [f"{status.n_evaluations} evaluations"]
    if status.time_budget is not None:
        known.append(duration(status.time_budget))
    return " or ".join(known)


def best(status: RunStatus) -> str:
    """The best robust value, and half of its 95 % interval unless it is known."""
    if status.best is None:
        return "-"
    spread = f" ± {BAND * status.best.std:.2g}" if status.best.std else ""
    return f"{status.best.robust_value:.5g}{spread}"


def config_text(config: Config) -> str:
    """A config as name=value pairs; floats are shortened."""
    pairs = (
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in config.items()
    )
    return printable(", ".join(pairs), CONFIG_SHOWN)


def folds(status: RunStatus) -> str:
    """How often each fold was evaluated, in the order of the folds."""
    every = [status.fold_counts.get(fold, 0) for fold in range(status.n_folds)]
    if len(every) > FOLDS_SHOWN:
        return f"{min(every)} to {max(every)} each in {len(every)} folds"
    if status.context_names:
        return counts_by_name(status.context_names, every)
    return " ".join(str(count) for count in every)


def counts_by_name(names: Sequence[str], counts: Sequence[int]) -> str:
    """How often each named fold was evaluated, e.g. "Cleveland 3, Hungary 2"."""
    pairs = zip(names, counts, strict=True)
    return ", ".join(f"{printable(name, NAME_SHOWN)} {count}" for name, count in pairs)


def slots(status: RunStatus, over: bool) -> str:
    """How many slots are used, and how well they have been."""
    used = f"{status.slots}" if over else f"{status.running} of {status.slots} running"
    use = status.utilization
    return used if use is None else f"{used}, {100 * use:.0f} % busy"


def clock_text(status: RunStatus, over: bool) -> str:
    """How long the run has taken and will take."""
    left = "" if over else time_left(status)
    return duration(status.seconds) + (f", {left}" if left else "")


def time_left(status: RunStatus) -> str:
    """How long the rest will take; empty while that is anyone's guess."""
    seconds = status.seconds_left
    if seconds is not None:
        return f"about {duration(seconds)} left"
    least = status.least_seconds_left
    return f"at least {duration(least)} left" if least is not None and least >= 1 else ""


def duration(seconds: float | None) -> str:
    """Seconds as people say them: 41 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None or not math.isfinite(seconds):
        return "?"
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _failed(status: RunStatus) -> str:
    last = status.last_failure
    if last is None:
        return f"{status.failed}"
    reason = error_line(last.reason, 120)
    where = printable(fold_text(last.context, status.context_names), NAME_SHOWN)
    return f"{status.failed}, last evaluation {last.id} ({where}): {reason}"
