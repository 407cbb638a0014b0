"""Real runs on simulated slots: queues with known answers, and what a simulated run shares with a
real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drbqo_ray as dr
from benchmarks.farm import (
    Costs,
    Log,
    SimulatedClock,
    SimulatedExecutor,
    run_simulated,
    utilization,
)
from benchmarks.simulate import RADIUS, SURFACE, FoldTimes, score, simulate, space
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.problem import Limits, Problem
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.storage.location import RunLocation

FREE = Costs(start=0.0, latency=0.0, turn=0.0, flush=0.0)


def one(config, fold, seed):
    return 1.0


class Thoughts:
    """A processor that takes set times: `asking` a suggestion, `telling` an outcome."""

    asking = telling = seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def thoughts(monkeypatch) -> Iterator[Thoughts]:
    found, ask, record = Thoughts(), Optimizer.ask, Optimizer.record

    def slow_ask(self, q):
        found.seconds += found.asking * q
        return ask(self, q)

    def slow_record(self, outcome):
        found.seconds += found.telling
        record(self, outcome)

    monkeypatch.setattr(Optimizer, "ask", slow_ask)
    monkeypatch.setattr(Optimizer, "record", slow_record)
    return found


def run(
    slots: int,
    total: int,
    fold: float | Callable[[int], float] = 1.0,
    costs: Costs = FREE,
    processor: Callable[[], float] = lambda: 0.0,
) -> tuple[Log, dr.Result]:
    seconds = fold if callable(fold) else lambda seed: fold
    executor = SimulatedExecutor(one, slots, seconds, costs, processor)
    with TemporaryDirectory() as folder:
        plan = Plan(
            Problem.of({"x": dr.Float(0, 1)}, 3, {"method": "random"}, one, "one"),
            RunLocation(Path(folder), "simulation"),
            Limits(total, max_in_flight=slots, max_consecutive_failures=None),
            resume=False,
        )
        result = run_simulated(plan, executor)
    return executor.log, result


def test_free_thoughts_and_equal_folds_keep_every_slot_busy():
    log, result = run(8, 80, fold=3.0)
    assert log.utilization == pytest.approx(1.0)
    assert log.utilization_to_the_end == pytest.approx(1.0)
    assert log.duration == pytest.approx(30.0)
    assert log.load == 0.0
    assert len(result.observations) == 80


def test_a_saturated_thread_decides_how_many_folds_run(thoughts):
    slots, fold, thoughts.asking = 10, 2.0, 0.5
    log, _ = run(slots, 400, fold, processor=thoughts)
    assert log.utilization == pytest.approx(fold / (slots * thoughts.asking), rel=0.05)
    assert log.load == pytest.approx(1.0, rel=0.05)
    assert log.thinking == pytest.approx(400 * thoughts.asking)


def test_a_quick_thread_is_never_waited_for(thoughts):
    thoughts.asking = 0.05
    log, _ = run(4, 200, lambda seed: 1 + 0.07 * (seed % 5), processor=thoughts)
    assert log.utilization > 0.99


def test_one_slot_waits_for_every_thought(thoughts):
    thoughts.asking, thoughts.telling = 0.25, 0.125
    log, _ = run(1, 20, 1.0, processor=thoughts)
    assert np.diff(log.starts) == pytest.approx(np.full(19, 1.375))
    assert log.utilization == pytest.approx(1.0 / 1.375)


def test_a_batch_comes_out_together(thoughts):
    thoughts.asking = 0.5
    log, _ = run(4, 4, 9.0, processor=thoughts)
    assert log.starts == pytest.approx([2.0] * 4)


def test_the_driver_starts_folds_one_by_one():
    log, _ = run(4, 4, 5.0, Costs(start=0.25, latency=0.0, turn=0.0, flush=0.0))
    assert log.starts == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_a_slow_driver_is_the_bottleneck():
    log, _ = run(10, 300, 2.0, Costs(start=0.5, latency=0.0, turn=0.0, flush=0.0))
    assert np.diff(log.starts) == pytest.approx(np.full(299, 0.5))


def test_every_turn_of_the_driver_takes_its_time():
    log, _ = run(1, 20, 1.0, Costs(start=0.0, latency=0.0, turn=0.125, flush=0.0))
    assert np.min(np.diff(log.starts)) >= 1.125


def test_a_slot_stands_empty_while_its_fold_is_on_the_way():
    log, _ = run(2, 40, 1.0, Costs(start=0.0, latency=0.25, turn=0.0, flush=0.0))
    assert np.diff(log.starts[::2]) == pytest.approx(np.full(19, 1.25))
    assert log.utilization == pytest.approx(1 / 1.25)


def test_with_one_slot_outcome_and_suggestion_wait_for_their_flushes():
    log, _ = run(1, 20, 1.0, Costs(start=0.0, latency=0.0, turn=0.0, flush=0.25))
    assert np.diff(log.starts) == pytest.approx(np.full(19, 1.5))


def test_empty_slots_at_the_end_count_only_to_the_end():
    log, _ = run(2, 3, 4.0)
    assert log.utilization == pytest.approx(1.0)
    assert log.utilization_to_the_end == pytest.approx(12 / 16)


@settings(deadline=None, max_examples=30)
@given(
    slots=st.integers(1, 9),
    total=st.integers(1, 60),
    lost=st.sampled_from([0.0, 0.3]),
    costs=st.sampled_from([(0.0, 0.0, 0.0), (0.05, 0.1, 0.01)]),
    salt=st.integers(0, 5),
)
def test_no_slot_runs_two_folds_and_every_outcome_is_told(slots, total, lost, costs, salt):
    start, latency, flush = costs

    def lengths(seed):
        return float(np.random.default_rng([seed, salt]).lognormal())

    spent = Costs(start=start, latency=latency, turn=0.0, flush=flush, lost=lost)
    log, result = run(slots, total, lengths, spent)
    starts, ends = np.array(log.starts), np.add(log.starts, log.seconds)
    running = [int(np.sum((starts <= t + 1e-9) & (t + 1e-9 < ends))) for t in starts]
    assert max(running) <= slots
    assert sorted(seen.id for seen in result.observations) == list(range(total))
    assert sum(seen.attempts for seen in result.observations) == len(log.starts)
    assert 0 < log.utilization <= 1 + 1e-9


def test_lost_workers_are_answered_by_the_real_loop():
    log, result = run(4, 200, 1.0, Costs(start=0.0, latency=0.0, turn=0.0, flush=0.0, lost=0.4))
    attempts = [seen.attempts for seen in result.observations]
    failed = [seen for seen in result.observations if seen.status == "failed"]
    assert set(attempts) == {1, 2, 3}
    assert failed
    assert all(seen.cause == "lost" and seen.attempts == 3 for seen in failed)
    assert len(log.starts) == sum(attempts)


def test_utilization_of_a_drawn_schedule():
    assert utilization([0.0, 0.0, 2.0], [1.0, 3.0, 9.0], 2) == pytest.approx(3 / 4)


@pytest.mark.parametrize("shape", ["lognormal", "exponential", "uniform", "constant"])
def test_fold_times_have_their_mean_and_are_the_seeds(shape):
    times = FoldTimes(shape, 60.0, 0.5)
    drawn = [times(seed) for seed in range(3000)]
    assert np.mean(drawn) == pytest.approx(60.0, rel=0.05)
    assert times(7) == drawn[7]
    if shape == "lognormal":
        assert np.std(np.log(drawn)) == pytest.approx(0.5, rel=0.05)


def test_thoughts_take_time_on_the_clock_and_the_run_finds_the_optimum():
    found = simulate(2, 20, FoldTimes(mean=1.0), seed=0)
    assert found.log.thinking > 0
    assert 0 < found.log.longest < found.log.thinking
    assert len(found.log.starts) == 40
    assert found.regret < 0.05


def test_fits_of_a_wide_run_are_made_beside_it():
    found = simulate(8, 16, FoldTimes(), seed=0)
    assert found.log.fitting > 0
    assert found.log.utilization > 0.99


def test_a_simulated_run_asks_what_a_real_one_asks():
    def objective(config, fold, seed):
        return score(config, fold)

    real = dr.run(
        objective,
        space(),
        SURFACE.samples,
        n_evaluations=20,
        method="drbqo",
        uncertainty=RADIUS,
        seed=3,
        backend="inline",
        max_in_flight=1,
        progress=False,
    )
    found = simulate(1, 20, FoldTimes(), seed=3)
    assert found.result.observations == real.observations
    assert found.result.recommendation == real.recommendation


def test_what_is_done_beside_takes_no_time_of_a_thought():
    spent = Thoughts()

    def job(seconds: float) -> None:
        spent.seconds += seconds

    clock = SimulatedClock(spent)

    def thought() -> float:
        job(1.0)
        beside = clock.beside(lambda: job(10.0))
        job(2.0)
        return beside

    assert clock.timed(thought, 5.0) == (10.0, 3.0)
    assert clock() == 0.0
