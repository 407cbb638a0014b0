"""The model kept current: when it is refit, what happens in between, how it is restored."""

from __future__ import annotations

import json

import numpy as np
import pytest

from drbqo_ray.core import surrogate as module
from drbqo_ray.core.contexts import EmbeddedContexts, FreeFormContexts
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import SHAPES, KernelFamily
from drbqo_ray.core.surrogate import Fit, Surrogate

FAMILY = KernelFamily(SHAPES["se"], EmbeddedContexts.folds(3), 2)


def data(N: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, c = rng.random((N, 2)), rng.integers(0, 3, N)
    return X, c, 40 + 3 * np.sin(4 * X[:, 0]) + 0.5 * c + 0.01 * rng.standard_normal(N)


def first(rows: tuple[np.ndarray, ...], N: int) -> tuple[np.ndarray, ...]:
    return tuple(part[:N] for part in rows)


def fitted_to(size: int) -> Fit:
    return Fit((0.0,), size=size, explored=1, value=0.0, center=0.0, scale=1.0)


def test_each_observation_refits_while_data_are_few_and_later_one_in_forty_does():
    assert fitted_to(1).due == 2
    assert fitted_to(79).due == 80
    assert fitted_to(80).due == 82
    assert fitted_to(1000).due == 1025


def test_the_schedule_is_kept_as_data_arrive():
    rows = data(104)
    model = Surrogate(FAMILY)
    model.update(*first(rows, 100))
    fit = model.last_fit
    assert (fit.size, fit.due) == (100, 102)
    model.update(*first(rows, 101))
    assert model.last_fit is fit
    model.update(*first(rows, 102))
    assert model.last_fit.size == 102


def test_several_starts_are_tried_again_once_the_data_have_grown_by_half():
    rows = data(30)
    model = Surrogate(FAMILY)
    explored = []
    for N in range(8, 31):
        model.update(*first(rows, N))
        explored.append(model.last_fit.explored)
    assert explored == sorted(explored)
    for size, last in zip(range(8, 31), explored, strict=True):
        assert last <= size < 1.5 * last


def test_a_score_that_the_model_cannot_explain_calls_for_several_starts_again():
    X, c, y = data(60)
    calm, shocked = Surrogate(FAMILY), Surrogate(FAMILY)
    calm.update(X[:40], c[:40], y[:40])
    calm.update(X[:41], c[:41], y[:41])
    assert calm.last_fit.explored == 40
    shocked.update(X[:40], c[:40], y[:40])
    y[40] = 1e3
    shocked.update(X[:41], c[:41], y[:41])
    assert shocked.last_fit.explored == 41


def test_scores_are_standardized_by_those_the_fit_saw():
    rows = data(20)
    model = Surrogate(FAMILY)
    gp = model.update(*rows)
    assert model.last_fit.center == pytest.approx(rows[2].mean())
    assert model.last_fit.scale == pytest.approx(rows[2].std())
    np.testing.assert_allclose(gp.y, (rows[2] - rows[2].mean()) / rows[2].std(), atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.7, -1e9, 1e-300])
def test_constant_scores_keep_a_scale_of_one(value):
    X, c, _ = data(6)
    model = Surrogate(FAMILY)
    gp = model.update(X, c, np.full(6, value))
    assert model.last_fit.scale == 1.0
    assert np.isfinite(gp.means(X)).all()


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_scale_of_the_scores_does_not_matter(scale):
    X, c, y = data(15)
    plain, scaled = Surrogate(FAMILY), Surrogate(FAMILY)
    a, b = plain.update(X, c, y - y.mean()), scaled.update(X, c, scale * (y - y.mean()))
    np.testing.assert_allclose(a.means(X), b.means(X), rtol=0, atol=1e-5)


def test_between_fits_the_posterior_equals_a_fresh_one_with_the_same_parameters():
    rows = data(101)
    model = Surrogate(FAMILY)
    model.update(*first(rows, 100))
    grown = model.update(*rows)
    fit = model.last_fit
    assert fit.size == 100
    kernel = FAMILY.unpack(np.array(fit.parameters))
    fresh = GaussianProcess.condition(kernel, *rows[:2], (rows[2] - fit.center) / fit.scale)
    x = np.random.default_rng(1).random((5, 2))
    np.testing.assert_allclose(grown.means(x), fresh.means(x), rtol=0, atol=1e-6)
    np.testing.assert_allclose(grown.L, fresh.L, rtol=0, atol=1e-8)


def test_scores_that_changed_since_are_used():
    rows = data(100)
    model = Surrogate(FAMILY)
    before = model.update(*rows)
    changed = rows[2].copy()
    changed[3] -= 1.0
    after = model.update(rows[0], rows[1], changed)
    assert after.y[3] == pytest.approx(before.y[3] - 1.0 / model.last_fit.scale)
    assert after.L is before.L


@pytest.mark.parametrize("N", [1, 5, 81, 101])
@pytest.mark.parametrize("contexts", [EmbeddedContexts.folds(3), FreeFormContexts(3)])
def test_a_restored_surrogate_gives_the_same_posterior_bit_for_bit(contexts, N):
    family = KernelFamily(SHAPES["matern52"], contexts, 2)
    rows = data(N)
    model = Surrogate(family)
    for size in range(max(1, N - 3), N + 1):
        gp = model.update(*first(rows, size))
    stored = json.loads(json.dumps(model.last_fit.to_dict()))
    restored = Surrogate(family, last_fit=Fit.from_dict(stored))
    twin = restored.update(*rows)
    assert restored.last_fit == model.last_fit
    x = np.random.default_rng(1).random((5, 2))
    np.testing.assert_array_equal(twin.L, gp.L)
    np.testing.assert_array_equal(twin.means(x), gp.means(x))
    np.testing.assert_array_equal(twin.covariance(x[:1]), gp.covariance(x[:1]))


def test_the_next_fit_of_a_restored_surrogate_is_the_same_too():
    rows = data(40)
    model = Surrogate(FAMILY)
    for N in (30, 31, 32):
        model.update(*first(rows, N))
    restored = Surrogate(FAMILY, last_fit=model.last_fit)
    assert restored.update(*rows).L.tobytes() == model.update(*rows).L.tobytes()
    assert restored.last_fit == model.last_fit


def test_maximum_likelihood_is_at_least_as_likely_as_the_fit_with_priors():
    rows = data(25)
    values = {}
    for weight in (0.0, 1.0):
        model = Surrogate(FAMILY, prior_weight=weight)
        gp = model.update(*rows)
        plain = module.Likelihood(FAMILY, *rows[:2], gp.y, 0.0)
        values[weight] = plain(np.array(model.last_fit.parameters))[0]
    assert values[0.0] >= values[1.0] - 1e-3


def test_noise_is_learned_and_has_a_floor():
    rng = np.random.default_rng(0)
    X, c = rng.random((60, 2)), rng.integers(0, 3, 60)
    smooth = np.sin(3 * X[:, 0]) + X[:, 1]
    noisy = smooth + 0.3 * rng.standard_normal(60)

    def noise(y: np.ndarray) -> float:
        model = Surrogate(FAMILY, prior_weight=0.0)
        kernel = model.update(X, c, y).kernel
        return float(np.sqrt(kernel.noise) * model.last_fit.scale)

    assert noise(noisy) == pytest.approx(0.3, rel=0.3)
    assert 1e-5 < noise(smooth) / smooth.std() < 1e-2


def fitted_noise(y, noisy_prior, seed=0, size=30):
    X = np.random.default_rng(seed).random((size, 3))
    c = np.arange(size) % 4
    family = KernelFamily(SHAPES["se"], EmbeddedContexts.folds(4), 3)
    model = Surrogate(family, noisy_prior=noisy_prior)
    fit = model.fit(X, c, y(X))
    return family.unpack(np.array(fit.parameters)).noise


def test_a_rough_prior_takes_few_scores_that_jump_about_for_noise():
    def jumps(X):
        return np.random.default_rng(1).standard_normal(len(X))

    assert fitted_noise(jumps, noisy_prior=True) > 0.3
    assert fitted_noise(jumps, noisy_prior=False) < 0.01


def test_a_rough_prior_still_sees_that_scores_are_smooth():
    assert fitted_noise(lambda X: np.sin(3 * X).sum(axis=1), noisy_prior=True, size=60) < 1e-4
