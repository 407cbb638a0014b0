"""Time budgets: runs end in time, count earlier sessions, and always answer."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import drbqo_ray as dr
from benchmarks.farm import Costs, SimulatedExecutor, run_simulated
from drbqo_ray.cli.main import cli
from drbqo_ray.cli.options import Duration
from drbqo_ray.problem import Limits, Problem
from drbqo_ray.records import Suggestion
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.runtime.deadline import Deadline
from drbqo_ray.runtime.display import budgets, time_left
from drbqo_ray.runtime.run import earlier_result
from drbqo_ray.runtime.status import RunStatus
from drbqo_ray.search_cv import RobustSearchCV
from drbqo_ray.storage.journal import read_journal
from drbqo_ray.storage.location import RunLocation
from drbqo_ray.storage.stored_run import read_run

FREE = Costs(start=0.0, latency=0.0, turn=0.0, flush=0.0)
SPACE = {"x": dr.Float(0, 1)}


def bowl(config: dict[str, float], fold: int, seed: int) -> float:
    return -((config["x"] - 0.3) ** 2) + 0.01 * fold


def nap(config: dict[str, float], fold: int, seed: int) -> float:
    time.sleep(0.05)
    return bowl(config, fold, seed)


def long_nap(config: dict[str, float], fold: int, seed: int) -> float:
    time.sleep(30)
    return 1.0


def plan_of(folder: Path, resume: bool = False, total: int | None = None, **limits: Any) -> Plan:
    problem = Problem.of(SPACE, 3, {"method": "random"}, bowl, "bowl")
    how = Limits(total, max_consecutive_failures=None, **limits)
    return Plan(problem, RunLocation(folder, "run"), how, resume)


def simulated(plan: Plan, slots: int = 2, fold: Any = 3.0, lost: float = 0.0) -> tuple[Any, Any]:
    seconds = fold if callable(fold) else lambda seed: fold
    costs = Costs(start=0.0, latency=0.0, turn=0.0, flush=0.0, lost=lost)
    executor = SimulatedExecutor(bowl, slots, seconds, costs, lambda: 0.0)
    return executor.log, run_simulated(plan, executor)


def ends(log: Any) -> np.ndarray:
    return np.array(log.starts) + np.array(log.seconds)


# on a simulated clock


def test_a_run_ends_in_time_and_says_so(tmp_path: Path) -> None:
    log, result = simulated(plan_of(tmp_path / "run", time_budget=32.0))
    assert len(result.observations) == 20  # ten rounds of two; another would end at 33
    assert ends(log).max() == pytest.approx(30.0)
    assert result.stopped == "finished"
    assert result.stop_reason == "time budget used up (32 s)"
    assert result.recommendation is not None


def test_the_number_of_evaluations_may_come_first(tmp_path: Path) -> None:
    log, result = simulated(plan_of(tmp_path / "run", total=6, time_budget=32.0))
    assert len(result.observations) == 6
    assert ends(log).max() == pytest.approx(9.0)
    assert result.stop_reason is None


def test_folds_that_vary_end_at_most_one_after_the_budget(tmp_path: Path) -> None:
    log, result = simulated(
        plan_of(tmp_path / "run", time_budget=60.0), fold=lambda seed: 1.0 + seed % 7
    )
    assert max(log.starts) < 60.0
    assert ends(log).max() <= 60.0 + 7.0
    assert len(result.observations) == len(log.starts)


def test_the_first_folds_start_whatever_they_may_take(tmp_path: Path) -> None:
    log, result = simulated(plan_of(tmp_path / "run", time_budget=5.0), fold=40.0)
    assert len(result.observations) == 2  # finished, as is usual
    assert ends(log).max() == pytest.approx(40.0)
    assert result.recommendation is not None


def test_a_lost_fold_is_not_started_again_after_the_end(tmp_path: Path) -> None:
    log, result = simulated(plan_of(tmp_path / "run", time_budget=101.0), 4, 10.0, lost=0.5)
    assert max(log.starts) <= 91.0
    assert result.stop_reason is not None


def test_a_resumed_run_counts_the_seconds_before(tmp_path: Path) -> None:
    where = tmp_path / "run"
    simulated(plan_of(where, time_budget=32.0))
    same = plan_of(where, resume=True, time_budget=32.0)
    done = earlier_result(same)
    assert done is not None
    assert done.stop_reason == "time budget used up (32 s)"
    more = plan_of(where, resume=True, time_budget=47.0)
    assert earlier_result(more) is None
    log, result = simulated(more)
    spent = read_run(where).seconds
    assert spent <= 47.0
    assert len(log.starts) == pytest.approx(2 * (47.0 - 30.0) // 3, abs=2)
    assert len(result.observations) == 20 + len(log.starts)
    assert earlier_result(plan_of(where, resume=True, total=500)) is None


def test_a_run_whose_time_is_over_before_it_is_resumed_answers_at_once(tmp_path: Path) -> None:
    where = tmp_path / "run"
    simulated(plan_of(where, total=10))
    log, result = simulated(plan_of(where, resume=True, total=20, time_budget=5.0))
    assert len(log.starts) == 0
    assert len(result.observations) == 10
    assert result.recommendation is not None
    assert result.stop_reason == "time budget used up (5 s)"


def test_a_stop_rule_beside_it_is_told_apart(tmp_path: Path) -> None:
    simulated(plan_of(tmp_path / "run", time_budget=32.0))
    run = read_run(tmp_path / "run")
    assert run.out_of_time
    assert not run.is_sure(None)
    assert run.is_late(32.0)
    assert not run.is_late(33.0)
    assert not run.is_late(None)


def test_slow_configs_that_no_longer_fit_are_passed_over() -> None:
    now = [0.0]
    problem = Problem.of(SPACE, 3, {}, bowl, "bowl")
    deadline = Deadline(Limits(None, time_budget=200.0), problem, lambda: now[0])
    slow, fast = (Suggestion(0, {"x": x}, 0, 0) for x in (1.0, 0.0))
    assert deadline.fits(slow)
    deadline.begin(0.0, 20.0, [({"x": k / 20}, k % 3, 10 ** (k / 10)) for k in range(21)])
    assert deadline.ends == 180.0
    assert deadline.fits(slow)
    assert deadline.fits(fast)
    now[0] = 120.0
    assert not deadline.fits(slow)
    assert deadline.fits(fast)
    now[0] = 180.0
    assert deadline.passed
    assert not deadline.fits(fast)


def test_without_a_budget_everything_fits() -> None:
    deadline = Deadline(Limits(3), Problem.of(SPACE, 3, {}, bowl, "bowl"), lambda: 1e9)
    deadline.begin(0.0, 0.0, [({"x": 0.5}, 0, 1e9)])
    assert deadline.fits(Suggestion(0, {"x": 0.5}, 0, 0))
    assert not deadline.passed


# for real


def test_an_inline_run_of_one_second(tmp_path: Path) -> None:
    start = time.monotonic()
    result = dr.run(
        nap, SPACE, 3, time_budget=1.0, backend="inline", method="random", storage=tmp_path / "run"
    )
    assert time.monotonic() - start < 2.0
    assert 3 < len(result.observations) <= 20
    assert result.stop_reason == "time budget used up (1 s)"
    again = dr.run(
        nap,
        SPACE,
        3,
        time_budget=1.0,
        backend="inline",
        method="random",
        storage=tmp_path / "run",
        resume=True,
    )
    assert again.observations == result.observations


def test_a_local_run_ends_in_time_plus_one_evaluation(tmp_path: Path) -> None:
    result = dr.run(
        nap, SPACE, 3, time_budget=2.0, backend="local", max_in_flight=2, storage=tmp_path / "run"
    )
    told = [record for record in read_journal(tmp_path / "run") if record.kind == "tell"]
    assert told
    assert told[-1].data["at"] <= 2.0 + 0.5
    assert result.recommendation is not None
    assert result.stop_reason == "time budget used up (2 s)"


def test_running_folds_are_stopped_if_the_user_says_so(tmp_path: Path) -> None:
    start = time.monotonic()
    result = dr.run(
        long_nap,
        SPACE,
        3,
        time_budget=1.0,
        at_deadline="stop",
        backend="local",
        max_in_flight=1,
        storage=tmp_path / "run",
    )
    assert time.monotonic() - start < 15.0
    assert result.observations == []
    assert result.stopped == "finished"
    assert result.stop_reason == "time budget used up (1 s)"
    assert len(read_run(tmp_path / "run").pending) == 1


def test_a_run_that_minds_costs_is_the_same_when_replayed(tmp_path: Path) -> None:
    dr.run(bowl, SPACE, 3, n_evaluations=25, cost_aware=True, backend="inline", storage=tmp_path)
    problem = Problem.of(SPACE, 3, {"method": "foldwise", "cost_aware": True}, bowl, "bowl")
    one, two = (read_run(tmp_path, problem).optimizer for _ in range(2))
    known = one.scoring().history.costs
    told = [record.data["seconds"] for record in read_journal(tmp_path) if record.kind == "tell"]
    np.testing.assert_array_equal(known, told)
    assert one.ask() == two.ask()


def test_a_time_budget_turns_costs_on_unless_they_are_turned_off(tmp_path: Path) -> None:
    for name, given in (("on", {}), ("off", {"cost_aware": False})):
        dr.run(
            bowl,
            SPACE,
            3,
            n_evaluations=2,
            time_budget=60,
            backend="inline",
            storage=tmp_path / name,
            **given,  # type: ignore[arg-type]
        )
        assert read_run(tmp_path / name).session["cost_aware"] is (name == "on")
    dr.run(bowl, SPACE, 3, n_evaluations=2, backend="inline", storage=tmp_path / "none")
    assert read_run(tmp_path / "none").session["cost_aware"] is False


def test_each_of_many_runs_has_its_time() -> None:
    many = dr.run_many(
        nap, SPACE, 3, time_budget=0.4, methods=["random"], seeds=range(2), backend="inline"
    )
    assert [result.stop_reason for result in many] == ["time budget used up (0.4 s)"] * 2
    assert all(result.recommendation is not None for result in many)


# what is asked for


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "number of evaluations, a time budget"),
        ({"time_budget": 0}, "time_budget"),
        ({"time_budget": math.inf}, "time_budget"),
        ({"time_budget": "10m"}, "time_budget"),
        ({"time_budget": 5, "at_deadline": "later"}, "at_deadline"),
        ({"time_budget": 5, "at_deadline": "stop"}, "cannot be ended"),
    ],
)
def test_budgets_that_make_no_sense_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(dr.InvalidInput, match=said):
        dr.run(bowl, SPACE, 3, backend="inline", **given)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("1d 2h", 93600)],
)
def test_the_command_line_reads_times(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5", "ten", "5x", "30m1h", "nan", "inf", "1e3"])
def test_the_command_line_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(click.BadParameter, match="1h30m"):
        Duration().convert(text, None, None)


def test_progress_shows_the_time_left() -> None:
    now = [0.0]
    status = RunStatus("run", None, lambda: 2, 3, clock=lambda: now[0], time_budget=100.0)
    assert budgets(status) == "1 min 40 s"
    status.resumed(4, 0, {0: 4}, 20.0, ends=80.0)
    now[0] = 30.0
    assert time_left(status) == "about 50 s left"
    assert status.share == pytest.approx(0.5)
    assert status.counts == "4"


MODULE = "def score(config, fold, seed):\n    return config['x'] - fold\n"


def test_the_command_line_keeps_shows_and_lengthens_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    Path("timed_folds.py").write_text(MODULE)
    Path("space.yaml").write_text("x: {type: float, low: 0, high: 1}\n")

    def drbqo(*words: str) -> Any:
        return CliRunner().invoke(cli, [*words])

    what = ["--objective", "timed_folds:score", "--space", "space.yaml", "--folds", "2"]
    how = ["--storage", "a", "--backend", "local", "--max-in-flight", "1", "-q"]
    neither = drbqo("run", *what, *how)
    assert neither.exit_code == 2
    assert "--time" in neither.output
    ran = drbqo("run", *what, *how, "--method", "random", "--time", "0.7s")
    assert ran.exit_code == 0, ran.output
    assert "time budget used up (0.7 s)" in ran.output
    shown = drbqo("status", "a")
    assert "of 1 s" in shown.output
    same = drbqo("resume", "a", "--backend", "local", "-q")
    assert same.exit_code == 0
    assert "pass --time with a longer time" in same.output
    before = len(read_run(Path("a")).outcomes)
    more = drbqo("resume", "a", "--backend", "local", "-q", "--time", "1.4s")
    assert more.exit_code == 0
    assert "time budget used up (1.4 s)" in more.output
    assert len(read_run(Path("a")).outcomes) > before


def test_a_search_of_scikit_learn_keeps_its_time() -> None:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    space = {"alpha": dr.Float(1e-3, 1e3, log=True)}
    search = RobustSearchCV(Ridge(), space, cv=3, method="random", time_budget=0.5)
    start = time.monotonic()
    search.fit(X, y)
    assert time.monotonic() - start < 5.0
    assert search.stop_reason_ == "time budget used up (0.5 s)"
    assert search.best_params_
    both = RobustSearchCV(Ridge(), space, cv=3, n_evaluations=4, time_budget=60).fit(X, y)
    assert (both.n_evaluations_, both.stop_reason_) == (4, None)


def test_a_run_by_time_alone_is_listed_loaded_and_reported(tmp_path: Path) -> None:
    where = tmp_path / "run"
    kept = dr.run(bowl, SPACE, 3, time_budget=0.3, backend="inline", storage=where)
    assert dr.load(where).stop_reason == kept.stop_reason
    (listed,) = dr.list_runs(tmp_path)
    assert listed.n_evaluations is None
    page = kept.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "time_budget=0.3" in page
    assert "n_evaluations=" not in page
