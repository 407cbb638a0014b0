"""What Ray Tune expects of every searcher, bare and inside its wrappers.

Ray tests its own searchers for the same things: values that are no scores, points evaluated
elsewhere, saving and restoring in mid-run, and going on after a restore as if nothing had happened.
"""

from __future__ import annotations

import copy
import json
import math

import pytest
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Repeater, Searcher, SearchGenerator
from ray.tune.search.repeater import TRIAL_INDEX
from ray.tune.search.searcher import ConcurrencyLimiter as OlderLimiter

from drbqo_ray.errors import InvalidInput
from drbqo_ray.tune_searcher import DRBQOSearch
from tests.support.tune_trials import SPACE, flat, ready, run, score_of

LINE = {"a": tune.uniform(0.0, 5.0)}
WRAPPERS = {
    "bare": lambda search: search,
    "limiter": lambda search: ConcurrencyLimiter(search, max_concurrent=8),
    "older limiter": lambda search: OlderLimiter(search, max_concurrent=8),
    "batches": lambda search: ConcurrencyLimiter(search, max_concurrent=8, batch=True),
    "repeater": lambda search: Repeater(search, repeat=1, set_index=False),
    "both": lambda search: Repeater(
        ConcurrencyLimiter(search, max_concurrent=8), repeat=1, set_index=False
    ),
}
wrapped = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
folds = pytest.mark.parametrize("n_folds", [None, 3])


def known(n_folds=3, **options):
    """A searcher that was given all it needs."""
    return DRBQOSearch(LINE, n_folds=n_folds, metric="metric", mode="max", **options)


def end(searcher, trial, value=1.0):
    """Report a value that has little to do with the suggestion, then end the trial."""
    result = {"training_iteration": 1, "metric": value, "config/a": 1.0, "time_total_s": 1}
    searcher.on_trial_result(trial, result)
    searcher.on_trial_complete(trial, result)


class TestSettings:
    @wrapped
    def test_space_metric_and_mode_come_from_tune_through_any_wrapper(self, wrap):
        search = DRBQOSearch(n_folds=3)
        assert wrap(search).set_search_properties("metric", "max", LINE, num_samples=3)
        assert (search.metric, search.mode) == ("metric", "max")
        assert set(wrap(search).suggest("1")) == {"a", "fold"}

    @wrapped
    def test_a_second_space_is_declined(self, wrap):
        assert wrap(known()).set_search_properties("metric", "max", LINE) is False

    @wrapped
    def test_a_suggestion_without_a_space_or_a_metric_is_an_error(self, wrap):
        with pytest.raises(RuntimeError, match="search space"):
            wrap(DRBQOSearch(n_folds=3, metric="metric", mode="max")).suggest("1")
        with pytest.raises(RuntimeError, match="mode"):
            wrap(DRBQOSearch(LINE, n_folds=3)).suggest("1")

    @pytest.mark.parametrize("mode", ["min", "max"])
    def test_a_mode_alone_takes_the_anonymous_metric(self, mode):
        search = DRBQOSearch(n_folds=None)
        search.set_search_properties(None, mode, LINE)
        search.suggest("1")
        search.on_trial_complete("1", {"_metric": 2.0})
        assert [o.score for o in search.observations] == [2.0]

    @folds
    def test_no_domain_is_left_for_tune_to_resolve_and_constants_stay(self, n_folds):
        space = {
            "report": tune.uniform(0.0, 5.0),
            "list": [1, 2, 3],
            "num": 4,
            "mixed": [1, tune.uniform(2, 3), 4],
            "deep": {"er": tune.choice(["a", "b"])},
        }
        search = ready(space, n_folds=n_folds)
        for trial in "abcdef":
            config = search.suggest(trial)
            assert (config["list"], config["num"]) == ([1, 2, 3], 4)
            assert (config["mixed"][0], config["mixed"][2]) == (1, 4)
            assert 2 <= config["mixed"][1] < 3
            assert config["deep"]["er"] in ("a", "b")
            assert 0 <= config["report"] < 5

    def test_several_metrics_are_refused(self):
        with pytest.raises(InvalidInput, match="metric"):
            DRBQOSearch(LINE, n_folds=3, metric=["a", "b"], mode=["max", "min"])


class TestInvalidValues:
    @pytest.mark.filterwarnings("ignore:Mean of empty slice")  # Ray's Repeater, of NaN alone
    @wrapped
    @folds
    def test_a_search_with_infinite_and_missing_values_ends_at_a_good_one(self, wrap, n_folds):
        search = DRBQOSearch(n_folds=n_folds, metric="_metric", mode="max", seed=1)
        searcher = wrap(search)
        searcher.set_search_properties("_metric", "max", {"report": tune.uniform(0.0, 5.0)})
        seen = set()
        for k in range(16):
            config = searcher.suggest(str(k))
            case = min(int(config["report"]), 4)
            value = {4: math.inf, 3: -math.inf, 2: math.nan}.get(case, config["report"])
            seen.add(value if case >= 2 else "usable")
            result = {"_metric": value, "done": True, **flat(config)}
            searcher.on_trial_result(str(k), result)
            searcher.on_trial_complete(str(k), result)
        assert len(seen) >= 3
        assert len(search.observations) == 16
        assert {o.status for o in search.observations if o.config["report"] >= 2} == {"failed"}
        assert search.recommend().config["report"] < 2

    def test_reports_after_the_end_change_nothing(self):
        search = known()
        search.suggest("1")
        end(search, "1", 1.0)
        before = search.observations
        end(search, "1", 2.0)
        search.on_trial_result("1", {"training_iteration": 9, "metric": 3.0})
        search.on_trial_complete("1", None, error=True)
        assert search.observations == before


class TestEvaluatedPoints:
    def test_rewards_of_the_first_points_are_known_at_once(self):
        search = known(None, points_to_evaluate=[{"a": 1.0}], evaluated_rewards=[1.0])
        assert [o.score for o in search.observations] == [1.0]
        assert search.recommend().config == {"a": 1.0}

    @pytest.mark.parametrize("wrap", [WRAPPERS[name] for name in ("bare", "limiter", "batches")])
    def test_a_point_is_known_as_soon_as_it_is_added(self, wrap):
        search = known(None)
        searcher = wrap(search)
        assert search.observations == []
        searcher.add_evaluated_point({"a": 1.0}, 1.0, intermediate_values=[0.8, 0.9])
        searcher.add_evaluated_point({"a": 1.0}, 1.0, error=True)
        searcher.add_evaluated_point({"a": 2.0}, 1.5, pruned=True)
        searcher.add_evaluated_point({"a": 2.0}, None)
        assert [o.score for o in search.observations] == [1.0, None, 1.5]
        assert searcher.suggest("1")

    def test_a_point_outside_the_space_is_refused_as_soon_as_it_is_added(self):
        search = known()
        for point in ({"a": 9.0, "fold": 0}, {"a": 1.0}, {"a": 1.0, "fold": 3}):
            with pytest.raises(InvalidInput):
                search.add_evaluated_point(point, 1.0)
        assert search.observations == []

    def test_wrong_points_are_refused_by_the_first_suggestion_and_looking_raises_nothing(self):
        search = known(None, points_to_evaluate=[{"a": 9.0}])
        assert search.observations == []
        with pytest.raises(InvalidInput, match="'a'"):
            search.suggest("1")
        assert search.observations == []

    def test_a_copy_learns_for_itself(self):
        search = known()
        twin = copy.deepcopy(search)
        twin.add_evaluated_point({"a": 1.0, "fold": 2}, 1.0)
        assert (len(search.observations), len(twin.observations)) == (0, 1)
        assert twin.suggest("1")

    def test_a_searcher_that_only_knows_rewards_takes_the_metric_of_tune(self):
        search = DRBQOSearch(
            LINE, n_folds=None, points_to_evaluate=[{"a": 1.0}], evaluated_rewards=[1.0]
        )
        assert search.observations == []
        assert search.set_search_properties("metric", "max", {"epochs": 3})
        assert [o.score for o in search.observations] == [1.0]


class TestSaveAndRestore:
    def saved(self, searcher, path):
        searcher.set_search_properties(metric="metric", mode="max", config=LINE)
        first = {trial: searcher.suggest(trial) for trial in ("1", "2", "not completed")}
        end(searcher, "1")
        searcher.save(str(path))
        return first

    @wrapped
    @folds
    @pytest.mark.parametrize("space", [LINE, None], ids=["own space", "space of Tune"])
    def test_a_blank_searcher_goes_on_from_the_file(self, tmp_path, wrap, n_folds, space):
        search = DRBQOSearch(space, n_folds=n_folds, metric="metric", mode="max")
        first = self.saved(wrap(search), tmp_path / "checkpoint.pkl")
        blank = DRBQOSearch(n_folds=None)
        searcher = wrap(blank)
        searcher.restore(str(tmp_path / "checkpoint.pkl"))
        end(blank, "2")
        assert searcher.suggest("3")
        assert blank.suggest("not completed") == first["not completed"]
        end(blank, "3")
        assert len(blank.observations) == len(search.observations) + 2

    @wrapped
    def test_a_restored_search_asks_what_an_uncut_one_asks(self, tmp_path, wrap):
        search, uncut = ready(seed=5), ready(seed=5)
        run(wrap(search), [str(k) for k in range(5)])
        run(uncut, [str(k) for k in range(5)])
        search.save(str(tmp_path / "checkpoint.pkl"))
        again = wrap(ready(seed=5))
        again.restore(str(tmp_path / "checkpoint.pkl"))
        later = [str(k) for k in range(5, 14)]
        assert run(again, later) == run(uncut, later)


def write_tune_state(directory, trials):
    """The file that Tune keeps its trials in: id -> (config, score or None while it runs)."""
    data = []
    for trial, (config, score) in trials.items():
        status = "RUNNING" if score is None else "TERMINATED"
        state = {"trial_id": trial, "status": status, "_Trial__unresolved_config": config}
        result = {} if score is None else {"score": score, "done": True}
        data.append([json.dumps(state), json.dumps({"last_result": result})])
    path = directory / "experiment_state-2026-11-18_00-00-00.json"
    path.write_text(json.dumps({"trial_data": data}))


def kept_by_tune(directory, searcher, trials):
    """What Tune leaves behind: its own state, the wrappers' and ours."""
    write_tune_state(directory, trials)
    SearchGenerator(searcher).save_to_dir(str(directory), "2026-11-18_00-00-00")


class TestDirectory:
    """The directory of an experiment."""

    @wrapped
    @pytest.mark.parametrize("saves", [1, 2, 3, 4, 5])
    def test_a_wrapped_searcher_finds_the_newest_state(self, tmp_path, wrap, saves):
        search = ready(seed=5)
        searcher = wrap(search)
        for k in range(saves):
            run(searcher, str(k))
            SearchGenerator(searcher).save_to_dir(str(tmp_path), "2026-11-18_00-00-00")
        blank = DRBQOSearch(n_folds=None)
        wrap(blank).restore_from_dir(str(tmp_path))
        assert blank.observations == search.observations
        assert len(blank.observations) == saves

    @wrapped
    def test_a_wrapped_searcher_finds_the_newest_session(self, tmp_path, wrap):
        search = ready(seed=5)
        for session, trials in (("2026-11-18_00-00-00", "abcd"), ("2026-11-19_00-00-00", "ef")):
            for trial in trials:
                run(search, trial)
                search.save_to_dir(str(tmp_path), session)
        blank = DRBQOSearch(n_folds=None)
        wrap(blank).restore_from_dir(str(tmp_path))
        assert blank.observations == search.observations

    @wrapped
    def test_a_wrapped_searcher_learns_what_tune_kept_and_survives_damage(self, tmp_path, wrap):
        search, trials = ready(seed=5), {}
        searcher = wrap(search)
        for trial in "abcd":
            (config,) = run(searcher, trial)
            trials[trial] = config, score_of(config)
            kept_by_tune(tmp_path, searcher, trials)
        newest = max(tmp_path.glob("searcher-*"), key=lambda path: path.stat().st_mtime_ns)
        newest.write_bytes(newest.read_bytes()[:-9])
        blank = DRBQOSearch(n_folds=None)
        wrap(blank).restore_from_dir(str(tmp_path))
        assert blank.observations == search.observations

    @pytest.mark.parametrize("name", ["limiter", "older limiter", "batches", "repeater", "both"])
    def test_what_a_wrapper_saves_itself_is_found_with_and_without_it(self, tmp_path, name):
        search = ready(seed=5)
        searcher = WRAPPERS[name](search)
        run(searcher, "abc")
        searcher.save_to_dir(str(tmp_path))
        for wrap in (WRAPPERS[name], WRAPPERS["bare"]):
            blank = DRBQOSearch(n_folds=None)
            wrap(blank).restore_from_dir(str(tmp_path))
            assert blank.observations == search.observations

    @wrapped
    def test_an_empty_directory_is_an_error(self, tmp_path, wrap):
        with pytest.raises(RuntimeError):
            wrap(ready()).restore_from_dir(str(tmp_path))

    def test_a_limiter_keeps_its_own_limit_after_a_restore(self, tmp_path):
        search = ready()
        search.suggest("a")
        search.save_to_dir(str(tmp_path))
        limiter = ConcurrencyLimiter(DRBQOSearch(n_folds=None), max_concurrent=2)
        limiter.restore_from_dir(str(tmp_path))
        assert limiter.suggest("b")
        assert limiter.suggest("c") is None

    @pytest.mark.parametrize("set_index", [True, False])
    @pytest.mark.parametrize("finished", [1, 2, 3])
    def test_repeats_of_a_trial_are_one_evaluation_after_a_restore(
        self, tmp_path, set_index, finished
    ):
        search = ready(seed=5)
        repeater = Repeater(search, repeat=3, set_index=set_index)
        trials = {}
        for k in range(9):
            config = repeater.suggest(str(k))
            trials[str(k)] = config, None
        for k in range(3 + finished):
            trials[str(k)] = trials[str(k)][0], float(k)
            repeater.on_trial_complete(str(k), {"score": float(k), "done": True})
        kept_by_tune(tmp_path, repeater, dict(reversed(trials.items())))  # Tune keeps no order
        blank = DRBQOSearch(n_folds=None)
        again = Repeater(blank, repeat=3, set_index=set_index)
        SearchGenerator(again).restore_from_dir(str(tmp_path))
        assert [o.score for o in blank.observations] == [1.0, 4.0][: len(search.observations)]
        for k in range(3 + finished, 9):
            for one in (repeater, again):
                one.on_trial_complete(str(k), {"score": float(k), "done": True})
        assert [o.score for o in blank.observations] == [1.0, 4.0, 7.0]
        assert blank.observations == search.observations
        assert again.suggest("9") == repeater.suggest("9")

    def test_repeats_that_ended_after_the_last_save_count_as_their_mean(self, tmp_path):
        search = ready(seed=5)
        repeater = Repeater(search, repeat=3)
        trials = {str(k): (repeater.suggest(str(k)), None) for k in range(3)}
        search.save_to_dir(str(tmp_path), "1")
        write_tune_state(tmp_path, {trial: (c, float(trial)) for trial, (c, _) in trials.items()})
        assert [o.score for o in DRBQOSearch.load(tmp_path).observations] == [1.0]


class TestRepeater:
    def test_the_searcher_sees_the_mean_of_the_repeats(self):
        search = ready()
        repeater = Repeater(search, repeat=2)
        configs = [repeater.suggest(trial) for trial in "ab"]
        assert [config.pop(TRIAL_INDEX) for config in configs] == [0, 1]
        assert configs[0] == configs[1]
        repeater.on_trial_complete("a", {"score": 1.0})
        assert search.observations == []
        repeater.on_trial_complete("b", {"score": 2.0})
        assert [o.score for o in search.observations] == [1.5]

    @pytest.mark.filterwarnings("ignore:Mean of empty slice")
    def test_a_wrapper_that_does_not_know_the_metric_is_complained_of(self, caplog):
        search = DRBQOSearch(n_folds=3)
        repeater = Repeater(ConcurrencyLimiter(search, max_concurrent=2), repeat=1)
        repeater.set_search_properties("score", "max", SPACE)  # the limiter keeps its metric, None
        repeater.suggest("a")
        repeater.on_trial_complete("a", {"score": 1.0})
        assert "Give metric and mode to DRBQOSearch" in caplog.text

    def test_a_search_that_is_over_is_over_for_the_repeater(self):
        repeater = Repeater(ready({"x": tune.choice([0.1])}, n_folds=1), repeat=2)
        assert repeater.suggest("a")["x"] == repeater.suggest("b")["x"] == 0.1
        for trial in "ab":
            repeater.on_trial_complete(trial, {"score": 1.0})
        assert repeater.suggest("c") == Searcher.FINISHED


class TestBatches:
    @pytest.mark.parametrize("limiter", [ConcurrencyLimiter, OlderLimiter])
    @pytest.mark.parametrize("early", [True, False])
    def test_no_trial_is_suggested_before_the_whole_batch_has_ended(self, limiter, early):
        search = DRBQOSearch(n_folds=3) if early else ready()
        batches = limiter(search, max_concurrent=2, batch=True)
        if early:
            batches.set_search_properties("score", "max", SPACE)
        assert batches.suggest("a")
        assert batches.suggest("b")
        assert batches.suggest("c") is None
        batches.on_trial_complete("a", {"score": 1.0})
        assert batches.suggest("c") is None
        assert search.observations == []
        batches.on_trial_complete("b", None, error=True)
        assert [o.score for o in search.observations] == [1.0, None]
        assert batches.suggest("c")
        assert batches.suggest("d")
        assert batches.suggest("e") is None

    def test_a_last_batch_that_is_not_full_ends_the_search(self):
        search = ready({"x": tune.choice([0.1, 0.2, 0.3])}, n_folds=1)
        batches = ConcurrencyLimiter(search, max_concurrent=2, batch=True)
        for batch in ("ab", "c"):
            for trial in batch:
                assert batches.suggest(trial)
            for trial in batch:
                batches.on_trial_complete(trial, {"score": 1.0})
        assert batches.suggest("d") == Searcher.FINISHED

    def test_results_held_back_are_kept_over_a_restore(self, tmp_path):
        search = ready()
        batches = ConcurrencyLimiter(search, max_concurrent=2, batch=True)
        configs = {trial: batches.suggest(trial) for trial in "ab"}
        batches.on_trial_complete("a", {"score": 1.0, **flat(configs["a"])})
        SearchGenerator(batches).save_to_dir(str(tmp_path), "1")
        blank = DRBQOSearch(n_folds=None)
        again = ConcurrencyLimiter(blank, max_concurrent=2, batch=True)
        SearchGenerator(again).restore_from_dir(str(tmp_path))
        assert again.suggest("c") is None
        again.on_trial_complete("b", {"score": 2.0, **flat(configs["b"])})
        assert [o.score for o in blank.observations] == [1.0, 2.0]
        assert again.suggest("c")

    def test_without_batches_every_end_makes_room(self):
        search = ready()
        limiter = ConcurrencyLimiter(search, max_concurrent=2)
        assert limiter.suggest("a")
        assert limiter.suggest("b")
        limiter.on_trial_complete("a", {"score": 1.0})
        assert [o.score for o in search.observations] == [1.0]
        assert limiter.suggest("c")
