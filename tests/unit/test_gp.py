"""The Gaussian process: against gpytorch, against finite differences, and at the edges."""

from __future__ import annotations

import logging
import warnings
from itertools import product

import numpy as np
import pytest

from drbqo_ray.core import linalg
from drbqo_ray.core.contexts import EmbeddedContexts
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.gpytorch_bridge import joint_inputs, to_gpytorch
from drbqo_ray.core.kernels import SHAPES, Kernel, KernelFamily
from drbqo_ray.core.likelihood import Likelihood, fit
from tests.support.gp_problems import (
    CONTEXT_KINDS,
    joint_posterior,
    random_likelihood,
    random_process,
    slopes,
)

KINDS = list(product(SHAPES, CONTEXT_KINDS))
FIFTY = [(*KINDS[number % len(KINDS)], number) for number in range(50)]


def peer_answers(gp: GaussianProcess, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance of configs x in all contexts and the log likelihood, by gpytorch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gpytorch's own imports warn
        import gpytorch
        import torch

        model = to_gpytorch(gp)
        n = gp.kernel.family.contexts.n
        pairs = joint_inputs(gp, np.repeat(x, n, axis=0), np.tile(np.arange(n), len(x)))
        evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
            posterior = model(torch.from_numpy(pairs))
            mean, covariance = posterior.mean.numpy(), posterior.covariance_matrix.numpy()
            model.train()
            value = evidence(model(*model.train_inputs), model.train_targets) * len(gp.y)
    return mean, covariance, float(value)


@pytest.mark.parametrize(("shape", "kind", "seed"), FIFTY)
def test_posterior_and_likelihood_equal_those_of_gpytorch(shape, kind, seed):
    rng = np.random.default_rng(seed)
    N, d, n = int(rng.integers(1, 40)), int(rng.integers(1, 5)), int(rng.integers(1, 7))
    likelihood, parameters = random_likelihood(shape, kind, rng, N=N + 1, d=d, n=n)
    kernel = likelihood.family.unpack(parameters)
    gp = GaussianProcess.condition(kernel, likelihood.X, likelihood.c, likelihood.y)
    x = rng.random((3, d))

    mean, covariance, value = peer_answers(gp, x)

    np.testing.assert_allclose(gp.means(x).ravel(), mean, rtol=0, atol=1e-8)
    for k, config in enumerate(x):
        block = covariance[k * n : (k + 1) * n, k * n : (k + 1) * n]
        np.testing.assert_allclose(gp.covariance(config[None]), block, rtol=0, atol=1e-8)
    blocks = covariance.reshape(len(x), n, len(x), n)[np.arange(len(x)), :, np.arange(len(x))]
    np.testing.assert_allclose(gp.covariances(x), blocks, rtol=0, atol=1e-8)
    assert likelihood(parameters)[0] == pytest.approx(value, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize(("shape", "kind"), KINDS)
def test_likelihood_gradient_equals_finite_differences(shape, kind, weight):
    rng = np.random.default_rng(7)
    likelihood, parameters = random_likelihood(shape, kind, rng, N=25)
    likelihood = Likelihood(likelihood.family, likelihood.X, likelihood.c, likelihood.y, weight)

    gradient = likelihood(parameters)[1]

    numeric = slopes(lambda p: np.float64(likelihood(p)[0]), parameters)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("kind", CONTEXT_KINDS)
def test_gradient_of_the_likelihood_survives_repeated_configs(kind):
    rng = np.random.default_rng(3)
    likelihood, parameters = random_likelihood("matern12", kind, rng, N=12)
    X = np.repeat(likelihood.X[:4], 3, axis=0)
    c = np.tile(np.arange(3), 4)
    likelihood = Likelihood(likelihood.family, X, c, likelihood.y, 0.0)

    numeric = slopes(lambda p: np.float64(likelihood(p)[0]), parameters)
    gradient = likelihood(parameters)[1]

    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize(("shape", "kind"), KINDS)
def test_a_fit_is_no_less_likely_than_its_starts_and_inside_the_bounds(shape, kind):
    rng = np.random.default_rng(11)
    likelihood, start = random_likelihood(shape, kind, rng)
    found, value = fit(likelihood, [start], 30)
    low, high = likelihood.bounds.T
    assert ((low <= found) & (found <= high)).all()
    assert value == pytest.approx(likelihood(found)[0], abs=1e-9)
    assert value > likelihood(np.clip(start, low, high))[0]


@pytest.mark.parametrize(("shape", "kind"), KINDS)
def test_a_factor_extended_200_times_equals_a_fresh_one(shape, kind):
    rng = np.random.default_rng(5)
    gp = random_process(shape, kind, rng, N=205)
    grown = GaussianProcess.condition(gp.kernel, gp.X[:5], gp.c[:5], gp.y[:5])
    for row in range(5, 205):
        grown = grown.extended(gp.X[row], int(gp.c[row]), float(gp.y[row]))

    assert np.abs(grown.L - gp.L).max() <= 1e-9
    x = rng.random((4, 3))
    np.testing.assert_allclose(grown.means(x), gp.means(x), rtol=0, atol=1e-8)
    np.testing.assert_allclose(grown.covariance(x[:1]), gp.covariance(x[:1]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("b", [1, 2, 6])
@pytest.mark.parametrize("kind", CONTEXT_KINDS)
def test_several_more_pairs_at_once_have_their_noise_like_all_others(kind, b):
    rng = np.random.default_rng(5)
    gp = random_process("se", kind, rng, noise=0.3)
    x, i, scores = rng.random((b, 3)), rng.integers(0, 4, b), rng.standard_normal(b)
    x[-1], i[-1] = x[0], i[0]  # the same pair twice: without noise it would be known
    grown = gp.conditioned_on(x, i, scores)
    fresh = GaussianProcess.condition(
        gp.kernel,
        np.concatenate([gp.X, x]),
        np.concatenate([gp.c, i]),
        np.concatenate([gp.y, scores]),
    )
    assert gp.jitter == fresh.jitter == 0.0
    np.testing.assert_allclose(grown.L, fresh.L, atol=1e-12)
    np.testing.assert_allclose(grown.means(x), fresh.means(x), atol=1e-12)
    np.testing.assert_allclose(grown.covariance(x), fresh.covariance(x), atol=1e-12)


def test_a_pending_pair_shrinks_the_variance_and_its_score_does_not_matter():
    rng = np.random.default_rng(2)
    gp = random_process("se", "folds", rng)
    x = rng.random(3)
    without = gp.extended(x, 1).covariance(x[None])
    np.testing.assert_array_equal(without, gp.extended(x, 1, 5.0).covariance(x[None]))
    assert without[1, 1] < 0.5 * gp.covariance(x[None])[1, 1]
    assert (np.diagonal(without) <= np.diagonal(gp.covariance(x[None])) + 1e-12).all()


@pytest.mark.parametrize(("shape", "kind"), KINDS)
def test_quadrature_is_the_weighted_full_posterior(shape, kind):
    rng = np.random.default_rng(1)
    gp = random_process(shape, kind, rng)
    x, p = rng.random((5, 3)), rng.dirichlet(np.ones(4))
    mean, covariance = joint_posterior(gp, x)

    got_mean, got_variance = gp.quadrature(x, p)

    np.testing.assert_allclose(got_mean, mean.reshape(5, 4) @ p, rtol=0, atol=1e-9)
    blocks = np.array([covariance[4 * k : 4 * k + 4, 4 * k : 4 * k + 4] for k in range(5)])
    np.testing.assert_allclose(got_variance, blocks @ p @ p, rtol=0, atol=1e-9)
    np.testing.assert_allclose(got_mean, gp.means(x) @ p, rtol=0, atol=1e-9)
    np.testing.assert_allclose(got_variance[0], p @ gp.covariance(x[:1]) @ p, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("shape", "kind"), KINDS)
def test_quadrature_gradients_equal_finite_differences(shape, kind):
    rng = np.random.default_rng(4)
    gp = random_process(shape, kind, rng)
    x, p = 0.1 + 0.8 * rng.random((3, 3)), rng.dirichlet(np.ones(4))

    mean, variance, by_mean, by_variance = gp.quadrature_gradients(x, p)

    np.testing.assert_array_equal((mean, variance), gp.quadrature(x, p))
    for k, config in enumerate(x):
        numeric = slopes(lambda z: np.array(gp.quadrature(z[None], p))[:, 0], config, 1e-4).T
        scale = np.abs(numeric).max(axis=1, keepdims=True)
        error = np.abs(np.array([by_mean[k], by_variance[k]]) - numeric)
        assert (error <= 1e-6 * scale).all()


def bound_kernel(shape: str = "se", noise: float = 1e-9) -> Kernel:
    family = KernelFamily(SHAPES[shape], EmbeddedContexts.folds(3), 2)
    return Kernel(family, np.ones(2), np.zeros(3), 1.0, noise)


@pytest.mark.parametrize("shape", SHAPES)
def test_200_identical_points_are_averaged(shape):
    X, c = np.full((200, 2), 0.3), np.zeros(200, dtype=np.int64)
    y = np.tile([0.0, 1.0], 100)
    gp = GaussianProcess.condition(bound_kernel(shape, 1e-6), X, c, y)
    assert gp.means(X[:1])[0, 0] == pytest.approx(0.5, abs=1e-4)
    assert np.isfinite(gp.covariance(X[:1])).all()
    for _ in range(5):
        gp = gp.extended(X[0], 0, 1.0)
    assert gp.means(X[:1])[0, 0] == pytest.approx(105 / 205, abs=1e-3)


@pytest.mark.parametrize("kind", CONTEXT_KINDS)
def test_constant_scores_give_a_constant_mean(kind):
    likelihood, _ = random_likelihood("se", kind, np.random.default_rng(0), N=30)
    flat = Likelihood(likelihood.family, likelihood.X, likelihood.c, np.zeros(30))
    found, _ = fit(flat, [flat.prior_mean], 50)
    gp = GaussianProcess.condition(flat.family.unpack(found), flat.X, flat.c, flat.y)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(gp.means(flat.X), 0.0)


@pytest.mark.parametrize(("shape", "kind"), KINDS)
def test_one_observation_is_enough(shape, kind):
    likelihood, _ = random_likelihood(shape, kind, np.random.default_rng(0), N=2)
    single = Likelihood(likelihood.family, likelihood.X[:1], likelihood.c[:1], np.array([0.7]))
    found, _ = fit(single, [single.prior_mean], 50)
    gp = GaussianProcess.condition(single.family.unpack(found), single.X, single.c, single.y)
    assert np.isfinite(found).all()
    assert 0 < gp.means(single.X)[0, single.c[0]] <= 0.7
    assert np.isfinite(gp.covariance(single.X[:1])).all()


def test_jitter_that_was_needed_is_logged_and_counted_as_noise(caplog):
    X, c, y = np.full((50, 2), 0.3), np.zeros(50, dtype=np.int64), np.ones(50)
    with caplog.at_level(logging.INFO, logger="drbqo_ray.core.linalg"):
        gp = GaussianProcess.condition(bound_kernel(noise=0.0), X, c, y)
    assert gp.jitter > 0
    assert "jitter" in caplog.text
    assert gp.means(X[:1])[0, 0] == pytest.approx(1.0, abs=1e-3)
    assert np.isfinite(gp.extended(X[0], 0, 1.0).means(X[:1])).all()


def test_a_sound_matrix_gets_no_jitter_and_no_log_line(caplog):
    with caplog.at_level(logging.INFO, logger="drbqo_ray.core.linalg"):
        L, jitter = linalg.factorize(np.array([[4.0, 2.0], [2.0, 5.0]]))
    assert jitter == 0
    assert not caplog.records
    np.testing.assert_array_equal(L, [[2.0, 0.0], [1.0, 2.0]])


def test_a_matrix_beyond_the_jitter_ladder_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        linalg.factorize(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_solves_agree_with_numpy():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    K, b = root @ root.T + np.eye(6), rng.standard_normal((6, 3))
    L, _ = linalg.factorize(K)
    np.testing.assert_allclose(linalg.solve(L, b), np.linalg.solve(K, b), atol=1e-12)
    np.testing.assert_allclose(linalg.solve(L, b[:, 0]), np.linalg.solve(K, b[:, 0]), atol=1e-12)
