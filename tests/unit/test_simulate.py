"""The event engine of the simulation, on queues with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.farm import Farm, Job, utilisation
from benchmarks.simulate import FoldTimes, MeasuredOptimizer, simulate


class Clockwork:
    """A mind with set times: `asking` for each suggestion, `telling` for each outcome."""

    def __init__(self, fold=1.0, asking=0.0, telling=0.0, most=1):
        self.fold, self.asking, self.telling, self.most = fold, asking, telling, most
        self.made = 0
        self.told = []

    def tell(self, jobs):
        self.told += [job.number for job in jobs]
        return self.telling * len(jobs)

    def ask(self, count, now):
        count = min(count, self.most)
        numbers = range(self.made, self.made + count)
        self.made += count
        seconds = self.fold if callable(self.fold) else lambda number: self.fold
        return [Job(number, seconds(number)) for number in numbers], self.asking * count


def run(slots, total, mind, **costs):
    return Farm(slots, total, mind, **costs).run()


def test_free_thoughts_and_equal_folds_keep_every_slot_busy():
    log = run(8, 80, Clockwork(fold=3.0))
    assert log.utilisation == pytest.approx(1.0)
    assert log.utilisation_to_the_end == pytest.approx(1.0)
    assert log.duration == pytest.approx(30.0)
    assert log.load == 0.0


def test_a_saturated_thread_starts_one_fold_per_thought():
    slots, fold, asking = 10, 2.0, 0.5
    log = run(slots, 400, Clockwork(fold, asking))
    assert np.array(log.starts) == pytest.approx(asking * np.arange(1, 401))
    assert log.utilisation == pytest.approx(fold / (slots * asking), rel=0.02)
    assert log.load == pytest.approx(1.0, rel=0.02)


def test_a_quick_thread_is_never_waited_for():
    slots, fold, asking = 4, 1.0, 0.05
    log = run(slots, 200, Clockwork(fold, asking))
    starts = np.array(log.starts).reshape(-1, slots)
    assert np.diff(starts, axis=0) == pytest.approx(np.full((49, slots), fold))


def test_one_slot_waits_for_every_thought():
    log = run(1, 20, Clockwork(fold=1.0, asking=0.25, telling=0.125))
    assert np.diff(log.starts) == pytest.approx(np.full(19, 1.375))
    assert log.utilisation == pytest.approx(1.0 / 1.375)


def test_a_batch_comes_out_together():
    log = run(4, 8, Clockwork(fold=1.0, asking=0.5, most=4))
    assert log.starts[:4] == pytest.approx([2.0] * 4)


def test_the_driver_starts_folds_one_by_one():
    log = run(4, 4, Clockwork(fold=5.0, most=4), per_start=0.25, per_turn=1.0)
    assert log.starts == pytest.approx([1.25, 1.5, 1.75, 2.0])


def test_a_slow_driver_is_the_bottleneck():
    log = run(10, 300, Clockwork(fold=2.0, most=10), per_start=0.5)
    assert np.diff(log.starts) == pytest.approx(np.full(299, 0.5))


def test_a_slot_stands_empty_while_its_fold_is_on_the_way():
    log = run(2, 40, Clockwork(fold=1.0), latency=0.25)
    assert np.diff(log.starts[::2]) == pytest.approx(np.full(19, 1.25))
    assert log.utilisation == pytest.approx(1 / 1.25)


def test_every_thought_waits_for_its_flush():
    log = run(10, 200, Clockwork(fold=2.0, asking=0.25), per_flush=0.25)
    assert np.array(log.starts) == pytest.approx(0.5 * np.arange(1, 201))


def test_empty_slots_at_the_end_count_only_to_the_end():
    log = run(2, 3, Clockwork(fold=4.0))
    assert log.utilisation == pytest.approx(1.0)
    assert log.utilisation_to_the_end == pytest.approx(12 / 16)


@given(
    slots=st.integers(1, 9),
    total=st.integers(1, 60),
    asking=st.sampled_from([0.0, 0.01, 0.3]),
    costs=st.sampled_from([{}, {"per_start": 0.05, "per_turn": 0.1}]),
    seed=st.integers(0, 5),
)
def test_no_slot_runs_two_folds_and_every_outcome_is_told(slots, total, asking, costs, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(size=total)
    mind = Clockwork(lambda number: lengths[number], asking, 0.01)
    log = run(slots, total, mind, **costs)
    starts, ends = np.array(log.starts), np.add(log.starts, log.seconds)
    running = [int(np.sum((starts <= t) & (t < ends))) for t in starts]
    assert max(running) <= slots
    assert sorted(mind.told) == list(range(total))
    assert 0 < log.utilisation <= 1 + 1e-9


def test_utilisation_of_a_drawn_schedule():
    assert utilisation([0.0, 0.0, 2.0], [1.0, 3.0, 9.0], 2) == pytest.approx(3 / 4)


@pytest.mark.parametrize("shape", ["lognormal", "exponential", "uniform", "constant"])
def test_fold_times_have_their_mean_and_are_the_seeds(shape):
    times = FoldTimes(shape, 60.0, 0.5)
    drawn = [times(seed) for seed in range(3000)]
    assert np.mean(drawn) == pytest.approx(60.0, rel=0.05)
    assert times(7) == drawn[7]
    if shape == "lognormal":
        assert np.std(np.log(drawn)) == pytest.approx(0.5, rel=0.05)


def test_the_real_optimizer_takes_time_on_the_clock_and_finds_the_optimum():
    found = simulate(2, 20, FoldTimes(mean=1.0), seed=0)
    assert found.log.thinking > 0
    assert len(found.log.starts) == 40
    assert found.regret < 0.05


def test_the_real_optimizer_is_told_what_it_asked_for():
    mind = MeasuredOptimizer(2, FoldTimes(), seed=1)
    jobs, took = mind.ask(3, 0.0)
    assert 1 <= len(jobs) <= 3
    assert took > 0
    mind.tell(jobs)
    assert [o.id for o in mind.optimizer.observations] == [job.number for job in jobs]
