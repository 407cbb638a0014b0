"""How sure a recommendation is, against draws from the exact posterior, and when to stop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drbqo_ray import Choice, Float, Int, Optimizer
from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.certainty import WIDENING, Certainty, certainty_of, value_draws
from drbqo_ray.optimizer.stopping import StopRule

SPACE = {"a": Float(0, 1), "b": Float(0, 1)}


def score(config, context: int) -> float:
    return -((config["a"] - 0.3 - 0.05 * context) ** 2) - (config["b"] - 0.6) ** 2


def searched(evaluations: int, mode: str = "max", **options) -> Optimizer:
    sign = 1.0 if mode == "max" else -1.0
    opt = Optimizer(SPACE, 3, mode=mode, seed=1, **options)
    for _ in range(evaluations):
        suggestion = opt.ask()
        opt.tell(suggestion.id, sign * (2 + score(suggestion.config, suggestion.context)))
    return opt


def test_the_measures_are_those_of_the_draws():
    seen = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0], [2.0, 1.5]])
    top = np.array([1.5, 1.0, 3.0, 2.5])
    probability, loss, rival = certainty_of(seen, top, 0)
    assert probability == 0.75
    assert loss == pytest.approx((0.5 + 2.0 + 0.0 + 0.5) / 4)
    assert rival == 1


def test_equal_configs_share_a_draw_and_one_alone_has_no_rival():
    assert certainty_of(np.ones((4, 2)), np.ones(4), 0) == (0.5, 0.0, 1)
    assert certainty_of(np.ones((4, 1)), np.ones(4), 0) == (1.0, 0.0, None)


@pytest.mark.parametrize(
    ("probability", "loss", "rival", "kind", "words"),
    [
        (0.97, 0.001, 7, "clear", "clear (best of those seen with probability 0.97"),
        (0.27, 8e-07, 7, "tied", "practically tied with config 7"),
        (0.27, 0.001, None, "clear", "clear"),
        (0.27, 0.05, 7, "open", "not settled: train more"),
        (0.99, 0.05, 7, "open", "not settled: best of those seen with probability 0.99, but"),
    ],
)
def test_one_verdict_from_probability_and_loss(probability, loss, rival, kind, words):
    found = Certainty(probability, (0.1, 0.2), loss, resolution=0.02, rival=rival).verdict
    assert found.kind == kind
    assert str(found).startswith(words)
    assert f"{probability:.2f}" in found.text


def widened(values):
    """The interval of values, as much further from its middle as reports have it."""
    low, middle, high = np.quantile(values, [0.025, 0.5, 0.975])
    return middle + WIDENING * (np.array([low, high]) - middle)


def test_certainty_agrees_with_draws_from_the_exact_posterior():
    opt = searched(14)
    best = opt.recommend()
    found = opt.certainty()
    fit, gp = opt.model.current()
    configs = [o.config for o in opt.observations]
    distinct = [c for k, c in enumerate(configs) if c not in configs[:k]]
    z = opt.space.features(np.array([opt.space.to_unit(c) for c in distinct]))
    covariance = gp.covariance(z) + 1e-12 * np.eye(3 * len(z))
    rng = np.random.default_rng(0)
    draws = rng.multivariate_normal(gp.means(z).ravel(), covariance, 4000, method="eigh")
    robust = opt.uncertainty.solve(draws.reshape(-1, 3), opt.reference)[0].reshape(4000, -1)
    own = distinct.index(best.config)
    exact = np.mean(robust.argmax(axis=1) == own)
    assert found.probability == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 64))
    value = fit.center + fit.scale * robust[:, own]
    assert found.interval == pytest.approx(widened(value), abs=0.5 * value.std())
    among_seen = fit.scale * (robust.max(axis=1) - robust[:, own]).mean()
    assert found.loss > 0.5 * among_seen


def rough(evaluations: int) -> Optimizer:
    """A search that judges configs by their scores, and scores that jump about."""
    opt = Optimizer(SPACE, 3, method="foldwise", seed=2, fixed_seed=True)
    for _ in range(evaluations):
        suggestion = opt.ask()
        jump = 0.1 * np.sin(1e4 * suggestion.config["a"] + 77 * suggestion.context)
        opt.tell(suggestion.id, score(suggestion.config, suggestion.context) + jump)
    return opt


def test_by_scores_a_config_with_all_folds_trained_is_known():
    opt = rough(40)
    best = opt.recommend()
    assert best.context_stds == [0.0, 0.0, 0.0]
    assert opt.certainty().interval == pytest.approx([best.robust_value] * 2, abs=1e-12)


def test_by_scores_certainty_agrees_with_draws_of_the_missing_scores():
    opt = rough(10)
    found, best = opt.certainty(), opt.recommend()
    fit, gp = opt.model.current()
    configs = [o.config for o in opt.observations]
    distinct = [c for k, c in enumerate(configs) if c not in configs[:k]]
    z = opt.space.features(np.array([opt.space.to_unit(c) for c in distinct]))
    covariance = gp.covariance(z) + gp.kernel.noise * np.eye(3 * len(z))
    draws = np.random.default_rng(0).multivariate_normal(
        gp.means(z).ravel(), covariance, 4000, method="eigh"
    )
    draws = fit.center + fit.scale * draws.reshape(4000, -1, 3)
    for seen in opt.observations:
        draws[:, distinct.index(seen.config), seen.context] = seen.score
    robust = opt.uncertainty.solve(draws.reshape(-1, 3), opt.reference)[0].reshape(4000, -1)
    own = robust[:, distinct.index(best.config)]
    assert own.std() > 0.01
    assert found.interval == pytest.approx(widened(own), abs=0.5 * own.std())
    exact = np.mean(robust.argmax(axis=1) == distinct.index(best.config))
    assert found.probability == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 64))
    assert found.loss > 0.7 * (robust.max(axis=1) - own).mean()


SMALL = {"a": Int(1, 4), "b": Choice(["x", "y"])}


def small(evaluations: int, fails=lambda config, context: False, **options) -> Optimizer:
    """A search by scores in a space of 8 configs and 24 pairs."""
    opt = Optimizer(SMALL, 3, method="foldwise", **options)
    for _ in range(evaluations):
        suggestion = opt.ask()
        config, fold = suggestion.config, suggestion.context
        value = np.sin(7 * config["a"] + 3 * fold) + (0.2 * fold if config["b"] == "x" else 0.0)
        opt.tell(suggestion.id, np.nan if fails(config, fold) else value)
    return opt


@pytest.mark.parametrize("seed", range(4))
def test_by_scores_nothing_is_missed_once_every_pair_is_trained(seed):
    opt = small(24, seed=seed)
    assert opt.exhausted
    found, value = opt.certainty(), opt.recommend().robust_value
    assert found.loss == 0.0
    assert found.probability == 1.0
    assert found.interval == pytest.approx((value, value), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_by_scores_a_config_with_a_failed_fold_is_not_missed(seed):
    opt = small(24, lambda config, context: config["a"] == 4 and context == 1, seed=seed)
    assert opt.certainty().loss == 0.0


def test_by_scores_a_search_of_every_pair_stops_by_its_rule():
    opt = small(24, seed=1, stop_when="loss < 1e-9")
    opt.stop_reason()
    opt.observe({"a": 1, "b": "x"}, 0, opt.completed_scores([{"a": 1, "b": "x"}])[0, 0])
    assert opt.stop_reason() is not None


def best_of_draws(monkeypatch, opt: Optimizer, best: int, numbers) -> np.ndarray:
    """Robust draws of configs, and of a config that the maximizer is made to find."""
    monkeypatch.setattr(
        "drbqo_ray.optimizer.certainty.maximize",
        lambda *_, **__: np.tile(opt._history.U[best], (16, 1)),
    )
    return value_draws(opt.scoring(), numbers, np.random.default_rng(0))


def test_by_scores_the_best_of_a_draw_is_the_seen_config_it_is(monkeypatch):
    opt = small(14, seed=2, uncertainty=0.1)
    numbers, missing = opt._history.usable, np.isnan(opt._history.table(opt._history.usable))
    partly, whole = numbers[missing.any(axis=1)][0], numbers[~missing.any(axis=1)][0]
    values = best_of_draws(monkeypatch, opt, partly, numbers)
    assert np.ptp(values[:, -1]) > 0
    np.testing.assert_array_equal(values[:, -1], values[:, list(numbers).index(partly)])
    values = best_of_draws(monkeypatch, opt, partly, numbers[numbers != partly])
    assert np.ptp(values[:, -1]) > 0
    values = best_of_draws(monkeypatch, opt, whole, numbers[numbers != whole])
    assert np.ptp(values[:, -1]) == 0


def test_looking_is_repeatable_changes_nothing_and_follows_the_mode():
    opt, twin, mirror = searched(16), searched(16), searched(16, mode="min")
    assert opt.certainty() == opt.certainty()
    assert opt.ask() == twin.ask()
    up, down = searched(16).certainty(), mirror.certainty()
    assert down.interval == pytest.approx((-up.interval[1], -up.interval[0]), abs=1e-6)
    assert down.loss == pytest.approx(up.loss, abs=1e-6)


def test_more_evaluations_leave_less_to_lose():
    assert searched(50).certainty().loss < 0.1 * searched(12).certainty().loss


def test_a_search_stops_by_its_rule_and_says_why():
    opt = Optimizer(SPACE, 3, seed=1, stop_when="loss < 0.01")
    reason = None
    while reason is None and len(opt.observations) < 59:
        suggestion = opt.ask()
        opt.tell(suggestion.id, score(suggestion.config, suggestion.context))
        reason = opt.stop_reason()
    told = len(opt.observations)
    assert told >= opt.n_initial + 2 * 3
    assert reason is not None
    assert reason.startswith(f"sure enough after {told} evaluations: loss ")
    assert searched(told).stop_reason() is None


def test_a_rule_needs_to_hold_twice_in_a_row(monkeypatch):
    opt = searched(30, stop_when="probability > 0.5")
    answers = iter([0.9, 0.1, 0.9, 0.9])
    monkeypatch.setattr(opt, "certainty", lambda: Certainty(next(answers), (0.0, 1.0), 0.0))
    seen = []
    for _ in range(4):
        seen.append(opt.stop_reason())
        for _ in range(3):
            suggestion = opt.ask()
            opt.tell(suggestion.id, score(suggestion.config, suggestion.context))
    assert seen[:3] == [None, None, None]
    assert seen[3] == "sure enough after 39 evaluations: probability 0.9 > 0.5"


@given(st.sampled_from(["loss <", "probability >"]), st.floats(0, 0.999))
def test_a_rule_reads_back_as_it_is_written(measure, limit):
    rule = StopRule.parse(f"{measure} {limit:g}")
    assert StopRule.parse(str(rule)) == rule


@pytest.mark.parametrize(
    "text",
    [
        "",
        "loss",
        "loss > 0.1",
        "probability < 0.5",
        "loss < nan",
        "loss < -1",
        "regret < 1",
        "probability > 1",
        "loss < 0.1 or so",
        "loss<abc",
        3,
        True,
    ],
)
def test_a_bad_rule_is_refused_with_an_example(text):
    with pytest.raises(InvalidInput, match=r"loss < 0\.002"):
        Optimizer(SPACE, 3, stop_when=text)


def test_auto_stops_when_the_loss_is_small_beside_what_folds_can_tell_apart():
    rule = StopRule.parse(" auto ")
    assert str(rule) == "auto"
    assert StopRule.parse(str(rule)) == rule
    assert rule.reached(Certainty(0.1, (0.0, 1.0), 0.0014, resolution=0.01))
    assert not rule.reached(Certainty(1.0, (0.0, 1.0), 0.0016, resolution=0.01))
    assert "what these folds can tell apart, 0.01" in rule.reason(
        Certainty(0.1, (0.0, 1.0), 0.001, resolution=0.01), 40
    )


def test_a_search_with_auto_stops_and_says_why():
    opt = searched(14, method="foldwise", stop_when="auto", fixed_seed=True)
    while opt.stop_reason() is None and len(opt.observations) < 120:
        suggestion = opt.ask()
        opt.tell(suggestion.id, 2 + score(suggestion.config, suggestion.context))
    assert (opt.stop_reason() or "").startswith("sure enough after")


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_resolution_is_the_corrected_error_of_differences(mode):
    """Nadeau and Bengio: variance of the differences times (sum p^2 + 1 / (n - 1))."""
    sign = 1.0 if mode == "max" else -1.0
    opt = Optimizer(SPACE, 3, method="foldwise", mode=mode, fixed_seed=True)
    rows = {(0.1, 0.2): [0.9, 0.7, 0.8], (0.5, 0.5): [0.6, 0.75, 0.7], (0.9, 0.3): [0.5, 0.4, 0.6]}
    for (a, b), scores in rows.items():
        for context, value in enumerate(scores):
            opt.observe({"a": a, "b": b}, context, sign * value)
    best, *others = np.array(list(rows.values()))
    p = np.array(opt.recommend().weights)
    errors = [np.sqrt((best - o).var(ddof=1) * (p @ p + 1 / 2)) for o in others]
    assert opt.certainty().resolution == pytest.approx(np.mean(errors))
