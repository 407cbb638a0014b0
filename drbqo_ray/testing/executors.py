"""What every executor promises to the loop, as tests to inherit; needs pytest.

An executor is checked by one class in a test file::

    class TestMyExecutor(ProcessExecutorContract):
        @pytest.fixture
        def opened(self):
            return my_executor.open_executor

One that evaluates in the process of the run keeps `ExecutorContract` only: it cannot survive the
crash of an objective, nor end it by force. The workers of the executor have to be able to import
this module.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drbqo_ray.errors import ObjectiveError, ProblemChanged, UnknownSuggestion
from drbqo_ray.problem import Limits, Problem
from drbqo_ray.records import Failed, Observation, Scored, Suggestion
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.runtime.executor import EvaluationLost, Executor, RunHost, Ticket
from drbqo_ray.space.parameters import Float
from drbqo_ray.storage.location import begin, find_location, open_when_free

Opened = Callable[[Any, Mapping[str, float], int | None], AbstractContextManager[Executor]]
ONE_CPU = {"CPU": 1.0}
PATIENCE_SECONDS = 60.0


def act(config: Mapping[str, Any], fold: int, seed: int) -> Any:
    """An objective that does what the seed says: score, raise, die, hang or fail."""
    if seed == 1:
        raise ValueError("raised by the objective")
    if seed == 2:
        os._exit(3)
    if seed == 3:
        time.sleep(3600)
    if seed == 4:
        return Failed("no luck", {"at": fold}, ArithmeticError("itself"))
    return Scored(config["x"] + fold, {"pid": os.getpid()})


SCORES, RAISES, DIES, HANGS, FAILS = range(5)


def plan_in(directory: Path, seed: int = 0, **limits: Any) -> Plan:
    """A small run whose journal was begun in `directory`."""
    settings = {"method": "random", "uncertainty": 1.0, "seed": seed}
    problem = Problem.of({"x": Float(0.0, 1.0)}, 3, settings, act, "act")
    return Plan(problem, find_location(directory, None), Limits(8, **limits), resume=True)


def begun(directory: Path, **limits: Any) -> Plan:
    """The same, with its journal begun."""
    plan = plan_in(directory, **limits)
    begin(plan.place, plan.problem, resume=False)
    return plan


def result(executor: Executor, host: RunHost, ticket: Ticket) -> Any:
    """Wait for a ticket and take its result."""
    assert executor.poll([ticket], PATIENCE_SECONDS) == [ticket]
    return host.result(ticket)


def asked(seed: int, number: int = 0) -> Suggestion:
    """A suggestion that makes the objective do something."""
    return Suggestion(number, {"x": 0.5}, 1, seed)


class ExecutorContract:
    """The contract of `Executor` and `RunHost`; a subclass says by `opened` which is meant."""

    @pytest.fixture
    def opened(self) -> Opened:
        """The function `open_executor` of the executor."""
        raise NotImplementedError

    def test_there_is_a_slot_and_never_more_than_asked_for(self, opened: Opened) -> None:
        with opened(act, ONE_CPU, 1) as executor:
            assert executor.slots == 1

    def test_calls_reach_the_coordinator_and_its_errors_come_back(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(begun(tmp_path / "run"))
            assert result(executor, host, host.call("snapshot")).n_suggestions == 0
            [first] = result(executor, host, host.call("take", 0, 1, 1))
            told = host.call("tell", [Observation.of(first, 0.25)])
            assert [seen.score for seen in result(executor, host, told)] == [0.25]
            wrong = host.call("tell", [Observation(99, {}, 0, "ok", 0.5)])
            with pytest.raises(UnknownSuggestion):
                result(executor, host, wrong)
            final = result(executor, host, host.call("finish", "finished"))
            assert [seen.config for seen in final.observations] == [first.config]
            host.close(wait=True)

    def test_a_run_that_cannot_be_opened_says_so_at_its_first_call(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        begun(tmp_path / "run")
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(plan_in(tmp_path / "run", seed=1))
            with pytest.raises(ProblemChanged):
                result(executor, host, host.call("snapshot"))
            host.close(wait=True)

    def test_closing_frees_the_journal(self, opened: Opened, tmp_path: Path) -> None:
        plan = begun(tmp_path / "run")
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(plan)
            result(executor, host, host.call("snapshot"))
            host.close(wait=True)
            open_when_free(plan.place.directory, plan.problem, 5.0).close()

    def test_an_evaluation_gives_its_score_and_what_belongs_to_it(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(begun(tmp_path / "run"))
            seen = result(executor, host, host.start(asked(SCORES), 2))
            assert (seen.id, seen.status, seen.score, seen.attempts) == (0, "ok", 1.5, 2)
            assert seen.info["pid"] > 0
            assert seen.seconds >= 0
            assert seen.node
            host.close(wait=True)

    def test_what_an_objective_raises_is_an_outcome(self, opened: Opened, tmp_path: Path) -> None:
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(begun(tmp_path / "run"))
            seen = result(executor, host, host.start(asked(RAISES), 1))
            assert (seen.status, seen.cause) == ("failed", "error")
            assert seen.reason.endswith("ValueError: raised by the objective")
            host.close(wait=True)

    def test_ending_what_has_ended_harms_nothing(self, opened: Opened, tmp_path: Path) -> None:
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(begun(tmp_path / "run"))
            first = host.start(asked(SCORES), 1)
            assert executor.poll([first], PATIENCE_SECONDS) == [first]
            second = host.start(asked(SCORES, 1), 1)
            host.cancel(first)
            assert result(executor, host, second).score == 1.5
            assert host.result(first).score == 1.5
            host.close(wait=True)

    def test_a_closure_can_be_evaluated(self, opened: Opened, tmp_path: Path) -> None:
        offset = 2.0
        with opened(lambda config, fold, seed: offset + fold, ONE_CPU, 1) as executor:
            host = executor.open(begun(tmp_path / "run"))
            assert result(executor, host, host.start(asked(SCORES), 1)).score == 3.0
            host.close(wait=True)

    def test_what_a_failed_objective_sends_home_comes_home(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(begun(tmp_path / "run"))
            [first] = result(executor, host, host.call("take", 0, 1, 1))
            sent = host.start(replace(first, seed=FAILS), 1)
            [seen] = result(executor, host, host.call("tell", [result(executor, host, sent)]))
            assert (seen.status, seen.reason, seen.info) == (
                "failed",
                "no luck",
                {"at": first.context},
            )
            assert isinstance(seen.raised, ArithmeticError)
            host.close(wait=True)


class ProcessExecutorContract(ExecutorContract):
    """The contract of an executor that evaluates in processes of their own, on top of the other."""

    def test_an_evaluation_runs_in_another_process(self, opened: Opened, tmp_path: Path) -> None:
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(begun(tmp_path / "run"))
            seen = result(executor, host, host.start(asked(SCORES), 1))
            assert seen.info["pid"] != os.getpid()
            host.close(wait=True)

    def test_an_evaluation_whose_process_dies_is_lost_and_the_next_is_not(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(begun(tmp_path / "run"))
            with pytest.raises(EvaluationLost) as caught:
                result(executor, host, host.start(asked(DIES), 1))
            assert caught.value.cause == "lost"
            assert str(caught.value)
            assert result(executor, host, host.start(asked(SCORES, 1), 1)).score == 1.5
            host.close(wait=True)

    def test_an_evaluation_is_timed_and_can_be_ended_by_force(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(begun(tmp_path / "run", timeout_seconds=600.0))
            ticket = host.start(asked(HANGS), 1)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while host.ages().get((0, 1), 0.0) < 0.2:
                assert time.monotonic() < deadline
                assert executor.poll([ticket], 0.05) == []
            host.cancel(ticket)
            with pytest.raises(EvaluationLost):
                result(executor, host, ticket)
            assert result(executor, host, host.start(asked(SCORES, 1), 1)).score == 1.5
            host.close(wait=True)

    def test_an_evaluation_without_a_time_limit_can_be_ended_by_force_too(
        self, opened: Opened, tmp_path: Path
    ) -> None:
        with opened(act, ONE_CPU, 1) as executor:
            host = executor.open(begun(tmp_path / "run"))
            ticket = host.start(asked(HANGS), 1)
            assert executor.poll([ticket], 0.5) == []
            host.cancel(ticket)
            with pytest.raises(EvaluationLost):
                result(executor, host, ticket)
            host.close(wait=True)

    def test_an_objective_that_cannot_be_sent_is_refused(self, opened: Opened) -> None:
        lock = threading.Lock()
        with (
            pytest.raises(ObjectiveError, match="picklable"),
            opened(lambda config, fold, seed: lock.locked(), ONE_CPU, 1),
        ):
            pass
