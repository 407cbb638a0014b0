"""A run is the same on every backend, in all it promises; a local one needs no Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import psutil
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput, ObjectiveError, RunFailed
from tests.support.fold_objectives import (
    SPACE,
    DiesOnce,
    Hangs,
    Slow,
    always_raises,
    smooth,
    threads,
)
from tests.support.journal_checks import assert_sound, records_of
from tests.support.local_ray import ROOT, two_cpus  # noqa: F401

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("two_cpus"),
]
both = pytest.mark.parametrize("backend", ["local", "ray"])


def quick_run(objective: Any = smooth, size: int = 6, **options: Any) -> dr.Result:
    options = {"method": "random", "progress": False} | options
    return dr.run(objective, SPACE, 3, n_evaluations=size, **options)


class Listens:
    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def on_ask(self, suggestion: dr.Suggestion) -> None:
        self.heard.append(("ask", suggestion.id))

    def on_observation(self, observation: dr.Observation) -> None:
        self.heard.append(("observation", observation.id))

    def on_finish(self, result: dr.Result) -> None:
        self.heard.append(("finish", len(result.observations)))


@both
def test_a_serial_run_is_the_optimizer_asked_and_told_by_hand(backend: Any) -> None:
    ear = Listens()
    options: dict[str, Any] = {"method": "drbqo", "seed": 4, "max_in_flight": 1}
    result = quick_run(size=12, backend=backend, callbacks=[ear], **options)
    optimizer = dr.Optimizer(SPACE, 3, method="drbqo", seed=4)
    for _ in range(12):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, smooth(suggestion.config, suggestion.context, 0))
    assert result.observations == optimizer.observations
    assert result.recommendation == optimizer.recommend()
    turns = [(kind, number) for number in range(12) for kind in ("ask", "observation")]
    assert ear.heard == [*turns, ("finish", 12)]


@both
def test_a_parallel_run_uses_its_slots_and_its_journal_is_sound(
    backend: Any, tmp_path: Path
) -> None:
    ear = Listens()
    result = quick_run(
        Slow(0.5),
        12,
        method="drbqo",
        n_initial=4,
        backend=backend,
        max_in_flight=2,
        storage=tmp_path / "run",
        callbacks=[ear],
    )
    assert result.stopped == "finished"
    steps = [{"ask": 1, "observation": -1}.get(kind, 0) for kind, _ in ear.heard]
    assert max(accumulate(steps)) >= 2  # a slot is used again before its outcome is on the disk
    assert_sound(tmp_path / "run")
    frame = result.to_dataframe()
    assert (frame["seconds"] >= 0.5).all()
    assert frame["node"].notna().all()


@pytest.mark.parametrize(("first", "second"), [("local", "ray"), ("ray", "local")])
def test_a_run_begun_on_one_backend_goes_on_on_the_other(
    first: Any, second: Any, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"method": "drbqo", "n_initial": 4, "max_in_flight": 1}
    whole = quick_run(size=10, backend=first, **options)
    options |= {"storage": tmp_path / "run", "resume": True}
    quick_run(size=6, backend=first, **options)
    result = quick_run(size=10, backend=second, **options)
    assert result.observations == whole.observations
    assert result.recommendation == whole.recommendation
    assert_sound(tmp_path / "run")


@both
def test_a_lost_process_is_retried_and_then_a_failure(backend: Any, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    result = quick_run(
        DiesOnce(notes), 8, backend=backend, max_retries=1, max_consecutive_failures=None
    )
    for seen in result.observations:
        assert seen.attempts == 2
        assert (seen.status == "failed") == (seen.context == 1)
        assert seen.cause == ("lost" if seen.context == 1 else None)
        assert seen.reason is None or seen.reason.endswith("(started 2 times)")
    assert {seen.context for seen in result.observations} > {1}


@both
def test_a_fold_that_hangs_is_ended_in_time_and_its_slot_used_again(backend: Any) -> None:
    result = quick_run(Hangs(0.3), size=8, timeout_seconds=2.0, backend=backend)
    failed = [o for o in result.observations if o.status == "failed"]
    assert {o.id for o in failed} == {o.id for o in result.observations if o.config["x"] < 0.3}
    assert {(o.cause, o.reason) for o in failed} == {
        ("timeout", "timeout: stopped after 2 seconds")
    }
    assert [o.seconds for o in failed] == pytest.approx([2.0] * len(failed), rel=0.2)
    assert len(result.observations) == 8


@both
def test_a_run_whose_every_fold_fails_stops_with_the_first_traceback(
    backend: Any, tmp_path: Path
) -> None:
    with pytest.raises(RunFailed, match="5 evaluations in a row failed") as caught:
        quick_run(
            always_raises,
            50,
            max_consecutive_failures=5,
            storage=tmp_path / "run",
            backend=backend,
        )
    assert 'raise ValueError("no luck at all")' in str(caught.value)
    assert records_of(tmp_path / "run", "finish")[0]["reason"] == "failed"


@both
def test_a_run_stops_when_it_is_sure(backend: Any) -> None:
    result = quick_run(
        size=60, method="drbqo", n_initial=3, stop_when="probability > 0.01", backend=backend
    )
    assert result.stop_reason is not None
    assert result.stop_reason.startswith("sure enough after ")


@both
def test_many_runs_share_a_backend(backend: Any) -> None:
    options: dict[str, Any] = {"progress": False, "backend": backend}
    many = dr.run_many(smooth, SPACE, 3, n_evaluations=5, seeds=range(4), **options)
    assert [len(result.observations) for result in many] == [5] * 4
    alone = quick_run(size=5, method="foldwise", seed=3, max_in_flight=1, backend="local")
    assert many[3].observations == alone.observations


@both
@pytest.mark.parametrize("cpus", [1, 2])
def test_numerical_libraries_use_the_cpus_they_were_given(backend: Any, cpus: int) -> None:
    result = quick_run(threads, size=2, resources={"CPU": cpus}, backend=backend)
    assert [o.score for o in result.observations] == [float(cpus)] * 2


def test_a_backend_that_is_none_and_resources_it_lacks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="The backend is one of ray, local"):
        quick_run(backend="dask", storage=tmp_path / "run")
    for resources in ({"CPU": 10_000}, {"GPU": 1}, {"memory": 1e9}):
        with pytest.raises(InvalidInput, match="One evaluation must fit on this machine"):
            quick_run(resources=resources, backend="local", storage=tmp_path / "run")
    lock = threading.Lock()
    with pytest.raises(ObjectiveError, match="picklable"):
        quick_run(
            lambda config, fold, seed: lock.locked(), backend="local", storage=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


# Without Ray: scripts of their own, as users start them.

SCRIPT = """
import sys, time
start = time.monotonic()
import drbqo_ray as dr

def objective(config, fold, seed):
    return -(config["x"] - 0.1 * fold) ** 2

result = dr.run(objective, {"x": dr.Float(0.0, 1.0)}, 4, n_evaluations=60, backend="local")
seconds = time.monotonic() - start
import json
print(json.dumps([len(result.observations), result.stopped, "ray" in sys.modules, seconds]))
"""


def test_a_local_run_of_a_plain_script_never_loads_ray(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    count, stopped, loaded, _ = json.loads(done.stdout)
    assert (count, stopped, loaded) == (60, "finished", False)


FOLDS = """
import time
import drbqo_ray as dr

def slow(config, fold, seed):
    time.sleep(0.1)
    return config["x"]

def stuck(config, fold, seed):
    open("stuck", "w").close()
    time.sleep(3600)

slow.space = stuck.space = {"x": dr.Float(0.0, 1.0)}
"""


def started(folder: Path, objective: str, *more: str) -> subprocess.Popen[str]:
    (folder / "own_folds.py").write_text(FOLDS)
    command = [sys.executable, "-m", "drbqo_ray.cli.main", "run", "--backend", "local"]
    command += ["--objective", f"own_folds:{objective}", "--folds", "3", "--storage", "runs/x"]
    return subprocess.Popen(
        [*command, *more],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_local_command_is_interrupted_and_resumed(tmp_path: Path) -> None:
    process = started(tmp_path, "slow", "--evaluations", "1000")
    journal = tmp_path / "runs" / "x" / "journal.jsonl"
    wait_for(lambda: journal.exists() and journal.read_bytes().count(b'"kind":"tell"') >= 4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "robust" in out
    assert "starting Ray" not in err
    assert "drbqo resume" in err.splitlines()[-1]
    done = len(records_of(tmp_path / "runs" / "x", "tell"))
    command = [sys.executable, "-m", "drbqo_ray.cli.main", "resume", "runs/x", "--backend", "local"]
    more = subprocess.run(
        [*command, "--evaluations", str(done + 5), "--quiet"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert more.returncode == 0, more.stderr
    assert len(records_of(tmp_path / "runs" / "x", "tell")) == done + 5
    assert_sound(tmp_path / "runs" / "x")


@pytest.mark.parametrize("end", ["interrupts", "kill"])
def test_a_local_command_that_is_ended_leaves_no_process_behind(tmp_path: Path, end: str) -> None:
    process = started(tmp_path, "stuck", "--evaluations", "9")
    wait_for(lambda: (tmp_path / "stuck").exists())
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    if end == "kill":
        process.kill()
        process.communicate(timeout=60)
    else:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while "Stopping" not in process.stderr.readline():
            assert process.poll() is None
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert time.monotonic() - begin < 2.0
        assert process.returncode == 130
    gone, alive = psutil.wait_procs(children, timeout=20)
    assert not alive, gone


def test_a_local_command_refuses_a_cluster(tmp_path: Path) -> None:
    process = started(tmp_path, "slow", "--evaluations", "9", "--address", "auto")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--address goes with --backend ray" in err


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
