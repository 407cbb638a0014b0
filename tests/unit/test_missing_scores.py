"""The foldwise method: when it trains another fold of a seen config, and what it reports."""

from __future__ import annotations

import numpy as np
import pytest

from drbqo_ray import Float, Optimizer
from drbqo_ray.core.missing_scores import ScoreDraws, pick
from drbqo_ray.core.sets import (
    ChiSquareBall,
    CVaR,
    Expectation,
    KLBall,
    TotalVariationBall,
    WassersteinBall,
)
from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.optimizer.methods import METHODS
from drbqo_ray.optimizer.scoring import score_normals
from drbqo_ray.report.facts import About, gather
from tests.support.gp_problems import random_process

SPACE = {"a": Float(0, 1), "b": Float(0, 1)}
N = 4


def smooth(config, context: int) -> float:
    return -((config["a"] - 0.3 - 0.05 * context) ** 2) - (config["b"] - 0.6) ** 2


def rough(config, context: int) -> float:
    """A part of its own for every pair, the same each time."""
    seed = hash((round(config["a"], 12), round(config["b"], 12), context)) % 2**32
    return smooth(config, context) + 0.1 * np.random.default_rng(seed).standard_normal()


def searched(objective, evaluations: int, method: str = "foldwise", **options) -> Optimizer:
    opt = Optimizer(SPACE, N, method=method, seed=2, fixed_seed=True, **options)
    for _ in range(evaluations):
        suggestion = opt.ask()
        opt.tell(suggestion.id, objective(suggestion.config, suggestion.context))
    return opt


def distinct(opt: Optimizer) -> int:
    return len({repr(o.config) for o in opt.observations})


QUARTERS = np.full(N, 0.25)
ROBUST = ScoreDraws(ChiSquareBall(1.0), QUARTERS, score_normals(N))


def mean_draws(q) -> ScoreDraws:
    return ScoreDraws(Expectation(), q, score_normals(N))


def worst(rows):
    return ROBUST.uncertainty.solve(rows, QUARTERS)[0]


def known(scores):
    """Training repeats: a score that is there is known for good."""
    return (~np.isnan(scores)).astype(float)


def told(rng, missing: float):
    """A process, five configs (5, 3) and their standardized scores (5, 4), some of them NaN."""
    gp = random_process("se", "folds", rng, N=10)
    scores = rng.standard_normal((5, N))
    scores[rng.random((5, N)) < missing] = np.nan
    return gp, rng.random((5, 3)), scores


def test_draws_keep_the_scores_that_are_there():
    gp, x, scores = told(np.random.default_rng(0), missing=0.0)
    R = ROBUST.robust(gp, x, scores, known(scores))
    np.testing.assert_allclose(R, np.repeat(worst(scores)[:, None], 128, 1))


def test_a_score_that_is_there_is_not_drawn_beside_missing_ones():
    gp, x, scores = told(np.random.default_rng(1), missing=0.5)
    for k, fold in zip(*np.nonzero(~np.isnan(scores)), strict=True):
        R = mean_draws(np.eye(N)[fold]).robust(gp, x[[k]], scores[[k]], known(scores[[k]]))
        np.testing.assert_allclose(R, scores[k, fold])


def test_draws_of_missing_scores_have_the_moments_of_the_posterior_with_noise():
    gp, x, scores = told(np.random.default_rng(1), missing=0.5)
    for k in range(5):
        missing = np.flatnonzero(np.isnan(scores[k]))
        for one in missing:
            p = np.eye(N)[one]
            R = mean_draws(p).robust(gp, x[[k]], scores[[k]], known(scores[[k]]))[0]
            mean, variance = gp.quadrature(x[[k]], p)
            assert R.mean() == pytest.approx(mean[0], abs=1e-9)
            assert R.var() == pytest.approx(variance[0] + gp.kernel.noise, rel=0.6)
        both = np.isnan(scores[k]) / max(1, len(missing))
        R = mean_draws(both).robust(gp, x[[k]], scores[[k]], known(scores[[k]]))[0]
        variance = gp.quadrature(x[[k]], both)[1][0] + gp.kernel.noise / max(1, len(missing))
        assert len(missing) == 0 or R.var() == pytest.approx(variance, rel=0.6)


@pytest.mark.parametrize("seed", range(5))
def test_a_filled_row_is_worth_what_is_expected_of_it(seed):
    gp, x, scores = told(np.random.default_rng(seed), missing=0.5)
    rows = ROBUST.completed(gp, x, scores, known(scores))
    there = ~np.isnan(scores)
    np.testing.assert_array_equal(rows[there], scores[there])
    expected = ROBUST.robust(gp, x, scores, known(scores)).mean(axis=1)
    np.testing.assert_allclose(worst(rows), expected, atol=1e-8)
    means = gp.means(x)
    assert (rows[~there] <= means[~there] + 1e-8).all()
    np.testing.assert_allclose(
        mean_draws(QUARTERS).completed(gp, x, scores, known(scores)), np.where(there, scores, means)
    )


FEW = np.array([0.4, 0.3, 0.3, 0.0])
SETS = {
    "chi-square": ChiSquareBall(1.0),
    "KL": KLBall(0.5),
    "CVaR": CVaR(0.4),
    "mean": Expectation(),
    "total variation 0": TotalVariationBall(0.0),
    "Wasserstein 0": WassersteinBall(0.0, 1.0 - np.eye(N)),
}


@pytest.mark.parametrize("name", SETS)
def test_a_missing_fold_that_the_adversary_cannot_weigh_is_shown_at_its_mean(name):
    draws = ScoreDraws(SETS[name], FEW, score_normals(N))
    for seed in range(20):
        gp, x, scores = told(np.random.default_rng(seed), missing=0.0)
        scores[:, 3] = np.nan
        rows = draws.completed(gp, x, scores, known(scores))
        np.testing.assert_array_equal(rows[:, 3], gp.means(x)[:, 3])
        np.testing.assert_array_equal(rows[:, :3], scores[:, :3])


def test_a_missing_fold_far_above_the_others_is_shown_at_its_mean():
    gp, x, scores = told(np.random.default_rng(0), missing=0.0)
    scores[:, :3] -= 100.0
    scores[:, 3] = np.nan
    rows = ScoreDraws(CVaR(0.25), QUARTERS, score_normals(N)).completed(
        gp, x, scores, known(scores)
    )
    np.testing.assert_array_equal(rows[:, 3], gp.means(x)[:, 3])


@pytest.mark.parametrize("name", ["chi-square", "mean"])
def test_folds_without_weight_never_leave_the_range_of_the_scores(name):
    opt = searched(rough, 40, uncertainty=SETS[name], reference=FEW)
    shown = opt.completed_scores([o.config for o in opt.observations])
    scores = [o.score for o in opt.observations]
    spread = max(scores) - min(scores)
    assert shown.min() > min(scores) - spread
    assert shown.max() < max(scores) + spread


def test_rows_that_look_worse_never_win_for_want_of_exactness():
    rng = np.random.default_rng(3)
    gp = random_process("se", "folds", rng, N=10)
    x, scores = rng.random((80, 3)), np.full((80, N), np.nan)
    values = worst(ROBUST.completed(gp, x, scores, known(scores)))
    exact = ROBUST.robust(gp, x, scores, known(scores)).mean(axis=1)
    assert np.argmax(values) == np.argmax(exact)
    assert (values <= exact + 1e-8).all()


@pytest.mark.parametrize(
    ("seen", "left", "new", "picks"),
    [
        ([0.4, 0.1], [4, 1], [0.5], [-1]),  # 0.1 for each fold against 0.125
        ([0.4, 0.1], [2, 1], [0.5], [0]),
        ([0.4, 0.3], [2, 1], [0.5], [1]),
        ([0.4, 0.3], [2, 1], [0.5, 0.5, 0.5, 0.5], [1, 0, 0, -1]),
        ([0.4], [0], [0.0], [-1]),
        ([0.0], [3], [0.0], [-1]),
    ],
)
def test_the_config_that_gains_most_for_each_fold_is_picked(seen, left, new, picks):
    left = np.array(left)
    kept = left.copy()
    R = np.array([*seen, *new])[:, None]  # a gain that is sure: every fold will be trained
    assert pick(R, 0.0, left, N).tolist() == picks
    np.testing.assert_array_equal(left, kept)


def test_a_gain_that_few_folds_decide_is_worth_more():
    """Both gain 0.5 on average; the second one in a tenth of the draws only."""
    sure, rare = np.full(10, 0.5), np.array([5.0, *[-1.0] * 9])
    assert pick(np.array([sure, rare]), 0.0, np.array([4]), N).tolist() == [-1]
    assert pick(np.array([rare, sure]), 0.0, np.array([4]), N).tolist() == [0]


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
    assert (np.array(best.context_means)[missing] <= means[0, missing] + 1e-9).all()
    assert best.robust_value == pytest.approx(np.dot(best.weights, best.context_means))
    smoothed = opt.recommend("robust")
    lowered = opt.predict([smoothed.config])[0][0] - smoothed.context_means
    assert lowered == pytest.approx([lowered[0]] * N, abs=1e-9)  # by what other fits dispute
    assert lowered[0] >= -1e-9


def test_repeated_scores_of_a_pair_count_with_their_mean():
    opt = Optimizer(SPACE, 2, seed=0, method="foldwise", fixed_seed=True)
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


def test_the_last_fold_of_a_promising_config_is_trained_next_and_only_once():
    opt = Optimizer(SPACE, N, seed=0, method="foldwise", fixed_seed=True)
    rng = np.random.default_rng(0)
    for k in range(24):
        opt.observe(opt.space.from_unit(rng.random(2)), k % N, float(rng.standard_normal()))
    star = {"a": 0.3, "b": 0.6}
    for fold in (0, 1, 3):
        opt.observe(star, fold, 2.5)
    first, *others = opt.ask(4)
    assert (first.config, first.context) == (star, 2)
    assert all(other.config != star for other in others)


@pytest.mark.parametrize("method", ["foldwise", "drbqo"])
def test_evaluated_configs_are_judged_as_the_recommendation_says(method):
    opt = searched(rough, 20, method)
    best = opt.recommend()
    np.testing.assert_allclose(opt.completed_scores([best.config])[0], best.context_means)
    with pytest.raises(InvalidInput, match="evaluated"):
        opt.completed_scores([{"a": 0.123, "b": 0.456}])
    with pytest.raises(InvalidInput):
        opt.completed_scores([{"a": 2.0, "b": 0.5}])
    with pytest.raises(NothingObserved):
        Optimizer(SPACE, N, method=method).completed_scores([])


def test_folds_that_were_handed_out_are_not_left(monkeypatch):
    heard = []

    def listen(R, best, left, n, costs=None):
        heard.append(sorted(left.tolist()))
        return pick(R, best, left, n, costs)

    opt = searched(rough, 20)
    monkeypatch.setattr("drbqo_ray.optimizer.proposals.pick", listen)
    for _ in range(3):
        pairs = {(repr(o.config), o.context) for o in opt.observations}
        configs = {config for config, _ in pairs}
        pairs |= {(repr(s.config), s.context) for s in opt.pending}
        opt.ask()
        assert heard[-1] == sorted(N - sum(c == config for c, _ in pairs) for config in configs)


def test_with_many_contexts_only_the_best_configs_contend():
    opt, rng = Optimizer(SPACE, 40, method="foldwise"), np.random.default_rng(0)
    for k in range(30):
        config = opt.space.from_unit(rng.random(2))
        opt.observe(config, k, smooth(config, 0))
    numbers = opt.scoring().contenders()
    values = [smooth(opt._history.configs[k], 0) for k in range(30)]
    assert len(numbers) == 8
    assert int(np.argmax(values)) in numbers
    assert int(np.argmin(values)) not in numbers
