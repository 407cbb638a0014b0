"""Costs: the model finds what makes folds slow, leaves alone what does not vary, starves nobody."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.core.costs import CAP, CostModel
from drbqo_ray.core.missing_scores import pick
from drbqo_ray.errors import NothingObserved
from drbqo_ray.records import Observation, Suggestion

SPACE = {"a": dr.Float(0, 1), "b": dr.Float(0, 1)}
N = 3


def drawn(size: int, seed: int, d: int = 2) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.random((size, d)), rng.integers(N, size=size), rng


def score(config: dict[str, float], fold: int) -> float:
    return -((config["a"] - 0.7) ** 2) - (config["b"] - 0.4) ** 2 + 0.02 * fold


def searched(
    size: int, cost: Callable[[dict[str, float]], float] | None, seed: int = 0
) -> tuple[dr.Optimizer, list[Suggestion]]:
    opt = dr.Optimizer(SPACE, N, method="foldwise", seed=seed, n_initial=8, fixed_seed=True)
    asked = []
    for _ in range(size):
        asked.append(opt.ask())
        config = asked[-1].config
        opt.tell(
            asked[-1].id,
            score(config, asked[-1].context),
            cost=None if cost is None else cost(config),
        )
    return opt, asked


@pytest.mark.parametrize("seed", range(5))
def test_a_tenfold_slope_and_a_slow_fold_are_recovered_through_noise(seed: int) -> None:
    z, c, rng = drawn(40, seed)
    costs = 2.0 * 10 ** z[:, 0] * (1 + (c == 1)) * np.exp(0.1 * rng.standard_normal(40))
    model = CostModel.fit(z, c, costs, N)
    assert model is not None
    assert model.varies
    found = model.expected(np.array([[0.1, 0.5], [0.9, 0.5]]))
    assert found[1] / found[0] == pytest.approx(np.full(N, 10**0.8), rel=0.3)
    assert found[:, 1] / found[:, 0] == pytest.approx([2.0, 2.0], rel=0.3)
    assert found[0, 0] == pytest.approx(2.0 * 10**0.1, rel=0.3)


@pytest.mark.parametrize("seed", range(30))
def test_noise_alone_is_not_taken_for_costs_that_vary(seed: int) -> None:
    z, c, rng = drawn(60, seed)
    model = CostModel.fit(z, c, np.exp(0.3 * rng.standard_normal(60)), N)
    assert model is not None
    assert not model.varies


def test_costs_that_are_not_known_are_left_out() -> None:
    z, c, _ = drawn(20, 0)
    costs = np.where(np.arange(20) < 10, np.nan, 3.0)
    model = CostModel.fit(z, c, costs, N)
    assert model is not None
    assert model.size == 10
    assert CostModel.fit(z, c, np.full(20, np.nan), N) is None


def test_relative_costs_are_capped_and_shrink_where_little_is_known() -> None:
    rng = np.random.default_rng(1)
    z = np.column_stack([rng.random(40), 0.1 * rng.random(40)])
    c = rng.integers(N, size=40)
    model = CostModel.fit(z, c, 10 ** (4 * z[:, 0]) * 10 ** z[:, 1], N)
    assert model is not None
    every = np.ones((2, N), dtype=bool)
    low, high = model.relative(np.array([[0.0, 0.05], [1.0, 0.05]]), every)
    assert (low, high) == pytest.approx((1 / CAP, CAP))
    noisy = np.exp(np.log(3.0) * z[:, 0] + 0.3 * rng.standard_normal(40))
    unsure = CostModel.fit(z, c, noisy, N)
    assert unsure is not None
    assert unsure.varies
    edge = np.array([[1.0, 0.05]])
    counted = unsure.relative(edge, every[:1])[0]
    assert 1 < counted < unsure.expected(edge).mean() / math.exp(unsure.center)


def test_constant_costs_change_no_ask_to_the_last_bit() -> None:
    assert searched(40, None)[1] == searched(40, lambda config: 7.5)[1]


def test_costs_that_vary_change_asks() -> None:
    assert searched(40, None)[1] != searched(40, lambda config: 30.0 ** config["a"])[1]


@pytest.mark.parametrize("seed", range(3))
def test_good_slow_configs_are_not_starved(seed: int) -> None:
    opt, asked = searched(45, lambda config: 1000.0 ** config["a"], seed)
    best = opt.recommend().config
    assert abs(best["a"] - 0.7) < 0.15
    assert abs(best["b"] - 0.4) < 0.15
    assert sum(s.config["a"] > 0.55 for s in asked[8:]) >= 8


def test_a_cost_model_that_is_wrong_starves_nobody() -> None:
    """Costs told the wrong way round: what is best looks slowest."""
    opt, _ = searched(45, lambda config: math.exp(8 * score(config, 0)) + 1e-3)
    best = opt.recommend().config
    assert score(best, 0) > -0.02


def test_worth_is_divided_by_cost() -> None:
    R = np.array([[1.0, 3.0], [1.0, 3.2]])  # a seen config, and a slightly better new one
    left = np.array([1])
    assert pick(R, 0.0, left, 1).tolist() == [-1]
    assert pick(R, 0.0, left, 1, np.array([1.0, 2.0])).tolist() == [0]
    assert pick(R, 0.0, left, 1, np.array([2.0, 1.0])).tolist() == [-1]


@pytest.mark.parametrize("cost", [0, -1.0, math.nan, math.inf, "3", True])
def test_a_cost_is_a_positive_number(cost: object) -> None:
    opt = dr.Optimizer(SPACE, N)
    id = opt.ask().id
    with pytest.raises(dr.InvalidInput, match="cost"):
        opt.tell(id, 1.0, cost=cost)  # type: ignore[arg-type]
    with pytest.raises(dr.InvalidInput, match="cost"):
        opt.observe({"a": 0.5, "b": 0.5}, 0, 1.0, cost=cost)  # type: ignore[arg-type]
    assert opt.observations == []


def test_expected_costs_are_by_what_was_told() -> None:
    opt = dr.Optimizer(SPACE, N)
    with pytest.raises(NothingObserved, match="cost"):
        opt.expected_costs([{"a": 0.5, "b": 0.5}])
    for k in range(12):
        opt.observe({"a": k / 11, "b": 0.5}, k % N, 1.0, cost=10 ** (k / 11))
    low, high = opt.expected_costs([{"a": 0.0, "b": 0.5}, {"a": 1.0, "b": 0.5}]).mean(axis=1)
    assert high / low == pytest.approx(10, rel=0.2)


@pytest.mark.parametrize("aware", [True, False])
def test_seconds_of_a_run_are_costs_only_if_it_is_cost_aware(aware: bool) -> None:
    opt = dr.Optimizer(SPACE, N, cost_aware=aware)
    for seconds, cause in ((2.0, None), (0.01, "error"), (5.0, "timeout")):
        asked = opt.ask()
        told = Observation.of(asked, 1.0, seconds=seconds)
        if cause:
            told = Observation.failure(asked, cause, "no", seconds=seconds)
        opt.record(told)
    known = opt.scoring().history.costs
    expected = [2.0, np.nan, 5.0] if aware else [np.nan] * 3
    np.testing.assert_array_equal(known, expected)
