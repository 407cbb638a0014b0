"""The coordinator of a run, without Ray: outcomes told twice, late, or after a cut."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections import deque
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from drbqo_ray import records
from drbqo_ray.errors import InvalidInput, JournalError, RunFailed, UnknownSuggestion
from drbqo_ray.problem import Problem
from drbqo_ray.records import Observation, Scored, Suggestion, read_score
from drbqo_ray.runtime import background
from drbqo_ray.runtime.coordinator import Coordinator
from drbqo_ray.storage.journal import JOURNAL, read_journal
from drbqo_ray.storage.stored_run import how_sure, recommend, replay
from tests.support.fold_objectives import SPACE, smooth
from tests.support.journal_checks import assert_sound, records_of

patient = pytest.mark.timeout(7200)
long_or_short = pytest.mark.parametrize(
    "long", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["short", "long"]
)


@pytest.fixture
def ram():
    """A directory in memory where there is one: these tests are about order, not about disks."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)


def problem_of(method="drbqo", seed=3, n_initial=5, stop_when=None) -> Problem:
    settings = {"method": method, "uncertainty": 1.0, "seed": seed, "n_initial": n_initial}
    settings["stop_when"] = stop_when
    return Problem.of(SPACE, 3, settings, smooth, "tests.support.fold_objectives:smooth")


def score_of(suggestion) -> Observation:
    if suggestion.seed % 7 == 0:
        return Observation.failure(suggestion, "error", "ValueError: unlucky")
    return Observation.of(suggestion, smooth(suggestion.config, suggestion.context, 0))


def work_serially(directory, problem, n_evaluations) -> list:
    """Every suggestion of a serial run, finished or resumed with a coordinator of its own."""
    coordinator = Coordinator(directory, problem, n_evaluations, {})
    try:
        for suggestion in coordinator.snapshot().pending:
            coordinator.tell([score_of(suggestion)])
        for number in range(coordinator.snapshot().n_suggestions, n_evaluations):
            coordinator.tell([score_of(coordinator.take(number, 1, 1)[0])])
        return coordinator.take(0, n_evaluations, 1)
    finally:
        coordinator.close()


@patient
@long_or_short
@pytest.mark.parametrize("method", ["drbqo", "mtbo", "random"])
def test_a_serial_run_cut_after_any_record_goes_on_with_the_same_suggestions(ram, method, long):
    problem = problem_of(method)
    size = 30 if long else 11
    whole = work_serially(ram / "whole", problem, size)
    lines = (ram / "whole" / JOURNAL).read_bytes().splitlines(keepends=True)
    assert_sound(ram / "whole", problem)
    cuts = range(1, len(lines)) if long else range(2, len(lines), 3)
    for cut in cuts:
        (ram / "cut").mkdir(mode=0o700)
        (ram / "cut" / JOURNAL).write_bytes(b"".join(lines[:cut]))
        assert work_serially(ram / "cut", problem, size) == whole
        shutil.rmtree(ram / "cut")


def test_looking_for_the_best_value_between_asks_changes_no_suggestion():
    watched, plain = problem_of().optimizer(), problem_of().optimizer()
    for _ in range(12):
        suggestion = plain.ask()
        assert watched.ask() == suggestion
        for optimizer in (watched, plain):
            optimizer.record(score_of(suggestion))
        assert recommend(watched) is not None


def test_a_display_that_watches_the_best_value_gets_it_and_changes_no_suggestion(ram):
    problem = problem_of()
    plain = work_serially(ram / "plain", problem, 10)
    coordinator = Coordinator(ram / "watched", problem, 10, {})
    for number in range(10):
        coordinator.tell([score_of(coordinator.take(number, 1, 1)[0])])
        deadline = time.monotonic() + 20
        while number == 3 and not coordinator.best():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert coordinator.best().std > 0
    assert coordinator.best().config in [suggestion.config for suggestion in plain]
    assert coordinator.take(0, 10, 1) == plain
    coordinator.close()


def test_outcomes_told_three_times_in_any_order_count_once(ram):
    problem = problem_of(n_initial=9)
    once, often = (Coordinator(ram / name, problem, 10, {}) for name in ("once", "often"))
    for coordinator in (once, often):
        suggestions = coordinator.take(0, 9, 1)
        while len(suggestions) < 9:
            suggestions = coordinator.take(0, 9, 1)
            time.sleep(0.01)
    outcomes = [score_of(suggestion) for suggestion in suggestions]
    repeated = outcomes * 3
    random.Random(5).shuffle(repeated)
    first_seen = list({outcome.id: outcome for outcome in repeated}.values())
    once.tell(first_seen)
    for outcome in repeated:
        often.tell([outcome])
    assert once.take(9, 1, 1) == often.take(9, 1, 1)
    first, second = once.finish("finished"), often.finish("finished")
    assert first == second
    assert not records_of(ram / "often", "conflict")


@patient
@long_or_short
def test_late_and_conflicting_outcomes_are_recorded_but_the_first_one_counts(ram, long):
    problem = problem_of("random")
    for trial in range(50 if long else 1):
        rng = random.Random(trial)
        directory = ram / str(trial)
        coordinator = Coordinator(directory, problem, 160, {})
        order: list = []
        first = {}
        for begin in range(0, 160, 8):
            suggestions: list = []
            while len(suggestions) < 8:
                suggestions = coordinator.take(begin, 8, 8)
            rng.shuffle(suggestions)
            order += suggestions
            first |= {s.id: score_of(s) for s in suggestions}
            for suggestion in suggestions:
                coordinator.tell([first[suggestion.id]])
                late = rng.choice(order)
                if late.id in coordinator._outcomes and rng.random() < 0.5:
                    again = coordinator.tell([Observation.of(late, 99.0)])
                    assert again[0].score == first[late.id].score
        final = coordinator.finish("finished")
        assert [o.id for o in final.observations] == [s.id for s in order]
        assert {o.id: o.score for o in final.observations} == {
            i: outcome.score for i, outcome in first.items()
        }
        assert records_of(directory, "conflict")
        run = replay(read_journal(directory), problem)
        assert recommend(run.optimizer) == final.recommendation
        shutil.rmtree(directory)


def test_info_and_details_are_kept_and_the_config_is_the_coordinators(ram):
    problem = problem_of("random")
    coordinator = Coordinator(ram / "run", problem, 4, {})
    one, two = coordinator.take(0, 1, 1)[0], coordinator.take(1, 1, 1)[0]
    scored = Scored(0.5, {"fit_seconds": 1.5, "metrics": [1, None]})
    bare = Suggestion(one.id, {}, one.context, one.seed)
    told = Observation.of(bare, scored, seconds=2.0, node="n", attempts=2)
    seen = coordinator.tell([told, Observation.of(two, 0.25)])
    assert asdict(seen[0]) == asdict(replace(told, config=one.config))
    assert seen[0].info == {"fit_seconds": 1.5, "metrics": [1, None]}
    assert coordinator.finish("finished").observations == seen
    with_info, without = records_of(ram / "run", "tell")
    assert with_info["info"] == scored.info
    assert "info" not in without
    run = replay(read_journal(ram / "run"), problem)
    assert [asdict(outcome) for outcome in run.outcomes.values()] == [asdict(one) for one in seen]


def test_an_outcome_for_a_suggestion_never_made_is_refused(ram):
    coordinator = Coordinator(ram / "run", problem_of("random"), 4, {})
    coordinator.take(0, 1, 1)
    with pytest.raises(UnknownSuggestion):
        coordinator.tell([Observation(17, {}, 0, "ok", 1.0)])
    assert not records_of(ram / "run", "tell")
    coordinator.close()


def test_telling_does_not_wait_for_a_long_thought(ram, monkeypatch):
    coordinator = Coordinator(ram / "run", problem_of("random"), 10, {})
    [first] = coordinator.take(0, 1, 1)
    thinking = threading.Event()
    ask = coordinator._optimizer.ask

    def slowly(q):
        thinking.set()
        time.sleep(2.0)
        return ask(q)

    monkeypatch.setattr(coordinator._optimizer, "ask", slowly)
    waiting = threading.Thread(target=coordinator.take, args=(1, 1, 1))
    waiting.start()
    assert thinking.wait(5)
    start = time.monotonic()
    coordinator.tell([score_of(first)])
    coordinator.snapshot()
    coordinator.best()
    assert time.monotonic() - start < 0.5
    waiting.join()
    coordinator.close()


def test_a_coordinator_whose_disk_fails_acknowledges_nothing_and_says_so(ram):
    coordinator = Coordinator(ram / "run", problem_of("random"), 4, {})
    [suggestion] = coordinator.take(0, 1, 1)
    coordinator._journal.close()
    with pytest.raises(JournalError):
        coordinator.tell([score_of(suggestion)])
    assert coordinator.snapshot().n_done == 0
    with pytest.raises(JournalError):
        coordinator.take(1, 1, 1)
    coordinator.close()
    again = Coordinator(ram / "run", problem_of("random"), 4, {})
    assert again.snapshot().pending == [suggestion]
    again.close()


def test_an_optimizer_that_breaks_is_reported_to_whoever_waits(ram, monkeypatch):
    coordinator = Coordinator(ram / "run", problem_of("random"), 4, {})

    def breaks(q):
        raise FloatingPointError("singular")

    monkeypatch.setattr(coordinator._optimizer, "ask", breaks)
    with pytest.raises(RunFailed, match="FloatingPointError: singular"):
        coordinator.take(0, 1, 1)
    coordinator.close()


def test_with_several_slots_fits_are_made_beside_and_replayed(ram, monkeypatch):
    monkeypatch.setattr(background, "SMALL", 4)
    coordinator = Coordinator(ram / "run", problem_of("drbqo"), 60, {})
    told = 0
    while told < 60:
        for suggestion in coordinator.take(told, 4, 4):
            coordinator.tell([score_of(suggestion)])
            told += 1
        time.sleep(0.005)
    wait_for(coordinator.best)
    final = coordinator.finish("finished")
    records = list(read_journal(ram / "run"))
    fits = [record.data for record in records if record.kind == "fit"]
    late = [fit for fit in fits if fit["fit"]["size"] < fit["told"]]
    assert late
    assert max(record.data["batch"] for record in records if record.kind == "ask") > 1
    assert_sound(ram / "run", problem_of("drbqo"))
    replayed = replay(records, problem_of("drbqo"))
    assert replayed.optimizer.recommend() == final.recommendation
    assert how_sure(replayed.optimizer) == final.certainty


def wait_for(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Stopping before the budget is used up.


def stopped_by_hand(problem, n_evaluations) -> tuple[list, str | None]:
    """What a user does with an optimizer and its rule."""
    optimizer = problem.optimizer()
    asked: list = []
    while len(asked) < n_evaluations and optimizer.stop_reason() is None:
        asked.append(optimizer.ask())
        optimizer.record(score_of(asked[-1]))
    return asked, optimizer.stop_reason()


def test_a_run_that_is_sure_enough_hands_out_no_more_and_its_journal_says_why(ram):
    problem = problem_of(stop_when="probability > 0.05")
    expected, reason = stopped_by_hand(problem, 40)
    assert reason is not None
    coordinator = Coordinator(ram / "run", problem, 40, {"stop_when": "probability > 0.05"})
    asked = []
    while found := coordinator.take(len(asked), 1, 1):
        asked += found
        coordinator.tell([score_of(asked[-1])])
    assert asked == expected
    assert len(asked) < 40
    assert coordinator.stop_reason() == reason
    final = coordinator.finish("finished")
    assert final.stop_reason == reason
    [record] = records_of(ram / "run", "finish")
    assert (record["reason"], record["stop_reason"]) == ("finished", reason)
    again = replay(read_journal(ram / "run"), problem_of())
    assert (again.stopped, again.stop_reason) == ("finished", reason)
    assert again.stop_when == "probability > 0.05"
    assert again.optimizer.certainty() == final.certainty


def test_a_rule_that_is_never_met_changes_no_suggestion(ram):
    plain = work_serially(ram / "plain", problem_of(), 18)
    assert work_serially(ram / "ruled", problem_of(stop_when="loss < 0"), 18) == plain


def test_folds_under_way_when_the_run_is_sure_are_recorded(ram):
    coordinator = Coordinator(ram / "run", problem_of(stop_when="probability > 0.05"), 80, {})
    under_way: deque = deque()
    asked = 0
    while found := coordinator.take(asked, 4, 4):
        asked += len(found)
        under_way.extend(found)
        while len(under_way) > 3:
            coordinator.tell([score_of(under_way.popleft())])
    assert under_way
    coordinator.tell([score_of(suggestion) for suggestion in under_way])
    assert coordinator.take(asked, 4, 4) == []
    reason = coordinator.stop_reason()
    assert reason is not None
    final = coordinator.finish("finished")
    assert final.stop_reason == reason
    assert len(final.observations) == asked
    assert asked < 80


def test_nobody_waits_while_the_rule_looks_at_the_model(ram, monkeypatch):
    coordinator = Coordinator(ram / "run", problem_of("random", stop_when="loss < 0"), 10, {})
    [first] = coordinator.take(0, 1, 1)
    looking, looked = threading.Event(), threading.Event()

    def long_look():
        looking.set()
        assert looked.wait(60)

    monkeypatch.setattr(coordinator._optimizer, "stop_reason", long_look)
    coordinator.tell([score_of(first)])
    assert looking.wait(60)
    assert coordinator.tell([score_of(first)])[0].id == 0
    assert coordinator.snapshot().n_done == 1
    assert coordinator.best() is None
    assert coordinator.stop_reason() is None
    looked.set()
    assert coordinator.take(1, 1, 1)[0].id == 1
    coordinator.close()


@pytest.mark.parametrize("rule", ["loss > 0.1", "loss < -1", "gain < 2", "probability > 1", 0.002])
def test_a_bad_rule_is_refused_with_the_problem(rule):
    with pytest.raises(InvalidInput, match=r"loss < 0\.002"):
        problem_of(stop_when=rule)


def test_a_rule_is_no_part_of_the_problem_that_a_resume_is_checked_against():
    assert problem_of(stop_when="loss < 0.1").header() == problem_of().header()


def test_a_score_is_read_once_on_its_way(ram, monkeypatch):
    """On the worker: the coordinator and its optimizer take the outcome as it is."""
    reads = []

    def counted(value):
        reads.append(value)
        return read_score(value)

    monkeypatch.setattr(records, "read_score", counted)
    coordinator = Coordinator(ram / "run", problem_of(), 3, {})
    for number in range(3):
        [asked] = coordinator.take(number, 1, 1)
        coordinator.tell([Observation.of(asked, 0.5 + number)])
    final = coordinator.finish("finished")
    assert [seen.score for seen in final.observations] == reads == [0.5, 1.5, 2.5]


@pytest.mark.parametrize(("budget", "reason"), [("used up", "finished"), ("left", "interrupted")])
def test_a_stop_rule_that_did_not_stop_the_run_is_not_named(ram, budget, reason):
    problem = problem_of(stop_when="probability > 0.05")
    n_asked = len(stopped_by_hand(problem, 40)[0])
    n_evaluations = n_asked if budget == "used up" else 40
    coordinator = Coordinator(ram / "run", problem, n_evaluations, {})
    for number in range(n_asked):
        [suggestion] = coordinator.take(number, 1, 1)
        coordinator.tell([score_of(suggestion)])
    deadline = time.monotonic() + 60
    while coordinator.stop_reason() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert coordinator.stop_reason() is not None
    assert coordinator.finish(reason).stop_reason is None
    assert "stop_reason" not in list(read_journal(ram / "run"))[-1].data
