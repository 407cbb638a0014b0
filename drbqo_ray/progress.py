"""What a run shows while it works: a live table, plain lines, or nothing.

`make_progress` picks one. All three take the same four calls, so the runner need not know which
it has. A display never ends a run: once its stream fails it falls silent. Names, reasons and
whatever else comes from the user are shown as text, never as markup or escape sequences.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol, TextIO, cast

from drbqo_ray.records import BAND, Observation, Suggestion
from drbqo_ray.tally import Clock, Tally
from drbqo_ray.terminal import TolerantStream, printable

SECONDS_BETWEEN_LINES = 5.0
LINES_PER_RUN = 10
FOLDS_SHOWN = 20


class Progress(Protocol):
    """What the runner tells a display."""

    def on_start(self, run_name: str, n_evaluations: int, slots: int | None) -> None:
        """A run begins or is resumed."""

    def on_ask(self, suggestion: Suggestion) -> None:
        """An evaluation was handed out."""

    def on_observation(self, observation: Observation, status: Mapping[str, Any]) -> None:
        """An evaluation ended; `status` holds counts of the run, every key optional."""

    def on_finish(self, result: Any = None) -> None:
        """The run ended, with a result or without one; later calls change nothing."""


def make_progress(
    progress: bool | None, stream: TextIO | None = None, clock: Clock = time.monotonic
) -> Progress:
    """The display for a stream: silent for False, else a table or, on no terminal, lines.

    Args:
        progress: False for silence; None and True show what suits the stream.
        stream: where to write, standard error by default.
        clock: seconds that never go back.
    """
    if progress is False:
        return SilentProgress()
    stream = sys.stderr if stream is None else stream
    if stream is None or not stream.isatty() or os.environ.get("TERM") in (None, "", "dumb"):
        return LineProgress(stream, clock)
    return TableProgress(stream, clock)


class SilentProgress:
    """Shows nothing."""

    def on_start(self, run_name: str, n_evaluations: int, slots: int | None) -> None:
        """Do nothing."""

    def on_ask(self, suggestion: Suggestion) -> None:
        """Do nothing."""

    def on_observation(self, observation: Observation, status: Mapping[str, Any]) -> None:
        """Do nothing."""

    def on_finish(self, result: Any = None) -> None:
        """Do nothing."""


class LineProgress:
    """Writes a line every few seconds, at every tenth of the budget, and at the end."""

    def __init__(self, stream: TextIO | None, clock: Clock = time.monotonic) -> None:
        self._stream = TolerantStream(stream)
        self._clock = clock
        self._tally: Tally | None = None
        self._written = 0.0
        self._written_done = 0

    def on_start(self, run_name: str, n_evaluations: int, slots: int | None) -> None:
        """Write how large the run is."""
        self._tally = Tally(run_name, n_evaluations, slots, self._clock)
        places = "" if slots is None else f", {slots} at a time"
        self._write(f"{printable(run_name)}: {n_evaluations} evaluations{places}")

    def on_ask(self, suggestion: Suggestion) -> None:
        """Count it."""
        if self._tally is not None:
            self._tally.ask(suggestion)

    def on_observation(self, observation: Observation, status: Mapping[str, Any]) -> None:
        """Count it; write a line when one is due, and one for the first failure."""
        tally = self._tally
        if tally is None:
            return
        tally.observe(observation, status)
        if observation.status == "failed" and tally.failed == 1:
            self._write(f"{printable(tally.run_name)}: {_failure(observation)}")
        step = max(tally.n_evaluations // LINES_PER_RUN, 1)
        if (
            tally.done // step > self._written_done // step
            or self._clock() - self._written >= SECONDS_BETWEEN_LINES
        ):
            self._write(f"{printable(tally.run_name)}: {summary(tally)}")

    def on_finish(self, result: Any = None) -> None:
        """Write the last line."""
        tally, self._tally = self._tally, None
        if tally is None:
            return
        tally.finish(result)
        end = "finished" if tally.done >= tally.n_evaluations else "stopped"
        spent = duration(tally.seconds)
        text = summary(tally, last=True)
        why = "" if tally.stop_reason is None else f", {printable(tally.stop_reason)}"
        self._write(f"{printable(tally.run_name)}: {end} after {spent}{why}: {text}")

    def _write(self, line: str) -> None:
        if self._tally is not None:
            self._written, self._written_done = self._clock(), self._tally.done
        self._stream.write(line + "\n")
        self._stream.flush()


class TableProgress:
    """Keeps a table at the foot of a terminal up to date."""

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._stream = TolerantStream(stream)
        self._clock = clock
        self._tally: Tally | None = None
        self._live: Any = None

    def on_start(self, run_name: str, n_evaluations: int, slots: int | None) -> None:
        """Show the table."""
        from rich.console import Console
        from rich.live import Live

        self.on_finish()
        self._tally = Tally(run_name, n_evaluations, slots, self._clock)
        console = Console(
            file=cast(TextIO, self._stream), markup=False, highlight=False, emoji=False
        )
        self._live = Live(
            get_renderable=self._table,
            console=console,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        atexit.register(self.on_finish)
        self._live.start(refresh=True)

    def on_ask(self, suggestion: Suggestion) -> None:
        """Count it; the table follows by itself."""
        if self._tally is not None:
            self._tally.ask(suggestion)

    def on_observation(self, observation: Observation, status: Mapping[str, Any]) -> None:
        """Count it; the table follows by itself."""
        if self._tally is not None:
            self._tally.observe(observation, status)

    def on_finish(self, result: Any = None) -> None:
        """Leave the last state on the screen and give the terminal back."""
        if self._live is not None:
            atexit.unregister(self.on_finish)
            if self._tally is not None:
                self._tally.finish(result)
            self._live.stop()
        self._live = self._tally = None

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        tally = self._tally
        if tally is None:
            return Text("")
        table = Table(title=Text(printable(tally.run_name, 80)), show_header=False, min_width=40)
        table.add_column(style="cyan")
        table.add_column(overflow="fold")
        for name, value in rows(tally):
            bad = "failure" in name or (name == "failed" and tally.failed)
            table.add_row(Text(name), Text(value, style="red" if bad else ""))
        return table


def rows(tally: Tally) -> list[tuple[str, str]]:
    """The table as (name, text) pairs."""
    shown = [
        ("evaluations", f"{tally.done} of {tally.n_evaluations} done"),
        ("running", f"{tally.running}" + (f" of {tally.slots} slots" if tally.slots else "")),
        ("failed", f"{tally.failed}"),
        ("best robust value", best(tally)),
        ("per fold", folds(tally)),
        ("slots in use", share(tally.utilization)),
        ("time", f"{duration(tally.seconds)}, about {duration(tally.seconds_left)} left"),
    ]
    if tally.coverage is not None:
        shown.append(("folds", str(tally.coverage)))
    if tally.stop_reason is not None:
        shown.append(("stopped", printable(tally.stop_reason)))
    if tally.last_failure is not None:
        shown.append(("last failure", _failure(tally.last_failure)))
    return shown


def summary(tally: Tally, last: bool = False) -> str:
    """The table as one line."""
    parts = [f"{tally.done}/{tally.n_evaluations} done"]
    if not last:
        parts.append(f"{tally.running} running")
    parts.append(f"{tally.failed} failed" if tally.coverage is None else str(tally.coverage))
    parts += [f"best {best(tally)}", f"folds {folds(tally)}"]
    if tally.utilization is not None:
        parts.append(f"{share(tally.utilization)} busy")
    if not last:
        parts.append(f"about {duration(tally.seconds_left)} left")
    return ", ".join(parts)


def best(tally: Tally) -> str:
    """The best robust value, and half of its 95 % interval unless it is known."""
    if tally.best_robust is None:
        return "-"
    spread = "" if not tally.best_std else f" ± {BAND * tally.best_std:.2g}"
    return f"{tally.best_robust:.5g}{spread}"


def folds(tally: Tally) -> str:
    """How often each fold was evaluated, in the order of the folds."""
    counts = tally.fold_counts
    if not counts:
        return "-"
    size = max(counts) + 1
    if size > FOLDS_SHOWN:
        least, most = min(counts.values()), max(counts.values())
        return f"{least} to {most} each in {len(counts)} of {size}"
    return " ".join(str(counts.get(fold, 0)) for fold in range(size))


def share(value: float | None) -> str:
    """A share as a percentage."""
    return "-" if value is None else f"{100 * value:.0f}%"


def duration(seconds: float | None) -> str:
    """Seconds as people say them: 41 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None:
        return "?"
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _failure(observation: Observation) -> str:
    lines = [line for line in (observation.reason or "").splitlines() if line.strip()]
    reason = printable(lines[-1].strip(), 160) if lines else "no reason given"
    return f"evaluation {observation.id} (fold {observation.context}) failed: {reason}"
