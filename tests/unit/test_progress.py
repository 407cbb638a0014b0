from __future__ import annotations

import io
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drbqo_ray.coverage import Coverage
from drbqo_ray.progress import (
    SECONDS_BETWEEN_LINES,
    LineProgress,
    Progress,
    SilentProgress,
    TableProgress,
    duration,
    folds,
    make_progress,
    rows,
)
from drbqo_ray.records import Observation, Recommendation, Suggestion
from drbqo_ray.tally import Tally
from drbqo_ray.terminal import printable, printable_lines

HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]bold[/red] :smile: \r\x9b31m\u202e"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def test_the_display_suits_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_progress(False, Terminal()), SilentProgress)
    for wish in (None, True):
        assert isinstance(make_progress(wish, Terminal()), TableProgress)
        assert isinstance(make_progress(wish, io.StringIO()), LineProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_progress(None, Terminal()), LineProgress)


def test_false_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = make_progress(False, clock=clock)
    progress.on_start("run", 3, 2)
    play(progress, clock, 3)
    progress.on_finish(None)
    assert capfd.readouterr() == ("", "")


def test_lines_go_to_standard_error_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    progress = make_progress(None)
    progress.on_start("run", 3, 2)
    progress.on_finish(None)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("run: 3 evaluations, 2 at a time\n")


def test_lines_come_at_every_tenth_and_at_the_end() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(None, stream, clock)
    progress.on_start("run", 100, 2)
    play(progress, clock, 100, seconds=0.001)
    progress.on_finish(None)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1 + 10 + 1
    assert lines[1].startswith("run: 10/100 done, 0 running, 0 failed")
    assert lines[-1].startswith("run: finished after 0 s: 100/100 done")


def test_lines_come_every_few_seconds_when_folds_are_slow() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(None, stream, clock)
    progress.on_start("run", 10_000, 1)
    play(progress, clock, 20, seconds=SECONDS_BETWEEN_LINES / 2)
    assert len(stream.getvalue().splitlines()) == 1 + 10
    assert "\x1b" not in stream.getvalue()


def test_a_line_says_what_the_table_says() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(None, stream, clock)
    progress.on_start("run", 4, 2)
    status = {"done": 2, "running": 1, "failed": 1, "best_robust": 0.9123, "best_std": 0.0121}
    progress.on_ask(suggestion(0))
    clock.now += 3
    progress.on_observation(ok(0), status | {"fold_counts": [2, 0, 1], "utilization": 0.956})
    assert stream.getvalue().splitlines()[-1] == (
        "run: 2/4 done, 1 running, 1 failed, best 0.9123 ± 0.024, folds 2 0 1, 96% busy, "
        "about 6 s left"
    )


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_the_last_word_is_the_recommendation_of_the_result(stream: io.StringIO) -> None:
    class Result:
        recommendation = Recommendation({}, 0.875, 0.9, [1.0], [0.9], [0.1], 0.0625)

    progress = make_progress(None, stream, Clock())
    progress.on_start("run", 1, 1)
    progress.on_observation(ok(0), {"best_robust": 0.1, "best_std": 0.1})
    progress.on_finish(Result())
    assert "0.875 ± 0.12" in stream.getvalue()


@pytest.mark.parametrize("make", [io.StringIO, Terminal])
def test_the_last_word_says_how_many_folds_have_a_score(make: type[io.StringIO]) -> None:
    class Result:
        coverage = Coverage(3, (2,), 1)

    stream, clock = make(), Clock()
    progress = make_progress(None, stream, clock)
    progress.on_start("run", 4, 1)
    play(progress, clock, 2)
    assert "trained on" not in stream.getvalue()
    progress.on_finish(Result())
    said = " ".join(stream.getvalue().replace("│", " ").split())
    assert "trained on 2 of 3 folds, 1 evaluation failed; no score" in said


def test_an_unfinished_run_is_called_stopped() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(None, stream, clock)
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
    progress = make_progress(None, stream, clock)
    progress.on_start("run", 5, 1)
    play(progress, clock, 2)
    progress.on_finish(Result())
    assert Result.stop_reason in stream.getvalue()
    assert "stopped" in stream.getvalue()


def test_the_first_failure_is_written_at_once_with_the_last_line_of_its_reason() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(None, stream, clock)
    progress.on_start("run", 1000, 1)
    for id in range(3):
        progress.on_observation(failed(id, f"Traceback:\n  File x\nValueError: no {id}\n"), {})
    lines = stream.getvalue().splitlines()
    assert lines[1:] == ["run: evaluation 0 (fold 0) failed: ValueError: no 0"]


def table_text(stream: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def test_a_value_that_is_known_has_no_band() -> None:
    stream = io.StringIO()
    progress = make_progress(None, stream, Clock())
    progress.on_start("run", 1, 1)
    progress.on_observation(ok(0), {"best_robust": 0.75, "best_std": 0.0})
    progress.on_finish(None)
    assert "best 0.75, folds" in stream.getvalue()


def test_the_table_shows_counts_value_folds_use_and_time() -> None:
    stream, clock = Terminal(), Clock()
    progress = make_progress(None, stream, clock)
    progress.on_start("my-run", 6, 2)
    play(progress, clock, 4, best_robust=0.75, best_std=0.01)
    progress.on_observation(failed(4, "Traceback\nKeyError: 'x'"), {"fold_counts": {0: 3, 2: 1}})
    progress.on_finish(None)
    text = table_text(stream)
    for words in ("my-run", "5 of 6 done", "0 of 2 slots", "0.75 ± 0.02", "3 0 1", "50%"):
        assert words in text
    assert "4 s, about 1 s left" in text
    assert "failed: KeyError: 'x'" in text


def test_the_table_gives_the_cursor_back_even_when_nobody_finishes_it() -> None:
    stream = Terminal()
    progress = TableProgress(stream)
    progress.on_start("run", 6, 2)
    assert stream.getvalue().count("\x1b[?25l") == 1
    progress.on_start("again", 6, 2)
    progress.on_finish()
    assert stream.getvalue().count("\x1b[?25h") == 2


def test_the_table_keeps_its_clock_going_between_outcomes() -> None:
    stream = Terminal()
    progress = make_progress(True, stream)
    progress.on_start("run", 6, 2)
    deadline = time.monotonic() + 20
    while "1 s, about" not in table_text(stream) and time.monotonic() < deadline:
        time.sleep(0.05)
    progress.on_finish(None)
    assert "1 s, about" in table_text(stream)


@pytest.mark.parametrize("no_color", ["", "1"])
def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch, no_color: str) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    stream, clock = Terminal(), Clock()
    progress = make_progress(None, stream, clock)
    progress.on_start("run", 3, 2)
    play(progress, clock, 3)
    progress.on_finish(None)
    colors = re.findall(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])m", stream.getvalue())
    assert bool(colors) == (no_color == "")


def test_hostile_names_and_reasons_are_written_literally_in_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = make_progress(None, stream, clock)
    progress.on_start(HOSTILE, 10, 1)
    progress.on_observation(failed(0, f"Traceback\n{HOSTILE}"), {})
    progress.on_finish(None)
    text = stream.getvalue()
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert not set(text) & {"\x9b", "\u202e"}
    assert text.count(r"\x1b[2J") >= 3
    assert text.count("[red]bold[/red] :smile:") >= 3


def test_hostile_names_and_reasons_are_written_literally_in_the_table() -> None:
    stream, clock = Terminal(), Clock()
    progress = make_progress(None, stream, clock)
    progress.on_start("\x1b[2J[red]x[/red] :smile:", 10, 1)
    progress.on_observation(failed(0, "\x1b[2J[red]y[/red]"), {})
    progress.on_finish(None)
    assert "\x1b[2J" not in stream.getvalue()
    text = table_text(stream)
    assert r"\x1b[2J[red]x[/red] :smile:" in text
    assert r"\x1b[2J[red]y[/red]" in text


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


def test_time_left_follows_the_pace_of_this_session_and_never_goes_below_zero() -> None:
    clock = Clock()
    tally = Tally("resumed", 100, 1, clock)
    assert tally.seconds_left is None
    tally.ask(suggestion(0))
    clock.now += 2
    tally.observe(ok(0), {"done": 91})
    assert tally.seconds_left == 18
    clock.now += 5
    assert tally.seconds_left == 13
    clock.now += 500
    assert tally.seconds_left == 0


def test_use_of_the_slots_is_measured() -> None:
    clock = Clock()
    tally = Tally("run", 10, 2, clock)
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
    ["done", "running", "failed", "best_robust", "best_std", "fold_counts", "seconds", "slots"]
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(STATUS_KEYS, ODD))
def test_no_status_can_break_a_display(status: dict[str, Any]) -> None:
    clock = Clock()
    tally = Tally("run", 10, None, clock)
    tally.observe(ok(0), status)
    assert len(rows(tally)) >= 7
    stream = io.StringIO()
    progress = make_progress(None, stream, clock)
    progress.on_start("run", 1, None)
    progress.on_observation(ok(0), status)
    progress.on_finish(None)
    assert len(stream.getvalue().splitlines()) >= 2


def test_calls_out_of_order_are_ignored() -> None:
    for progress in (make_progress(None, io.StringIO()), make_progress(None, Terminal())):
        progress.on_ask(suggestion(0))
        progress.on_observation(ok(0), {})
        progress.on_finish(None)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_broken_stream_silences_the_display_and_not_the_run(terminal: bool) -> None:
    class Broken(io.StringIO):
        def isatty(self) -> bool:
            return terminal

        def write(self, text: str) -> int:
            raise BrokenPipeError

    progress = make_progress(None, Broken(), clock := Clock())
    progress.on_start("run", 5, 1)
    play(progress, clock, 5)
    progress.on_finish(None)


def test_a_stream_that_knows_only_ascii_gets_ascii() -> None:
    raw = io.BytesIO()
    stream, clock = io.TextIOWrapper(raw, encoding="ascii"), Clock()
    progress = make_progress(None, stream, clock)
    progress.on_start("Größe", 1, 1)
    play(progress, clock, 1, best_robust=0.5, best_std=0.1)
    progress.on_finish(None)
    assert rb"0.5 \xb1 0.2" in raw.getvalue()
    assert rb"Gr\xf6\xdfe: " in raw.getvalue()


def test_durations_read_well() -> None:
    assert [duration(s) for s in (None, -3, 0.4, 59.6, 3599, 7500)] == [
        "?", "0 s", "0 s", "1 min 0 s", "59 min 59 s", "2 h 5 min",
    ]  # fmt: skip


def test_many_folds_are_summed_up() -> None:
    tally = Tally("run", 10, 1)
    tally.update({"fold_counts": {fold: fold % 3 + 1 for fold in range(50)}})
    assert folds(tally) == "1 to 3 each in 50 of 50"
