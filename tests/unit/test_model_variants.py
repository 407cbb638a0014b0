"""The models that the model benchmark compares: each helps where its assumption holds."""

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.quality.model import VARIANTS, ByFold, Sample, plain
from benchmarks.quality.problems import FoldProblem
from drbqo_ray import Float

M, N = 40, 4


def sample(offsets: np.ndarray, noises: np.ndarray) -> Sample:
    """A wave in one hyperparameter on four folds, each with its offset and its noise."""
    rng = np.random.default_rng(0)
    problem = FoldProblem({"x": Float(0.0, 1.0)}, N, lambda config, fold, repeat: 0.0, 1.0)
    x = rng.random(M)
    scores = np.sin(6 * x)[:, None] + offsets + noises * rng.standard_normal((M, N))
    return Sample(problem, [{"x": float(v)} for v in x], scores, rng.random((M, N)) < 0.4)


def gain(variant: str, found: Sample) -> float:
    return float(np.mean(VARIANTS[variant](found) - plain(found)))


def test_noise_by_fold_helps_where_one_fold_is_noisy() -> None:
    noisy = sample(np.zeros(N), np.array([0.02, 0.02, 0.02, 0.8]))
    assert gain("noise by fold", noisy) > 0.2
    alike = sample(np.zeros(N), np.full(N, 0.1))
    assert abs(gain("noise by fold", alike)) < 0.1


def test_an_offset_by_fold_is_one_more_covariance() -> None:
    """Against the joint covariance of all pairs, conditioned at once."""
    found = sample(np.array([-1.0, 0.0, 0.0, 1.0]), np.full(N, 0.2))
    optimizer = found.optimizer()
    fit, gp = optimizer.model.current()
    offset, noise = 0.5, np.array([0.1, 0.2, 0.3, 0.4])
    known = ByFold(lambda _, n: np.zeros(1), lambda _: offset, lambda _, n: noise)
    x, folds = np.repeat(found.inputs(optimizer.space), N, axis=0), np.tile(np.arange(N), M)
    K = gp.kernel.matrix(x, folds, x, folds) + offset * (folds[:, None] == folds)
    K += np.diag(noise[folds])
    told, y = found.told.ravel(), found.scores.ravel()
    into = K[:, told] @ np.linalg.inv(K[np.ix_(told, told)])
    means = fit.center + into @ (y[told] - fit.center)
    variances = fit.scale**2 * np.diagonal(K - into @ K[told])
    density = norm.pdf(y[~told], means[~told], np.sqrt(variances[~told]))
    expected = np.log(0.99 * density + 0.01 * norm.pdf(y[~told], y.mean(), y.std()))
    np.testing.assert_allclose(known(found), expected, rtol=1e-6)


def test_a_variant_that_adds_nothing_is_the_usual_model() -> None:
    found = sample(np.array([-1.0, 0.0, 0.0, 1.0]), np.full(N, 0.2))
    _, gp = found.optimizer().model.current()
    nothing = ByFold(
        start=lambda noise, n: np.zeros(1),
        offset=lambda parameters: 0.0,
        noise=lambda parameters, n: np.full(n, gp.kernel.noise),
    )
    np.testing.assert_allclose(nothing(found), plain(found), rtol=1e-6)


def test_densities_of_logits_are_densities_of_the_scores() -> None:
    """Over a fine grid of the one hidden score they integrate to about one."""
    found = sample(np.zeros(N), np.full(N, 0.2))
    accuracies = 1 / (1 + np.exp(-found.scores))
    told = np.ones_like(found.told)
    told[0, 0] = False
    grid = np.linspace(0.006, 0.994, 40)

    def density(value: float) -> float:
        scores = accuracies.copy()
        scores[0, 0] = value
        one = Sample(found.problem, found.configs, scores, told)
        return float(np.exp(VARIANTS["logit of accuracies"](one)[0]))

    assert np.trapezoid([density(v) for v in grid], grid) == pytest.approx(1.0, abs=0.02)
