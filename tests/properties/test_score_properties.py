"""Whatever an objective returns: a usable score counts as it is, anything else is a failed fold."""

from __future__ import annotations

import decimal
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.problem import Problem
from drbqo_ray.records import LARGEST_SCORE, Observation, read_score
from drbqo_ray.runtime.coordinator import Coordinator
from tests.support.fold_objectives import SPACE, smooth
from tests.support.journal_checks import records_of

many = settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Rude:
    """Looks like a number of numpy and raises whatever is asked of it."""

    shape = ()

    def item(self) -> float:
        raise RuntimeError("no item")

    def __float__(self) -> float:
        raise ValueError("no float")

    def __repr__(self) -> str:
        raise KeyError("no repr")


too_large = st.floats(min_value=LARGEST_SCORE, exclude_min=True, allow_infinity=True)
not_finite = st.one_of(st.just(math.nan), too_large, too_large.map(lambda value: -value))
no_size = st.one_of(
    not_finite,
    not_finite.map(np.float64),
    not_finite.map(np.array),
    st.sampled_from([np.float32("nan"), np.float16("inf"), 1e308, -1e308]),
    st.integers(min_value=10**101),
    st.integers(max_value=-(10**400)),
)
no_numbers = st.one_of(
    st.none(),
    st.booleans(),
    st.booleans().map(np.bool_),
    st.text(),
    st.floats().map(str),
    st.binary(),
    st.complex_numbers(),
    st.complex_numbers(allow_nan=False).map(np.complex128),
    st.decimals(),
    st.lists(st.floats(), max_size=3),
    st.lists(st.floats(), max_size=3).map(np.array),
    st.dictionaries(st.text(), st.floats(), max_size=2),
    st.sampled_from([object(), float, np.datetime64("2020-01-01"), np.array("0.5"), Rude()]),
    st.sampled_from([decimal.Decimal("0.5"), np.ma.masked, np.timedelta64(1, "s")]),
)
no_scores = st.one_of(no_size, no_numbers)
usable = st.floats(min_value=-LARGEST_SCORE, max_value=LARGEST_SCORE)
scores = st.one_of(
    usable,
    usable.map(np.float64),
    usable.map(np.array),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(np.float32),
    st.integers(min_value=-(10**99), max_value=10**99),
    st.integers(min_value=-(2**62), max_value=2**62).map(np.int64),
    st.fractions(-(10**9), 10**9),
)


@many
@given(value=no_scores)
def test_what_is_no_score_is_told_apart_with_a_reason(value: object) -> None:
    score, reason = read_score(value)
    assert score is None
    assert reason


@many
@given(value=scores)
def test_a_score_is_taken_as_it_is(value: object) -> None:
    score, reason = read_score(value)
    assert reason is None
    assert type(score) is float
    assert score == float(value)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def coordinator() -> Iterator[Coordinator]:
    """A run that can take any number of outcomes, in memory where there is such a disk."""
    memory = Path("/dev/shm")
    settings = {"method": "random", "uncertainty": 1.0}
    problem = Problem.of(SPACE, 3, settings, smooth, "tests.support.fold_objectives:smooth")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        found = Coordinator(Path(directory) / "run", problem, 10**6, {})
        yield found
        found.close()


@many
@given(value=no_scores)
def test_a_run_records_what_is_no_score_as_failed(coordinator: Coordinator, value: object) -> None:
    number = coordinator.snapshot().n_suggestions
    [suggestion] = coordinator.take(number, 1, 1)
    [seen] = coordinator.tell([Observation.of(suggestion, value)])
    assert_failed(seen)


def test_the_journal_of_that_run_holds_no_score(coordinator: Coordinator) -> None:
    [suggestion] = coordinator.take(coordinator.snapshot().n_suggestions, 1, 1)
    coordinator.tell([Observation.of(suggestion, math.nan)])
    directory = coordinator._journal.directory
    assert not records_of(directory, "tell")
    assert {record["cause"] for record in records_of(directory, "fail")} <= {"value", "error"}


def told(*last: object, method: str = "drbqo") -> Optimizer:
    """An optimizer with some scores and then, for one more fold of another config, `last`."""
    optimizer = Optimizer(SPACE, 3, n_initial=9, seed=2, method=method)
    for _ in range(8):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, smooth(suggestion.config, suggestion.context, 0))
    suggestion = optimizer.ask()
    for value in last:
        optimizer.tell(suggestion.id, value)
    return optimizer


@pytest.fixture(scope="module")
def optimizer() -> Optimizer:
    return told(method="random")


@many
@given(value=no_size)
def test_a_number_that_is_no_score_never_reaches_the_model(
    optimizer: Optimizer, value: object
) -> None:
    before = optimizer._history.scores().tolist()
    assert_failed(optimizer.tell(optimizer.ask().id, value))
    assert optimizer._history.scores().tolist() == [*before, min(before)]


@many
@given(value=no_numbers)
def test_what_is_no_number_is_refused_and_leaves_no_trace(
    optimizer: Optimizer, value: object
) -> None:
    asked = optimizer.pending[0] if optimizer.pending else optimizer.ask()
    before = (optimizer.observations, optimizer.pending, len(optimizer._history))
    with pytest.raises(InvalidInput, match="A score is one number"):
        optimizer.tell(asked.id, value)
    with pytest.raises(InvalidInput, match="A score is one number"):
        optimizer.observe(asked.config, asked.context, value)
    assert (optimizer.observations, optimizer.pending, len(optimizer._history)) == before


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308])
def test_what_is_no_score_leaves_the_best_config_as_it_was(value: object) -> None:
    optimizer = told(value)
    assert optimizer.recommend().config == told().recommend().config
    assert optimizer.recommend().config != optimizer.observations[-1].config


def assert_failed(seen: Observation) -> None:
    assert seen.status == "failed"
    assert seen.score is None
    assert seen.reason
    assert "a score must be" in seen.reason
