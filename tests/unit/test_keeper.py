"""The keeper of a run, without Ray: what it makes of outcomes told twice, late, or after a cut."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest

from drbqo_ray.cluster import fits_beside
from drbqo_ray.cluster.keeper import Keeper
from drbqo_ray.cluster.outcome import Outcome
from drbqo_ray.cluster.replay import recommend, replay, tell_optimizer
from drbqo_ray.cluster.run_problem import RunProblem
from drbqo_ray.errors import JournalError, RunFailed, UnknownSuggestion
from drbqo_ray.journal import JOURNAL, read_journal
from tests.fold_objectives import SPACE, smooth
from tests.journal_checks import assert_sound, records_of

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


def problem_of(method="drbqo", seed=3, n_initial=5) -> RunProblem:
    settings = {"method": method, "uncertainty": 1.0, "seed": seed, "n_initial": n_initial}
    return RunProblem.of(SPACE, 3, settings, smooth, "tests.fold_objectives:smooth")


def score_of(suggestion) -> Outcome:
    if suggestion.seed % 7 == 0:
        return Outcome(suggestion.id, cause="error", reason="ValueError: unlucky")
    return Outcome(suggestion.id, smooth(suggestion.config, suggestion.context, 0))


def work_serially(directory, problem, n_evaluations) -> list:
    """Every suggestion of a serial run, finished or resumed with a keeper of its own."""
    keeper = Keeper(directory, problem, n_evaluations, {})
    try:
        for suggestion in keeper.snapshot().pending:
            keeper.tell([score_of(suggestion)])
        for number in range(keeper.snapshot().n_suggestions, n_evaluations):
            keeper.tell([score_of(keeper.take(number, 1, 1)[0])])
        return keeper.take(0, n_evaluations, 1)
    finally:
        keeper.close()


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
            tell_optimizer(optimizer, score_of(suggestion))
        assert recommend(watched) is not None


def test_a_display_that_watches_the_best_value_gets_it_and_changes_no_suggestion(ram):
    problem = problem_of()
    plain = work_serially(ram / "plain", problem, 10)
    keeper = Keeper(ram / "watched", problem, 10, {})
    for number in range(10):
        keeper.tell([score_of(keeper.take(number, 1, 1)[0])])
        deadline = time.monotonic() + 20
        while number == 3 and not keeper.best():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert keeper.best()["best_std"] > 0
    assert keeper.take(0, 10, 1) == plain
    keeper.close()


def test_outcomes_told_three_times_in_any_order_count_once(ram):
    problem = problem_of(n_initial=9)
    once, often = (Keeper(ram / name, problem, 10, {}) for name in ("once", "often"))
    for keeper in (once, often):
        suggestions = keeper.take(0, 9, 1)
        while len(suggestions) < 9:
            suggestions = keeper.take(0, 9, 1)
            time.sleep(0.01)
    outcomes = [score_of(suggestion) for suggestion in suggestions]
    repeated = outcomes * 3
    random.Random(5).shuffle(repeated)
    first_seen = list(dict.fromkeys(repeated))
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
    for trial in range(1000 if long else 15):
        rng = random.Random(trial)
        directory = ram / str(trial)
        keeper = Keeper(directory, problem, 8, {})
        suggestions: list = []
        while len(suggestions) < 8:
            suggestions = keeper.take(0, 8, 8)
        order = suggestions.copy()
        rng.shuffle(order)
        first = {s.id: score_of(s) for s in order}
        for suggestion in order:
            keeper.tell([first[suggestion.id]])
            late = rng.choice(order)
            if late.id in keeper._outcomes and rng.random() < 0.5:
                again = keeper.tell([Outcome(late.id, 99.0)])
                assert again[0].score == first[late.id].score
        final = keeper.finish("finished")
        assert [o.id for o in final.observations] == [s.id for s in order]
        assert {o.id: o.score for o in final.observations} == {
            i: outcome.score for i, outcome in first.items()
        }
        run = replay(read_journal(directory), problem)
        assert recommend(run.optimizer) == final.recommendation
        shutil.rmtree(directory)


def test_an_outcome_for_a_suggestion_never_made_is_refused(ram):
    keeper = Keeper(ram / "run", problem_of("random"), 4, {})
    keeper.take(0, 1, 1)
    with pytest.raises(UnknownSuggestion):
        keeper.tell([Outcome(17, 1.0)])
    assert not records_of(ram / "run", "tell")
    keeper.close()


def test_telling_does_not_wait_for_a_long_thought(ram, monkeypatch):
    keeper = Keeper(ram / "run", problem_of("random"), 10, {})
    [first] = keeper.take(0, 1, 1)
    thinking = threading.Event()
    ask = keeper._optimizer.ask

    def slowly(q):
        thinking.set()
        time.sleep(2.0)
        return ask(q)

    monkeypatch.setattr(keeper._optimizer, "ask", slowly)
    waiting = threading.Thread(target=keeper.take, args=(1, 1, 1))
    waiting.start()
    assert thinking.wait(5)
    start = time.monotonic()
    keeper.tell([score_of(first)])
    keeper.snapshot()
    keeper.best()
    assert time.monotonic() - start < 0.5
    waiting.join()
    keeper.close()


def test_a_keeper_whose_disk_fails_acknowledges_nothing_and_says_so(ram):
    keeper = Keeper(ram / "run", problem_of("random"), 4, {})
    [suggestion] = keeper.take(0, 1, 1)
    keeper._journal.close()
    with pytest.raises(JournalError):
        keeper.tell([score_of(suggestion)])
    assert keeper.snapshot().n_done == 0
    with pytest.raises(JournalError):
        keeper.take(1, 1, 1)
    keeper.close()
    again = Keeper(ram / "run", problem_of("random"), 4, {})
    assert again.snapshot().pending == [suggestion]
    again.close()


def test_an_optimizer_that_breaks_is_reported_to_whoever_waits(ram, monkeypatch):
    keeper = Keeper(ram / "run", problem_of("random"), 4, {})

    def breaks(q):
        raise FloatingPointError("singular")

    monkeypatch.setattr(keeper._optimizer, "ask", breaks)
    with pytest.raises(RunFailed, match="FloatingPointError: singular"):
        keeper.take(0, 1, 1)
    keeper.close()


def test_with_several_slots_fits_are_made_beside_and_replayed(ram, monkeypatch):
    monkeypatch.setattr(fits_beside, "SMALL", 4)
    keeper = Keeper(ram / "run", problem_of("drbqo"), 60, {})
    told = 0
    while told < 60:
        for suggestion in keeper.take(told, 4, 4):
            keeper.tell([score_of(suggestion)])
            told += 1
        time.sleep(0.005)
    final = keeper.finish("finished")
    records = list(read_journal(ram / "run"))
    fits = [record.data for record in records if record.kind == "fit"]
    late = [fit for fit in fits if fit["fit"]["size"] < fit["told"]]
    assert late
    replayed = replay(records, problem_of("drbqo"))
    assert replayed.optimizer.recommend() == final.recommendation
