"""Posterior draws: their moments against the exact posterior, their gradients against differences.

A moment over S draws may miss the exact one by 5 of its own standard errors, as estimated from
the draws; the generators are seeded, so a test passes always or never.
"""

from __future__ import annotations

import numpy as np
import pytest

from drbqo_ray.core.kernels import SHAPES
from drbqo_ray.core.paths import draw_paths, features
from tests.support.gp_problems import (
    CONTEXT_KINDS,
    joint_posterior,
    miss,
    moments_miss,
    random_process,
    slopes,
)

DRAWS = 4000
STANDARD_ERRORS = 5.0
SAMPLERS = ("pathwise", "rff")


@pytest.mark.parametrize(
    ("shape", "kind", "noise"),
    [
        ("se", "folds", 0.3),
        ("matern12", "free-form", 1e-3),
        ("matern32", "folds", 1e-4),
        ("matern52", "samples", 1e-2),
    ],
)
def test_4000_pathwise_draws_match_the_exact_posterior(shape, kind, noise):
    rng = np.random.default_rng(20)
    gp = random_process(shape, kind, rng, noise=noise, N=12, d=2, n=3)
    x = rng.random((2, 2))
    draws = np.array([draw_paths(gp, [rng])(x).ravel() for _ in range(DRAWS)])
    assert moments_miss(draws, *joint_posterior(gp, x)) < STANDARD_ERRORS


@pytest.mark.parametrize(("shape", "kind"), [("se", "samples"), ("matern32", "folds")])
def test_4000_weight_space_draws_match_the_exact_posterior(shape, kind):
    # its features approximate the kernel, which shows once the noise is far below 1e-2
    rng = np.random.default_rng(20)
    gp = random_process(shape, kind, rng, noise=1e-2, N=10, d=2, n=3)
    x = rng.random((2, 2))
    draws = np.array([draw_paths(gp, [rng], "rff")(x).ravel() for _ in range(DRAWS)])
    assert moments_miss(draws, *joint_posterior(gp, x)) < STANDARD_ERRORS


@pytest.mark.parametrize(("shape", "kind"), [("se", "folds"), ("matern52", "free-form")])
def test_a_weight_space_draw_has_the_posterior_of_its_own_features(shape, kind):
    rng = np.random.default_rng(21)
    gp = random_process(shape, kind, rng, noise=1e-4, N=10, d=2, n=3)
    x, contexts = np.repeat(rng.random((2, 2)), 3, axis=0), np.tile(np.arange(3), 2)

    def whitened() -> np.ndarray:
        path = draw_paths(gp, [rng], "rff")
        count = path.Omega.shape[1]
        seen, new = features(gp.X, path.Omega), features(x, path.Omega)
        B = gp.kernel.B
        K = seen @ seen.T / count * B[np.ix_(gp.c, gp.c)] + gp.kernel.noise * np.eye(10)
        cross = new @ seen.T / count * B[np.ix_(contexts, gp.c)]
        prior = new @ new.T / count * B[np.ix_(contexts, contexts)]
        covariance = prior - cross @ np.linalg.solve(K, cross.T)
        values = path(x)[0, np.arange(6), contexts]
        gap = values - cross @ np.linalg.solve(K, gp.y)
        return np.linalg.solve(np.linalg.cholesky(covariance), gap)

    draws = np.array([whitened() for _ in range(500)])
    assert moments_miss(draws, np.zeros(6), np.eye(6)) < STANDARD_ERRORS


@pytest.mark.parametrize("kind", CONTEXT_KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_path_gradients_equal_finite_differences(sampler, shape, kind):
    rng = np.random.default_rng(9)
    gp = random_process(shape, kind, rng, N=10)
    paths = draw_paths(gp, [rng, np.random.default_rng(1)], sampler)
    x, p = 0.1 + 0.8 * rng.random((3, 3)), rng.dirichlet(np.ones(4), 3)
    owner = np.array([0, 1, 1])

    values, gradient = paths.with_gradient(x, owner)

    np.testing.assert_allclose(values, paths(x)[owner, np.arange(3)], rtol=0, atol=1e-12)
    np.testing.assert_allclose(paths.approximate(x), paths(x), rtol=0, atol=1e-4)
    got = gradient(p)
    for k in range(3):
        numeric = slopes(lambda z, k=k: paths(z[None])[owner[k], 0] @ p[k], x[k], 1e-5)
        np.testing.assert_allclose(got[k], numeric, rtol=0, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("kind", CONTEXT_KINDS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_draw_passes_through_scores_without_noise(sampler, kind):
    rng = np.random.default_rng(6)
    gp = random_process("se", kind, rng, noise=1e-8, N=8)
    values = draw_paths(gp, [rng], sampler)(gp.X)[0, np.arange(8), gp.c]
    np.testing.assert_allclose(values, gp.y, rtol=0, atol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_average_of_feature_products_is_the_kernel(shape):
    rng = np.random.default_rng(0)
    theta = np.array([0.5, 2.0])
    a, b = np.array([[0.1, 0.2]]), np.array([[0.4, 0.9]])
    Omega = SHAPES[shape].frequencies(rng, 200_000, theta)
    phase = ((a - b) @ Omega)[0]
    D2 = (((a - b) / theta) ** 2).sum()
    assert miss(np.cos(phase), SHAPES[shape].value_and_slope(D2)[0]) < STANDARD_ERRORS
    product = (features(a, Omega) @ features(b, Omega).T)[0, 0] / 200_000
    assert product == pytest.approx(np.cos(phase).mean(), abs=1e-12)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_two_draws_differ_and_one_seed_gives_one_draw(sampler):
    gp = random_process("se", "folds", np.random.default_rng(0))
    x = np.random.default_rng(1).random((4, 3))
    rng = np.random.default_rng(2)
    first, second = draw_paths(gp, [rng], sampler), draw_paths(gp, [rng], sampler)
    again = draw_paths(gp, [np.random.default_rng(2)], sampler)
    assert np.abs(first(x) - second(x)).max() > 1e-3
    np.testing.assert_array_equal(first(x), again(x))


@pytest.mark.parametrize("kind", CONTEXT_KINDS)
def test_draws_made_together_have_the_posterior_each_and_no_correlation(kind):
    rng = np.random.default_rng(5)
    gp = random_process("se", kind, rng, noise=1e-2, N=10, d=2, n=3)
    x = rng.random((1, 2))
    mean, covariance = joint_posterior(gp, x)
    draws = np.array([draw_paths(gp, [rng, rng])(x).ravel() for _ in range(DRAWS)])
    both = np.kron(np.eye(2), covariance)
    assert moments_miss(draws, np.tile(mean, 2), both) < STANDARD_ERRORS
