"""The searcher in real runs of Ray Tune."""

from __future__ import annotations

import json
import logging
import math
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from ray import tune
from ray.tune import Tuner
from ray.tune.search import ConcurrencyLimiter

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from drbqo_ray.tune_searcher import DRBQOSearch
from tests.support.local_ray import ROOT, two_cpus  # noqa: F401
from tests.support.tune_trainables import (
    Scale,
    even,
    every_domain,
    index,
    misbehaving,
    nested_loss,
    slow,
)

pytestmark = [
    pytest.mark.usefixtures("two_cpus"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    monkeypatch.setenv("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")


def tuner(trainable, search, space, storage, num_samples, **options):
    """A Tuner with one trial at a time, as starting its processes is what takes long."""
    stop = options.pop("stop", None)
    callbacks = options.pop("callbacks", None)
    defaults = {"metric": "score", "mode": "max", "max_concurrent_trials": 1}
    return Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(
            search_alg=search,
            num_samples=num_samples,
            reuse_actors=True,
            **defaults | options,
        ),
        run_config=tune.RunConfig(
            storage_path=str(storage), name="run", verbose=0, stop=stop, callbacks=callbacks
        ),
    )


def test_every_domain_reaches_the_trainable_resolved_and_the_robust_value_is_logged(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "0")
    space = {
        "uniform": tune.uniform(0, 1),
        "quniform": tune.quniform(0, 1, 0.1),
        "loguniform": tune.loguniform(1e-3, 1),
        "qloguniform": tune.qloguniform(0.1, 1, 0.1),
        "randint": tune.randint(0, 5),
        "qrandint": tune.qrandint(0, 10, 5),
        "lograndint": tune.lograndint(1, 50),
        "qlograndint": tune.qlograndint(2, 50, 2),
        "randn": tune.randn(0, 1),
        "qrandn": tune.qrandn(0, 1, 0.5),
        "choice": tune.choice(["a", "b"]),
        "option": tune.choice([Scale(1.0), Scale(2.0)]),
        "model": tune.choice(
            [
                {"kind": "svm", "C": tune.uniform(0, 1)},
                {"kind": "tree", "depth": tune.quniform(2, 8, 2)},
            ]
        ),
        "nested": {"list": [tune.randint(0, 3), 5]},
        "twice": tune.sample_from(lambda config: 2 * config["uniform"]),
        "constant": Scale(3.0),
    }
    search = DRBQOSearch(n_folds=3, n_initial=4)
    callback = search.callback()
    asha = tune.schedulers.ASHAScheduler()
    with caplog.at_level(logging.WARNING, logger="drbqo_ray"):
        grid = tuner(
            every_domain,
            search,
            space,
            tmp_path,
            6,
            scheduler=asha,
            callbacks=[callback],
            max_concurrent_trials=2,
        ).fit()
    assert not grid.errors, grid.errors[0]
    assert [r.message[:23] for r in caplog.records if "folds" in r.message] == [
        "AsyncHyperBandScheduler"
    ]
    recommended = search.recommend()
    assert isinstance(recommended.config["option"], Scale)
    assert not {"twice", "constant", "fold"} & set(recommended.config)
    values = [result.metrics["robust_value"] for result in grid]
    assert recommended.robust_value in values  # that of the trial which ended last
    assert "robust_value" in grid.get_dataframe().columns
    logged = [path.read_text() for path in tmp_path.glob("run/*/result.json")]
    assert len(logged) == 6
    assert any(math.isfinite(json.loads(line)["robust_value"]) for line in logged)
    assert len(list(tmp_path.glob("run/*/events.out.tfevents*"))) == 6
    loaded = DRBQOSearch.load(tmp_path / "run")
    assert loaded.recommend().robust_value == recommended.robust_value
    for one in (search, loaded):
        page = one.report(tmp_path / "report.html").read_text()
        assert f"{recommended.config['uniform']:.6g}" in page
    assert "an object that Tune keeps" in page


def test_bad_results_never_end_a_run_and_a_fixed_trial_counts(tmp_path):
    points = [{"x": x, "fold": 0} for x in (0.1, 0.7, 0.5, 0.3, 0.9, 0.95)]
    space = {"x": tune.uniform(0, 1), "fixed": str(tmp_path / "fixed")}
    search = DRBQOSearch(n_folds=2, points_to_evaluate=points)
    grid = tuner(misbehaving, search, space, tmp_path, 6).fit()
    assert len(grid.errors) == 2
    seen = {o.config["x"]: o for o in search.observations}
    assert {x: o.status for x, o in seen.items()} == {
        point["x"]: "ok" if point["x"] == 0.1 else "failed" for point in points
    }
    assert "error" in seen[0.9].reason
    assert "'score'" in seen[0.3].reason
    assert search.recommend().config["x"] == 0.1

    for x, again in ((0.9, "resume_errored"), (0.95, "restart_errored")):
        (tmp_path / f"fixed-{x}").touch()
        Tuner.restore(str(tmp_path / "run"), misbehaving, **{again: True}).fit()
        loaded = DRBQOSearch.load(tmp_path / "run")
        assert {o.config["x"]: o.score for o in loaded.observations}[x] == x
        assert len(loaded.observations) == 6


def test_a_wrapped_searcher_goes_on_from_the_directory_of_a_run_as_if_uncut(tmp_path):
    space = {
        "x": tune.choice(list(np.linspace(0, 1, 12))),
        "width": tune.choice(list(np.arange(1, 4))),  # Tune hides whole numbers of numpy
    }

    def searcher():
        search = DRBQOSearch(n_folds=np.int64(2), n_initial=np.int32(3), seed=np.int64(5))
        return search, ConcurrencyLimiter(search, max_concurrent=1)

    def trained(search, storage, num_samples):
        grid = tuner(even, search, space, storage, num_samples, max_concurrent_trials=None).fit()
        assert not grid.errors
        return [(r.config["x"], r.config["width"], r.config["fold"]) for r in grid]

    search, limiter = searcher()
    first = trained(limiter, tmp_path / "cut", 5)
    again, limiter = searcher()
    limiter.restore_from_dir(str(tmp_path / "cut" / "run"))
    assert again.observations == search.observations
    then = trained(limiter, tmp_path / "cut", 4)
    uncut, limiter = searcher()
    assert trained(limiter, tmp_path / "uncut", 9) == first + then
    loaded = DRBQOSearch.load(tmp_path / "cut" / "run")
    assert loaded.recommend().config == uncut.recommend().config
    assert {"x", "width"} == set(loaded.recommend().config)


@pytest.mark.parametrize(
    ("space", "points"),
    [
        ({"x": tune.grid_search([1, 2]), "y": tune.uniform(0, 1)}, None),
        ({"x": tune.uniform(0, 1), "fold": tune.randint(0, 2)}, None),
        ({"x": tune.uniform(0, 1)}, [{"x": 7.0}]),
    ],
    ids=["grid", "fold", "point"],
)
def test_a_wrong_setting_raises_before_the_first_trial(tmp_path, space, points):
    search = DRBQOSearch(n_folds=2, points_to_evaluate=points)
    with pytest.raises((InvalidInput, tune.TuneError), match="Got"):
        tuner(misbehaving, search, space, tmp_path, 2).fit()
    assert search.observations == []


class StopAfter(tune.Stopper):
    """Stop the whole run after a number of results."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, trial_id, result):
        self.left -= 1
        return False

    def stop_all(self):
        return self.left <= 0


def test_without_a_number_of_samples_a_run_ends_by_a_stopper_or_by_itself(tmp_path):
    space = {"k": tune.choice([1, 2, 3, 4])}
    search = DRBQOSearch(n_folds=2)
    grid = tuner(index, search, space, tmp_path / "stopped", -1, stop=StopAfter(5)).fit()
    before = search.observations
    first = [(o.config["k"], o.context) for o in before]
    under_way = {(r.config["k"], r.config["fold"]) for r in grid} - set(first)
    assert 1 <= len(before) <= 5
    assert all(seen.status == "ok" for seen in before)

    tuner(index, search, space, tmp_path / "exhausted", -1).fit()
    seen = [(o.config["k"], o.context) for o in search.observations]
    assert search.observations[: len(before)] == before
    assert sorted([*seen, *under_way]) == [(k, fold) for k in (1, 2, 3, 4) for fold in (0, 1)]
    assert "handed out" in search.stop_reason()
    assert search.recommend().config["k"] == max(k for k, _ in seen)

    warm = DRBQOSearch(n_folds=2)
    warm.add_evaluated_trials(grid._experiment_analysis, "score")
    warm.set_search_properties("score", "max", space)
    scores = [r.metrics["score"] for r in grid if r.metrics and "score" in r.metrics]
    assert [o.score for o in warm.observations] == scores


def test_a_run_ends_when_its_answer_is_sure_enough(tmp_path, caplog):
    search = DRBQOSearch(
        dr.Space({"x": dr.Float(0, 1)}),
        n_folds=2,
        stop_when="loss < 0.01",
        points_to_evaluate=[{"x": 0.9}, {"x": 0.1, "fold": 1}],
        evaluated_rewards=[[0.36, 0.46], None],
    )
    constants = {"shift": {"by": 0.3}}
    grid = tuner(nested_loss, search, constants, tmp_path, -1, metric="eval/loss", mode="min").fit()
    assert not grid.errors
    assert len(search.observations) == len(grid) + 2
    assert grid[0].config["x"] == 0.1
    assert caplog.text.count(search.stop_reason()) == 1
    assert search.recommend().config["x"] == pytest.approx(0.3, abs=0.1)
    assert search.certainty().loss < 0.01
    loaded = DRBQOSearch.load(tmp_path / "run")
    assert loaded.suggest("more") == tune.search.Searcher.FINISHED
    assert loaded.stop_reason() == search.stop_reason()


def finished_trials(directory):
    """Number of trials that ended, in the newest state that Tune kept."""
    states = sorted(directory.glob("experiment_state-*.json"))
    try:
        trials = json.loads(states[-1].read_text())["trial_data"]
        return sum(json.loads(trial)["status"] == "TERMINATED" for trial, _ in trials)
    except (IndexError, ValueError, KeyError):
        return 0


TRIALS = 18


def test_a_driver_killed_in_mid_run_is_restored_with_the_same_model(tmp_path, two_cpus):  # noqa: F811
    command = [
        sys.executable,
        "-m",
        "tests.support.tune_driver",
        two_cpus,
        str(tmp_path),
        str(TRIALS),
    ]
    directory = tmp_path / "killed"
    driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while finished_trials(directory) < 5:
            assert driver.poll() is None, "the driver ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.7)  # Tune is done with copying its files one by one
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    kept = finished_trials(directory)
    assert kept < TRIALS, "the driver was killed too late"
    before = DRBQOSearch.load(directory)
    assert len(before.observations) >= kept - 2

    grid = Tuner.restore(str(directory), slow).fit()
    search = DRBQOSearch.load(directory)
    assert not grid.errors
    results = {
        (r.config["x"], r.config["net"]["width"], r.config["fold"]): r.metrics["score"]
        for r in grid
    }
    seen = {
        (o.config["x"], o.config["net"]["width"], o.context): o.score for o in search.observations
    }
    assert len(grid) == TRIALS
    assert seen == results
    assert len(search.observations) == TRIALS
    assert len({o.id for o in search.observations}) == TRIALS
    assert search.observations[: len(before.observations)] == before.observations
