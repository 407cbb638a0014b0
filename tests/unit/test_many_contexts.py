"""Hundreds of contexts: the same model without cubes of numbers, and a word about the cost."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.core import contexts
from drbqo_ray.core import missing_scores as score_draws
from drbqo_ray.core.contexts import EmbeddedContexts
from drbqo_ray.core.missing_scores import ScoreDraws
from drbqo_ray.optimizer.model import warn_of_many_contexts
from drbqo_ray.optimizer.scoring import score_normals
from tests.support.gp_problems import random_process

SPACE = {"a": dr.Float(0.0, 1.0), "b": dr.Float(0.0, 1.0)}


@pytest.fixture(autouse=True)
def nothing_said_yet():
    warn_of_many_contexts.cache_clear()


def told(n: int, evaluations: int = 12, **options) -> dr.Optimizer:
    opt = dr.Optimizer(SPACE, n, seed=0, **{"method": "foldwise", **options})
    rng = np.random.default_rng(0)
    for k in range(evaluations):
        config = opt.space.from_unit(rng.random(2))
        opt.observe(config, (7 * k) % n, -((config["a"] - 0.3) ** 2) + 0.01 * (k % 3))
    return opt


@pytest.mark.parametrize("n", [2, 3, 7, 40])
def test_many_folds_have_the_distances_and_slopes_of_few(monkeypatch, n):
    few = EmbeddedContexts.folds(n)
    rng = np.random.default_rng(n)
    parameters, G = rng.standard_normal(n), rng.standard_normal((n, n))
    matrix, slopes = few.matrix(parameters), few.pull_back(parameters, G)
    monkeypatch.setattr(contexts, "GAPS_LIMIT", 0)
    many = EmbeddedContexts.folds(n)
    np.testing.assert_array_equal(many.matrix(parameters), matrix)
    np.testing.assert_allclose(many.pull_back(parameters, G), slopes, rtol=1e-12, atol=1e-12)
    assert "_gaps" not in vars(many)


def test_sample_vectors_are_no_folds_however_many(monkeypatch):
    vectors = np.random.default_rng(0).random((6, 6))
    parameters = np.zeros(6)
    matrix = EmbeddedContexts.samples(vectors).matrix(parameters)
    monkeypatch.setattr(contexts, "GAPS_LIMIT", 0)
    np.testing.assert_array_equal(EmbeddedContexts.samples(vectors).matrix(parameters), matrix)


def test_the_numbers_held_for_many_folds_grow_with_their_square():
    opt = told(300)
    tracemalloc.start()
    opt.ask()
    opt.recommend()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 300**3 / 2, "the array of gaps alone would be twice that"


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
        with pytest.warns(
            UserWarning, match=r"500 contexts are many.* 0\.05 s.*LeaveOneOut"
        ) as said:
            dr.Optimizer(SPACE, 500)
        assert len(said) == 1
        assert said[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dr.Optimizer(SPACE, 500)

    def test_it_speaks_of_sample_vectors_too(self):
        with pytest.warns(UserWarning, match="600 contexts are many"):
            dr.Optimizer(SPACE, np.random.default_rng(0).random((600, 2)))

    def test_fewer_contexts_are_nothing_to_speak_of(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dr.Optimizer(SPACE, 499)
