"""Settings, options and constants of numpy are saved, and say the same when they are read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ray import tune

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput, ProblemChanged
from drbqo_ray.tune_searcher import DRBQOSearch
from drbqo_ray.tune_searcher.space import TuneSpace
from drbqo_ray.types import plain
from tests.support.tune_trials import SPACE, ready, run

NUMPY = {
    "n_folds": np.array([0, 1, 2]).max() + 1,
    "fold_key": np.str_("fold"),
    "method": np.str_("drbqo"),
    "uncertainty": np.float32(0.5),
    "seed": np.int64(3),
    "stop_when": np.str_("loss < 0.01"),
    "reported": np.str_("best"),
    "n_initial": np.int32(4),
    "kernel": np.str_("matern52"),
    "context_rule": np.str_("random"),
    "reference": np.array([0.5, 0.25, 0.25], dtype=np.float32),
    "sampler": np.str_("rff"),
    "hyperparameters": np.str_("mle"),
}
PLAIN = {name: value.tolist() for name, value in NUMPY.items()}


def saved(search, path):
    """A searcher that knows only what the state of another one says."""
    search.save(str(path))
    again = DRBQOSearch(n_folds=None)
    again.restore(str(path))
    return again


def kinds(value):
    """The types of all values in plain data."""
    if isinstance(value, dict):
        return {kind for item in value.values() for kind in kinds(item)}
    if isinstance(value, list):
        return {kind for item in value for kind in kinds(item)}
    return {type(value)}


class TestSettings:
    @pytest.mark.parametrize("name", NUMPY)
    def test_a_setting_of_numpy_is_the_one_of_python(self, name, tmp_path):
        search, twin = ready(**{name: NUMPY[name]}), ready(**{name: PLAIN[name]})
        assert search._problem.to_dict() == twin._problem.to_dict()
        assert kinds(search._problem.to_dict()) <= {str, int, float, bool, type(None)}
        assert run(saved(search, tmp_path / "state"), "abcdef") == run(twin, "abcdef")

    def test_all_at_once_are_saved_and_the_restored_search_goes_on_alike(self, tmp_path):
        search, twin = ready(**NUMPY), ready(**PLAIN)
        for one in (search, twin):
            run(one, "abcdefgh")
        again = saved(search, tmp_path / "state")
        assert again.observations == twin.observations
        assert run(again, "ij") == run(twin, "ij")

    def test_metric_mode_and_limit_of_numpy_are_saved(self, tmp_path):
        search = DRBQOSearch(SPACE, n_folds=2, metric=np.str_("m"), mode=np.str_("min"))
        search.set_max_concurrency(np.int64(2))
        again = saved(search, tmp_path / "state")
        assert (again.metric, again.mode, again._live.limit) == ("m", "min", 2)
        assert type(again.metric) is type(search.metric) is str

    def test_points_and_rewards_of_numpy_are_saved(self, tmp_path):
        points = [{"x": np.float32(0.5), "net": {"width": np.int8(w)}} for w in (3, 4)]
        rewards = np.array([1.0, 2.0], dtype=np.float32)
        folds = np.array([1, 0])
        points = [{**point, "fold": fold} for point, fold in zip(points, folds, strict=True)]
        search = ready(points_to_evaluate=[*points, points[0]], evaluated_rewards=[*rewards, None])
        again = saved(search, tmp_path / "state")
        assert again.observations == search.observations
        config = again.suggest("a")
        assert config == {"x": 0.5, "net": {"width": 3}, "fold": 1}
        assert json.loads(json.dumps(config)) == config

    @pytest.mark.parametrize("wrong", [np.eye(3), np.array([3]), 3.0, True, "3", [1, 2]], ids=str)
    def test_a_number_of_folds_that_is_none_is_refused_at_once(self, wrong):
        with pytest.raises(InvalidInput, match="n_folds"):
            DRBQOSearch(n_folds=wrong)


class TestSpaces:
    SPACES = (
        {"C": tune.choice(list(np.logspace(-3, 3, 7)))},
        {"k": tune.choice(list(np.arange(4)))},
        {"k": tune.choice([np.float32(0.1), np.str_("a"), np.bool_(True), np.datetime64("2026")])},
        {"x": tune.uniform(0, 1), "scale": np.float32(0.1), "n": np.int64(3)},
        {
            "x": tune.uniform(0, 1),
            "grid": np.arange(6.0).reshape(2, 3).T,
            "w": [np.array([np.nan])],
        },
        {"o": tune.choice([np.zeros(2), np.ones(2)]), "nested": {"a": (np.uint8(1), np.array(2))}},
        {"x": dr.Float(np.float32(0), np.float32(1), log=np.bool_(False), step=np.float32(0.25))},
        {
            "x": tune.uniform(np.float32(0), np.int64(1)),
            "n": tune.randint(np.int64(1), np.int64(5)),
        },
    )

    @pytest.mark.parametrize("space", SPACES, ids=lambda space: "-".join(space))
    def test_the_search_is_loaded_without_being_told_the_space(self, space, tmp_path):
        search = DRBQOSearch(space, n_folds=2, metric="score", mode="max")
        run(search, "abc", lambda config: 1.0 + config["fold"])
        search.save_to_dir(str(tmp_path), "1")
        again = DRBQOSearch.load(tmp_path)
        for mine, other in ((search.suggest("d"), again.suggest("d")),):
            np.testing.assert_equal(other, mine)
            assert str(other) == str(mine)  # of the same types
        np.testing.assert_equal(again.recommend().config, search.recommend().config)

    def test_options_and_constants_are_handed_out_as_they_are(self):
        grid, options = np.arange(3), [np.float32(0.1), np.int64(2)]
        space = TuneSpace.of({"o": tune.choice(options), "grid": grid})
        assert space.fill({"o": 1})["grid"] is grid
        assert all(space.fill({"o": k})["o"] is option for k, option in enumerate(options))

    def test_a_config_that_tune_kept_is_read_with_and_without_numpy(self):
        space = TuneSpace.of({"C": tune.choice(list(np.logspace(-3, 3, 7)))})
        again = TuneSpace.from_dict(json.loads(json.dumps(space.to_dict())))
        for one in (space, again):
            for value in (1000.0, np.float64(1000.0), np.float32(1000.0), 1000):
                assert one.read({"C": value}) == {"C": 6}

    def test_an_option_that_is_an_array_is_found_in_a_loaded_space(self):
        options = [np.zeros(2), np.array([1.0, np.nan]), np.zeros(2, dtype=int)]
        space = TuneSpace.of({"o": tune.choice(options)})
        again = TuneSpace.from_dict(json.loads(json.dumps(space.to_dict())))
        assert [again.read({"o": option})["o"] for option in options] == [0, 1, 2]

    def test_a_large_array_is_described_and_needs_the_space_again(self, tmp_path):
        space = {"x": tune.uniform(0, 1), "data": np.zeros(1 << 18)}
        search = DRBQOSearch(space, n_folds=2, metric="score", mode="max")
        search.save(str(tmp_path / "state"))
        assert (tmp_path / "state").stat().st_size < 10_000
        DRBQOSearch(space, n_folds=2).restore(str(tmp_path / "state"))
        with pytest.raises(InvalidInput, match="same space"):
            DRBQOSearch(n_folds=2).restore(str(tmp_path / "state"))

    def test_a_state_that_only_described_numpy_is_restored_where_the_space_is(self, tmp_path):
        space = {"C": tune.choice(list(np.logspace(-1, 1, 3))), "n": np.int64(3)}
        search = DRBQOSearch(space, n_folds=2, metric="score", mode="max")
        run(search, "ab", lambda config: 1.0)
        search.save(str(tmp_path / "state"))
        state = json.loads((tmp_path / "state").read_text())
        del state["crc"]
        options = [{"object": f"np.float64({value})"} for value in (0.1, 1.0, 10.0)]
        state["problem"]["space"]["root"]["dict"] = [
            [{"value": "C"}, {"choice": "C", "options": options}],
            [{"value": "n"}, {"object": "np.int64(3)"}],
        ]
        (tmp_path / "state").write_text(json.dumps({**state, "version": 1}))
        again = DRBQOSearch(space, n_folds=2)
        again.restore(str(tmp_path / "state"))
        assert again.observations == search.observations
        with pytest.raises(ProblemChanged, match=r"np.int64\(3\)' -> 'np.int64\(4\)'"):
            DRBQOSearch({**space, "n": np.int64(4)}, n_folds=2).restore(str(tmp_path / "state"))

    def test_numbers_that_tune_hides_are_known_after_a_restore(self, tmp_path):
        markers = [("__ref_ph", str(k)) for k in range(3)]
        search = ready({"k": tune.choice(markers), "o": tune.choice(markers)})
        for trial in "abcdef":
            hidden = search.suggest(trial)
            k = int(hidden["k"][1])
            result = {"config/k": np.int64(k), "config/o": object(), "config/fold": hidden["fold"]}
            search.on_trial_complete(trial, {"score": float(k), "done": True, **result})
        again = saved(search, tmp_path / "state")
        found = again.recommend().config["k"]
        assert found == search.recommend().config["k"]
        assert type(found) is np.int64


def test_what_cannot_be_saved_is_refused_before_the_first_trial(monkeypatch):
    search = DRBQOSearch(n_folds=2)
    monkeypatch.setitem(search._problem.settings, "kernel", object())
    monkeypatch.setattr("drbqo_ray.tune_searcher.problem.TuneProblem.maker", lambda self: make)

    def make():
        return dr.Optimizer({"x": dr.Float(0, 1)}, 2)

    with pytest.raises(InvalidInput, match="saved as plain data"):
        search.set_search_properties("score", "max", {"x": tune.uniform(0, 1)})
    with pytest.raises(InvalidInput, match="saved as plain data"):
        search.suggest("a")
    assert search.stop_reason() is None


def test_containers_are_made_plain_at_any_depth_and_all_else_is_left_alone():
    thing, array = object(), np.arange(3)
    given = {np.int64(1): [np.bool_(True), (np.float32(0.5), thing)], "a": array}
    found = plain(given)
    assert found == {1: [True, (0.5, thing)], "a": array}
    assert [type(key) for key in found] == [int, str]
    assert [type(item) for item in (found[1][0], found[1][1][0])] == [bool, float]
    assert found["a"] is array
    assert type(plain(np.longdouble(1))) is np.longdouble
