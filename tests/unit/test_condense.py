"""Condensed data: the posterior of few pseudo-scores beside the exact one of all scores."""

from __future__ import annotations

import numpy as np
import pytest

from drbqo_ray.core import condense as module
from drbqo_ray.core.condense import condense, pick_pivots
from drbqo_ray.core.contexts import EmbeddedContexts, FreeFormContexts
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import SHAPES, KernelFamily
from drbqo_ray.core.paths import draw_paths
from tests.support.gp_problems import moments_miss

N, D, FOLDS = 400, 2, 3


def data(shape: str, free: bool, noise: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    contexts = FreeFormContexts(FOLDS) if free else EmbeddedContexts.folds(FOLDS)
    family = KernelFamily(SHAPES[shape], contexts, D)
    shared = contexts.prior_mean
    tail = [np.log(noise)] if free else [0.0, np.log(noise)]
    kernel = family.unpack(np.concatenate([np.full(D, np.log(0.5)), shared, tail]))
    X, c = rng.random((N, D)), rng.integers(FOLDS, size=N)
    y = np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * c + np.sqrt(noise) * rng.standard_normal(N)
    return kernel, X, c, y


@pytest.mark.parametrize(("shape", "free"), [("se", False), ("se", True), ("matern52", False)])
@pytest.mark.parametrize("noise", [1e-1, 1e-3])
def test_a_condensed_posterior_is_close_to_the_exact_one(shape, free, noise):
    kernel, X, c, y = data(shape, free, noise)
    exact = GaussianProcess.condition(kernel, X, c, y)
    few = condense(kernel, X, c, y)
    x = np.random.default_rng(1).random((20, D))
    scale = exact.means(x).std()
    np.testing.assert_allclose(few.means(x), exact.means(x), rtol=0, atol=0.01 * scale)
    np.testing.assert_allclose(few.variances(x), exact.variances(x), rtol=0.05, atol=1e-6)
    if shape == "se":
        assert len(few.X) < N


def test_all_pairs_as_pivots_give_the_exact_posterior(monkeypatch):
    monkeypatch.setattr(module, "LEFT", 0.0)
    kernel, X, c, y = data("matern32", False, 1e-2)
    exact = GaussianProcess.condition(kernel, X, c, y)
    few = condense(kernel, X, c, y)
    assert len(few.X) == N
    x = np.random.default_rng(1).random((10, D))
    np.testing.assert_allclose(few.means(x), exact.means(x), rtol=0, atol=1e-6)
    np.testing.assert_allclose(few.covariance(x), exact.covariance(x), rtol=0, atol=1e-6)


def test_new_scores_extend_a_condensed_posterior_like_an_exact_one(monkeypatch):
    monkeypatch.setattr(module, "LEFT", 0.0)
    kernel, X, c, y = data("matern32", False, 1e-2)
    exact = GaussianProcess.condition(kernel, X, c, y)
    few = condense(kernel, X[:-20], c[:-20], y[:-20])
    for row in range(N - 20, N - 10):
        few = few.extended(X[row], int(c[row]), float(y[row]))
    few = few.conditioned_on(X[-10:], c[-10:], y[-10:])
    x = np.random.default_rng(1).random((10, D))
    np.testing.assert_allclose(few.means(x), exact.means(x), rtol=0, atol=1e-6)
    np.testing.assert_allclose(few.covariance(x), exact.covariance(x), rtol=0, atol=1e-6)


def test_draws_have_the_moments_of_the_condensed_posterior():
    kernel, X, c, y = data("se", False, 0.05)
    few = condense(kernel, X, c, y).extended(np.array([0.2, 0.9]), 1, 0.3)
    rng = np.random.default_rng(2)
    x = rng.random((2, D))
    draws = np.array([draw_paths(few, [rng])(x).ravel() for _ in range(2000)])
    assert moments_miss(draws, few.means(x).ravel(), few.covariance(x)) < 5


def test_pivots_are_different_rows_and_few_where_rows_repeat():
    kernel, X, c, y = data("se", False, 1e-2)
    X[200:] = X[:200]
    c[200:] = c[:200]
    rows = pick_pivots(kernel, X, c, y)
    assert len(set(rows.tolist())) == len(rows)
    pairs = {(*X[row], c[row]) for row in rows}
    assert len(pairs) == len(rows)


def test_only_so_many_pivots_are_picked(monkeypatch):
    monkeypatch.setattr(module, "PIVOTS", 30)
    monkeypatch.setattr(module, "POOL", 100)
    kernel, X, c, y = data("se", False, 1e-2)
    rows = pick_pivots(kernel, X, c, y)
    assert len(rows) == 30
    best = set(np.argsort(-y)[:25].tolist())
    assert set(rows[:10].tolist()) <= best
