"""The counts of a run: what a display reads, and when it is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drbqo_ray.records import Observation, Recommendation, Suggestion
from drbqo_ray.report.panels.timeline import draw_up
from drbqo_ray.runtime.status import RunStatus

BEST = Recommendation({"C": 1.0}, 0.5, 0.6, [1.0], [0.6], [0.1], 0.05)


class Display:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.changes = 0

    def on_change(self) -> None:
        self.changes += 1


class Run:
    """A status with a clock, some slots and a display."""

    def __init__(self, slots: int, n_evaluations: int = 10) -> None:
        self.now = 100.0
        self.slots = slots
        self.display = Display()
        self.status = RunStatus(
            "run", n_evaluations, lambda: self.slots, 3, self.display, lambda: self.now
        )

    def start(self, id: int, run: str = "a") -> None:
        self.status.started(run, Suggestion(id, {}, id % 3, 0))

    def end(self, id: int, seconds: float, run: str = "a", ok: bool = True) -> None:
        status, score = ("ok", 0.5) if ok else ("failed", None)
        seen = Observation(id, {}, id % 3, status, score, seconds=seconds)  # type: ignore[arg-type]
        self.status.trained(run, id)
        self.status.ended(run, seen)


def test_every_start_end_and_best_config_is_told() -> None:
    run = Run(2)
    run.start(0)
    assert run.status.running == 1
    run.start(1)
    run.start(0, "b")
    assert run.status.running == 3
    run.end(0, 1.0, "b")
    run.end(1, 1.0, ok=False)
    now = run.status
    assert (now.done, now.failed, now.running, now.slots) == (2, 1, 1, 2)
    assert run.status.fold_counts == {0: 1, 1: 1}
    assert run.status.fold_seconds == 1.0
    assert run.display.changes == 5
    for _ in range(2):
        run.status.found(BEST)
    assert run.display.changes == 6
    assert run.status.best is BEST


def test_an_evaluation_that_left_its_slot_does_not_run() -> None:
    run = Run(1)
    run.start(0)
    run.status.trained("a", 0)
    run.start(1)
    assert run.status.running == 1


def test_a_resumed_run_goes_on_counting_but_its_failures_here_are_its_own() -> None:
    run = Run(1)
    run.status.resumed(5, 2, {0: 4, 2: 1}, 60.0)
    run.now += 2
    run.end(5, 1.0, ok=False)
    assert run.status.done == 6
    assert run.status.failed == 3
    assert run.status.fold_counts == {0: 4, 2: 2}
    assert run.status.seconds == 62.0
    assert run.status.failed_here == 1


def test_waiting_for_workers_is_not_idleness() -> None:
    """The report said 91 % where the terminal said 76 %: it counted from when Ray was there."""
    run = Run(2)
    run.start(0)
    run.start(1)
    assert run.status.utilization is None
    run.now += 30  # the workers start
    run.now += 10
    run.end(0, 10.0)
    run.end(1, 10.0)
    assert run.status.utilization == 1.0
    run.now += 10  # one slot waits for its next evaluation, then both
    run.status.found(BEST)
    assert run.status.utilization == 1.0
    run.start(2)
    assert run.status.utilization == 0.5
    run.now += 10
    run.end(2, 10.0)
    assert run.status.utilization == 0.5


def test_long_folds_count_before_they_end() -> None:
    run = Run(4)
    for id in range(4):
        run.start(id)
    run.now += 60
    run.end(0, 60.0)
    assert run.status.utilization == pytest.approx(1.0)


def test_slots_that_join_count_from_then_on() -> None:
    run = Run(1)
    run.start(0)
    run.now += 10
    run.slots = 3
    run.end(0, 10.0)
    for id in (1, 2, 3):
        run.start(id)
    run.now += 10
    for id in (1, 2, 3):
        run.end(id, 10.0)
    assert run.status.utilization == pytest.approx(1.0)


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.floats(0.1, 9.0), st.floats(0.0, 3.0)), min_size=8, max_size=30),
)
def test_the_terminal_and_the_report_say_the_same(
    slots: int, folds: list[tuple[float, float]]
) -> None:
    """Slots take one fold after the other, each after a pause for thought."""
    run = Run(slots)
    free = [run.now + 7.0] * slots
    events = []
    for id, (seconds, pause) in enumerate(folds):
        place = free.index(min(free))
        begin = free[place] + (0.0 if id < slots else pause)
        free[place] = begin + seconds
        events += [(begin, 1, id, seconds), (begin + seconds, 0, id, seconds)]
    outcomes, told_at = [], {}
    for at, begins, id, seconds in sorted(events):
        run.now = at
        if begins:
            run.start(id)
        else:
            run.end(id, seconds)
            outcomes.append(Observation(id, {}, 0, "ok", 1.0, seconds=seconds, node="node"))
            told_at[id] = at
    timeline = draw_up(outcomes, told_at)
    assert timeline is not None
    if len(timeline.lanes) == slots:
        assert run.status.utilization == pytest.approx(timeline.utilization)
