"""What a run shows while it works: a live region with a bar, plain lines, or nothing.

`make_progress` picks one. All three take the same calls, so the runner need not know which it
has. A display never ends a run: once its stream fails it falls silent. Names, reasons and
whatever else comes from the user are shown as text, never as markup or escape sequences.

Failed evaluations are logged by whoever runs them, and a live region lets such lines scroll above
it. Displays only count them.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from drbqo_ray.records import BAND, Config, Observation, Suggestion
from drbqo_ray.runtime.live_region import AboveRegion, LiveRegion, is_terminal
from drbqo_ray.runtime.tally import Clock, Tally
from drbqo_ray.runtime.terminal import TolerantStream, error_line, printable, speaks_unicode

SECONDS_BETWEEN_LINES = 5.0
MOST_SECONDS_BETWEEN_LINES = 60.0
SHARE_BETWEEN_LINES = 0.02  # of the time that has gone by
FOLDS_SHOWN = 20
CONFIG_SHOWN = 300
LONGEST_NAME = 24
SHORTEST_BAR, LONGEST_BAR = 10, 40


class Progress(Protocol):
    """What the runner tells a display."""

    def on_start(
        self, run_name: str, n_evaluations: int, slots: int | None, n_folds: int | None = None
    ) -> None:
        """A run begins or is resumed."""

    def on_ask(self, suggestion: Suggestion) -> None:
        """An evaluation was handed out."""

    def on_status(self, status: Mapping[str, Any]) -> None:
        """Counts of the run, or its best config, have changed; every key is optional."""

    def on_observation(self, observation: Observation, status: Mapping[str, Any]) -> None:
        """An evaluation ended; `status` as above."""

    def on_finish(self, result: Any = None) -> None:
        """The run ended, with a result or without one; later calls change nothing."""


def make_progress(
    progress: bool | None, stream: TextIO | None = None, clock: Clock = time.monotonic
) -> Progress:
    """The display for a stream: silent for False, else a live region or, on no terminal, lines.

    Args:
        progress: False for silence; True shows what suits the stream; None does so too, but is
            silent inside pytest.
        stream: where to write, standard error by default.
        clock: seconds that never go back.
    """
    if not _wanted(progress):
        return SilentProgress()
    stream = sys.stderr if stream is None else stream
    return LiveProgress(stream, clock) if _can_redraw(stream) else LineProgress(stream, clock)


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


class SilentProgress:
    """Shows nothing."""

    def on_start(
        self, run_name: str, n_evaluations: int, slots: int | None, n_folds: int | None = None
    ) -> None:
        """Do nothing."""

    def on_ask(self, suggestion: Suggestion) -> None:
        """Do nothing."""

    def on_status(self, status: Mapping[str, Any]) -> None:
        """Do nothing."""

    def on_observation(self, observation: Observation, status: Mapping[str, Any]) -> None:
        """Do nothing."""

    def on_finish(self, result: Any = None) -> None:
        """Do nothing."""


class LineProgress:
    """Writes a line at the start and at the end, and at most one every few seconds in between.

    The longer a run has been going on, the rarer the lines.
    """

    def __init__(self, stream: TextIO | None, clock: Clock = time.monotonic) -> None:
        self._stream = TolerantStream(stream)
        self._clock = clock
        self._tally: Tally | None = None
        self._start = self._written = 0.0

    def on_start(
        self, run_name: str, n_evaluations: int, slots: int | None, n_folds: int | None = None
    ) -> None:
        """Write how large the run is."""
        self._tally = Tally(run_name, n_evaluations, slots, self._clock, n_folds)
        self._start = self._clock()
        places = "" if slots is None else f", {slots} at a time"
        self._write(self._tally, f"{n_evaluations} evaluations{places}")

    def on_ask(self, suggestion: Suggestion) -> None:
        """Count it."""
        if self._tally is not None:
            self._tally.ask(suggestion)

    def on_status(self, status: Mapping[str, Any]) -> None:
        """Take it over; write a line when one is due."""
        if self._tally is not None:
            self._tally.update(status)
            self._write_if_due(self._tally)

    def on_observation(self, observation: Observation, status: Mapping[str, Any]) -> None:
        """Count it; write a line when one is due."""
        if self._tally is not None:
            self._tally.observe(observation, status)
            self._write_if_due(self._tally)

    def on_finish(self, result: Any = None) -> None:
        """Write the last line."""
        tally, self._tally = self._tally, None
        if tally is None:
            return
        tally.finish(result)
        end = "finished" if tally.done >= tally.n_evaluations else "stopped"
        why = "" if tally.stop_reason is None else f", {printable(tally.stop_reason)}"
        text = summary(tally, last=True)
        self._write(tally, f"{end} after {duration(tally.seconds)}{why}: {text}")

    def _write_if_due(self, tally: Tally) -> None:
        pause = SHARE_BETWEEN_LINES * (self._clock() - self._start)
        pause = min(max(pause, SECONDS_BETWEEN_LINES), MOST_SECONDS_BETWEEN_LINES)
        if self._clock() - self._written >= pause:
            self._write(tally, summary(tally))

    def _write(self, tally: Tally, text: str) -> None:
        self._written = self._clock()
        self._stream.write(f"{printable(tally.run_name)}: {text}\n")
        self._stream.flush()


class LiveProgress:
    """Keeps a bar and a few lines at the foot of a terminal up to date."""

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._tally: Tally | None = None
        self._region: LiveRegion | None = None
        self._over = False

    def on_start(
        self, run_name: str, n_evaluations: int, slots: int | None, n_folds: int | None = None
    ) -> None:
        """Show the region."""
        self.on_finish()
        self._over = False
        self._tally = Tally(run_name, n_evaluations, slots, self._clock, n_folds)
        self._region = LiveRegion(self._stream, self._draw)
        self._region.start()

    def on_ask(self, suggestion: Suggestion) -> None:
        """Count it; the region follows by itself."""
        if self._tally is not None:
            self._tally.ask(suggestion)

    def on_status(self, status: Mapping[str, Any]) -> None:
        """Take it over; the region follows by itself."""
        if self._tally is not None:
            self._tally.update(status)

    def on_observation(self, observation: Observation, status: Mapping[str, Any]) -> None:
        """Count it; the region follows by itself."""
        if self._tally is not None:
            self._tally.observe(observation, status)

    def on_finish(self, result: Any = None) -> None:
        """Leave the last state on the screen and give the terminal back."""
        if self._region is not None and self._tally is not None:
            self._tally.finish(result)
            self._over = True
            self._region.stop()
        self._region = self._tally = None

    def _draw(self, width: int) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        tally = self._tally
        if tally is None:
            return Text("")
        table = Table.grid(padding=(0, 2))
        table.width = width
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold", ratio=1)
        for name, value in rows(tally, self._over):
            bad = name == "failed" and tally.failed
            table.add_row(Text(name), Text(value, style="red" if bad else ""))
        return Group(self._bar(tally, width), table)

    def _bar(self, tally: Tally, width: int) -> Any:
        """Name, bar, counts and time in one line."""
        from rich.text import Text

        done, rest = ("━", "─") if speaks_unicode(self._stream) else ("#", "-")
        name = printable(tally.run_name, LONGEST_NAME)
        times = f"{tally.done}/{tally.n_evaluations}  {clock_text(tally, self._over)}"
        room = width - len(name) - len(times) - 4
        size = min(max(room, SHORTEST_BAR), LONGEST_BAR)
        filled = min(max(size * tally.done // max(tally.n_evaluations, 1), 0), size)
        return Text.assemble(
            (name, "bold"),
            "  ",
            (done * filled, "green" if filled == size else "cyan"),
            (rest * (size - filled), "dim"),
            f"  {times}",
            no_wrap=True,
            overflow="ellipsis",
        )


def rows(tally: Tally, over: bool = False) -> list[tuple[str, str]]:
    """What stands below the bar, as (name, text) pairs."""
    shown = []
    if tally.best_robust is not None:
        shown.append(("best", f"{best(tally)} robust"))
    if tally.best_config is not None:
        shown.append(("config", config_text(tally.best_config)))
    shown += [("per fold", folds(tally)), ("slots", slots(tally, over)), ("failed", _failed(tally))]
    if tally.coverage is not None:
        shown.append(("folds", str(tally.coverage)))
    if tally.stop_reason is not None:
        shown.append(("stopped", printable(tally.stop_reason)))
    return shown


def summary(tally: Tally, last: bool = False) -> str:
    """All of it as one line."""
    parts = [f"{tally.done}/{tally.n_evaluations} done"]
    if not last:
        parts.append(f"{tally.running} running")
    parts.append(f"{tally.failed} failed" if tally.coverage is None else str(tally.coverage))
    parts.append(f"best {best(tally)}")
    if tally.best_config is not None:
        parts[-1] += f" ({config_text(tally.best_config)})"
    parts.append(f"folds {folds(tally)}")
    if tally.utilization is not None:
        parts.append(f"{share(tally.utilization)} busy")
    left = time_left(tally)
    if left and not last:
        parts.append(left)
    return ", ".join(parts)


def best(tally: Tally) -> str:
    """The best robust value, and half of its 95 % interval unless it is known."""
    if tally.best_robust is None:
        return "-"
    spread = "" if not tally.best_std else f" ± {BAND * tally.best_std:.2g}"
    return f"{tally.best_robust:.5g}{spread}"


def config_text(config: Config) -> str:
    """A config as name=value pairs; floats are shortened."""
    pairs = (
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in config.items()
    )
    return printable(", ".join(pairs), CONFIG_SHOWN)


def folds(tally: Tally) -> str:
    """How often each fold was evaluated, in the order of the folds."""
    counts = {fold: count for fold, count in tally.fold_counts.items() if fold >= 0}
    size = max(tally.n_folds or 0, max(counts, default=-1) + 1)
    if not size:
        return "-"
    every = [counts.get(fold, 0) for fold in range(size)]
    if size > FOLDS_SHOWN:
        return f"{min(every)} to {max(every)} each in {size} folds"
    return " ".join(str(count) for count in every)


def slots(tally: Tally, over: bool) -> str:
    """How many slots are used, and how well they have been."""
    places = "" if not tally.slots else f"{tally.slots}" if over else f" of {tally.slots} running"
    used = places if over else f"{tally.running}{places or ' running'}"
    busy = "" if tally.utilization is None else f"{share(tally.utilization)} busy"
    return ", ".join(part for part in (used, busy) if part) or "-"


def share(value: float | None) -> str:
    """A share as a percentage."""
    return "-" if value is None else f"{100 * value:.0f} %"


def clock_text(tally: Tally, over: bool) -> str:
    """How long the run has taken and will take."""
    left = "" if over else time_left(tally)
    return duration(tally.seconds) + (f", {left}" if left else "")


def time_left(tally: Tally) -> str:
    """How long the rest will take; empty while that is anyone's guess."""
    seconds = tally.seconds_left
    if seconds is not None:
        return f"about {duration(seconds)} left"
    least = tally.least_seconds_left
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


def _failed(tally: Tally) -> str:
    last = tally.last_failure
    if last is None:
        return f"{tally.failed}"
    reason = error_line(last.reason, 120)
    return f"{tally.failed}, last evaluation {last.id} (fold {last.context}): {reason}"
