"""Several processes on one study: nothing is lost, and no pair is asked twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

optuna = pytest.importorskip("optuna", reason="needs the extra: pip install 'drbqo_ray[optuna]'")

from drbqo_ray.optuna_sampler import FoldSampler, certainty, recommend  # noqa: E402
from tests.support.local_ray import ROOT  # noqa: E402
from tests.support.optuna_driver import N_FOLDS, score, storage_of  # noqa: E402

PROCESSES = 4
PAIRS = 8 * 2 * N_FOLDS
COMPLETE, RUNNING = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.RUNNING

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def place_of(kind, folder):
    return f"sqlite:///{folder}/study.db" if kind == "sqlite" else f"{folder}/study.log"


def start(place, trials, seed=0):
    command = [sys.executable, "-m", "tests.support.optuna_driver", place, str(trials), str(seed)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def finish(processes):
    for process in processes:
        _, said = process.communicate(timeout=280)
        assert process.returncode == 0, said


def asked(trials):
    return Counter(tuple(sorted(trial.params.items())) for trial in trials if trial.params)


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_four_processes_lose_nothing_and_ask_no_pair_twice(kind, tmp_path):
    place = place_of(kind, tmp_path)
    study = optuna.create_study(
        study_name="shared", storage=storage_of(place), direction="maximize"
    )
    finish([start(place, 11) for _ in range(PROCESSES)])  # with one seed, they think alike
    trials = study.get_trials()
    assert len(trials) == PROCESSES * 11
    assert {trial.state for trial in trials} == {COMPLETE}
    assert max(asked(trials).values()) == 1
    for trial in trials:
        assert trial.value == score(trial.params["C"], trial.params["kernel"], trial.params["fold"])
    sampler = FoldSampler(N_FOLDS, seed=0)
    assert recommend(study, by=sampler).config == {"C": 4, "kernel": "rbf"}
    assert certainty(study, by=sampler).probability > 0.5


def test_a_study_that_asked_every_pair_stops_in_all_processes(tmp_path):
    place = place_of("sqlite", tmp_path)
    study = optuna.create_study(study_name="shared", storage=place, direction="maximize")
    finish([start(place, PAIRS, seed) for seed in range(2)])
    complete = study.get_trials(states=(COMPLETE,))
    assert len(complete) == len(asked(study.get_trials())) == PAIRS
    assert len(study.get_trials()) <= PAIRS + 2


def test_a_killed_process_loses_only_the_trial_it_was_at(tmp_path):
    place = place_of("sqlite", tmp_path)
    study = optuna.create_study(study_name="shared", storage=place, direction="maximize")
    first = start(place, PAIRS)
    while len(study.get_trials(deepcopy=False, states=(COMPLETE,))) < 10:
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    before = study.get_trials(states=(COMPLETE,))
    finish([start(place, 10)])
    after = study.get_trials(states=(COMPLETE,))
    assert len(after) == len(before) + 10
    assert [trial.params for trial in after][: len(before)] == [trial.params for trial in before]
    assert max(asked(study.get_trials()).values()) == 1
