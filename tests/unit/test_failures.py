"""When failures stop a run: too many in a row, or a fold that never works while others do."""

from __future__ import annotations

import random

import pytest

from drbqo_ray.records import Config, Observation
from drbqo_ray.runtime.failures import Failures
from drbqo_ray.space.parameters import Choice, Float
from drbqo_ray.space.space import Space

SPACE = Space({"x": Float(0.0, 1.0), "kernel": Choice(["rbf", "poly"])})


def seen(id: int, fold: int, ok: bool, config: Config | None = None) -> Observation:
    """The outcome of an evaluation, of a config that says nothing about it unless one is given."""
    rng = random.Random(f"config {id}")
    config = config or {"x": rng.random(), "kernel": rng.choice(["rbf", "poly"])}
    if ok:
        return Observation(id, config, fold, "ok", 0.5)
    return Observation(id, config, fold, "failed", None, f"Traceback {id}\nIndexError: {fold}")


def failures_of(limit: int | None, n_folds: int) -> Failures:
    return Failures(limit, n_folds, SPACE)


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
    found = counted(failures_of(10, 10), outcomes)
    assert found is not None
    count, said = found
    assert 26 <= count <= 28
    fold = count - 21
    assert said.startswith(f"Fold {fold} of 10, counted from 0, failed 3 times and never worked, ")
    assert f"The first of them was evaluation {fold} (fold {fold}, " in said
    assert f"):\nTraceback {fold}\nIndexError: {fold}\nFix the objective" in said


def test_a_fold_that_has_worked_once_is_not_broken() -> None:
    outcomes = [(0, True), (1, True), *[(1, False), (0, True)] * 20]
    assert counted(failures_of(10, 2), outcomes) is None


def test_a_run_in_which_nothing_works_is_stopped_by_its_streak_alone() -> None:
    found = counted(failures_of(10, 2), [(k % 2, False) for k in range(30)])
    assert found is not None
    assert found[0] == 10
    assert found[1].startswith("10 evaluations in a row failed, so the run was stopped.")
    assert "evaluation 0 (fold 0" in found[1]


def test_without_a_limit_nothing_stops_a_run() -> None:
    outcomes = [(fold % 10, fold % 10 < 5) for fold in range(100)]
    assert counted(failures_of(None, 10), outcomes) is None
    assert not failures_of(None, 10).too_many([True] * 100)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.7])
def test_configs_that_fail_on_every_fold_alike_are_not_blamed_on_one(share: float) -> None:
    stopped = 0
    for seed in range(300):
        rng = random.Random(seed)
        outcomes = [(k % 10, rng.random() > share) for k in range(100)]
        stopped += counted(failures_of(1000, 10), outcomes) is not None
    assert stopped <= 15


def test_where_others_fail_often_a_broken_fold_is_found_a_little_later() -> None:
    took, right = [], 0
    for seed in range(20):
        rng = random.Random(seed)
        outcomes = [(k % 5, k % 5 != 2 and rng.random() > 0.4) for k in range(100)]
        found = counted(failures_of(1000, 5), outcomes)
        assert found is not None
        took.append(found[0])
        right += "Fold 2 of 5" in found[1]
    assert right >= 17
    assert 20 <= sum(took) / len(took) <= 40


def test_earlier_successes_count_and_earlier_failures_do_not() -> None:
    again = failures_of(10, 3)
    again.resumed({0: 9, 1: 8, 2: 3}, {1: 1, 2: 3})
    for id in range(20, 26):
        assert again.count(seen(id, 0, ok=True)) is None
    for id in range(26, 30):
        assert again.count(seen(id, 1, ok=False)) is None
    assert again.count(seen(30, 0, ok=True)) is None
    failed = [again.count(seen(id, 2, ok=False)) for id in range(31, 38)]
    said = next(each for each in failed if each is not None)
    assert failed.index(said) >= 2
    assert said.startswith("Fold 2 of 3, ")
    assert "The first of them was evaluation 31 " in said


def test_those_that_are_coming_count_for_the_streak() -> None:
    failures = failures_of(3, 2)
    failures.count(seen(0, 0, ok=False))
    assert not failures.too_many([True])
    assert failures.too_many([True, True])
    assert not failures.too_many([True, False, True])


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"kernel": "rbf"}, {"kernel": "poly"}),
        ({"x": 0.3}, {"x": 0.7}),
        ({"x": 0.7}, {"x": 0.3}),
    ],
)
def test_configs_that_a_parameter_tells_apart_are_not_blamed_on_their_fold(
    good: Config, bad: Config
) -> None:
    failures = failures_of(1000, 2)
    for id in range(60):
        ok = id % 2 == 0
        shift = random.Random(id).uniform(-0.1, 0.1)
        config = {"x": 0.5, "kernel": "rbf"} | (good if ok else bad)
        config["x"] += shift
        assert failures.count(seen(id, 1 - ok, ok, config)) is None
    # One config that works elsewhere acquits them all.
    assert failures.count(seen(60, 1, False, {"x": 0.5, "kernel": "rbf"} | good)) is not None


def test_parameters_that_are_not_active_tell_configs_apart_too() -> None:
    space = Space(
        {
            "kernel": Choice(["rbf", "poly", "linear"]),
            "degree": Float(0.0, 1.0, when={"kernel": ["poly"]}),
        }
    )
    failures = Failures(1000, 2, space)
    for id in range(20):
        config = {"kernel": "linear" if id % 4 else "rbf"}
        assert failures.count(seen(id, 0, True, config)) is None
        config = {"kernel": "poly", "degree": id / 20}
        assert failures.count(seen(id + 20, 1, False, config)) is None
    assert failures.count(seen(40, 1, False, {"kernel": "rbf"})) is not None
