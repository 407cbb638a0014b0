"""The foldwise method: when it trains another fold of a seen config, and what it reports."""

from __future__ import annotations

import numpy as np
import pytest

from drbqo_ray import Float, Optimizer
from drbqo_ray.core.paths import draw_paths
from drbqo_ray.core.score_draws import best_seen
from drbqo_ray.core.uncertainty import ChiSquareBall
from drbqo_ray.methods import METHODS
from drbqo_ray.report.about import About
from drbqo_ray.report.facts import gather
from tests.gp_problems import random_process

SPACE = {"a": Float(0, 1), "b": Float(0, 1)}
N = 4


def smooth(config, context: int) -> float:
    return -((config["a"] - 0.3 - 0.05 * context) ** 2) - (config["b"] - 0.6) ** 2


def rough(config, context: int) -> float:
    """A part of its own for every pair, the same each time."""
    seed = hash((round(config["a"], 12), round(config["b"], 12), context)) % 2**32
    return smooth(config, context) + 0.1 * np.random.default_rng(seed).standard_normal()


def searched(objective, evaluations: int, method: str = "foldwise", **options) -> Optimizer:
    opt = Optimizer(SPACE, N, method=method, seed=2, **options)
    for _ in range(evaluations):
        suggestion = opt.ask()
        opt.tell(suggestion.id, objective(suggestion.config, suggestion.context))
    return opt


def distinct(opt: Optimizer) -> int:
    return len({repr(o.config) for o in opt.observations})


def test_without_noise_the_best_of_the_path_wins():
    rng = np.random.default_rng(0)
    gp = random_process("se", "folds", rng, N=10)
    z, seen = rng.random((2, 3)), rng.random((5, 3))
    paths = draw_paths(gp, [rng, rng])
    robust = (ChiSquareBall(1.0), np.full(4, 0.25))
    values = [robust[0].solve(paths(rows)[t], robust[1])[0] for t in (0, 1) for rows in (z, seen)]
    picks = best_seen(paths, z, seen, np.full((5, 4), np.nan), 0.0, robust, [rng, rng])
    for t in (0, 1):
        new, old = values[2 * t][t], values[2 * t + 1]
        assert picks[t] == (-1 if new >= old.max() else np.argmax(old))


def test_scores_that_are_there_are_kept_and_the_missing_ones_are_drawn():
    rng = np.random.default_rng(0)
    gp = random_process("se", "folds", rng, N=10)
    z, seen = rng.random((1, 3)), rng.random((2, 3))
    robust = (ChiSquareBall(1.0), np.full(4, 0.25))
    scores = np.array([[50.0, 50.0, 50.0, 50.0], [np.nan, -50.0, -50.0, -50.0]])
    paths = draw_paths(gp, [rng])
    assert best_seen(paths, z, seen, scores, 0.1, robust, [rng]) == [0]
    assert best_seen(paths, z, seen[1:], scores[1:], 0.1, robust, [rng]) == [-1]


def test_rough_scores_are_confirmed_more_than_by_the_papers_rule():
    assert distinct(searched(rough, 80)) < distinct(searched(rough, 80, method="drbqo")) - 5


def test_no_pair_is_trained_twice_also_in_batches():
    opt = searched(rough, 20)
    for _ in range(4):
        for suggestion in opt.ask(8):
            opt.tell(suggestion.id, rough(suggestion.config, suggestion.context))
    pairs = [(repr(o.config), o.context) for o in opt.observations]
    assert len(set(pairs)) == len(pairs)


def test_the_report_takes_scores_where_there_are_some():
    opt = searched(rough, 50)
    best = opt.recommend()
    own = {o.context: o.score for o in opt.observations if o.config == best.config}
    assert own
    for context, score in own.items():
        assert best.context_means[context] == pytest.approx(score, abs=1e-12)
        assert best.context_stds[context] == 0.0
    missing = [i for i in range(N) if i not in own]
    means, _ = opt.predict([best.config])
    np.testing.assert_allclose(np.array(best.context_means)[missing], means[0, missing])
    assert best.robust_value == pytest.approx(np.dot(best.weights, best.context_means))
    assert opt.recommend("robust").context_means == pytest.approx(
        opt.predict([opt.recommend("robust").config])[0][0]
    )


def test_repeated_scores_of_a_pair_count_with_their_mean():
    opt = Optimizer(SPACE, 2, seed=0, method="foldwise")
    rng = np.random.default_rng(0)
    for k in range(8):
        config = opt.space.from_unit(rng.random(2))
        opt.observe(config, k % 2, smooth(config, k % 2))
    star = {"a": 0.3, "b": 0.6}
    for score in (3.0, 5.0):
        opt.observe(star, 0, score)
    assert opt.recommend().config == star
    assert opt.recommend().context_means[0] == pytest.approx(4.0)


def test_the_report_shows_what_is_recommended():
    opt = searched(rough, 30)
    facts = gather(opt, About())
    best = opt.recommend()
    row = facts.ranking.row(facts.ranking.chosen)
    assert row.config == best.config
    assert row.robust == pytest.approx(best.robust_value, abs=1e-9)
    np.testing.assert_allclose(row.fold_means, best.context_means, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_its_model_alone_expects_noise_before_scores_speak(method):
    opt = Optimizer(SPACE, N, method=method)
    opt.observe({"a": 0.5, "b": 0.5}, 0, 0.7)
    noise = opt.model.posterior().kernel.noise
    assert noise > 0.02 if method == "foldwise" else noise < 0.002
