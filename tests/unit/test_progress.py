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
from drbqo_ray.runtime.coverage import Coverage
from drbqo_ray.runtime.display import (
    SECONDS_BETWEEN_LINES,
    LineProgress,
    LiveProgress,
    Progress,
    SilentProgress,
    config_text,
    duration,
    folds,
    make_progress,
    rows,
    time_left,
    waiting,
)
from drbqo_ray.runtime.tally import RECENT, Tally, utilization
from drbqo_ray.runtime.terminal import error_line, printable, printable_lines
from tests.support.screen import Terminal, lines_on_screen

HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]bold[/red] :smile: \r\x9b31m\u202e"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def ok(id: int, context: int = 0, score: float = 0.5) -> Observation:
    return Observation(id, {"C": 1.0}, context, "ok", score)


def failed(id: int, reason: str = "boom") -> Observation:
    return Observation(id, {"C": 1.0}, 0, "failed", None, reason)


def suggestion(id: int, context: int = 0) -> Suggestion:
    return Suggestion(id, {"C": 1.0}, context, 0)


def play(progress: Progress, clock: Clock, n: int, seconds: float = 1.0, **status: Any) -> None:
    for id in range(n):
        progress.on_ask(suggestion(id, id % 3))
        clock.now += seconds
        progress.on_observation(ok(id, id % 3), status)


@pytest.fixture(autouse=True)
def _usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "40")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def test_the_display_suits_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert isinstance(make_progress(False, Terminal()), SilentProgress)
    for wish in (None, True):
        assert isinstance(make_progress(wish, Terminal()), LiveProgress)
        assert isinstance(make_progress(wish, io.StringIO()), LineProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_progress(True, Terminal()), LineProgress)


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_nothing_is_shown_inside_pytest_unless_it_is_asked_for(
    make: type[io.StringIO],
) -> None:
    assert isinstance(make_progress(None, make()), SilentProgress)
    assert not isinstance(make_progress(True, make()), SilentProgress)


def test_a_second_display_on_one_terminal_writes_lines_above_the_first() -> None:
    stream, clock = Terminal(), Clock()
    before, sys.stderr = sys.stderr, stream
    try:
        first = make_progress(True, clock=clock)
        first.on_start("first", 6, 2)
        second = make_progress(True, clock=clock)
        assert isinstance(second, LineProgress)
        second.on_start("second", 9, 2)
        second.on_finish()
        first.on_finish()
    finally:
        sys.stderr = before
    seen = lines_on_screen(stream.getvalue())
    assert seen[0] == "second: 9 evaluations, 2 at a time"
    assert seen[1].startswith("second: stopped after 0 s")
    assert [line[:5] for line in seen].count("first") == 1


def test_false_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = make_progress(False, clock=clock)
    progress.on_start("run", 3, 2)
    play(progress, clock, 3)
    progress.on_finish(None)
    assert capfd.readouterr() == ("", "")


def test_lines_go_to_standard_error_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    progress = make_progress(True)
    progress.on_start("run", 3, 2)
    progress.on_finish(None)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("run: 3 evaluations, 2 at a time\n")


def test_a_short_run_writes_its_first_and_its_last_line_only() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 100, 2)
    play(progress, clock, 100, seconds=0.001)
    progress.on_finish(None)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[-1].startswith("run: finished after 0 s: 100/100 done")


def test_lines_come_every_few_seconds_at_most() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 10_000, 1)
    play(progress, clock, 200, seconds=SECONDS_BETWEEN_LINES / 10)
    assert len(stream.getvalue().splitlines()) == 1 + 20
    assert "\x1b" not in stream.getvalue()


def test_the_lines_of_a_long_run_become_rarer_but_not_rare() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 10_000, 1)
    counts = []
    for _ in range(12):
        play(progress, clock, 1200, seconds=3.0)
        counts.append(len(stream.getvalue().splitlines()) - sum(counts))
    assert 80 < counts[0] < 200
    assert counts[-1] == 60


def test_a_line_says_what_the_region_says() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 4, 2, 4)
    status = {"done": 2, "running": 1, "failed": 1, "best_robust": 0.9123, "best_std": 0.0121}
    status |= {"best_config": {"C": 0.12345678, "kernel": "rbf"}, "fold_seconds": 12.0}
    progress.on_ask(suggestion(0))
    clock.now += SECONDS_BETWEEN_LINES
    progress.on_observation(ok(0), status | {"fold_counts": [2, 0, 1], "utilization": 0.956})
    assert stream.getvalue().splitlines()[-1] == (
        "run: 2/4 done, 1 running, 1 failed, best 0.9123 ± 0.024 (C=0.1235, kernel=rbf),"
        " folds 2 0 1 0, 96 % busy, at least 6 s left"
    )
    clock.now += SECONDS_BETWEEN_LINES
    progress.on_status({"running": 0})
    assert stream.getvalue().splitlines()[-1].startswith("run: 2/4 done, 0 running, 1 failed")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_the_last_word_is_the_recommendation_of_the_result(stream: io.StringIO) -> None:
    class Result:
        recommendation = Recommendation({"C": 2.5}, 0.875, 0.9, [1.0], [0.9], [0.1], 0.0625)

    progress = make_progress(True, stream, Clock())
    progress.on_start("run", 1, 1)
    progress.on_observation(ok(0), {"best_robust": 0.1, "best_std": 0.1})
    progress.on_finish(Result())
    assert "0.875 ± 0.12" in stream.getvalue()
    assert "C=2.5" in stream.getvalue()


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_the_last_word_says_how_many_folds_have_a_score(make: type[io.StringIO]) -> None:
    class Result:
        coverage = Coverage(3, (2,), 1)

    stream, clock = make(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 4, 1)
    play(progress, clock, 2)
    assert "trained on" not in stream.getvalue()
    progress.on_finish(Result())
    said = " ".join(stream.getvalue().replace("│", " ").split())
    assert "trained on 2 of 3 folds, 1 evaluation failed; no score" in said


def test_an_unfinished_run_is_called_stopped() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 5, 1)
    play(progress, clock, 2)
    progress.on_finish(None)
    progress.on_finish(None)
    last = stream.getvalue().splitlines()[-1]
    assert last.startswith("run: stopped after 2 s: 2/5 done")
    assert stream.getvalue().count("stopped") == 1


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_a_run_that_was_sure_enough_says_so(make: type[io.StringIO]) -> None:
    class Result:
        stop_reason = "sure enough after 2 evaluations: loss 0.001 < 0.002"

    stream, clock = make(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 5, 1)
    play(progress, clock, 2)
    progress.on_finish(Result())
    assert Result.stop_reason in stream.getvalue()
    assert "stopped" in stream.getvalue()


def test_lines_count_failures_and_leave_it_to_the_log_to_tell_them() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 1000, 1)
    for id in range(3):
        progress.on_observation(failed(id, f"Traceback:\n  File x\nValueError: no {id}\n"), {})
    assert len(stream.getvalue().splitlines()) == 1
    progress.on_finish()
    assert "3/1000 done, 3 failed, best -" in stream.getvalue()
    assert "ValueError" not in stream.getvalue()


def region_text(stream: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def test_a_value_that_is_known_has_no_band() -> None:
    stream = io.StringIO()
    progress = make_progress(True, stream, Clock())
    progress.on_start("run", 1, 1)
    progress.on_observation(ok(0), {"best_robust": 0.75, "best_std": 0.0})
    progress.on_finish(None)
    assert "best 0.75, folds" in stream.getvalue()


def test_the_region_shows_bar_best_config_folds_slots_and_failures() -> None:
    stream, clock = Terminal(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("my-run", 10, 2, 5)
    play(progress, clock, 4, best_robust=0.75, best_std=0.01, best_config={"C": 1 / 3})
    progress.on_observation(failed(4, "Traceback\nKeyError: 'x'"), {"fold_counts": {0: 3, 2: 1}})
    progress.on_finish(None)
    assert lines_on_screen(stream.getvalue()) == [
        "my-run  ━━━━━━━━━━━━━━━━━━━━────────────────────  5/10  4 s",
        "best      0.75 ± 0.02 robust",
        "config    C=0.3333",
        "per fold  3 0 1 0 0",
        "slots     2, 50 % busy",
        "failed    1, last evaluation 4 (fold 0): KeyError: 'x'",
        "",
    ]


def test_the_region_says_how_long_the_rest_will_take_while_it_runs() -> None:
    stream, clock = Terminal(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("my-run", 10, 2)
    play(progress, clock, 4)
    progress.on_ask(suggestion(4))
    wait_for_text(stream, "4/10  4 s, about 6 s left")
    wait_for_text(stream, "1 of 2 running, 50 % busy")
    progress.on_finish(None)
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
    stream, clock = Terminal(), Clock()
    logger, before = logging.getLogger("tests.progress"), sys.stderr
    logger.addHandler(handler := logging.StreamHandler(stream))
    sys.stderr = stream
    try:
        progress = make_progress(True, clock=clock)
        progress.on_start("HEAD", 40, 2, 6)
        for id in range(20):
            progress.on_ask(suggestion(id))
            clock.now += 1
            status = {"best_robust": 0.5, "best_config": {"C": 1.0}} if id > 9 else {}
            progress.on_observation(failed(id, f"Traceback\nKeyError: {'x' * 30 * id}"), status)
            logger.warning("Evaluation %d failed", id)
        stream.write("^C")
        logger.warning("Stopping")
        progress.on_finish(None)
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

    stream, clock = Ascii(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 2, 1)
    play(progress, clock, 1)
    progress.on_finish(None)
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
    progress.on_start("run", 6, 2)
    assert stream.getvalue().count("\x1b[?25l") == 1
    progress.on_start("again", 6, 2)
    progress.on_finish()
    assert stream.getvalue().count("\x1b[?25h") == 2


def test_the_region_keeps_its_clock_going_between_outcomes() -> None:
    stream = Terminal()
    progress = make_progress(True, stream)
    progress.on_start("run", 6, 2)
    wait_for_text(stream, "0/6  1 s")
    progress.on_finish(None)


@pytest.mark.parametrize("no_color", ["", "1"])
def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch, no_color: str) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    stream, clock = Terminal(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 3, 2)
    play(progress, clock, 3)
    progress.on_finish(None)
    colors = re.findall(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])m", stream.getvalue())
    assert bool(colors) == (no_color == "")


def test_hostile_names_and_reasons_are_written_literally_in_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start(HOSTILE, 10, 1)
    progress.on_observation(failed(0, f"Traceback\n{HOSTILE}"), {})
    progress.on_finish(None)
    text = stream.getvalue()
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert not set(text) & {"\x9b", "\u202e"}
    assert text.count(r"\x1b[2J") >= 2
    assert text.count("[red]bold[/red] :smile:") >= 2


def test_hostile_names_and_reasons_are_written_literally_in_the_region() -> None:
    stream, clock = Terminal(), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("\x1b[2J[red]x[/red] ", 10, 1)
    progress.on_observation(failed(0, "\x1b[2J[red]y[/red] :smile:"), {})
    progress.on_finish(None)
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
    clock = Clock()
    tally = Tally("run", 60, 2, clock)
    clock.now += 16
    for done in range(1, 60):
        clock.now += 0.0 if done % 2 else 0.17
        tally.observe(ok(done), {})
        if done < 3:
            assert tally.seconds_left is None
            assert time_left(tally) == ""
        else:
            assert tally.seconds_left == pytest.approx((60 - done) * 0.085, abs=0.2)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 8), st.floats(0.01, 100), st.integers(20, 100), st.floats(0, 100))
def test_time_left_is_right_for_folds_that_take_equally_long(
    slots: int, seconds: float, total: int, start: float
) -> None:
    clock = Clock()
    tally = Tally("run", total, slots, clock)
    clock.now += start
    end = clock.now + -(-total // slots) * seconds
    for done in range(1, total + 1):
        clock.now += seconds if done % slots == 1 or slots == 1 else 0.0
        tally.observe(ok(done), {})
        if done > slots:
            assert tally.seconds_left == pytest.approx(end - clock.now, abs=seconds + 1e-6)


def test_time_left_follows_the_pace_of_late() -> None:
    clock = Clock()
    tally = Tally("run", 1000, 1, clock)
    for done in range(101 + RECENT):
        clock.now += 1 if done <= 100 else 10
        tally.observe(ok(done), {})
    assert tally.seconds_left == pytest.approx(10 * (1000 - tally.done))


def test_time_left_grows_while_an_outcome_is_overdue() -> None:
    clock = Clock()
    tally = Tally("run", 12, 1, clock)
    for done in (1, 2):
        clock.now += 2
        tally.observe(ok(done), {})
    found = []
    for _ in range(4):
        found.append(tally.seconds_left)
        clock.now += 1
    assert found == [20, 19, 18, 2.5 * 10 - 2.5]
    clock.now += 496
    assert tally.seconds_left == 251 * 10 - 251


def test_before_there_is_a_pace_the_folds_tell_how_long_it_takes_at_least() -> None:
    clock = Clock()
    tally = Tally("run", 41, 4, clock)
    assert time_left(tally) == ""
    clock.now += 1000
    tally.observe(ok(0), {"running": 4, "fold_seconds": 600.0})
    assert time_left(tally) == "at least 1 h 30 min left"
    tally.update({"running": 4, "fold_seconds": 0.01})
    assert time_left(tally) == ""


def test_nothing_is_left_of_a_run_that_is_done() -> None:
    clock = Clock()
    tally = Tally("run", 3, 1, clock)
    for done in range(3):
        clock.now += 1
        tally.observe(ok(done), {})
    clock.now += 50
    assert tally.seconds_left == 0


def test_utilization_is_a_share_of_the_time_there_was() -> None:
    assert utilization(3.0, 4.0) == 0.75
    assert utilization(4.1, 4.0) == 1.0
    assert utilization(0.0, 0.0) is None


def test_use_of_the_slots_is_measured() -> None:
    clock = Clock()
    tally = Tally("run", 10, 2, clock)
    clock.now += 30  # nothing can run yet
    assert tally.utilization is None
    tally.ask(suggestion(0))
    clock.now += 4
    tally.observe(ok(0), {})
    assert tally.utilization == 0.5
    for id in (1, 2):
        tally.ask(suggestion(id))
    clock.now += 4
    tally.observe(ok(1), {})
    assert tally.utilization == 0.75


def test_seconds_of_earlier_sessions_count_when_the_status_tells_them() -> None:
    clock = Clock()
    tally = Tally("run", 10, 2, clock)
    clock.now += 1
    tally.observe(ok(0), {"seconds": 60.0})
    clock.now += 2
    assert tally.seconds == 62
    tally.update({})
    assert tally.seconds == 62


ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers(-1, 9) | st.none(), max_size=3)
    | st.dictionaries(
        st.integers(0, 9) | st.text(max_size=2), st.integers() | st.none(), max_size=3
    )
)
STATUS_KEYS = st.sampled_from(
    [
        "done",
        "running",
        "failed",
        "best_robust",
        "best_std",
        "fold_counts",
        "seconds",
        "slots",
        "best_config",
        "utilization",
        "fold_seconds",
    ]
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(STATUS_KEYS, ODD))
def test_no_status_can_break_a_display(status: dict[str, Any]) -> None:
    clock = Clock()
    tally = Tally("run", 10, None, clock)
    tally.observe(ok(0), status)
    assert len(rows(tally)) >= 3
    assert isinstance(time_left(tally), str)
    stream = io.StringIO()
    progress = make_progress(True, stream, clock)
    progress.on_start("run", 1, None)
    progress.on_observation(ok(0), status)
    progress.on_finish(None)
    assert len(stream.getvalue().splitlines()) >= 2


def test_calls_out_of_order_are_ignored() -> None:
    for progress in (make_progress(True, io.StringIO()), make_progress(True, Terminal())):
        progress.on_ask(suggestion(0))
        progress.on_status({"done": 3})
        progress.on_observation(ok(0), {})
        progress.on_finish(None)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_broken_stream_silences_the_display_and_not_the_run(terminal: bool) -> None:
    class Broken(io.StringIO):
        def isatty(self) -> bool:
            return terminal

        def write(self, text: str) -> int:
            raise BrokenPipeError

    progress = make_progress(True, Broken(), clock := Clock())
    progress.on_start("run", 5, 1)
    play(progress, clock, 5)
    progress.on_finish(None)


def test_a_stream_that_knows_only_ascii_gets_ascii() -> None:
    raw = io.BytesIO()
    stream, clock = io.TextIOWrapper(raw, encoding="ascii"), Clock()
    progress = make_progress(True, stream, clock)
    progress.on_start("Größe", 1, 1)
    play(progress, clock, 1, best_robust=0.5, best_std=0.1)
    progress.on_finish(None)
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
    tally = Tally("run", 10, 1, n_folds=6)
    assert folds(tally) == "0 0 0 0 0 0"
    tally.update({"fold_counts": {0: 2, 3: 1}})
    assert folds(tally) == "2 0 0 1 0 0"
    assert folds(Tally("run", 10, 1)) == "-"


def test_many_folds_are_summed_up() -> None:
    tally = Tally("run", 10, 1, n_folds=60)
    tally.update({"fold_counts": {fold: fold % 3 + 1 for fold in range(50)}})
    assert folds(tally) == "0 to 3 each in 60 folds"


def test_a_config_is_one_line_however_odd() -> None:
    assert config_text({"C": 1 / 3, "n": 3, "kernel": "rbf", "p": None}) == (
        "C=0.3333, n=3, kernel=rbf, p=None"
    )
    assert config_text({}) == ""
    assert config_text({"x": "\n\x1b"}) == r"x=\n\x1b"
    assert len(config_text({f"p{n}": n for n in range(500)})) == 300
