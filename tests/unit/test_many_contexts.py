"""Many contexts: the same model without squares of numbers, and a word where that costs."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.core import contexts
from drbqo_ray.core import missing_scores as score_draws
from drbqo_ray.core.condense import condense
from drbqo_ray.core.missing_scores import ScoreDraws
from drbqo_ray.core.updates import Updates
from drbqo_ray.optimizer.model import warn_of_many_contexts
from drbqo_ray.optimizer.scoring import score_normals
from tests.support.gp_problems import (
    context_model,
    joint_posterior,
    random_likelihood,
    random_process,
)

SPACE = {"a": dr.Float(0.0, 1.0), "b": dr.Float(0.0, 1.0)}


@pytest.fixture(autouse=True)
def nothing_said_yet():
    warn_of_many_contexts.cache_clear()


def told(given, evaluations: int = 12, **options) -> dr.Optimizer:
    opt = dr.Optimizer(SPACE, given, seed=0, **{"method": "foldwise", **options})
    rng, n = np.random.default_rng(0), opt.n_contexts
    for k in range(evaluations):
        config = opt.space.from_unit(rng.random(2))
        opt.observe(config, (7 * k) % n, -((config["a"] - 0.3) ** 2) + 0.01 * (k % 3))
    return opt


def both_ways(monkeypatch, make):
    """What `make` gives with contexts that are few, and with the same ones taken for many."""
    few = make()
    monkeypatch.setattr(contexts, "MANY", 0)
    return few, make()


@pytest.mark.parametrize("n", [2, 3, 7, 40])
@pytest.mark.parametrize("kind", ["folds", "samples"])
def test_many_contexts_have_the_distances_of_few(monkeypatch, n, kind):
    parameters = np.random.default_rng(n).standard_normal(n if kind == "folds" else 3)
    few, many = both_ways(
        monkeypatch,
        lambda: context_model(kind, n, np.random.default_rng(0)).matrix(parameters),
    )
    np.testing.assert_allclose(many, few, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", ["se", "matern12", "matern32", "matern52"])
@pytest.mark.parametrize("kind", ["folds", "samples"])
class TestManyContextsAreFewOnes:
    def test_the_likelihood_and_its_slopes(self, monkeypatch, shape, kind):
        likelihood, parameters = random_likelihood(
            shape, kind, np.random.default_rng(1), N=30, n=12
        )
        few = likelihood(parameters)
        monkeypatch.setattr(contexts, "MANY", 0)
        twin, _ = random_likelihood(shape, kind, np.random.default_rng(1), N=30, n=12)
        many = twin(parameters)
        np.testing.assert_allclose(many[0], few[0], rtol=1e-10)
        np.testing.assert_allclose(many[1], few[1], rtol=0, atol=1e-8)

    def test_the_posterior(self, monkeypatch, shape, kind):
        rng = np.random.default_rng(2)
        x, p = rng.random((3, 3)), rng.dirichlet(np.ones(12), 3)

        def posterior():
            gp = random_process(shape, kind, np.random.default_rng(3), N=40, n=12)
            gp = gp.extended(x[0], 4, 0.3)
            beliefs = gp.beliefs(x)
            columns = np.array([beliefs.column(a) for a in range(36)])
            quadrature = gp.quadrature_gradients(x, p[0])
            prior = gp.kernel.quadratic(p)
            return [gp.means(x), gp.variances(x), beliefs.variances, columns, prior, *quadrature]

        few, many = both_ways(monkeypatch, posterior)
        for one, other in zip(few, many, strict=True):
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-8)

    def test_draws_of_one_config_have_the_posterior_covariance(self, monkeypatch, shape, kind):
        """The map from white numbers to draws is linear: its square is the covariance."""
        monkeypatch.setattr(contexts, "MANY", 0)
        gp = random_process(shape, kind, np.random.default_rng(4), N=40, n=12)
        for x in (np.array([0.2, 0.7, 0.4]), gp.X[5]):
            root = gp.deviations(x, np.eye(gp.chances))
            np.testing.assert_allclose(
                root.T @ root, joint_posterior(gp, x[None])[1], rtol=0, atol=1e-8
            )

    def test_updates_and_their_slopes(self, monkeypatch, shape, kind):
        rng = np.random.default_rng(5)
        x, v, p = rng.random((4, 3)), rng.standard_normal((2, 40)), rng.dirichlet(np.ones(12), 4)

        def updates():
            gp = random_process(shape, kind, np.random.default_rng(6), N=40, n=12)
            both = Updates(gp.kernel, gp.X, gp.c, v)
            values, slope = both.with_gradient(x, [(0, slice(0, 2)), (1, slice(2, 4))])
            return [both(x), values, slope(p)]

        few, many = both_ways(monkeypatch, updates)
        for one, other in zip(few, many, strict=True):
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-8)


def test_draws_from_condensed_scores_have_the_posterior_covariance(monkeypatch):
    monkeypatch.setattr(contexts, "MANY", 0)
    exact = random_process("se", "folds", np.random.default_rng(7), N=60, n=12, noise=0.01)
    gp = condense(exact.kernel, exact.X, exact.c, exact.y).extended(exact.X[3], 2, 0.1)
    assert gp.spread is not None
    x = np.array([0.5, 0.1, 0.9])
    root = gp.deviations(x, np.eye(gp.chances))
    np.testing.assert_allclose(root.T @ root, gp.covariance(x[None]), rtol=0, atol=1e-7)


@pytest.mark.parametrize("kind", ["folds", "samples"])
def test_prior_weights_have_the_covariance_of_the_contexts(monkeypatch, kind):
    monkeypatch.setattr(contexts, "MANY", 0)
    kernel = random_process("se", kind, np.random.default_rng(8), n=12).kernel
    factored = kernel.factored
    assert factored is not None
    root = factored.colored(np.eye(factored.width))
    np.testing.assert_allclose(root.T @ root, kernel.B, rtol=0, atol=1e-10)
    np.testing.assert_allclose(factored.whitened(np.eye(12)), root.T, rtol=0, atol=1e-14)


def test_what_more_columns_than_allowed_leave_stays_on_the_diagonal(monkeypatch):
    monkeypatch.setattr(contexts, "MANY", 0)
    monkeypatch.setattr(contexts, "RANK", 4)
    kernel = random_process("se", "samples", np.random.default_rng(9), n=30).kernel
    factored = kernel.factored
    assert factored is not None
    everyone = np.arange(30)
    B = factored.entries(everyone, everyone)
    np.testing.assert_allclose(np.diagonal(B), np.diagonal(kernel.B), rtol=1e-12)
    assert factored.F.shape == (30, 4)
    assert np.abs(B - kernel.B).max() <= factored.rest.max() + 1e-12
    assert np.linalg.eigvalsh(B).min() > -1e-12


@pytest.mark.parametrize("method", ["foldwise", "drbqo"])
def test_a_recommendation_among_many_contexts_is_that_among_few(monkeypatch, method):
    def found():
        opt = told(40, method=method)
        one = opt.recommend()
        return one, opt.forecast()

    (few, forecast), (many, other) = both_ways(monkeypatch, found)
    assert many.config == few.config
    np.testing.assert_allclose(many.context_stds, few.context_stds, atol=1e-5)
    np.testing.assert_allclose(many.std, few.std, atol=1e-5)
    np.testing.assert_allclose(many.robust_value, few.robust_value, atol=0.01)
    np.testing.assert_allclose(other.interval, forecast.interval, atol=0.01)


@pytest.mark.parametrize("vectors", [False, True])
def test_no_array_grows_with_the_square_of_the_contexts(vectors):
    n = 3000
    opt = told(np.random.default_rng(0).random((n, 3)) if vectors else n)
    tracemalloc.start()
    for look in (opt.ask, opt.recommend, opt.forecast):
        look()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * n**2, "one array of n x n numbers alone would be that"


def test_of_many_folds_few_rows_are_judged_by_draws(monkeypatch):
    rng = np.random.default_rng(0)
    gp = random_process("se", "folds", rng, N=10, n=40)
    draws = ScoreDraws(dr.ChiSquareBall(1.0), np.full(40, 1 / 40), score_normals(40))
    seen, own = [], ScoreDraws.robust

    def watched(self, gp, x, scores, firm):
        seen.append(len(x))
        return own(self, gp, x, scores, firm)

    monkeypatch.setattr(ScoreDraws, "robust", watched)
    x, scores = rng.random((50, 3)), np.full((50, 40), np.nan)
    draws.completed(gp, x, scores, np.zeros((50, 40)))
    monkeypatch.setattr(score_draws, "EXACT_PAIRS", 120)
    draws.completed(gp, x, scores, np.zeros((50, 40)))
    monkeypatch.setattr(score_draws, "EXACT_PAIRS", 20)
    draws.completed(gp, x, scores, np.zeros((50, 40)))
    assert seen == [32, 3, 1]


class TestTheWarning:
    def test_it_names_the_cost_once_and_points_at_the_caller(self):
        with pytest.warns(UserWarning, match=r"500 contexts are many.* 2 s.*LeaveOneOut") as said:
            dr.Optimizer(SPACE, 500, kernel="matern52")
        assert len(said) == 1
        assert said[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dr.Optimizer(SPACE, 500, kernel="matern52")

    def test_it_speaks_of_sample_vectors_and_of_mtbo_too(self):
        with pytest.warns(UserWarning, match="600 contexts are many"):
            dr.Optimizer(SPACE, np.random.default_rng(0).random((600, 2)), kernel="matern32")
        with pytest.warns(UserWarning, match="510 contexts are many"):
            dr.Optimizer(SPACE, 510, method="mtbo")

    def test_what_is_cheap_is_nothing_to_speak_of(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dr.Optimizer(SPACE, 499, kernel="matern52")
            dr.Optimizer(SPACE, 5000)
