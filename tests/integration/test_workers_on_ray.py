"""The three workers on Ray through `dr.run`: they finish, survive a kill, and may diverge."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import ray
import torch

import drbqo_ray as dr
import workers.cnn
from tests.support.journal_checks import assert_sound
from tests.support.local_ray import two_cpus  # noqa: F401
from workers.cnn import CNNFolds
from workers.elasticnet import ElasticNetFolds
from workers.svm import SVMFolds

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("two_cpus"),
]
WORKERS = {
    "svm": SVMFolds("sonar", n_folds=5),
    "elasticnet": ElasticNetFolds("digits", n_folds=5, subset=300),
    "cnn": CNNFolds("digits", n_folds=5, subset=300, epochs=1),
}
SIZE = 5


@pytest.fixture(scope="module", params=WORKERS)
def name(request):
    """All tests of one worker before those of the next: a process that is killed has not yet
    loaded what only the later ones need."""
    return request.param


class Asked:
    """Keeps what was asked, by id."""

    def __init__(self):
        self.suggestions = {}

    def on_ask(self, suggestion):
        self.suggestions[suggestion.id] = suggestion


def dying_once(worker, folder):
    """The worker, but its first call trains over and over until its process is killed."""

    def objective(config, fold, seed):
        try:
            (folder / "first").touch(exist_ok=False)
        except FileExistsError:
            (folder / f"other-{seed}").touch()
            return worker(config, fold, seed)
        worker(config, fold, seed)
        (folder / f"training-{os.getpid()}").touch()
        while True:
            worker(config, fold, seed)

    return objective


def run_folds(objective, space, n_folds, **options):
    options = {"n_evaluations": SIZE, "max_in_flight": 2, "progress": False} | options
    return dr.run(objective, space, n_folds, **options)


def kill_when_both_slots_train(folder, killed, done):
    while not done.is_set():
        training = list(folder.glob("training-*"))
        if training and any(folder.glob("other-*")):
            killed.append(int(training[0].name.removeprefix("training-")))
            os.kill(killed[0], signal.SIGKILL)
            return
        time.sleep(0.01)


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_a_worker_on_two_slots_scores_as_it_does_in_this_process(name):
    worker, asked = WORKERS[name], Asked()
    result = run_folds(worker, worker.space, 5, seed=1, method="random", callbacks=[asked])
    assert result.stopped == "finished"
    assert len(result.observations) == SIZE
    for seen in result.observations:
        suggestion = asked.suggestions[seen.id]
        assert seen.score == worker(suggestion.config, suggestion.context, suggestion.seed)
    assert set(result.recommendation.config) == set(worker.space)


def test_a_worker_killed_in_training_is_started_again_and_the_run_completes(name, tmp_path):
    worker, marks, killed, done = WORKERS[name], tmp_path / "marks", [], threading.Event()
    marks.mkdir()
    killer = threading.Thread(target=kill_when_both_slots_train, args=(marks, killed, done))
    killer.start()
    try:
        result = run_folds(
            dying_once(worker, marks), worker.space, 5, storage=tmp_path / "run", n_initial=3
        )
    finally:
        done.set()
        killer.join()
    assert result.stopped == "finished"
    assert [seen.reason for seen in result.observations] == [None] * SIZE
    assert len(killed) == 1
    assert sorted(result.to_dataframe()["attempts"]) == [1] * (SIZE - 1) + [2]
    assert_sound(tmp_path / "run")


def test_a_cnn_that_diverges_is_a_recorded_failure_and_no_crash(tmp_path):
    worker = CNNFolds("digits", n_folds=5, subset=300, epochs=1, preset="paper")
    space = {
        "learning_rate": dr.Choice([1e3]),
        "dropout1": dr.Float(0.1, 0.5),
        "dropout2": dr.Float(0.1, 0.5),
    }
    result = run_folds(worker, space, 5, storage=tmp_path / "run")
    assert result.stopped == "finished"
    assert result.recommendation is None
    assert {seen.status for seen in result.observations} == {"failed"}
    assert all("FloatingPointError" in seen.reason for seen in result.observations)
    assert (result.to_dataframe()["attempts"] == 1).all()
    assert_sound(tmp_path / "run")


def test_a_run_with_some_diverging_configs_recommends_one_that_trains():
    worker = CNNFolds("digits", n_folds=2, subset=300, epochs=1, preset="paper")
    space = {
        "learning_rate": dr.Choice([1e-3, 1e3]),
        "dropout1": dr.Float(0.1, 0.5),
        "dropout2": dr.Float(0.1, 0.5),
    }
    result = run_folds(worker, space, 2, n_evaluations=8, method="random")
    failed = {seen.config["learning_rate"] for seen in result.observations if seen.reason}
    assert failed == {1e3}
    assert result.recommendation.config["learning_rate"] == 1e-3


def test_a_task_trains_with_its_cpus_on_shared_arrays():
    assert workers.cnn.granted_resources() is None
    rng = np.random.default_rng(0)
    worker = CNNFolds.from_arrays(rng.random((300, 8, 8)), np.arange(300) % 2, n_folds=3, epochs=1)

    def look(shared):
        seen = []
        torch.set_num_threads(1 if torch.get_num_threads() > 1 else 2)
        before = torch.get_num_threads()
        score = shared.train_fold(
            shared.default_config, 0, 0, lambda *_: seen.append(torch.get_num_threads())
        )
        assert torch.get_num_threads() == before
        return seen[0], shared.split.data.X.flags.writeable, score

    shared, task = ray.put(worker), ray.remote(look)
    found = [ray.get(task.options(num_cpus=cpus).remote(shared)) for cpus in (2, 1, 0.5)]
    assert [threads for threads, _, _ in found] == [2, 1, 1]
    assert [writeable for _, writeable, _ in found] == [False] * 3
    assert found[1][2] == found[2][2]
