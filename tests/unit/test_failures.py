"""When failures stop a run: too many in a row, or a fold that never works while others do."""

from __future__ import annotations

import random

import pytest

from drbqo_ray.cluster.failures import Failures
from drbqo_ray.records import Observation


def seen(id: int, fold: int, ok: bool) -> Observation:
    if ok:
        return Observation(id, {"x": id}, fold, "ok", 0.5)
    return Observation(id, {"x": id}, fold, "failed", None, f"Traceback {id}\nIndexError: {fold}")


def counted(failures: Failures, outcomes: list[tuple[int, bool]]) -> tuple[int, str] | None:
    """How many outcomes it took to stop, and what was said; None when nothing stopped it."""
    for id, (fold, ok) in enumerate(outcomes):
        said = failures.count(seen(id, fold, ok))
        if said is not None:
            return id + 1, said
    return None


def test_a_fold_that_fails_three_times_and_never_works_stops_a_run_whose_others_work() -> None:
    # Five real folds of ten.
    outcomes = [(fold % 10, fold % 10 < 5) for fold in range(30)]
    found = counted(Failures(10, 10), outcomes)
    assert found is not None
    count, said = found
    assert count == 26
    assert said.startswith("Fold 5 of 10, counted from 0, failed 3 times and never worked, ")
    assert "evaluation 5 (fold 5, {'x': 5}):\nTraceback 5\nIndexError: 5" in said


def test_a_fold_that_has_worked_once_is_not_broken() -> None:
    outcomes = [(0, True), (1, True), *[(1, False), (0, True)] * 20]
    assert counted(Failures(10, 2), outcomes) is None


def test_a_run_in_which_nothing_works_is_stopped_by_its_streak_alone() -> None:
    found = counted(Failures(10, 2), [(k % 2, False) for k in range(30)])
    assert found is not None
    assert found[0] == 10
    assert found[1].startswith("10 evaluations in a row failed, so the run was stopped.")
    assert "evaluation 0 (fold 0" in found[1]


def test_without_a_limit_nothing_stops_a_run() -> None:
    outcomes = [(fold % 10, fold % 10 < 5) for fold in range(100)]
    assert counted(Failures(None, 10), outcomes) is None
    assert not Failures(None, 10).too_many([True] * 100)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.7])
def test_configs_that_fail_on_every_fold_alike_are_not_blamed_on_one(share: float) -> None:
    stopped = 0
    for seed in range(300):
        rng = random.Random(seed)
        outcomes = [(k % 10, rng.random() > share) for k in range(100)]
        stopped += counted(Failures(1000, 10), outcomes) is not None
    assert stopped <= 15


def test_where_others_fail_often_a_broken_fold_is_found_a_little_later() -> None:
    took, right = [], 0
    for seed in range(20):
        rng = random.Random(seed)
        outcomes = [(k % 5, k % 5 != 2 and rng.random() > 0.4) for k in range(100)]
        found = counted(Failures(1000, 5), outcomes)
        assert found is not None
        took.append(found[0])
        right += "Fold 2 of 5" in found[1]
    assert right >= 17
    assert 20 <= sum(took) / len(took) <= 40


def test_earlier_successes_count_and_earlier_failures_do_not() -> None:
    again = Failures(10, 3)
    again.resumed({0: 5, 1: 4, 2: 3}, {1: 1, 2: 3})
    assert again.count(seen(12, 2, ok=False)) is None
    assert again.count(seen(13, 2, ok=False)) is None
    assert again.count(seen(14, 1, ok=False)) is None
    said = again.count(seen(15, 2, ok=False))
    assert said is not None
    assert "Fold 2 of 3, counted from 0, failed 3 times" in said
    assert "evaluation 12" in said


def test_those_that_are_coming_count_for_the_streak() -> None:
    failures = Failures(3, 2)
    failures.count(seen(0, 0, ok=False))
    assert not failures.too_many([True])
    assert failures.too_many([True, True])
    assert not failures.too_many([True, False, True])
