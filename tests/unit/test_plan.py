"""The settings of a run: numbers of numpy are taken, and are plain Python from then on."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from drbqo_ray.errors import InvalidInput
from drbqo_ray.problem import Limits, Problem
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.runtime.run import _plans
from drbqo_ray.storage.format import encode_record
from drbqo_ray.storage.location import find_location

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
PLAIN = {
    "method": "drbqo",
    "uncertainty": 0.5,
    "mode": "min",
    "n_initial": 4,
    "kernel": "se",
    "context_rule": None,
    "reference": [0.25, 0.25, 0.5],
    "seed": 3,
    "stop_when": None,
}
NUMPY = PLAIN | {
    "method": np.str_("drbqo"),
    "uncertainty": np.float32(0.5),
    "mode": np.str_("min"),
    "n_initial": np.int32(4),
    "kernel": np.str_("se"),
    "seed": np.uint8(3),
    "reference": np.array([0.25, 0.25, 0.5], dtype=np.float32),
}


def problem_of(settings: dict[str, object], contexts: object) -> Problem:
    return Problem.of(SPACE, contexts, settings, object(), "folds:score")  # type: ignore[arg-type]


def types(value: object) -> object:
    """The value with every number and text replaced by its exact type."""
    if isinstance(value, dict):
        return {name: types(item) for name, item in value.items()}
    return [types(item) for item in value] if isinstance(value, list) else type(value)


def test_a_problem_stated_with_numbers_of_numpy_has_the_header_of_a_plain_one() -> None:
    plain, numpy = problem_of(PLAIN, 3).header(), problem_of(NUMPY, np.int64(3)).header()
    assert numpy == plain
    assert types(numpy) == types(plain)
    assert encode_record(1, "note", numpy) == encode_record(1, "note", plain)


def test_limits_of_numpy_are_written_as_plain_ones() -> None:
    counts: list[Any] = [np.int64(30), np.int16(2), np.uint8(1), np.int64(4)]
    seconds: Any = np.float32(1.5)
    given = Limits(counts[0], {"CPU": np.float32(2)}, counts[1], seconds, *counts[2:])
    plain = Limits(30, {"CPU": 2.0}, 2, 1.5, 1, 4)
    assert given == plain
    problem = problem_of(PLAIN, 3)
    sessions = [
        Plan(problem, find_location("runs", "x"), each, False).session() for each in (given, plain)
    ]
    assert types(sessions[0]) == types(sessions[1])
    assert json.dumps(sessions[0]) == json.dumps(sessions[1])


def test_runs_of_numpy_seeds_are_named_and_labeled_as_those_of_plain_ones() -> None:
    problems = [problem_of(PLAIN | {"seed": seed}, 3) for seed in np.arange(2)]
    plans = _plans(problems, Limits(4), "runs", False)
    assert [plan.place.name for plan in plans] == [f"drbqo_radius-0.5_seed-{k}" for k in range(2)]
    assert [type(plan.labels["seed"]) for plan in plans] == [int, int]


@pytest.mark.parametrize("limit", [True, 0.0, -1.0, np.nan, 10**400, "9", np.array([9.0])])
def test_a_time_limit_is_a_positive_number(limit: object) -> None:
    with pytest.raises(InvalidInput, match="timeout_seconds is a positive number"):
        Limits(3, timeout_seconds=limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [True, np.True_, 0, 2.0, np.float64(2), "2", np.array([2])])
def test_a_number_of_evaluations_is_a_whole_number_from_1_on(count: object) -> None:
    with pytest.raises(InvalidInput, match="n_evaluations is a whole number"):
        Limits(count)  # type: ignore[arg-type]
