"""`dr.run(warm_start=...)`: what is valid of an earlier run is told first, the rest is named."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from drbqo_ray.problem import Problem
from drbqo_ray.storage.journal import JOURNAL
from drbqo_ray.storage.stored_run import read_run
from drbqo_ray.storage.warm_start import WarmStart
from tests.support.report_runs import write_run

SPACE = {"x": dr.Float(0, 1), "rate": dr.Float(1e-4, 1, log=True), "kind": dr.Choice(["a", "b"])}


def score(config: dict[str, Any], fold: int) -> float:
    return -((config["x"] - 0.6) ** 2) + 0.05 * fold + 0.1 * (config["kind"] == "b")


def objective(config, fold, seed) -> float:
    return score(config, fold)


def never(config, fold, seed) -> float:
    raise AssertionError("nothing is to be trained")


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Path:
    fails = lambda config, fold, id: "KeyError: 'a'" if id == 5 else None  # noqa: E731
    folder = tmp_path_factory.mktemp("old") / "run"
    return write_run(folder, score, SPACE, 3, 18, fails=fails, objective="tests:own")


def start(warm: Any, where: Path, space: Any = SPACE, n: int = 0, folds: Any = 3, **more: Any):
    settings = {"function": never if n == 0 else objective, "method": "drbqo", **more}
    function = settings.pop("function")
    return dr.run(
        function,
        space,
        folds,
        n_evaluations=n,
        storage=where,
        backend="local",
        warm_start=warm,
        max_in_flight=1,
        progress=False,
        **settings,
    )


def test_a_wider_range_has_the_old_answer_without_a_new_evaluation(tmp_path):
    """Every config has all its folds, so what is best does not hang on the scale of the space."""
    configs = [{"x": k / 8, "rate": 0.01, "kind": "ab"[k % 2]} for k in range(8)]
    first = write_run(
        tmp_path / "old", score, SPACE, 3, configs=configs, method="foldwise", objective="tests:own"
    )
    before = dr.load(first).recommendation
    wider = SPACE | {"x": dr.Float(-1, 2), "kind": dr.Choice(["a", "b", "c"])}
    found = start(first, tmp_path / "r", wider, method="foldwise")
    assert len(found.observations) == 24
    assert found.recommendation.config == before.config
    assert found.recommendation.robust_value == pytest.approx(before.robust_value, rel=1e-9)


def test_the_model_after_it_is_that_of_an_optimizer_told_by_hand(old, tmp_path):
    start(old, tmp_path / "r")
    warm = read_run(tmp_path / "r").optimizer
    by_hand = dr.Optimizer(SPACE, 3, method="drbqo")
    for seen in dr.load(old).observations:
        by_hand.observe(seen.config, seen.context, np.nan if seen.score is None else seen.score)
    assert warm.recommend() == by_hand.recommend()
    grid = [{"x": x, "rate": 0.01, "kind": "a"} for x in (0.0, 0.3, 0.9)]
    for one, other in zip(warm.predict(grid), by_hand.predict(grid), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [s.score for s in warm.observations] == [s.score for s in by_hand.observations]


def test_new_evaluations_come_on_top_and_the_run_is_like_any_other(old, tmp_path, caplog):
    found = start(old, tmp_path / "r", n=4)
    assert [seen.id for seen in found.observations] == list(range(22))
    assert found.observations[5].reason == "KeyError: 'a'"
    again = dr.load(tmp_path / "r")
    assert again == found
    (listed,) = dr.list_runs(tmp_path)
    assert (listed.state, listed.n_done, listed.n_evaluations) == ("finished", 22, 22)
    assert not [r for r in caplog.records if "left out" in r.message]


def test_a_resumed_run_keeps_what_it_started_from(old, tmp_path):
    start(old, tmp_path / "r", n=2)
    more = start(old, tmp_path / "r", n=5, resume=True)
    assert len(more.observations) == 23
    assert read_run(tmp_path / "r").n_warm == 18
    without = start(None, tmp_path / "r", n=25, resume=True)
    assert len(without.observations) == 25


def test_a_start_that_was_cut_off_is_completed(old, tmp_path):
    start(old, tmp_path / "whole")
    lines = (tmp_path / "whole" / JOURNAL).read_bytes().splitlines(keepends=True)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / JOURNAL).write_bytes(b"".join(lines[:12]))  # an ask without its tell
    found = start(old, tmp_path / "cut", resume=True)
    assert found.observations == dr.load(tmp_path / "whole").observations


def test_what_is_not_in_the_new_space_is_left_out_and_named(old, tmp_path, caplog):
    narrow = SPACE | {"x": dr.Float(0, 0.5), "kind": dr.Choice(["a"])}
    seen = dr.load(old).observations
    inside = [one for one in seen if one.config["x"] <= 0.5 and one.config["kind"] == "a"]
    assert 0 < len(inside) < len(seen)
    found = start(old, tmp_path / "r", narrow)
    assert [one.config for one in found.observations] == [one.config for one in inside]
    (record,) = [r for r in caplog.records if "Warm start" in r.message]
    assert record.levelno == logging.WARNING
    assert f"{len(inside)} of 18 evaluations taken" in record.message
    assert "left out" in record.message
    assert "'x'" in record.message or " x " in record.message


def test_a_new_parameter_needs_a_default(old, tmp_path):
    larger = SPACE | {"depth": dr.Int(1, 9)}
    with pytest.raises(InvalidInput, match="18 left out"):
        start(old, tmp_path / "r", larger)
    assert not (tmp_path / "r").exists()
    found = start(WarmStart(old, defaults={"depth": 3}), tmp_path / "r", larger)
    assert {seen.config["depth"] for seen in found.observations} == {3}


def test_a_default_of_a_parameter_that_is_active_for_some_is_used_for_those(old, tmp_path):
    larger = SPACE | {"depth": dr.Int(1, 9, when={"kind": ["b"]})}
    found = start(WarmStart(old, defaults={"depth": 3}), tmp_path / "r", larger)
    assert len(found.observations) == 18
    for seen in found.observations:
        assert ("depth" in seen.config) == (seen.config["kind"] == "b")


def test_a_parameter_that_is_gone_takes_its_configs_along(old, tmp_path):
    smaller = {name: SPACE[name] for name in ("x", "kind")}
    with pytest.raises(InvalidInput, match="left out"):
        start(old, tmp_path / "r", smaller)


@pytest.mark.parametrize("change", [{"uncertainty": 0.2}, {"seed": 7}, {"method": "foldwise"}])
def test_another_radius_seed_or_method_takes_everything(old, tmp_path, change):
    assert len(start(old, tmp_path / "r", **change).observations) == 18


def test_more_folds_take_everything_and_fewer_what_is_left(old, tmp_path, caplog):
    assert len(start(old, tmp_path / "more", folds=5).observations) == 18
    assert "fold k" in caplog.text
    seen = dr.load(old).observations
    fewer = start(old, tmp_path / "fewer", folds=2)
    assert len(fewer.observations) == sum(one.context < 2 for one in seen)
    assert "fold 2 is none of the 2 folds" in caplog.text


def test_samples_are_found_by_their_values(tmp_path):
    space = {"x": dr.Float(0, 1)}
    points = [[0.0], [0.5], [1.0]]
    write_run(tmp_path / "old", lambda c, f: c["x"] + f, space, points, 9, objective="tests:own")
    other = Problem.of(space, [[1.0], [0.0]], {"method": "drbqo"}, object(), "tests:own")
    carried = WarmStart(tmp_path / "old").carry(other)
    seen = {(s.config["x"], s.context): s.score for s in dr.load(tmp_path / "old").observations}
    assert carried.taken
    for one in carried.taken:
        assert one.score == seen[one.config["x"], {0: 2, 1: 0}[one.context]]
    folds = Problem.of(space, 3, {"method": "drbqo"}, object(), "tests:own")
    with pytest.raises(InvalidInput, match="same kind"):
        WarmStart(tmp_path / "old").carry(folds)


class Data:
    """An objective that knows its data."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint

    def __call__(self, config, fold, seed) -> float:
        return score(config, fold)


def test_scores_that_mean_something_else_are_refused(old, tmp_path):
    with pytest.raises(InvalidInput, match="same direction"):
        start(old, tmp_path / "r", mode="min")
    first = start(None, tmp_path / "a", n=3, function=Data("one"))
    with pytest.raises(InvalidInput, match="same data"):
        start(first.storage, tmp_path / "b", n=3, function=Data("two"))
    assert len(start(first.storage, tmp_path / "c", n=1, function=Data("one")).observations) == 4


def test_bad_warm_starts_are_refused_and_leave_nothing_behind(old, tmp_path):
    for warm, words in (
        (tmp_path / "none", "journal"),
        (3, "earlier run"),
        (WarmStart(old, defaults={"no": 1}), "default"),
    ):
        with pytest.raises(InvalidInput, match=words):
            start(warm, tmp_path / "r", n=1)
    for n in (-1, "3", True, 1.5):
        with pytest.raises(InvalidInput, match="n_evaluations"):
            start(old, tmp_path / "r", n=n)
    with pytest.raises(InvalidInput, match="n_evaluations"):
        start(None, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_the_command_line_starts_warm(old, tmp_path, monkeypatch):
    from click.testing import CliRunner

    from drbqo_ray.cli.main import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("own_warm.py").write_text("def score(config, fold, seed):\n    return config['x']\n")
    Path("space.yaml").write_text(
        "x: {type: float, low: -1, high: 2}\n"
        "rate: {type: float, low: 1.0e-4, high: 1, log: true}\n"
        "kind: {type: choice, options: [a, b]}\n"
        "depth: {type: int, low: 1, high: 9}\n"
    )
    words = "run --objective own_warm:score --space space.yaml --folds 3 --evaluations 2"
    words += " --storage new --backend local --quiet --method drbqo --max-in-flight 1"
    refused = CliRunner().invoke(cli, [*words.split(), "--warm-default", "depth=4"])
    assert refused.exit_code == 2
    assert "--warm-start" in refused.stderr
    more = ["--warm-start", str(old), "--warm-default", "depth=4"]
    done = CliRunner().invoke(cli, [*words.split(), *more])
    assert done.exit_code == 0, done.output
    assert len(dr.load("new").observations) == 20
    assert {seen.config["depth"] for seen in dr.load("new").observations[:18]} == {4}
