"""A run that is cut and resumed stops where an uncut one does: its rule remembers its looks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drbqo_ray.optimizer.stopping import StopCheck
from drbqo_ray.problem import Problem
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.coordinator import Coordinator
from drbqo_ray.storage.journal import JOURNAL, Journal, read_journal
from drbqo_ray.storage.stored_run import replay
from tests.support.fold_objectives import SPACE, smooth
from tests.support.journal_checks import assert_sound, records_of

RULE, OTHER = "probability > 0.82", "probability > 0.99"
MOST = 40


@pytest.fixture
def ram() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)


def problem_of(rule: str | None = RULE, seed: int = 2) -> Problem:
    settings = {"method": "drbqo", "uncertainty": 1.0, "seed": seed, "n_initial": 5}
    return Problem.of(SPACE, 3, {**settings, "stop_when": rule}, smooth, "smooth")


def score_of(suggestion: Suggestion) -> Observation:
    return Observation.of(suggestion, smooth(suggestion.config, suggestion.context, 0))


def by_hand(problem: Problem) -> tuple[list[Suggestion], str | None]:
    """What an optimizer asks and says that is never cut."""
    optimizer = problem.optimizer()
    asked: list[Suggestion] = []
    while len(asked) < MOST and optimizer.stop_reason() is None:
        asked.append(optimizer.ask())
        optimizer.record(score_of(asked[-1]))
    return asked, optimizer.stop_reason()


def work(directory: Path, problem: Problem, most: int = MOST) -> tuple[int, str | None]:
    """Work serially with an own coordinator; how many were asked in all, and why it stopped."""
    coordinator = Coordinator(
        directory, problem, MOST, {"stop_when": problem.settings["stop_when"]}
    )
    try:
        for suggestion in coordinator.snapshot().pending:
            coordinator.tell([score_of(suggestion)])
        number = coordinator.snapshot().n_suggestions
        while number < most and (found := coordinator.take(number, 1, 1)):
            coordinator.tell([score_of(found[0])])
            number += 1
        return number, coordinator.stop_reason()
    finally:
        coordinator.close()


def test_a_serial_run_cut_between_two_looks_stops_at_the_same_evaluation(ram):
    problem = problem_of()
    asked, reason = by_hand(problem)
    assert reason is not None
    assert work(ram / "whole", problem) == (len(asked), reason)
    assert_sound(ram / "whole", problem)
    lines = (ram / "whole" / JOURNAL).read_bytes().splitlines(keepends=True)
    looks = [number for number, line in enumerate(lines) if b'"kind":"look"' in line]
    passed = [look["passed"] for look in records_of(ram / "whole", "look")]
    assert (passed.count(1), passed[-2:]) == (2, [1, 2])
    # Cuts just before and after the last look that failed and those that passed.
    for cut in range(looks[-3], len(lines) + 1):
        directory = ram / str(cut)
        directory.mkdir(mode=0o700)
        (directory / JOURNAL).write_bytes(b"".join(lines[:cut]))
        assert work(directory, problem) == (len(asked), reason)
        again = [(r["id"], r["config"], r["context"]) for r in records_of(directory, "ask")]
        assert again == [(s.id, s.config, s.context) for s in asked]


@pytest.mark.parametrize("between", [None, OTHER])
def test_another_rule_starts_its_own_count(ram, between):
    problem = problem_of()
    asked, _ = by_hand(problem)
    work(ram / "run", problem)
    other = problem_of(between)
    assert replay(read_journal(ram / "run"), other).optimizer.last_check is None
    coordinator = Coordinator(ram / "run", other, MOST, {"stop_when": between})
    assert coordinator.stop_reason() is None
    assert coordinator.take(len(asked), 1, 1)
    coordinator.close()
    # Back at the first rule, what it said before the change no longer counts.
    assert replay(read_journal(ram / "run"), problem).optimizer.last_check is None


@pytest.mark.parametrize(
    ("looked", "later", "counts"),
    [
        (RULE, [RULE], True),
        (RULE, [None, RULE], False),
        (RULE, [OTHER, RULE], False),
        (OTHER, [RULE], False),
    ],
)
def test_a_look_counts_while_every_session_since_had_its_rule(ram, looked, later, counts):
    look = StopCheck(passed=1, next=12)
    work(ram / "run", problem_of(looked), most=0)
    with Journal.open(ram / "run") as journal:
        journal.append("look", {"told": 11, **look.to_dict()})
    for rule in later:
        work(ram / "run", problem_of(rule), most=0)
    found = replay(read_journal(ram / "run"), problem_of(RULE)).optimizer.last_check
    assert found == (look if counts else None)
