"""Faults that Ray itself makes: workers it ends for lack of memory, calls that get lost.

Ray reads how to make them when it starts, so every run has a process and a Ray of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from drbqo_ray.problem import Problem
from drbqo_ray.storage.journal import read_journal
from tests.support.fold_objectives import smooth
from tests.support.journal_checks import assert_sound, records_of
from tests.support.local_ray import ROOT

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
GIGABYTE = 1 << 30


def drive(tmp_path: Path, *options: str, **settings: str) -> str:
    """Run to the end in another process, with these settings for Ray; what it wrote."""
    (tmp_path / "calls").mkdir()
    command = [sys.executable, "-m", "tests.support.run_driver"]
    command += [str(tmp_path / "run"), str(tmp_path / "calls"), *options]
    mine = {"RAY_ADDRESS": "local", "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **mine, **settings},
        text=True,
        timeout=600,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    assert "\nstopped finished" in done.stdout
    return done.stdout


def test_a_fold_that_takes_all_memory_fails_after_its_retries_and_the_others_do_not(tmp_path):
    memory = psutil.virtual_memory()
    if memory.available < 8 * GIGABYTE:
        pytest.skip(f"needs 8 GB of free memory, there are {memory.available / GIGABYTE:.1f}")
    allowed = (memory.total - memory.available + 2.5 * GIGABYTE) / memory.total
    drive(
        tmp_path,
        "--evaluations",
        "30",
        "--hoard",
        "0.2",
        "--retries",
        "2",
        "--seconds",
        "0.3",
        RAY_memory_usage_threshold=f"{allowed:.4f}",
        RAY_memory_monitor_refresh_ms="100",
    )
    x = {record["id"]: record["config"]["x"] for record in records_of(tmp_path / "run", "ask")}
    failed = records_of(tmp_path / "run", "fail")
    told = records_of(tmp_path / "run", "tell")
    hoarders = {number for number in x if x[number] < 0.2}
    assert len(hoarders) >= 3
    assert {record["id"] for record in failed} == hoarders
    assert {(record["cause"], record["attempts"]) for record in failed} == {("oom", 3)}
    assert all(record["reason"].startswith("oom: ") for record in failed)
    assert sorted(x) == sorted([record["id"] for record in failed + told])
    assert {record["id"]: record["score"] for record in told} == {
        record["id"]: smooth(record["config"], record["context"], 0)
        for record in records_of(tmp_path / "run", "ask")
        if record["id"] not in hoarders
    }
    assert_sound(tmp_path / "run")


@pytest.mark.parametrize("lost", ["req", "in_flight", "resp"])
def test_calls_of_the_actor_that_get_lost_are_repeated_and_count_once(tmp_path, lost):
    """Every tenth call is lost: its question, its answer, or the answer to one still running.

    The run is serial, so it can be compared with one in which nothing is ever lost.
    """
    chance = {"num_failures": -1, f"{lost}_failure_prob": 10}
    said = drive(
        tmp_path,
        "--evaluations",
        "30",
        "--method",
        "drbqo",
        "--in-flight",
        "1",
        "--seconds",
        "0.02",
        "--retries",
        "9",
        RAY_testing_rpc_failure=json.dumps({"CoreWorkerService.grpc_client.PushTask": chance}),
    )
    assert "RunActor.tell failed" in said or "RunActor.take failed" in said
    told = [(r["id"], r["score"]) for r in records_of(tmp_path / "run", "tell")]
    problem = Problem.from_header(next(read_journal(tmp_path / "run")).data["problem"])
    optimizer = problem.optimizer()
    for _ in range(30):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, smooth(suggestion.config, suggestion.context, 0))
    assert told == [(o.id, o.score) for o in optimizer.observations]
    value = float(said.split("stopped finished ")[1].split()[0])
    assert value == optimizer.recommend().robust_value
    assert not records_of(tmp_path / "run", "conflict", "fail")
    assert_sound(tmp_path / "run")
