"""Where a run is kept: what is refused before it begins leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from drbqo_ray.errors import JournalError, ProblemChanged
from drbqo_ray.problem import Problem
from drbqo_ray.runtime.ray_cluster import ClusterRefused
from drbqo_ray.runtime.run import run, run_many
from drbqo_ray.storage.journal import JOURNAL
from drbqo_ray.storage.location import begin, find_location, prepare
from tests.support.fold_objectives import SPACE, smooth
from tests.support.journal_checks import records_of

KEEPALIVE = "RAY_grpc_client_keepalive_time_ms"


def problem_of(seed: int = 0) -> Problem:
    settings = {"method": "random", "uncertainty": 1.0, "seed": seed, "mode": "max"}
    settings |= {"kernel": "se", "context_rule": None}
    return Problem.of(SPACE, 3, settings, smooth, "tests.support.fold_objectives:smooth")


@pytest.fixture
def unsafe_cluster(monkeypatch) -> None:
    """RAY_ADDRESS names a cluster for which there is no token."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.usefixtures("unsafe_cluster")
def test_a_run_that_the_cluster_check_refuses_leaves_nothing_for_a_second_try(tmp_path, resume):
    options = {"n_evaluations": 2, "progress": False, "resume": resume}
    for radius in (1.0, 2.0):
        with pytest.raises(ClusterRefused):
            run(smooth, SPACE, 3, uncertainty=radius, storage=tmp_path / "a" / "b", **options)
        with pytest.raises(ClusterRefused):
            run_many(smooth, SPACE, 3 if radius == 1 else 4, storage=tmp_path / "many", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("unsafe_cluster")
def test_a_run_that_is_there_outlives_a_refusal(tmp_path):
    begin(find_location(tmp_path / "run", None), problem_of(), resume=False)
    content = (tmp_path / "run" / JOURNAL).read_bytes()
    with pytest.raises(ClusterRefused):
        run(
            smooth,
            SPACE,
            3,
            n_evaluations=2,
            method="random",
            storage=tmp_path / "run",
            progress=False,
            resume=True,
        )
    assert (tmp_path / "run" / JOURNAL).read_bytes() == content


def test_looking_at_an_empty_place_makes_nothing_and_beginning_makes_the_journal(tmp_path):
    place = find_location(tmp_path / "deep" / "run", None)
    assert prepare(place, problem_of(), resume=False) is None
    assert not list(tmp_path.iterdir())
    begin(place, problem_of(), resume=False)
    assert [set(header) for header in records_of(place.directory, "header")] == [
        {"format", "run", "problem"}
    ]


def test_a_run_that_appeared_since_the_look_is_not_taken_over(tmp_path):
    place = find_location(tmp_path / "run", None)
    prepare(place, problem_of(), resume=False)
    begin(place, problem_of(1), resume=False)
    with pytest.raises(JournalError, match="resume=True"):
        begin(place, problem_of(), resume=False)
    with pytest.raises(ProblemChanged, match="seed: 1 -> 0"):
        begin(place, problem_of(), resume=True)


def test_a_place_below_a_file_is_refused_and_nothing_is_made(tmp_path):
    (tmp_path / "file").touch(mode=0o700)  # what a directory would need
    place = find_location(tmp_path / "file" / "deep" / "run", None)
    with pytest.raises(JournalError, match=r"file: it is not a directory\. Choose storage"):
        prepare(place, problem_of(), resume=False)
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]


@pytest.mark.parametrize("right", [os.W_OK, os.X_OK], ids=["write", "enter"])
def test_a_place_without_the_right_to_make_a_run_is_refused(tmp_path, monkeypatch, right):
    # Root may write anywhere, so the answer of the system is put in its place.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path or not mode & right)
    place = find_location(tmp_path / "deep" / "run", None)
    with pytest.raises(JournalError, match="you may not write there"):
        prepare(place, problem_of(), resume=False)
    assert not list(tmp_path.iterdir())


def test_a_driver_that_joins_a_cluster_notices_silent_hosts_in_seconds():
    code = (
        "from drbqo_ray.errors import DrbqoError\n"
        "from drbqo_ray.runtime.executor import open_executor\n"
        "try:\n"
        "    with open_executor('ray', max, {'CPU': 1.0}, None, False): pass\n"
        "except DrbqoError: pass\n"
        "from ray._raylet import Config\n"
        "print(Config.grpc_client_keepalive_time_ms(), Config.grpc_client_keepalive_timeout_ms())\n"
    )
    environment = os.environ | {"RAY_ADDRESS": "127.0.0.1:1", "RAY_AUTH_MODE": "disabled"}
    for given, expected in (({}, "5000 5000"), ({KEEPALIVE: "7000"}, "7000 5000")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment | given,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected
