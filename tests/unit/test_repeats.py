"""Folds that are trained again: when, what they tell, and what scores are worth then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.core.missing_scores import ScoreDraws
from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.scoring import Scoring, score_normals
from tests.support.gp_problems import random_process

SPACE = {"a": dr.Float(0, 1), "b": dr.Float(0, 1)}
N = 3


def value(config: dict[str, Any], context: int) -> float:
    return -((config["a"] - 0.3 - 0.1 * context) ** 2) - (config["b"] - 0.6) ** 2


def searched(noise: float, evaluations: int, digits: int = 12, **options: Any) -> dr.Optimizer:
    """A search whose scores have noise of the seed, rounded to some digits."""
    opt = dr.Optimizer(SPACE, N, method="foldwise", **options)
    for _ in range(evaluations):
        s = opt.ask()
        chance = np.random.default_rng(s.seed).standard_normal()
        opt.tell(s.id, round(value(s.config, s.context) + noise * chance, digits))
    return opt


def repeats(opt: dr.Optimizer) -> int:
    pairs = [(repr(o.config), o.context) for o in opt.observations]
    return len(pairs) - len(set(pairs))


def test_training_that_repeats_is_found_out_by_few_repeats_and_none_later():
    opt = dr.Optimizer(SPACE, N, method="foldwise")
    found = []
    for _ in range(80):
        s = opt.ask()
        jump = 0.1 * np.sin(1e4 * s.config["a"] + 77 * s.context)  # comes again
        opt.tell(s.id, value(s.config, s.context) + jump)
        found.append(repeats(opt))
    assert found[-1] == found[30] == 1


def test_smooth_scores_without_noise_are_not_repeated_for_long():
    assert repeats(searched(0.0, 60)) <= 1


def test_scores_that_are_counts_need_more_than_one_equal_repeat():
    opt = searched(0.0, 60, digits=1)
    assert 2 <= repeats(opt) <= 3


@pytest.mark.parametrize("evaluations", [20, 50, 90])
def test_where_training_is_random_at_most_a_tenth_are_repeats(evaluations: int):
    opt = searched(0.05, evaluations)
    assert 1 <= repeats(opt) <= evaluations // 10


def test_nothing_is_repeated_where_the_seed_is_known_not_to_matter():
    assert repeats(searched(0.05, 60, fixed_seed=True)) == 0


def test_other_methods_repeat_nothing():
    opt = dr.Optimizer(SPACE, N, method="drbqo")
    for _ in range(40):
        s = opt.ask()
        opt.tell(s.id, value(s.config, s.context))
    assert repeats(opt) == 0


def test_a_batch_holds_no_more_repeats_than_are_due():
    opt = searched(0.05, 19)
    before = repeats(opt)
    asked = [(repr(s.config), s.context) for s in opt.ask(8)]
    seen = [(repr(o.config), o.context) for o in opt.observations]
    again = len(seen + asked) - len(set(seen + asked))
    assert again <= (19 + 8) // 10
    assert again >= before


def test_fixed_seed_is_a_flag():
    with pytest.raises(InvalidInput, match="fixed_seed"):
        dr.Optimizer(SPACE, N, fixed_seed=1)  # type: ignore[arg-type]


def test_an_exact_repeat_tells_the_model_nothing():
    one, two = (searched(0.0, 25, fixed_seed=True) for _ in range(2))
    first = one.observations[0]
    two.observe(first.config, first.context, first.score)
    assert two.recommend() == one.recommend()
    np.testing.assert_array_equal(two.predict([first.config]), one.predict([first.config]))
    assert two.scoring().seed_share == 0.0
    assert len(two.observations) == 26


def told_twice(gap: float, **options: Any) -> Scoring:
    opt = dr.Optimizer(SPACE, N, method="foldwise", **options)
    rng = np.random.default_rng(0)
    for k in range(30):
        config = opt.space.from_unit(rng.random(2))
        score = value(config, k % N) + 0.2 * rng.standard_normal()
        opt.observe(config, k % N, score)
        if k % 5 == 0:
            opt.observe(config, k % N, score + gap)
    return opt.scoring()


def test_the_share_of_the_seed_grows_with_what_repeats_differ_by():
    shares = [told_twice(gap).seed_share for gap in (0.0, 1e-3, 0.1, 1.0)]
    assert shares[0] == 0.0
    assert 0.0 < shares[1] < shares[2] <= shares[3] == 1.0
    assert told_twice(1.0, fixed_seed=True).seed_share == 0.0


def test_seed_variance_is_that_within_pairs():
    opt = dr.Optimizer(SPACE, N, method="foldwise")
    scores = {0: [1.0, 1.4, 1.1], 1: [0.3, 0.5]}
    for context, known in scores.items():
        for score in known:
            opt.observe({"a": 0.5, "b": 0.5}, context, score)
    within = sum(np.var(known) * len(known) for known in scores.values())
    assert opt.scoring().history.seed_variance == pytest.approx(within / 3)


def joint(rng: np.random.Generator, r: float) -> tuple[Any, ...]:
    """A process with one config (1, 3) trained in some folds; mean and covariance of its expected
    scores over seeds by plain conditioning of f + e on all scores f + e + s."""
    gp = random_process("se", "folds", rng, N=10)
    x = gp.X[:1]
    gp.X[[1, 2]] = x
    gp.c[[0, 1, 2]] = [0, 1, 2]
    gp = type(gp).condition(gp.kernel, gp.X, gp.c, gp.y)
    n, noise = len(gp.kernel.B), gp.kernel.noise
    everywhere = np.repeat(x, n, axis=0), np.arange(n)
    k = gp.kernel.matrix(*everywhere, gp.X, gp.c)
    for fold in range(3):
        k[fold, fold] += (1 - r) * noise
    K = gp.kernel.matrix(gp.X, gp.c, gp.X, gp.c) + noise * np.eye(len(gp.y))
    prior = gp.kernel.matrix(*everywhere, *everywhere) + (1 - r) * noise * np.eye(n)
    mean = k @ np.linalg.solve(K, gp.y)
    covariance = prior - k @ np.linalg.solve(K, k.T)
    scores = np.full((1, n), np.nan)
    scores[0, :3] = gp.y[:3]
    return gp, x, scores, mean, covariance


@pytest.mark.parametrize("r", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_scores_count_as_far_as_they_would_come_again(r: float, seed: int):
    gp, x, scores, mean, covariance = joint(np.random.default_rng(seed), r)
    n = scores.shape[1]
    draws = ScoreDraws(dr.ChiSquareBall(1.0), np.full(n, 1 / n), score_normals(n), r)
    firm = draws.firmness((~np.isnan(scores)).astype(float))
    np.testing.assert_allclose(draws.expected(gp, x, scores, firm)[0], mean, atol=1e-6)
    np.testing.assert_allclose(draws.covariances(gp, x, firm)[0], covariance, atol=1e-6)


def test_a_fold_trained_often_is_firmer():
    draws = ScoreDraws(dr.Expectation(), np.full(4, 0.25), score_normals(4), 0.5)
    firm = draws.firmness(np.array([[0.0, 1.0, 2.0, 1e9]]))
    np.testing.assert_allclose(firm, [[0.0, 0.5, 2 / 3, 1.0]], atol=1e-6)


def test_where_training_is_random_the_answer_is_about_expected_scores():
    """The score of the best config is luck in part, and the answer says so."""
    opt = searched(0.2, 60)
    best = opt.recommend()
    own = [o.score for o in opt.observations if o.config == best.config and o.context == 0]
    low, high = opt.certainty().interval
    assert low < best.robust_value < high
    if own:
        assert best.context_means[0] != pytest.approx(np.mean(own))
    assert min(best.context_stds) > 0
