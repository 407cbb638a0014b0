"""Every executor keeps the contract of `drbqo_ray.testing.executors`, and a new one is easy."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import drbqo_ray as dr
from drbqo_ray.runtime import executor as seam
from drbqo_ray.runtime import inline_executor, local_executor
from drbqo_ray.runtime.coordinator import Plan, open_coordinator
from drbqo_ray.runtime.tasks import evaluate
from drbqo_ray.testing.executors import (
    SCORES,
    ExecutorContract,
    Opened,
    ProcessExecutorContract,
    act,
    asked,
    begun,
    result,
)
from tests.support.local_ray import two_cpus  # noqa: F401


class TestInline(ExecutorContract):
    @pytest.fixture
    def opened(self) -> Opened:
        return inline_executor.open_executor


class TestLocal(ProcessExecutorContract):
    @pytest.fixture
    def opened(self) -> Opened:
        return local_executor.open_executor


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("two_cpus")
class TestRay(ProcessExecutorContract):
    @pytest.fixture
    def opened(self) -> Opened:
        from drbqo_ray.runtime import ray_executor

        return ray_executor.open_executor

    def test_what_is_about_to_end_is_not_cancelled(
        self, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ray aborts the driver if a task is cancelled in the instant in which it ends."""
        import ray

        def too_late(*args: Any, **options: Any) -> None:
            pytest.fail("a task that was about to end was cancelled")

        with opened(act, {"num_cpus": 1.0}, 1) as executor:
            host = executor.open(begun(tmp_path / "run"))
            result(executor, host, host.start(asked(SCORES), 1))  # a worker is there and warm
            monkeypatch.setattr(ray, "cancel", too_late)
            ticket = host.start(asked(SCORES, 1), 1)
            host.cancel(ticket)
            assert result(executor, host, ticket).score == 1.5
            host.close(wait=True)


class TestRayWithoutStorage(TestRay):
    """Runs that go with their driver, which have their coordinator there."""

    @pytest.fixture
    def opened(self) -> Opened:
        from drbqo_ray.runtime import ray_executor

        class Passing(ray_executor.RayExecutor):
            def open(self, plan: Plan) -> Any:
                return super().open(replace(plan, place=replace(plan.place, temporary=True)))

        @contextmanager
        def open_executor(objective: Any, resources: Any, in_flight: int | None) -> Iterator[Any]:
            slots = ray_executor.Slots(resources, in_flight, local=False)
            yield Passing(objective, slots)

        return open_executor


class Toy:
    """An executor and its one run in this very process and thread: all it takes to add one."""

    slots = 1

    def __init__(self, objective: Any) -> None:
        self._objective = objective

    def open(self, plan: Plan) -> Toy:
        limits = plan.limits
        self._coordinator = open_coordinator(
            plan.place, plan.problem, limits.n_evaluations, plan.session()
        )
        return self

    def call(self, method: str, *arguments: Any) -> Any:
        found = getattr(self._coordinator, method)(*arguments)
        return lambda: found  # what returns the result serves as a ticket

    def start(self, suggestion: dr.Suggestion, attempt: int) -> Any:
        outcome = evaluate(self._objective, suggestion, attempt, 1, "here")
        return lambda: outcome

    def poll(self, tickets: list[Any], seconds: float) -> list[Any]:
        return list(tickets)

    def result(self, ticket: Any) -> Any:
        return ticket()

    def ages(self) -> Mapping[tuple[int, int], float]:
        return {}

    def cancel(self, ticket: Any) -> None: ...

    def close(self, wait: bool) -> None:
        self._coordinator.close()


def test_a_new_executor_is_one_module_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def open_executor(objective: Any, resources: Any, in_flight: int | None) -> Iterator[Toy]:
        yield Toy(objective)

    home = ModuleType("toy_executor")
    home.open_executor = open_executor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy_executor", home)
    monkeypatch.setitem(seam.BACKENDS, "toy", "toy_executor")

    def score(config: Mapping[str, Any], fold: int, seed: int) -> float:
        return float(config["x"]) - fold

    options: dict[str, Any] = {"n_evaluations": 9, "progress": False, "max_in_flight": 1}
    space = {"x": dr.Float(0.0, 1.0)}
    toy = dr.run(score, space, 3, backend="toy", **options)  # type: ignore[arg-type]
    local = dr.run(score, space, 3, backend="local", **options)
    assert toy.observations == local.observations
    assert toy.recommendation == local.recommendation
    assert {seen.node for seen in toy.observations} == {"here"}
