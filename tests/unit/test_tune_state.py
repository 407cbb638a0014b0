"""What a searcher is given before the run, how many trials it allows, and its saved state."""

from __future__ import annotations

import json
import os
import pickle

import pytest
from ray import tune
from ray.tune.search import ConcurrencyLimiter

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput, ProblemChanged
from drbqo_ray.tune_searcher import DRBQOSearch
from tests.support.tune_trials import SPACE, flat, ready, run, score_of


class TestPoints:
    def test_points_come_first_in_order_with_their_fold(self):
        points = [
            {"x": 0.5, "net": {"width": 3}, "fold": 2},
            {"x": 0.1, "net": {"width": 8}, "fold": 0},
        ]
        assert run(ready(points_to_evaluate=points), "ab") == points

    def test_points_without_a_fold_take_turns_and_are_filled_in(self):
        search = ready(points_to_evaluate=[{"x": 0.5}] * 4)
        configs = run(search, "abcd")
        assert [c["fold"] for c in configs] == [0, 1, 2, 0]
        assert {c["x"] for c in configs} == {0.5}
        assert all(1 <= c["net"]["width"] <= 8 for c in configs)

    def test_a_point_is_not_changed_and_later_changes_do_not_reach_us(self):
        point = {"x": 0.5, "net": {"width": 3}, "fold": 1}
        search = ready(points_to_evaluate=[point])
        point["net"]["width"] = 99
        assert search.suggest("a")["net"]["width"] == 3

    @pytest.mark.parametrize(
        "point", [{"x": 2.0}, {"y": 0.5}, {"x": 0.5, "fold": 3}, {"x": 0.5, "fold": 0.5}], ids=str
    )
    def test_a_point_outside_the_space_is_refused_before_the_first_trial(self, point):
        with pytest.raises(InvalidInput):
            ready(points_to_evaluate=[point])

    def test_points_with_rewards_are_learned_and_not_run(self):
        points = [{"x": x, "net": {"width": 3}, "fold": 0} for x in (0.1, 0.2, 0.3)]
        search = ready(points_to_evaluate=points, evaluated_rewards=[1.0, None, 3.0])
        assert [o.score for o in search.observations] == [1.0, 3.0]
        assert search.suggest("a") == points[1]

    def test_a_reward_may_be_one_score_per_fold(self):
        point = {"x": 0.1, "net": {"width": 3}}
        search = ready(points_to_evaluate=[point], evaluated_rewards=[[1.0, None, 3.0]])
        assert [(o.context, o.score) for o in search.observations] == [(0, 1.0), (2, 3.0)]

    def test_a_reward_of_a_point_without_a_fold_is_refused(self):
        with pytest.raises(InvalidInput, match="fold"):
            ready(points_to_evaluate=[{"x": 0.1, "net": {"width": 3}}], evaluated_rewards=[1.0])

    def test_earlier_trials_are_learned_before_and_after_the_space_is_known(self):
        search = DRBQOSearch(n_folds=3)
        config = {"x": 0.1, "net": {"width": 3}, "fold": 1, "epochs": 7, "deep": {"er": 1}}
        search.add_evaluated_point(config, 1.5)
        search.set_search_properties("score", "max", SPACE)
        search.add_evaluated_point({**config, "fold": 2}, 2.5, intermediate_values=[1.0])
        search.add_evaluated_point({**config, "fold": 0}, None)
        search.add_evaluated_point({**config, "fold": 0}, 1.0, error=True)
        assert [o.score for o in search.observations] == [1.5, 2.5, None]


class TestConcurrency:
    def test_the_limit_is_kept_and_freed_by_ends(self):
        search = ready()
        limiter = ConcurrencyLimiter(search, max_concurrent=2)
        assert limiter.suggest("a")
        assert limiter.suggest("b")
        assert limiter.suggest("c") is None
        limiter.on_trial_complete("a", result={"score": 1.0})
        assert limiter.suggest("c")
        limiter.on_trial_complete("b", error=True)
        assert limiter.suggest("d")
        assert limiter.suggest("e") is None

    def test_a_limited_searcher_learns_of_a_second_run_of_a_failed_trial(self):
        search = ready()
        limiter = ConcurrencyLimiter(search, max_concurrent=1)
        limiter.suggest("a")
        limiter.on_trial_complete("a", error=True)
        limiter.on_trial_complete("a", result={"score": 1.0})
        assert [o.score for o in search.observations] == [1.0]

    @pytest.mark.parametrize("limited", [False, True])
    def test_trials_that_tune_dropped_never_block_the_next_run(self, limited):
        search = ready()
        limiter = ConcurrencyLimiter(search, max_concurrent=1)
        assert limiter.suggest("dropped")
        assert limiter.suggest("early") is None
        limiter = ConcurrencyLimiter(search, max_concurrent=1) if limited else limiter
        if not limited:
            limiter.set_search_properties("score", "max", SPACE)
        config = limiter.suggest("a")
        assert limiter.suggest("b") is None
        limiter.on_trial_complete("a", result={"score": 1.0, **flat(config)})
        assert limiter.suggest("b")
        assert limiter.suggest("c") is None

    def test_trials_forgotten_in_a_crash_never_block_the_search(self, tmp_path):
        search = ready()
        search.set_max_concurrency(2)
        search.suggest("a"), search.suggest("b")
        search.save(str(tmp_path / "state"))
        again = ready()
        again.restore(str(tmp_path / "state"))
        assert again.suggest("c")
        assert again.suggest("d") is None
        run_config = again.suggest("c")
        again.on_trial_complete("c", {"score": 1.0, **flat(run_config)})
        assert again.suggest("d")
        assert again.suggest("e")
        assert again.suggest("f") is None

    def test_trials_that_go_on_after_a_restore_count(self, tmp_path):
        search = ready()
        search.set_max_concurrency(2)
        configs = {trial: search.suggest(trial) for trial in "ab"}
        search.save(str(tmp_path / "state"))
        search.restore(str(tmp_path / "state"))
        for trial, config in configs.items():
            search.on_trial_result(trial, {"score": 1.0, **flat(config)})
        assert search.suggest("c") is None


class TestState:
    def interrupted(self, tmp_path, blank):
        search = ready(
            seed=3, points_to_evaluate=[{"x": 0.5}, {"x": 0.6}], uncertainty=dr.CVaR(0.5)
        )
        run(search, [str(i) for i in range(14)])
        search.suggest("live")
        search.suggest("failed")
        search.on_trial_complete("failed", None, error=True)
        path = str(tmp_path / "state")
        search.save(path)
        blank.restore(path)
        return search, blank

    @pytest.mark.parametrize("known", [False, True], ids=["blank", "with the space"])
    def test_a_restored_searcher_goes_on_exactly_as_the_saved_one(self, tmp_path, known):
        blank = ready(seed=9) if known else DRBQOSearch(n_folds=None)
        search, again = self.interrupted(tmp_path, blank)
        assert again.observations == search.observations
        assert again.recommend() == search.recommend()
        for one in (search, again):
            one.on_trial_complete("live", {"score": 0.1})
        trials = [f"after {i}" for i in range(4)]
        assert run(again, trials) == run(search, trials)
        assert (again.metric, again.mode) == ("score", "max")

    def test_points_still_to_run_are_kept(self, tmp_path):
        search = ready(points_to_evaluate=[{"x": 0.5}, {"x": 0.25}])
        run(search, "a")
        search.save(str(tmp_path / "state"))
        again = DRBQOSearch(n_folds=None)
        again.restore(str(tmp_path / "state"))
        assert run(again, "b") == run(search, "b")
        assert again.observations[1].config["x"] == 0.25

    def test_the_state_of_a_searcher_without_a_space_can_be_saved(self, tmp_path):
        DRBQOSearch(n_folds=4, metric="m", mode="min").save(str(tmp_path / "state"))
        again = DRBQOSearch(n_folds=None)
        again.restore(str(tmp_path / "state"))
        assert again.set_search_properties(None, None, SPACE)
        assert again.suggest("a")["fold"] in range(4)
        assert again.metric == "m"

    def test_the_file_is_plain_json_for_the_owner_only(self, tmp_path):
        old = os.umask(0)
        try:
            self.interrupted(tmp_path, DRBQOSearch(n_folds=None))
        finally:
            os.umask(old)
        path = tmp_path / "state"
        assert path.stat().st_mode & 0o777 == 0o600
        assert json.loads(path.read_text())["format"] == "drbqo-tune-searcher"
        assert [p.name for p in tmp_path.iterdir()] == ["state"]

    def test_a_write_that_fails_leaves_the_older_state(self, tmp_path, monkeypatch, caplog):
        search = ready()
        run(search, "a")
        search.save_to_dir(str(tmp_path), "s")
        before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

        def full(*args):
            raise OSError(28, "No space left on device")

        run(search, "b")
        monkeypatch.setattr(os, "fsync", full)
        search.save_to_dir(str(tmp_path), "s")
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
        assert "No space left" in caplog.text

    @pytest.mark.parametrize(
        "content",
        [b"", b"\x80\x04garbage", b"[]", b'{"format": "other"}', b'{"format": NaN}', b"[" * 10**5],
        ids=["empty", "pickle", "list", "other", "nan", "deep"],
    )
    def test_another_file_is_refused_and_changes_nothing(self, tmp_path, content):
        (tmp_path / "state").write_bytes(content)
        search = ready()
        run(search, "a")
        with pytest.raises(InvalidInput):
            search.restore(str(tmp_path / "state"))
        assert len(search.observations) == 1

    @pytest.mark.parametrize("part", ["problem", "events", "queue", "live"])
    def test_a_state_with_a_part_missing_is_refused_and_changes_nothing(self, tmp_path, part):
        search = ready()
        run(search, "a")
        search.save(str(tmp_path / "state"))
        state = json.loads((tmp_path / "state").read_text())
        del state[part]
        (tmp_path / "state").write_text(json.dumps(state))
        before = search.observations
        with pytest.raises(InvalidInput, match="state"):
            search.restore(str(tmp_path / "state"))
        assert search.observations == before

    def test_a_newer_version_is_refused(self, tmp_path):
        ready().save(str(tmp_path / "state"))
        state = json.loads((tmp_path / "state").read_text())
        (tmp_path / "state").write_text(json.dumps({**state, "version": 99}))
        with pytest.raises(InvalidInput, match="version"):
            ready().restore(str(tmp_path / "state"))

    def test_a_state_that_anyone_could_have_written_is_refused(self, tmp_path):
        ready().save(str(tmp_path / "state"))
        (tmp_path / "state").chmod(0o666)
        with pytest.raises(InvalidInput, match="everybody"):
            ready().restore(str(tmp_path / "state"))
        (tmp_path / "state").chmod(0o600)
        tmp_path.chmod(0o777)
        with pytest.raises(InvalidInput, match="everybody"):
            ready().restore(str(tmp_path / "state"))
        tmp_path.chmod(0o700)
        ready().restore(str(tmp_path / "state"))

    def test_a_state_of_another_space_is_refused(self, tmp_path):
        ready().save(str(tmp_path / "state"))
        with pytest.raises(ProblemChanged, match="x"):
            ready({"x": tune.uniform(0, 2)}).restore(str(tmp_path / "state"))

    def test_a_space_with_objects_is_restored_where_the_objects_are(self, tmp_path):
        options = [object(), object()]

        def searcher():
            return DRBQOSearch({"o": tune.choice(options)}, n_folds=2, metric="score", mode="max")

        search = searcher()
        run(search, "ab", lambda c: 1.0)
        search.save(str(tmp_path / "state"))
        again = searcher()
        again.restore(str(tmp_path / "state"))
        assert again.recommend() == search.recommend()
        with pytest.raises(InvalidInput, match="same space"):
            DRBQOSearch(n_folds=2).restore(str(tmp_path / "state"))

    def test_the_searcher_can_be_pickled_as_tune_does(self):
        search = ready()
        run(search, "abc")
        again = pickle.loads(pickle.dumps(search))
        assert run(again, "de") == run(search, "de")


class TestDirectory:
    """A directory in which Tune kept its own state beside ours."""

    def kept(self, directory, trials):
        """Write Tune's state: (id, status, config, result, bests)."""
        data = []
        for trial, status, config, result, bests in trials:
            state = {"trial_id": trial, "status": status, "_Trial__unresolved_config": config}
            metadata = {"last_result": result, "metric_analysis": bests}
            data.append([json.dumps(state), json.dumps(metadata)])
        path = directory / "experiment_state-1.json"
        path.write_text(json.dumps({"trial_data": data}))

    def finished(self, trials):
        return [
            (t, "TERMINATED", config, {"score": score_of(config), "done": True}, {})
            for t, config in trials.items()
        ]

    def test_trials_that_the_state_is_too_old_for_are_learned(self, tmp_path):
        search = ready()
        configs = dict(zip("abc", run(search, "abc"), strict=True))
        search.save_to_dir(str(tmp_path), "1")
        configs |= dict(zip("de", run(search, "de"), strict=True))
        running = search.suggest("running")
        others = [
            ("running", "RUNNING", running, {}, {}),
            ("broken", "ERROR", {"x": 0.5, "net": {"width": 2}, "fold": 1}, None, None),
        ]
        self.kept(tmp_path, self.finished(configs) + others)
        again = DRBQOSearch.load(tmp_path)
        assert again.observations[:5] == search.observations
        assert [o.status for o in again.observations] == ["ok"] * 5 + ["failed"]
        assert again.suggest("running") == running
        assert run(again, "f")[0]["x"] not in [c["x"] for c in configs.values()]

    def test_states_cut_short_lose_no_trial_that_tune_kept(self, tmp_path, caplog):
        search, configs, stored = ready(), {}, {}
        for trial in "abcd":
            configs |= {trial: run(search, trial)[0]}
            search.save_to_dir(str(tmp_path), "1")
            assert len(list(tmp_path.glob("searcher-*"))) <= 2
            stored |= {path.name: path.read_bytes() for path in tmp_path.glob("searcher-*")}
        assert len(stored) == 3
        for name in [path.name for path in tmp_path.glob("searcher-*")]:
            stored[name] = stored[name][:-20]
        for name, content in stored.items():
            (tmp_path / name).write_bytes(content)
        self.kept(tmp_path, self.finished(configs))
        again = DRBQOSearch.load(tmp_path)
        assert again.observations == search.observations
        assert caplog.text.count("damaged") == 2

    def test_the_newest_state_of_the_newest_session_is_restored(self, tmp_path):
        search = ready()
        for trial in "abcde":
            run(search, trial)
            search.save_to_dir(str(tmp_path), "1")
        again = DRBQOSearch.load(tmp_path)
        for trial in "fg":
            run(again, trial)
            again.save_to_dir(str(tmp_path), "2")
        assert DRBQOSearch.load(tmp_path).observations == again.observations

    def test_objects_are_found_by_the_markers_that_tune_keeps(self, tmp_path):
        space = {"o": tune.choice([("__ref_ph", "a"), ("__ref_ph", "b")])}
        search = DRBQOSearch(space, n_folds=2, metric="score", mode="max")
        search.save_to_dir(str(tmp_path), "1")
        result = {"score": 1.0, "done": True, "config": {"o": {"_type": "CLOUDPICKLE"}}}
        self.kept(tmp_path, [("a", "TERMINATED", {"o": ["__ref_ph", "b"], "fold": 1}, result, {})])
        again = DRBQOSearch(space, n_folds=2, metric="score", mode="max")
        again.restore_from_dir(str(tmp_path))
        assert [(o.context, o.score) for o in again.observations] == [(1, 1.0)]

    def test_the_best_report_of_a_lost_trial_is_taken_from_tune(self, tmp_path):
        search = ready(reported="best")
        search.save_to_dir(str(tmp_path), "1")
        config, result = {"x": 0.5, "net": {"width": 2}, "fold": 1}, {"score": 1.0, "done": True}
        bests = {"score": {"max": 4.0, "min": 0.0}}
        self.kept(tmp_path, [("a", "TERMINATED", config, result, bests)])
        assert [o.score for o in DRBQOSearch.load(tmp_path).observations] == [4.0]

    def test_trials_that_tune_forgot_do_not_count_as_live(self, tmp_path):
        search = ready()
        search.set_max_concurrency(2)
        config = search.suggest("known")
        search.suggest("forgotten")
        search.save_to_dir(str(tmp_path), "1")
        self.kept(tmp_path, [("known", "RUNNING", config, {}, {})])
        again = DRBQOSearch(n_folds=None)
        again.restore_from_dir(str(tmp_path))
        assert again.suggest("new")
        assert again.suggest("newer") is None
        free = DRBQOSearch.load(tmp_path)  # another Tuner sets its own limit
        assert free.suggest("new")
        assert free.suggest("newer")

    @pytest.mark.parametrize("content", ["", "{}", '{"trial_data": [["{}", "{}"]]}'], ids=str)
    def test_a_state_of_tune_that_cannot_be_read_is_left_alone(self, tmp_path, content):
        search = ready()
        run(search, "abc")
        search.save_to_dir(str(tmp_path), "1")
        (tmp_path / "experiment_state-1.json").write_text(content)
        assert DRBQOSearch.load(tmp_path).observations == search.observations

    def test_an_empty_directory_is_an_error(self, tmp_path):
        with pytest.raises(RuntimeError, match="no state"):
            DRBQOSearch.load(tmp_path)


def test_names_of_folds_are_saved_and_restored(tmp_path):
    search = DRBQOSearch(SPACE, n_folds=["Basel", "Bern"], metric="score", mode="max")
    run(search, "abcd")
    search.save(str(tmp_path / "named"))
    again = DRBQOSearch(SPACE, n_folds=["Basel", "Bern"], metric="score", mode="max")
    again.restore(str(tmp_path / "named"))
    page = again.report(tmp_path / "page.html").read_text()
    assert "Basel" in page
    assert "n_folds=[&#39;Basel&#39;, &#39;Bern&#39;]" in page
    counted = DRBQOSearch(SPACE, n_folds=2, metric="score", mode="max")
    run(counted, "abcd")
    counted.save(str(tmp_path / "counted"))
    assert '"names"' not in (tmp_path / "counted").read_text().split('"settings"')[0]
