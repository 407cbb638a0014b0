"""Everything that is fixed about one run before it starts."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from drbqo_ray.errors import InvalidInput
from drbqo_ray.problem import RunProblem
from drbqo_ray.storage.location import RunLocation


@dataclass(frozen=True)
class Limits:
    """How evaluations are run; plain Python numbers, whatever was passed.

    Attributes:
        n_evaluations: evaluations in all, failed ones included.
        resources: what one evaluation needs.
        max_in_flight: evaluations of the run at a time, None for as many as fit.
        timeout_seconds: longest time one evaluation may run, None without limit.
        max_retries: how often an evaluation is started again after its worker, its node or its
            memory was lost.
        max_consecutive_failures: failures in a row that stop the run; None: no failures do.
    """

    n_evaluations: int
    resources: Mapping[str, float] = field(default_factory=lambda: {"CPU": 1.0})
    max_in_flight: int | None = None
    timeout_seconds: float | None = None
    max_retries: int = 2
    max_consecutive_failures: int | None = 10

    def __post_init__(self) -> None:
        checked = {
            "resources": check_resources(self.resources),
            "n_evaluations": _count("n_evaluations", self.n_evaluations, 1),
            "max_retries": _count("max_retries", self.max_retries, 0),
            "timeout_seconds": _time_limit(self.timeout_seconds),
        }
        for name in ("max_in_flight", "max_consecutive_failures"):
            value = getattr(self, name)
            checked[name] = None if value is None else _count(name, value, 1)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def threads(self) -> int:
        """Threads one evaluation may use."""
        return max(1, int(self.resources["CPU"]))


@dataclass(frozen=True)
class Plan:
    """One run.

    Attributes:
        problem: what it is about.
        place: where it is kept.
        limits: how it is run.
        resume: whether it goes on with a run that is there.
        labels: what it is called.
    """

    problem: RunProblem
    place: RunLocation
    limits: Limits
    resume: bool
    labels: dict[str, Any] = field(default_factory=dict)

    @property
    def stop_when(self) -> str | None:
        """The stop rule as it was written, None without one."""
        rule: str | None = self.problem.settings.get("stop_when")
        return rule

    def session(self) -> dict[str, Any]:
        """Plain data about a session, for the journal."""
        limits = self.limits
        return {
            "n_evaluations": limits.n_evaluations,
            "resources": dict(limits.resources),
            "max_in_flight": limits.max_in_flight,
            "timeout_seconds": limits.timeout_seconds,
            "max_retries": limits.max_retries,
            "max_consecutive_failures": limits.max_consecutive_failures,
            "stop_when": self.stop_when,
        }


def check_resources(resources: Mapping[str, float]) -> dict[str, float]:
    """What one evaluation needs, CPU 1 unless said; InvalidInput when it makes no sense."""
    good = isinstance(resources, Mapping) and all(
        isinstance(name, str)
        and name
        and isinstance(amount, numbers.Real)
        and not isinstance(amount, bool)
        and math.isfinite(amount)
        and amount >= 0
        for name, amount in resources.items()
    )
    if not good or "object_store_memory" in resources:
        raise InvalidInput(
            "Resources are a dict of name -> amount >= 0 that one evaluation needs.",
            resources,
            'Pass e.g. {"CPU": 2, "GPU": 1, "memory": 4e9}.',
        )
    return {"CPU": 1.0, **{name: float(amount) for name, amount in resources.items()}}


def _count(name: str, value: object, least: int) -> int:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if whole and int(value) >= least:  # type: ignore[call-overload]
        return int(value)  # type: ignore[call-overload]
    raise InvalidInput(f"{name} is a whole number >= {least}.", value, "Change it.")


def _time_limit(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            if 0 < float(value) < math.inf:
                return float(value)
    raise InvalidInput("timeout_seconds is a positive number or None.", value, "Pass e.g. 600.")
