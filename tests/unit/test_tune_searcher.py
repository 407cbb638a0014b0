"""The searcher as Tune calls it, without a cluster: suggestions, settings, results."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from ray import tune
from ray.tune.search import Searcher

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput, NothingObserved, ProblemChanged
from drbqo_ray.tune_searcher import DRBQOSearch
from tests.support.tune_trials import SPACE, flat, ready, run, score_of


class TestSuggest:
    def test_a_config_is_resolved_nested_plain_python_with_its_fold(self):
        for config in run(ready(), map(str, range(12))):
            assert type(config["x"]) is float
            assert type(config["net"]["width"]) is int
            assert type(config["fold"]) is int
            assert set(config) == {"x", "net", "fold"}

    def test_all_folds_are_visited(self):
        assert {c["fold"] for c in run(ready(), map(str, range(9)))} == {0, 1, 2}

    def test_without_folds_there_is_no_fold_key(self):
        search = ready(n_folds=None)
        configs = run(search, map(str, range(15)))
        assert all(set(c) == {"x", "net"} for c in configs)
        assert search.recommend().config["x"] == pytest.approx(0.3, abs=0.1)

    def test_asking_again_for_a_trial_gives_the_same_config(self):
        search = ready()
        assert search.suggest("a") == search.suggest("a")

    def test_the_same_seed_gives_the_same_configs_and_another_seed_others(self):
        first, again, other = (run(ready(seed=seed), map(str, range(12))) for seed in (1, 1, 2))
        assert first == again
        assert first != other

    @pytest.mark.parametrize("method", ["drbqo", "foldwise"])
    def test_the_suggestions_are_those_of_the_optimizer(self, method):
        space = {"x": dr.Float(0, 1), "net/width": dr.Int(1, 8)}
        optimizer = dr.Optimizer(space, 3, method=method, seed=5)
        for config in run(ready(method=method, seed=5), map(str, range(12))):
            asked = optimizer.ask()
            values = {"x": config["x"], "net/width": config["net"]["width"]}
            assert (asked.config, asked.context) == (values, config["fold"])
            optimizer.tell(asked.id, score_of(config))

    def test_it_converges_to_the_robust_config(self):
        search = ready({"x": tune.uniform(0, 1)}, uncertainty=dr.WorstCase())
        run(search, map(str, range(30)))
        assert search.recommend().config["x"] == pytest.approx(0.2, abs=0.05)
        assert search.recommend().robust_value == pytest.approx(-0.05, abs=0.01)

    def test_smaller_is_better_in_mode_min(self):
        search = ready({"x": tune.uniform(0, 1)}, mode="min", uncertainty=0.0)
        run(search, map(str, range(30)), lambda c: -score_of(c))
        assert search.recommend().config["x"] == pytest.approx(0.25, abs=0.05)
        assert search.recommend().mean_value > 0

    def test_a_finite_space_ends_when_every_fold_of_every_config_was_handed_out(self):
        search = ready({"x": tune.choice([0.1, 0.2])})
        configs = run(search, map(str, range(6)))
        assert len({(c["x"], c["fold"]) for c in configs}) == 6
        assert search.suggest("more") == Searcher.FINISHED

    def test_a_model_that_breaks_down_gives_a_random_config(self, caplog, monkeypatch):
        search = ready()
        search.suggest("a")

        def broken():
            raise np.linalg.LinAlgError("not positive definite")

        monkeypatch.setattr(search._running.ledger.optimizer, "ask", broken)
        config = search.suggest("b")
        assert 0 <= config["x"] <= 1
        assert "random" in caplog.text

    def test_objects_are_handed_out_untouched(self):
        options = [object(), (1, 2)]
        search = DRBQOSearch({"o": tune.choice(options)}, n_folds=2, metric="m", mode="max")
        assert any(search.suggest("a")["o"] is option for option in options)


class TestSettings:
    def test_without_a_space_the_first_suggestion_says_so(self):
        with pytest.raises(RuntimeError, match="search space"):
            DRBQOSearch(n_folds=3, metric="m", mode="max").suggest("a")

    def test_without_metric_and_mode_the_first_suggestion_says_so(self):
        with pytest.raises(RuntimeError, match="mode"):
            DRBQOSearch(SPACE, n_folds=3).suggest("a")

    def test_a_space_of_its_own_refuses_another_from_tune_but_takes_constants(self):
        search = DRBQOSearch(SPACE, n_folds=3)
        assert search.set_search_properties("score", "max", SPACE) is False
        assert search.set_search_properties("score", "max", {"epochs": 3}) is True
        assert set(search.suggest("a")) == {"x", "net", "fold"}

    def test_a_mode_without_a_metric_takes_the_default_metric(self):
        search = DRBQOSearch(n_folds=3)
        search.set_search_properties(None, "max", SPACE)
        assert search.metric == "_metric"

    def test_our_own_space_is_accepted(self):
        space = dr.Space({"k": dr.Choice(["a", "b"]), "x": dr.Float(0, 1, when={"k": ["a"]})})
        search = DRBQOSearch(space, n_folds=2, metric="m", mode="max")
        assert {"k", "fold"} <= set(search.suggest("a")) <= {"k", "x", "fold"}

    @pytest.mark.parametrize(
        "wrong",
        [
            {"n_folds": 0},
            {"fold_key": ""},
            {"reported": "first"},
            {"method": "magic"},
            {"uncertainty": -1.0},
            {"mode": "up"},
            {"metric": ["a", "b"], "mode": ["max", "max"]},
            {"n_inital": 3},
            {"kernel": "cubic"},
            {"points_to_evaluate": {"x": 1}},
            {"points_to_evaluate": [{"x": 1}], "evaluated_rewards": [1, 2]},
            {"evaluated_rewards": [1]},
            {"space": {"x": 1}},
            {"space": {"x": tune.grid_search([1])}},
            {"space": {"fold": tune.randint(0, 3)}},
        ],
    )
    def test_a_wrong_setting_is_refused_at_once(self, wrong):
        with pytest.raises(InvalidInput):
            DRBQOSearch(**{"n_folds": 3, **wrong})

    @pytest.mark.parametrize(
        "space",
        [
            {"x": tune.grid_search([1, 2])},
            {"x": tune.uniform(0, 1), "fold": 0},
            {"x": tune.sample_from(lambda: 1)},
        ],
        ids=["grid", "fold", "function"],
    )
    def test_a_space_that_cannot_be_searched_is_refused_before_the_first_trial(self, space):
        with pytest.raises(InvalidInput):
            DRBQOSearch(n_folds=3).set_search_properties("score", "max", space)

    def test_the_searcher_goes_on_with_the_same_problem_and_refuses_another(self):
        search = ready()
        run(search, "abc")
        assert search.set_search_properties("score", "max", SPACE)
        with pytest.raises(ProblemChanged, match="width"):
            search.set_search_properties("score", "max", {**SPACE, "net": {"width": 3}})
        with pytest.raises(ProblemChanged, match="min"):
            search.set_search_properties("score", "min", SPACE)
        assert len(search.observations) == 3


BAD = {
    "not a number": {"score": math.nan},
    "infinite": {"score": math.inf},
    "minus infinite": {"score": -math.inf},
    "huge": {"score": 1e308},
    "text": {"score": "good"},
    "true": {"score": True},
    "missing": {"loss": 1.0},
    "empty": {},
}


class TestResults:
    @pytest.mark.parametrize("case", BAD)
    @pytest.mark.parametrize("reported", ["last", "best"])
    def test_a_bad_result_is_a_failure_and_the_search_goes_on(self, case, reported):
        search = ready(reported=reported)
        run(search, "abcdefgh")
        bad = search.suggest("bad")
        search.on_trial_result("bad", {**BAD[case], **flat(bad)})
        search.on_trial_complete("bad", {**BAD[case], **flat(bad), "done": True})
        assert [o.status for o in search.observations].count("failed") == 1
        assert search.observations[-1].reason
        run(search, "ij")
        assert search.recommend().config["x"] != bad["x"]

    def test_an_error_is_a_failure(self):
        search = ready()
        search.suggest("a")
        search.on_trial_complete(trial_id="a", result=None, error=True)
        assert search.observations[0].status == "failed"
        with pytest.raises(NothingObserved):
            search.recommend()

    @pytest.mark.parametrize("result", [None, {"training_iteration": 0}], ids=str)
    def test_a_trial_stopped_before_it_reported_has_no_outcome(self, result):
        search = ready()
        config = search.suggest("a")
        search.on_trial_complete("a", result and {**result, **flat(config)}, False)
        assert search.observations == []

    def test_a_later_success_replaces_a_failure(self):
        search, clean = ready(), ready()
        for one in (search, clean):
            run(one, "abc")
        config = search.suggest("d")
        search.on_trial_complete("d", None, error=True)
        run(search, "efghijkl")
        search.on_trial_complete("d", {"score": score_of(config), **flat(config)})
        assert [o.status for o in search.observations] == ["ok"] * 12
        assert search.observations[3].score == score_of(config)
        run(search, "mn")

    def test_the_first_score_of_a_trial_stands(self):
        search = ready()
        run(search, "a")
        first = search.observations
        search.on_trial_complete("a", {"score": 99.0})
        search.on_trial_complete("a", None, error=True)
        assert search.observations == first

    @pytest.mark.parametrize(
        ("reported", "mode", "expected"),
        [("last", "max", 1.0), ("best", "max", 3.0), ("best", "min", 0.5)],
    )
    def test_the_last_or_the_best_report_counts(self, reported, mode, expected):
        search = ready(reported=reported, mode=mode)
        config = flat(search.suggest("a"))
        for value in (2.0, 3.0, math.nan, 0.5):
            search.on_trial_result("a", {"score": value, **config})
        search.on_trial_complete("a", {"score": 1.0, **config})
        assert search.observations[0].score == expected

    @pytest.mark.parametrize("result", [{"eval/loss": 2.0}, {"eval": {"loss": 2.0}}], ids=str)
    def test_a_nested_metric_is_found(self, result):
        search = DRBQOSearch(SPACE, n_folds=2, metric="eval/loss", mode="min")
        search.suggest("a")
        search.on_trial_complete("a", result)
        assert search.observations[0].score == 2.0

    def test_a_trial_that_is_not_known_is_rebuilt_from_its_result(self):
        search = ready()
        config = {"x": 0.25, "net": {"width": 4}, "fold": 2}
        search.on_trial_result("lost", {"score": 0.1, **flat(config)})
        search.on_trial_complete("lost", {"score": 0.5, **flat(config)})
        search.on_trial_complete("lost", {"score": 0.5, **flat(config)})
        (seen,) = search.observations
        assert (seen.config, seen.context, seen.score) == ({"x": 0.25, "net": {"width": 4}}, 2, 0.5)

    def test_a_failed_trial_that_comes_back_under_a_new_id_is_the_same_evaluation(self):
        search = ready()
        config = search.suggest("old")
        search.on_trial_complete("old", None, error=True)
        search.on_trial_complete("new", {"score": 0.5, **flat(config)})
        assert [o.score for o in search.observations] == [0.5]

    @pytest.mark.parametrize("end", ["failed", "forgotten"])
    @pytest.mark.parametrize("fold", [0, 1, 2])
    def test_a_trial_under_a_new_id_goes_on_with_its_own_fold(self, end, fold):
        points = [{"x": 0.5, "net": {"width": 3}, "fold": k} for k in range(3)]
        search = ready(points_to_evaluate=points)
        for trial in "abc":
            search.suggest(trial)
            if end == "failed":
                search.on_trial_complete(trial, None, error=True)
        search.set_search_properties("score", "max", SPACE)  # another run: none of them is heard of
        search.on_trial_complete("new", {"score": 0.5, **flat(points[fold])})
        scored = [(o.id, o.context, o.score) for o in search.observations if o.status == "ok"]
        assert scored == [(fold, fold, 0.5)]
        assert len(search.observations) == (3 if end == "failed" else 1)

    @pytest.mark.parametrize(
        "result", [{"score": 1.0}, {"score": 1.0, "config/x": 7.0, "config/fold": 0}], ids=str
    )
    def test_an_end_that_cannot_be_understood_is_logged_and_changes_nothing(self, result, caplog):
        search = ready()
        run(search, "ab")
        search.on_trial_result("lost", result)
        search.on_trial_complete("lost", result)
        search.on_trial_complete("gone", None, error=True)
        assert len(search.observations) == 2
        assert "lost" in caplog.text
        run(search, "cd")


def test_the_parameters_of_a_tune_space_can_be_looked_at():
    space = DRBQOSearch.convert_search_space(SPACE)
    assert space.parameters == {"x": dr.Float(0.0, 1.0), "net/width": dr.Int(1, 8)}


def test_a_recommendation_before_the_search_says_what_to_do():
    with pytest.raises(NothingObserved, match="fit"):
        DRBQOSearch(n_folds=3).recommend()


def test_nothing_is_said_about_a_scheduler_outside_a_run(caplog):
    with caplog.at_level(logging.WARNING):
        run(ready(), "ab")
    assert not caplog.records
