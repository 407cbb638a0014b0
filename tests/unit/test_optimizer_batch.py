"""Suggestions made together, models of much data, and fits made beside the asking."""

from __future__ import annotations

import numpy as np
import pytest

from drbqo_ray import Choice, Float, Int, Optimizer
from drbqo_ray.core import surrogate
from drbqo_ray.core.surrogate import Fit
from drbqo_ray.optimizer import model

PLANE = {"a": Float(0, 1), "b": Float(0, 1)}
MIXED = {"a": Float(0, 1), "k": Int(1, 9), "c": Choice(["x", "yy", "zzz"])}


def score(config, context: int) -> float:
    return -sum(
        (value - 0.3 - 0.05 * context) ** 2 if isinstance(value, (int, float)) else len(value)
        for value in config.values()
    )


def trained(space=None, n: int = 5, evaluations: int = 20, seed: int = 0, **options) -> Optimizer:
    opt = Optimizer(space or PLANE, n, seed=seed, **options)
    rng = np.random.default_rng(seed)
    for k in range(evaluations):
        config = opt.space.from_unit(rng.random(len(opt.space)))
        opt.observe(config, k % n, score(config, k % n))
    return opt


def pairs(suggestions) -> list[tuple[str, int]]:
    return [(repr(s.config), s.context) for s in suggestions]


@pytest.mark.parametrize("space", [PLANE, MIXED])
def test_a_batch_of_one_is_a_single_suggestion(space):
    assert trained(space).ask(1)[0] == trained(space).ask()


@pytest.mark.parametrize("method", ["drbqo", "bqo-ts"])
@pytest.mark.parametrize("space", [PLANE, MIXED])
def test_a_batch_is_valid_varied_and_repeatable(space, method):
    opt = trained(space, method=method)
    batch = opt.ask(20)
    assert [s.id for s in batch] == list(range(batch[0].id, batch[0].id + 20))
    assert all(opt.space.validate(s.config) == s.config for s in batch)
    assert len(set(pairs(batch))) == 20
    assert len({s.seed for s in batch}) == 20
    assert trained(space, method=method).ask(20) == batch


def test_each_context_of_a_batch_has_the_highest_variance_given_those_before():
    opt = trained(evaluations=12)
    opt.ask(3)
    waiting = opt.pending
    _, gp = opt.model.current()
    batch = opt.ask(6)
    z = opt.space.features(np.array([opt.space.to_unit(s.config) for s in [*waiting, *batch]]))
    for row, suggestion in enumerate([*waiting, *batch]):
        if row >= len(waiting):
            assert suggestion.context == np.argmax(np.diagonal(gp.covariance(z[[row]])))
        gp = gp.extended(z[row], suggestion.context)


def test_a_batch_at_a_corner_repeats_no_pair():
    opt = Optimizer(PLANE, 2, seed=1)
    rng = np.random.default_rng(0)
    for k in range(20):
        config = opt.space.from_unit(rng.random(2))
        opt.observe(config, k % 2, 10 * (config["a"] + config["b"]))
    assert len(set(pairs(opt.ask(24)))) == 24


def test_a_batch_uses_up_a_small_finite_space_before_it_repeats():
    space = {"k": Int(1, 3), "c": Choice(["x", "yy"])}
    opt = trained(space, n=4, evaluations=4)
    seen = {(repr(o.config), o.context) for o in opt.observations}
    rest = opt.ask(24 - len(seen))
    assert len(seen | set(pairs(rest))) == 24
    assert opt.exhausted
    assert len(opt.ask(5)) == 5


def test_of_many_pending_pairs_the_nearest_count(monkeypatch):
    monkeypatch.setattr(model, "PENDING_LIMIT", 6)
    near, far = {"a": 0.5, "b": 0.5}, {"a": 0.02, "b": 0.98}
    opt = trained()
    _, gp = opt.model.current()
    z = opt.space.features(np.array([opt.space.to_unit(c) for c in (near, far)]))
    opt.ask(10)
    pending, points = opt._evaluations.pending, opt._evaluations.points
    some = opt.model.with_pending(gp, pending, points, z[:1])
    assert len(some.y) == len(gp.y) + 6
    distance = {
        id: gp.kernel.distances(z[:1], opt.space.features(u[None]))[0, 0]
        for id, u in points.items()
        if id in pending
    }
    expected = sorted(sorted(distance, key=distance.__getitem__)[:6])
    rows = np.array([points[id] for id in expected])
    np.testing.assert_array_equal(some.X[-6:], opt.space.features(rows))


def test_much_data_is_condensed_and_a_replay_asks_the_same(monkeypatch):
    monkeypatch.setattr(surrogate, "EXACT_LIMIT", 60)
    monkeypatch.setattr(surrogate, "FIT_ROWS", 40)

    def run() -> Optimizer:
        opt = trained(evaluations=70)
        for _ in range(4):
            suggestion = opt.ask()
            opt.tell(suggestion.id, score(suggestion.config, suggestion.context))
        return opt

    opt = run()
    assert opt.model.current()[1].spread is not None
    assert opt.recommend().robust_value > -0.2
    twin = trained(evaluations=70)
    for seen in opt.observations[70:]:
        suggestion = twin.ask()
        assert suggestion.config == seen.config
        twin.tell(suggestion.id, seen.score)
    stored = opt.last_fit.to_dict()
    twin.last_fit = Fit.from_dict(stored)
    assert twin.ask() == opt.ask()


def test_a_new_worst_score_reaches_failures_in_condensed_data(monkeypatch):
    monkeypatch.setattr(surrogate, "EXACT_LIMIT", 60)
    monkeypatch.setattr(surrogate, "FIT_ROWS", 40)
    opt = trained(evaluations=69)
    broken = {"a": 0.9, "b": 0.9}
    opt.observe(broken, 0, float("nan"))
    opt.ask()
    before = opt.predict([broken])[0][0, 0]
    opt.observe({"a": 0.1, "b": 0.9}, 1, -50.0)
    assert opt.predict([broken])[0][0, 0] < before - 1


def test_a_fit_made_beside_is_the_one_that_asking_would_have_made():
    opt, twin = trained(evaluations=30), trained(evaluations=30)
    for each in (opt, twin):
        first = each.ask()
        each.tell(first.id, score(first.config, first.context))
    opt.model.fits_in_background = True
    held = opt.last_fit
    opt.ask()
    assert opt.last_fit is held
    job = opt.model.fit_job()
    twin.ask()
    assert job() == twin.last_fit
    opt.last_fit = twin.last_fit
    assert opt.model.fit_job() is None


def test_predictions_are_on_the_users_scale_and_change_nothing():
    for mode in ("max", "min"):
        sign = 1.0 if mode == "max" else -1.0
        opt = Optimizer(PLANE, 3, mode=mode, seed=0)
        rng = np.random.default_rng(0)
        configs = [opt.space.from_unit(u) for u in rng.random((30, 2))]
        for k, config in enumerate(configs):
            opt.observe(config, k % 3, sign * (7 + score(config, k % 3)))
        means, stds = opt.predict(configs)
        assert means.shape == stds.shape == (30, 3)
        told = np.array([o.score for o in opt.observations])
        np.testing.assert_allclose(means[np.arange(30), np.arange(30) % 3], told, atol=0.05)
        best = opt.recommend()
        at, spread = opt.predict([best.config])
        np.testing.assert_allclose(at[0], best.context_means, rtol=1e-9)
        np.testing.assert_allclose(spread[0], best.context_stds, rtol=1e-6, atol=1e-9)
        assert opt.last_fit is None
        assert opt.predict([])[0].shape == (0, 3)
