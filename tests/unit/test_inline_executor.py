"""Runs in this very process: what they promise, and what they cannot."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from typing import Any

import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from tests.support.fold_objectives import SPACE, smooth


def run(objective: Any = smooth, **options: Any) -> dr.Result:
    given = {"n_evaluations": 8, "backend": "inline", "progress": False} | options
    return dr.run(objective, SPACE, 3, **given)


def test_a_run_here_is_the_optimizer_asked_and_told_by_hand() -> None:
    opt = dr.Optimizer(SPACE, 3, method="drbqo", seed=4)
    for _ in range(12):
        asked = opt.ask()
        opt.tell(asked.id, smooth(asked.config, asked.context, asked.seed))
    result = run(method="drbqo", seed=4, n_evaluations=12)
    assert result.observations == opt.observations
    assert result.recommendation == opt.recommend()


def test_an_objective_is_called_in_the_thread_of_the_caller_and_need_not_be_sent() -> None:
    lock, seen = threading.Lock(), set()

    def objective(config: Any, fold: int, seed: int) -> float:
        with lock:
            seen.add((os.getpid(), threading.get_ident()))
        return float(fold)

    run(objective)
    assert seen == {(os.getpid(), threading.get_ident())}


def test_a_time_limit_is_refused_before_anything_is_made(tmp_path: Any) -> None:
    with pytest.raises(InvalidInput, match=r"no time limit.*Got 5"):
        run(timeout_seconds=5, storage=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_fits_no_machine_is_refused() -> None:
    with pytest.raises(InvalidInput, match="fit on this machine"):
        run(resources={"GPU": 1})


def test_ctrl_c_reaches_the_objective_and_the_run_goes_on_later(tmp_path: Any) -> None:
    calls: list[int] = []

    def objective(config: Any, fold: int, seed: int) -> float:
        calls.append(fold)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
            calls.append(-1)  # not reached
        return float(fold)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(objective, storage=tmp_path / "run")
    assert signal.getsignal(signal.SIGINT) is before
    assert -1 not in calls
    result = run(objective, storage=tmp_path / "run", resume=True)
    assert len(result.observations) == 8
    assert len(calls) == 9  # the fourth is evaluated again


def test_an_own_handler_of_ctrl_c_is_in_force_while_the_objective_runs() -> None:
    heard: list[int] = []

    def objective(config: Any, fold: int, seed: int) -> float:
        signal.raise_signal(signal.SIGINT)
        return float(fold)

    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        assert run(objective).stopped == "finished"
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT] * 8


def test_what_wants_to_end_the_process_is_not_held_back() -> None:
    def objective(config: Any, fold: int, seed: int) -> float:
        raise SystemExit("enough")

    with pytest.raises(SystemExit, match="enough"):
        run(objective)


@pytest.mark.parametrize("kept", [True, False])
def test_only_a_run_that_is_kept_waits_for_the_disk(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    flushed: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(fd) or real(fd))
    run(storage=tmp_path / "run" if kept else None)
    assert len(flushed) >= 16 if kept else not flushed


def test_a_run_that_is_not_kept_leaves_nothing(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = run()
    assert len(list(tmp_path.iterdir())) == 1
    del result
    assert list(tmp_path.iterdir()) == []
