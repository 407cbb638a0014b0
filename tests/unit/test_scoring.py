"""The judge: which scores configs are judged by, as it is now and as it was, and ties."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.optimizer.methods import METHODS
from drbqo_ray.optimizer.scoring import RULES, JudgedRows

SPACE = {"a": dr.Float(0, 1), "b": dr.Float(0, 1)}
N = 3


def score(config: dict, context: int) -> float:
    jump = 0.1 * np.sin(1e4 * config["a"] + 77 * context)
    return -((config["a"] - 0.3 - 0.1 * context) ** 2) - (config["b"] - 0.6) ** 2 + jump


def searched(method: str, evaluations: int = 24, mode: str = "max", **options) -> dr.Optimizer:
    sign = 1.0 if mode == "max" else -1.0
    opt = dr.Optimizer(SPACE, N, method=method, mode=mode, seed=1, **options)
    for _ in range(evaluations):
        s = opt.ask()
        if s.id % 9 == 8:
            opt.fail(s.id, "boom")
        else:
            opt.tell(s.id, sign * score(s.config, s.context))
    return opt


read_only = cache(searched)  # tests that tell nothing share a search


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("method", ["foldwise", "drbqo", "emp-drbqo"])
class TestTheTable:
    def test_the_recommendation_is_the_best_row(self, method, mode):
        opt = read_only(method, mode=mode)
        scoring, found = opt.scoring(), opt.recommend()
        usable = np.flatnonzero(scoring.usable)
        best = usable[np.argmax(scoring.values(scoring.rows(usable)))]
        assert scoring.best() == best
        assert scoring.configs[best] == found.config
        np.testing.assert_allclose(scoring.estimates(scoring.gains[best]), found.context_means)
        assert opt.completed_scores([found.config])[0] == pytest.approx(found.context_means)

    def test_deviations_are_those_of_the_recommendation(self, method, mode):
        opt = read_only(method, mode=mode)
        scoring, found = opt.scoring(), opt.recommend()
        best = scoring.best()
        stds = scoring.judged_stds(np.full(N, best), np.eye(N))
        np.testing.assert_allclose(stds, found.context_stds, atol=1e-7)
        weights = np.array([found.weights])
        assert scoring.judged_stds([best], weights)[0] == pytest.approx(found.std, abs=1e-7)

    def test_scores_and_configs_are_those_told(self, method, mode):
        opt = read_only(method, mode=mode)
        scoring = opt.scoring()
        for place, seen in enumerate(opt.observations):
            assert scoring.configs[scoring.numbers[place]] == seen.config
            assert scoring.contexts[place] == seen.context
            given = np.nan if seen.score is None else seen.score
            np.testing.assert_equal(scoring.scores[place], given)
        failed = {repr(o.config) for o in opt.observations if o.status == "failed"}
        assert [repr(c) not in failed for c in scoring.configs] == scoring.usable.tolist()

    def test_another_report_judges_by_its_own_rule(self, method, mode):
        opt = read_only(method, mode=mode)
        for report in RULES:
            found = opt.recommend(report)
            scoring = opt.scoring(report)
            assert scoring.recommend() == found
            assert scoring.configs[scoring.best()] == found.config


@pytest.mark.parametrize("method", ["foldwise", "drbqo"])
def test_the_past_is_what_was_judged_then_by_the_same_hyperparameters(method):
    opt = read_only(method)
    scoring = opt.scoring()
    for size in (1, 10, 17, len(opt.observations)):
        twin = dr.Optimizer(SPACE, N, method=method, seed=1)
        for seen in opt.observations[:size]:
            twin.observe(seen.config, seen.context, np.nan if seen.score is None else seen.score)
        twin.last_fit = replace(scoring.fit, size=10**6)
        past, then = scoring.after(size), twin.scoring()
        assert past.configs == then.configs
        np.testing.assert_array_equal(past.usable, then.usable)
        np.testing.assert_array_equal(past.scores, then.scores)
        np.testing.assert_allclose(past.gains, then.gains, atol=1e-6)
        assert past.best() == then.best()


def test_what_is_told_later_changes_nothing_that_was_read():
    opt = searched("foldwise")
    scoring, before = opt.scoring(), opt.recommend()
    for k in range(20):
        opt.observe(before.config, k % N, -5.0)
    assert scoring.recommend() == before
    assert len(scoring.scores) == 24
    assert opt.recommend() != before


def test_reading_changes_nothing_that_is_asked():
    opt, twin = searched("foldwise"), searched("foldwise")
    opt.scoring().after(5).recommend()
    assert opt.ask(4) == twin.ask(4)


def test_another_set_of_weights_judges_the_same_scores():
    opt = searched("drbqo", uncertainty=0.0)
    plain = opt.scoring()
    plain = replace(plain, fit=replace(plain.fit, rivals=(), weights=()))  # nobody disputes
    worst = replace(plain, uncertainty=dr.WorstCase())
    np.testing.assert_array_equal(plain.gains, worst.gains)
    np.testing.assert_allclose(worst.values(worst.gains), worst.gains.min(axis=1))
    np.testing.assert_allclose(plain.values(plain.gains), plain.gains.mean(axis=1))


@pytest.mark.parametrize("method", METHODS)
def test_without_a_score_nobody_is_judged(method):
    opt = dr.Optimizer(SPACE, N, method=method)
    for ask in (opt.scoring, opt.recommend, opt.certainty):
        with pytest.raises(NothingObserved, match="Tell some scores first"):
            ask()
    opt.observe({"a": 0.5, "b": 0.5}, 0, np.nan)
    with pytest.raises(NothingObserved, match="Got 1 outcomes"):
        opt.scoring()
    opt.observe({"a": 0.5, "b": 0.5}, 1, 0.5)
    assert opt.scoring().usable.tolist() == [False]
    with pytest.raises(NothingObserved, match="without a failed fold"):
        opt.recommend()


def test_an_unknown_report_is_an_error():
    opt = searched("drbqo", 5)
    for ask in (opt.scoring, opt.recommend):
        with pytest.raises(InvalidInput, match="completed"):
            ask("filled")


class TestCompleteRows:
    def test_given_scores_count_where_a_fold_was_trained_and_the_model_elsewhere(self):
        opt = read_only("foldwise")
        scoring = opt.scoring()
        configs = scoring.configs[:4]
        given = np.arange(12.0).reshape(4, N)
        trained = np.random.default_rng(0).random((4, N)) < 0.5
        rows = scoring.judge(configs, given, trained).rows
        np.testing.assert_array_equal(rows[trained], given[trained])
        model = opt.completed_scores(configs)
        np.testing.assert_array_equal(rows[~trained], model[~trained])

    def test_equal_weights_tie_as_an_average_does(self):
        rows = np.random.default_rng(0).random((50, 7))
        rows[::2] = rows[1::2][:, ::-1]
        judged = JudgedRows(rows, dr.ChiSquareBall(0.0), np.full(7, 1 / 7), False)
        np.testing.assert_array_equal(judged.values, np.average(rows, axis=1))
        np.testing.assert_array_equal(judged.values, judged.means)

    def test_a_row_with_a_gap_cannot_win(self):
        rows = np.array([[9.0, np.nan], [1.0, 2.0], [3.0, 0.0]])
        judged = JudgedRows(rows, dr.WorstCase(), np.full(2, 0.5), False)
        values, weights = judged.robust()
        np.testing.assert_array_equal(values, [np.nan, 1.0, 0.0])
        assert np.isnan(weights[0]).all()
        np.testing.assert_array_equal(weights[1:], [[1.0, 0.0], [0.0, 1.0]])
        assert judged.decided
        assert not JudgedRows(rows[:1], dr.WorstCase(), np.full(2, 0.5), False).decided
        np.testing.assert_array_equal(judged.robust(dr.Expectation())[0], [np.nan, 1.5, 1.5])

    def test_some_methods_rank_by_the_mean(self):
        rows = np.array([[0.0, 3.0], [1.0, 1.0]])
        args = (rows, dr.WorstCase(), np.full(2, 0.5))
        assert int(np.argmax(JudgedRows(*args, by_mean=True).values)) == 0
        assert int(np.argmax(JudgedRows(*args, by_mean=False).values)) == 1
