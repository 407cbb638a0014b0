from __future__ import annotations

import io
import logging
import re
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drbqo_ray.records import Observation, Recommendation, Suggestion
from drbqo_ray.runtime.display import (
    SECONDS_BETWEEN_LINES,
    LineProgress,
    LiveProgress,
    Progress,
    config_text,
    duration,
    folds,
    make_progress,
    time_left,
    waiting,
)
from drbqo_ray.runtime.status import RECENT, Coverage, RunStatus, utilization
from drbqo_ray.runtime.terminal import error_line, printable, printable_lines
from tests.support.screen import Terminal, lines_on_screen

HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]bold[/red] :smile: \r\x9b31m\u202e"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def ok(id: int, context: int = 0, seconds: float = 0.0) -> Observation:
    return Observation(id, {"C": 1.0}, context, "ok", 0.5, seconds=seconds)


def failed(id: int, reason: str = "boom") -> Observation:
    return Observation(id, {"C": 1.0}, 0, "failed", None, reason)


def recommended(config: dict[str, Any], robust: float = 0.75, std: float = 0.01) -> Recommendation:
    return Recommendation(config, robust, robust, [1.0], [robust], [std], std)


class Run(RunStatus):
    """A run in its own time whose display is the one that suits the stream."""

    def __init__(
        self,
        stream: io.StringIO | None = None,
        n_evaluations: int = 10,
        slots: int = 1,
        title: str = "run",
        n_folds: int = 3,
        progress: bool = True,
    ) -> None:
        self.time = Clock()
        display = make_progress(progress, stream)
        super().__init__(title, n_evaluations, lambda: slots, n_folds, display, self.time)

    def start(self, id: int, fold: int = 0) -> None:
        self.started("run", Suggestion(id, {"C": 1.0}, fold, 0))

    def end(self, observation: Observation, seconds: float = 0.0) -> None:
        self.time.now += seconds
        self.ended("run", observation)

    def play(self, n: int, seconds: float = 1.0) -> None:
        for id in range(n):
            self.start(id, id % 3)
            self.end(ok(id, id % 3, seconds), seconds)


@pytest.fixture(autouse=True)
def _usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "40")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def test_the_display_suits_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert type(make_progress(False, Terminal())) is Progress
    for wish in (None, True):
        assert isinstance(make_progress(wish, Terminal()), LiveProgress)
        assert isinstance(make_progress(wish, io.StringIO()), LineProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_progress(True, Terminal()), LineProgress)


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_nothing_is_shown_inside_pytest_unless_it_is_asked_for(
    make: type[io.StringIO],
) -> None:
    assert type(make_progress(None, make())) is Progress
    assert type(make_progress(True, make())) is not Progress


def test_a_second_display_on_one_terminal_writes_lines_above_the_first() -> None:
    stream = Terminal()
    before, sys.stderr = sys.stderr, stream
    try:
        first = Run(None, 6, 2, "first")
        assert isinstance(make_progress(True), LineProgress)
        Run(None, 9, 2, "second").finish()
        first.finish()
    finally:
        sys.stderr = before
    seen = lines_on_screen(stream.getvalue())
    assert seen[0] == "second: 9 evaluations, 2 at a time"
    assert seen[1].startswith("second: stopped after 0 s")
    assert [line[:5] for line in seen].count("first") == 1


def test_false_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    run = Run(None, 3, 2, progress=False)
    run.play(3)
    run.finish()
    assert capfd.readouterr() == ("", "")


def test_lines_go_to_standard_error_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    Run(None, 3, 2).finish()
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("run: 3 evaluations, 2 at a time\n")


def test_a_short_run_writes_its_first_and_its_last_line_only() -> None:
    stream = io.StringIO()
    run = Run(stream, 100, 2)
    run.play(100, seconds=0.001)
    run.finish()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[-1].startswith("run: finished after 0 s: 100/100 done")


def test_lines_come_every_few_seconds_at_most() -> None:
    stream = io.StringIO()
    run = Run(stream, 10_000, 1)
    run.play(200, seconds=SECONDS_BETWEEN_LINES / 10)
    assert len(stream.getvalue().splitlines()) == 1 + 20
    assert "\x1b" not in stream.getvalue()


def test_the_lines_of_a_long_run_become_rarer_but_not_rare() -> None:
    stream = io.StringIO()
    run = Run(stream, 10_000, 1)
    counts = []
    for _ in range(12):
        run.play(1200, seconds=3.0)
        counts.append(len(stream.getvalue().splitlines()) - sum(counts))
    assert 80 < counts[0] < 200
    assert counts[-1] == 60


def test_a_line_says_what_the_region_says() -> None:
    stream = io.StringIO()
    run = Run(stream, 4, 2, n_folds=4)
    run.found(recommended({"C": 0.12345678, "kernel": "rbf"}, 0.9123, 0.0121))
    for id in range(3):
        run.start(id)
    run.end(failed(0))
    run.end(ok(1, 2, SECONDS_BETWEEN_LINES), SECONDS_BETWEEN_LINES)
    assert stream.getvalue().splitlines()[-1] == (
        "run: 2/4 done, 1 running, 1 failed, best 0.9123 ± 0.024 (C=0.1235, kernel=rbf),"
        " folds 1 0 1 0, 100 % busy, at least 1 s left"
    )
    run.time.now += SECONDS_BETWEEN_LINES
    run.start(3)
    assert stream.getvalue().splitlines()[-1].startswith("run: 2/4 done, 2 running, 1 failed")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_the_last_word_is_the_recommendation_of_the_result(stream: io.StringIO) -> None:
    run = Run(stream, 1)
    run.found(recommended({"C": 1.5}, 0.1, 0.1))
    run.end(ok(0))
    run.finish(recommended({"C": 2.5}, 0.875, 0.0625))
    assert "0.875 ± 0.12" in stream.getvalue()
    assert "C=2.5" in stream.getvalue()


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_the_last_word_says_how_many_folds_have_a_score(make: type[io.StringIO]) -> None:
    stream = make()
    run = Run(stream, 4, 1)
    run.play(2)
    assert "trained on" not in stream.getvalue()
    run.finish(coverage=Coverage(3, (2,), 1))
    said = " ".join(stream.getvalue().replace("│", " ").split())
    assert "trained on 2 of 3 folds, 1 evaluation failed; no score" in said


def test_an_unfinished_run_is_called_stopped() -> None:
    stream = io.StringIO()
    run = Run(stream, 5, 1)
    run.play(2)
    run.finish()
    run.finish()
    last = stream.getvalue().splitlines()[-1]
    assert last.startswith("run: stopped after 2 s: 2/5 done")
    assert stream.getvalue().count("stopped") == 1


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_a_run_that_was_sure_enough_says_so(make: type[io.StringIO]) -> None:
    reason = "sure enough after 2 evaluations: loss 0.001 < 0.002"
    stream = make()
    run = Run(stream, 5, 1)
    run.play(2)
    run.finish(stop_reason=reason)
    assert reason in stream.getvalue()
    assert "stopped" in stream.getvalue()


def test_lines_count_failures_and_leave_it_to_the_log_to_tell_them() -> None:
    stream = io.StringIO()
    run = Run(stream, 1000, 1)
    for id in range(3):
        run.end(failed(id, f"Traceback:\n  File x\nValueError: no {id}\n"))
    assert len(stream.getvalue().splitlines()) == 1
    run.finish()
    assert "3/1000 done, 3 failed, best -" in stream.getvalue()
    assert "ValueError" not in stream.getvalue()


def region_text(stream: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def test_a_value_that_is_known_has_no_band() -> None:
    stream = io.StringIO()
    run = Run(stream, 1)
    run.end(ok(0))
    run.finish(recommended({}, 0.75, 0.0))
    assert "best 0.75 (), folds" in stream.getvalue()


def test_the_region_shows_bar_best_config_folds_slots_and_failures() -> None:
    stream = Terminal()
    run = Run(stream, 10, 2, "my-run", n_folds=5)
    run.found(recommended({"C": 1 / 3}))
    run.play(4)
    run.end(failed(4, "Traceback\nKeyError: 'x'"))
    run.finish()
    assert lines_on_screen(stream.getvalue()) == [
        "my-run  ━━━━━━━━━━━━━━━━━━━━────────────────────  5/10  4 s",
        "best      0.75 ± 0.02 robust",
        "config    C=0.3333",
        "per fold  3 1 1 0 0",
        "slots     2, 50 % busy",
        "failed    1, last evaluation 4 (fold 0): KeyError: 'x'",
        "",
    ]


def test_the_region_says_how_long_the_rest_will_take_while_it_runs() -> None:
    stream = Terminal()
    run = Run(stream, 10, 2, "my-run")
    run.play(4)
    run.start(4)
    wait_for_text(stream, "4/10  4 s, about 6 s left")
    wait_for_text(stream, "1 of 2 running, 50 % busy")
    run.finish()
    assert "left" not in "".join(lines_on_screen(stream.getvalue()))


def wait_for_text(stream: Terminal, text: str) -> None:
    deadline = time.monotonic() + 20
    while text not in region_text(stream):
        assert time.monotonic() < deadline, region_text(stream)[-2000:]
        time.sleep(0.02)


@pytest.mark.parametrize("columns", [30, 80, 200])
def test_failures_and_an_interrupt_leave_one_head_on_the_screen(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    logger, before = logging.getLogger("tests.progress"), sys.stderr
    logger.addHandler(handler := logging.StreamHandler(stream))
    sys.stderr = stream
    try:
        run = Run(None, 40, 2, "HEAD", n_folds=6)
        for id in range(20):
            run.start(id)
            run.time.now += 1
            run.found(recommended({"C": 1.0}) if id > 9 else None)
            run.end(failed(id, f"Traceback\nKeyError: {'x' * 30 * id}"))
            logger.warning("Evaluation %d failed", id)
        stream.write("^C")
        logger.warning("Stopping")
        run.finish()
    finally:
        sys.stderr = before
        logger.removeHandler(handler)
    seen = lines_on_screen(stream.getvalue(), columns)
    assert seen[:21] == [*(f"Evaluation {id} failed" for id in range(20)), "Stopping"]
    assert seen[21].startswith("HEAD  ")
    assert [line[:4] for line in seen].count("HEAD") == 1
    assert max(len(line) for line in seen) < columns
    assert "^C" not in "".join(seen)


def test_a_stream_without_box_characters_gets_a_plain_bar() -> None:
    class Ascii(Terminal):
        encoding = "ascii"  # type: ignore[assignment]

    stream = Ascii()
    run = Run(stream, 2, 1)
    run.play(1)
    run.finish()
    assert f"run  {'#' * 20}{'-' * 20}  1/2" in lines_on_screen(stream.getvalue())[0]


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_a_wait_is_told_and_on_a_terminal_forgotten(make: type[io.StringIO]) -> None:
    stream = make()
    before, sys.stderr = sys.stderr, stream
    try:
        with waiting("starting Ray", True):
            assert "starting Ray" in stream.getvalue()
            print("a warning", file=sys.stderr)
        with waiting("starting Ray", False):
            pass
        with pytest.raises(KeyboardInterrupt), waiting("starting Ray", True):
            raise KeyboardInterrupt
    finally:
        sys.stderr = before
    left = [line for line in lines_on_screen(stream.getvalue()) if line]
    told = [] if make is Terminal else ["starting Ray"]
    assert left == [*told, "a warning", *told]


def test_the_region_gives_the_cursor_back_even_when_nobody_finishes_it() -> None:
    stream = Terminal()
    progress = LiveProgress(stream)
    progress.on_start(Run(progress=False))
    assert stream.getvalue().count("\x1b[?25l") == 1
    progress.on_start(Run(progress=False))
    progress.on_finish()
    assert stream.getvalue().count("\x1b[?25h") == 2


def test_the_region_keeps_its_clock_going_between_outcomes() -> None:
    stream = Terminal()
    run = RunStatus("run", 6, lambda: 2, 3, make_progress(True, stream))
    wait_for_text(stream, "0/6  1 s")
    run.finish()


@pytest.mark.parametrize("no_color", ["", "1"])
def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch, no_color: str) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    stream = Terminal()
    run = Run(stream, 3, 2)
    run.play(3)
    run.finish()
    colors = re.findall(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])m", stream.getvalue())
    assert bool(colors) == (no_color == "")


def test_hostile_names_and_reasons_are_written_literally_in_lines() -> None:
    stream = io.StringIO()
    run = Run(stream, 10, 1, HOSTILE)
    run.end(failed(0, f"Traceback\n{HOSTILE}"))
    run.finish()
    text = stream.getvalue()
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert not set(text) & {"\x9b", "\u202e"}
    assert text.count(r"\x1b[2J") >= 2
    assert text.count("[red]bold[/red] :smile:") >= 2


def test_hostile_names_and_reasons_are_written_literally_in_the_region() -> None:
    stream = Terminal()
    run = Run(stream, 10, 1, "\x1b[2J[red]x[/red] ")
    run.end(failed(0, "\x1b[2J[red]y[/red] :smile:"))
    run.finish()
    assert "\x1b[2J" not in stream.getvalue()
    text = region_text(stream)
    assert r"\x1b[2J[red]x[/red] " in text
    assert r"\x1b[2J[red]y[/red] :smile:" in text


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=40))
def test_printable_text_is_one_line_without_control_characters(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    shown.encode("utf-8")
    if text.isprintable():
        assert shown == text
    assert all(line.isprintable() for line in printable_lines(text).split("\n"))


def test_long_text_is_cut() -> None:
    assert printable("x" * 500, limit=10) == "x" * 7 + "..."
    assert printable("\x1b" * 500, limit=10) == r"\x1b\x1" + "..."
    assert printable("x" * 10, limit=10) == "x" * 10
    assert printable_lines("a\n" * 5000 + "the end", limit=20).endswith("the end")
    assert len(printable_lines("a\n" * 5000, limit=20)) == 20
    assert printable_lines("a\n\tb\x1b") == "a\n    b\\x1b"


PLACE = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    f(x)\n'


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        (None, "no reason given"),
        ("timeout: stopped after 5 seconds\nmore", "timeout: stopped after 5 seconds"),
        (f"{PLACE}ValueError: bad", "ValueError: bad"),
        (f"{PLACE}    ~^~\nValueError: holds\n  a NaN\nhere", "ValueError: holds a NaN here"),
        (f"{PLACE}KeyError: 1\n\nDuring it\n\n{PLACE}OSError: two\nlines", "OSError: two lines"),
        (f"{PLACE}ValueError: x\nRaised on a worker", "ValueError: x Raised on a worker"),
        ("Traceback\nKeyError: 'x'", "KeyError: 'x'"),
        (f"{PLACE}\x1b[2JError", r"\x1b[2JError"),
    ],
)
def test_an_error_is_told_with_its_whole_message(reason: str | None, line: str) -> None:
    assert error_line(reason) == line


def test_an_error_without_end_is_cut() -> None:
    assert len(error_line(f"{PLACE}ValueError: {'x ' * 5000}", 120)) == 120


def test_time_left_leaves_out_the_start_of_the_workers() -> None:
    """A run of 21 s whose first outcome took 16 s is not said to take 16 minutes."""
    run = Run(None, 60, 2, progress=False)
    run.time.now += 16
    for done in range(1, 60):
        run.time.now += 0.0 if done % 2 else 0.17
        run.end(ok(done))
        if done < 3:
            assert run.seconds_left is None
            assert time_left(run) == ""
        else:
            assert run.seconds_left == pytest.approx((60 - done) * 0.085, abs=0.2)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 8), st.floats(0.01, 100), st.integers(20, 100), st.floats(0, 100))
def test_time_left_is_right_for_folds_that_take_equally_long(
    slots: int, seconds: float, total: int, start: float
) -> None:
    run = Run(None, total, slots, progress=False)
    run.time.now += start
    end = run.time.now + -(-total // slots) * seconds
    for done in range(1, total + 1):
        run.time.now += seconds if done % slots == 1 or slots == 1 else 0.0
        run.end(ok(done))
        if done > slots:
            assert run.seconds_left == pytest.approx(end - run.time.now, abs=seconds + 1e-6)


def test_time_left_follows_the_pace_of_late() -> None:
    run = Run(None, 1000, 1, progress=False)
    for done in range(101 + RECENT):
        run.time.now += 1 if done <= 100 else 10
        run.end(ok(done))
    assert run.seconds_left == pytest.approx(10 * (1000 - run.done))


def test_time_left_grows_while_an_outcome_is_overdue() -> None:
    run = Run(None, 12, 1, progress=False)
    for done in (1, 2):
        run.time.now += 2
        run.end(ok(done))
    found = []
    for _ in range(4):
        found.append(run.seconds_left)
        run.time.now += 1
    assert found == [20, 19, 18, 2.5 * 10 - 2.5]
    run.time.now += 496
    assert run.seconds_left == 251 * 10 - 251


def test_before_there_is_a_pace_the_folds_tell_how_long_it_takes_at_least() -> None:
    run = Run(None, 41, 4, progress=False)
    assert time_left(run) == ""
    for id in range(1, 5):
        run.start(id)
    run.end(ok(0, seconds=600.0), 1000)
    assert time_left(run) == "at least 1 h 30 min left"
    quick = Run(None, 41, 4, progress=False)
    quick.end(ok(0, seconds=0.01), 1000)
    assert time_left(quick) == ""


def test_nothing_is_left_of_a_run_that_is_done() -> None:
    run = Run(None, 3, 1, progress=False)
    for done in range(3):
        run.time.now += 1
        run.end(ok(done))
    run.time.now += 50
    assert run.seconds_left == 0


def test_utilization_is_a_share_of_the_time_there_was() -> None:
    assert utilization(3.0, 4.0) == 0.75
    assert utilization(4.1, 4.0) == 1.0
    assert utilization(0.0, 0.0) is None


def test_calls_out_of_order_are_ignored() -> None:
    for progress in (make_progress(True, io.StringIO()), make_progress(True, Terminal())):
        progress.on_change()
        progress.on_finish()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_broken_stream_silences_the_display_and_not_the_run(terminal: bool) -> None:
    class Broken(io.StringIO):
        def isatty(self) -> bool:
            return terminal

        def write(self, text: str) -> int:
            raise BrokenPipeError

    run = Run(Broken(), 5)
    run.play(5)
    run.finish()


def test_a_stream_that_knows_only_ascii_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    run = Run(stream, 1, 1, "Größe")
    run.play(1)
    run.finish(recommended({}, 0.5, 0.1))
    assert rb"0.5 \xb1 0.2" in raw.getvalue()
    assert rb"Gr\xf6\xdfe: " in raw.getvalue()


def test_durations_read_well() -> None:
    assert [duration(s) for s in (None, -3, 0.4, 59.6, 3599, 7500)] == [
        "?",
        "0 s",
        "0 s",
        "1 min 0 s",
        "59 min 59 s",
        "2 h 5 min",
    ]


def test_folds_without_a_score_are_counted_too() -> None:
    run = Run(progress=False, n_folds=6)
    assert folds(run) == "0 0 0 0 0 0"
    run.resumed(3, 0, {0: 2, 3: 1}, 5.0)
    assert folds(run) == "2 0 0 1 0 0"


def test_many_folds_are_summed_up() -> None:
    run = Run(progress=False, n_folds=60)
    run.resumed(99, 0, {fold: fold % 3 + 1 for fold in range(50)}, 5.0)
    assert folds(run) == "0 to 3 each in 60 folds"


def test_a_config_is_one_line_however_odd() -> None:
    assert config_text({"C": 1 / 3, "n": 3, "kernel": "rbf", "p": None}) == (
        "C=0.3333, n=3, kernel=rbf, p=None"
    )
    assert config_text({}) == ""
    assert config_text({"x": "\n\x1b"}) == r"x=\n\x1b"
    assert len(config_text({f"p{n}": n for n in range(500)})) == 300
