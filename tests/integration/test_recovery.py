"""Runs whose processes die, hang up or speak twice: nothing acknowledged is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest

from drbqo_ray.errors import JournalLocked
from drbqo_ray.problem import Problem
from drbqo_ray.runtime import ray_executor
from drbqo_ray.runtime.actor import start_actor
from drbqo_ray.runtime.run import run
from drbqo_ray.storage.journal import JOURNAL, read_journal
from drbqo_ray.storage.location import find_location, prepare
from drbqo_ray.storage.stored_run import how_sure, recommend, replay
from tests.support.actor_killer import EARLY, ActorKiller, owner
from tests.support.fold_objectives import SPACE, Slow, SlowUntil, smooth
from tests.support.journal_checks import assert_sound, records_of
from tests.support.local_ray import ROOT, two_cpus  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
patient = pytest.mark.timeout(7200)
long_or_short = pytest.mark.parametrize(
    "long", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["short", "long"]
)


# Real Ray: killed actors, workers and drivers.


@patient
@long_or_short
def test_an_actor_that_dies_under_load_comes_back_and_its_state_is_that_of_the_journal(
    two_cpus,  # noqa: F811
    tmp_path,
    monkeypatch,
    long,
):
    kills = 100 if long else 2
    size = 30 + 8 * kills
    actors: list = []

    def noted(*arguments):
        actors.append(start_actor(*arguments))
        return actors[-1]

    monkeypatch.setattr(ray_executor, "start_actor", noted)
    killer = ActorKiller(tmp_path / "run", kills, actors)
    over = tmp_path / "over"
    listener = Listener()
    watcher = threading.Thread(target=lambda: (killer.join(), over.touch()))
    killer.start()
    watcher.start()
    try:
        result = run(
            SlowUntil(0.3, str(over)),
            SPACE,
            3,
            n_evaluations=size,
            storage=tmp_path / "run",
            progress=False,
            n_initial=size - 10,
            callbacks=[listener],
        )
    finally:
        killer.give_up()
        watcher.join()
    assert len(set(killer.killed)) == kills
    # Single returns wait for a CPU on a crowded machine; the long loop has enough for a median.
    assert statistics.median(killer.back) < (10.0 if long else 60.0)
    assert max(killer.back) < 60.0
    assert len(killer.back) == kills - kills // EARLY
    assert len(records_of(tmp_path / "run", "session")) == kills + 1
    assert result.stopped == "finished"
    assert sorted(listener.acknowledged) == list(range(size))
    assert [o.id for o in result.observations] == [
        record["id"] for record in records_of(tmp_path / "run", "tell", "fail")
    ]
    assert {o.status for o in result.observations} == {"ok"}
    assert_sound(tmp_path / "run")
    replayed = replay(read_journal(tmp_path / "run"), problem_in(tmp_path / "run"))
    assert replayed.optimizer.observations == result.observations
    assert recommend(replayed.optimizer) == result.recommendation
    assert how_sure(replayed.optimizer) == result.certainty


class Listener:
    """Notes what was acknowledged to the driver."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []

    def on_observation(self, observation) -> None:
        self.acknowledged.append(observation.id)


def problem_in(directory: Path) -> Problem:
    return Problem.from_header(next(iter(read_journal(directory))).data["problem"])


@patient
@long_or_short
def test_killed_workers_are_replaced_and_every_evaluation_ends_once(two_cpus, tmp_path, long):  # noqa: F811
    kills = 50 if long else 4
    calls = tmp_path / "calls"
    calls.mkdir()
    done = threading.Event()
    killed = []

    def kill_workers():
        rng = random.Random(1)
        while len(killed) < kills and not done.wait(rng.uniform(0.3, 0.9)):
            newest = sorted(calls.iterdir(), key=lambda path: path.stat().st_mtime)[-2:]
            if newest:
                pid = int(rng.choice(newest).name.split("-")[1])
                if psutil.pid_exists(pid) and pid not in killed:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    killer = threading.Thread(target=kill_workers)
    killer.start()
    size = 20 + 6 * kills
    try:
        result = run(
            Slow(0.2, str(calls)),
            SPACE,
            3,
            n_evaluations=size,
            method="random",
            max_retries=2,
            storage=tmp_path / "run",
            progress=False,
            max_consecutive_failures=None,
        )
    finally:
        done.set()
        killer.join()
    assert len(killed) == kills
    assert sorted(o.id for o in result.observations) == list(range(size))
    seeds = Counter(int(path.name.split("-")[0]) for path in calls.iterdir())
    assert max(seeds.values()) <= 3
    frame = result.to_dataframe()
    assert frame["attempts"].max() >= 2
    for observation in result.observations:
        assert observation.status == "ok" or observation.reason.startswith("lost: ")


class Driver:
    """A driver in a process of its own, connected to the Ray of the tests."""

    def __init__(self, address: str, storage: Path, calls: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.run_driver", str(storage), str(calls), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=ROOT,
            env={**os.environ, "RAY_ADDRESS": address, "PYTHONPATH": str(ROOT)},
        )

    def wait_for(self, word: bytes, count: int = 1) -> list[bytes]:
        lines = []
        while sum(line.startswith(word) for line in lines) < count:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read().decode()
            lines.append(line)
        return lines

    def end(self, number: int | None = None) -> tuple[list[bytes], str]:
        """The rest of what it says; first it is sent a signal."""
        if number is not None:
            self.process.send_signal(number)
        out, error = self.process.communicate(timeout=120)
        return out.splitlines(), error.decode()


def finish_here(storage: Path, calls: Path, size: int, **options):
    """Go on with the run of a driver in this process."""
    options |= {"storage": storage, "resume": True, "progress": False}
    return run(Slow(0.02, str(calls)), SPACE, 3, n_evaluations=size, **options)


def acknowledged(lines: list[bytes]) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith(b"ack ")]


@patient
@long_or_short
def test_a_driver_killed_at_random_points_loses_and_doubles_nothing(two_cpus, tmp_path, long):  # noqa: F811
    calls = tmp_path / "calls"
    calls.mkdir()
    storage = tmp_path / "run"
    kills = 200 if long else 4
    rng = random.Random(11)
    acked: list[int] = []
    size = 40 * kills
    options = ("--evaluations", str(size), "--seconds", "0.02")
    for kill in range(kills):
        driver = Driver(two_cpus, storage, calls, *options)
        # Now and then before the first outcome, else after some of them.
        lines = driver.wait_for(b"ask" if kill % 4 == 0 else b"ack", 1)
        time.sleep(rng.uniform(0.0, 0.4))
        rest, _ = driver.end(signal.SIGKILL)
        acked += acknowledged(lines) + acknowledged(rest)
    last = len(set(acked)) + 10
    assert finish_here(storage, calls, last, method="random").stopped == "finished"
    told = Counter(r["id"] for r in records_of(storage, "tell", "fail"))
    assert set(acked) <= set(told)
    assert max(told.values()) == 1
    assert len(told) >= last
    assert_sound(storage)
    # An evaluation that was under way at a kill is started once more, and no other is.
    started = Counter(int(path.name.split("-")[0]) for path in calls.iterdir())
    assert sum(started.values()) <= len(told) + 2 * kills


def test_a_serial_run_whose_driver_is_killed_makes_the_suggestions_of_an_uncut_one(
    two_cpus,  # noqa: F811
    tmp_path,
):
    calls = tmp_path / "calls"
    calls.mkdir()
    options = (
        "--method",
        "foldwise",
        "--in-flight",
        "1",
        "--evaluations",
        "20",
        "--seconds",
        "0.1",
    )
    driver = Driver(two_cpus, tmp_path / "cut", calls, *options)
    driver.wait_for(b"ack", 14)
    time.sleep(0.15)
    driver.end(signal.SIGKILL)
    finish_here(tmp_path / "cut", calls, 20, method="foldwise", max_in_flight=1)
    uncut = work_by_hand(problem_in(tmp_path / "cut"), 20)
    asked = [
        (data["id"], data["config"], data["context"], data["seed"])
        for data in records_of(tmp_path / "cut", "ask")
    ]
    assert asked == [(s.id, s.config, s.context, s.seed) for s in uncut]


def work_by_hand(problem: Problem, size: int) -> list:
    optimizer = problem.optimizer()
    suggestions = []
    for _ in range(size):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, float(smooth(suggestion.config, suggestion.context, 0)))
        suggestions.append(suggestion)
    return suggestions


def test_a_run_refuses_a_second_driver_and_stops_at_one_interrupt_with_a_recommendation(
    two_cpus,  # noqa: F811
    tmp_path,
):
    calls = tmp_path / "calls"
    calls.mkdir()
    driver = Driver(two_cpus, tmp_path / "run", calls, "--seconds", "0.4")
    lines = driver.wait_for(b"ack", 2)
    content = (tmp_path / "run" / JOURNAL).read_bytes()
    start = time.monotonic()
    with pytest.raises(JournalLocked, match=f"process {owner(tmp_path / 'run')} on host"):
        finish_here(tmp_path / "run", calls, 40, method="random")
    assert time.monotonic() - start < 2.0
    assert (tmp_path / "run" / JOURNAL).read_bytes().startswith(content)
    lines += driver.wait_for(b"ack", 2)
    start = time.monotonic()
    rest, error = driver.end(signal.SIGINT)
    assert driver.process.returncode == 0, error
    assert time.monotonic() - start < 15
    word, reason, value = rest[-1].split()
    assert (word, reason) == (b"stopped", b"interrupted")
    assert np.isfinite(float(value))
    acked = acknowledged(lines + rest)
    assert sorted(r["id"] for r in records_of(tmp_path / "run", "tell")) == sorted(acked)
    assert 4 <= len(acked) < 40
    assert records_of(tmp_path / "run", "finish")[-1]["reason"] == "interrupted"


def test_two_interrupts_end_the_driver_within_two_seconds(two_cpus, tmp_path):  # noqa: F811
    calls = tmp_path / "calls"
    calls.mkdir()
    driver = Driver(two_cpus, tmp_path / "run", calls, "--seconds", "30")
    driver.wait_for(b"ask", 2)
    actor = psutil.Process(owner(tmp_path / "run"))
    driver.process.send_signal(signal.SIGINT)
    time.sleep(0.7)
    assert driver.process.poll() is None
    start = time.monotonic()
    rest, error = driver.end(signal.SIGINT)
    assert time.monotonic() - start < 2.0
    assert driver.process.returncode == 130
    assert "KeyboardInterrupt" in error
    assert not acknowledged(rest)
    # The lock is free as soon as the actor is gone, and what was asked for is still there.
    psutil.wait_procs([actor], timeout=60)
    left = prepare(find_location(tmp_path / "run", None), problem_in(tmp_path / "run"), resume=True)
    assert [s.id for s in left.pending][:2] == [0, 1]
