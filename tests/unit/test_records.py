"""The outcome of an evaluation, and the plain data an objective may return beside its score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from drbqo_ray.records import LARGEST_INFO, LONGEST_REASON

ASKED = dr.Suggestion(3, {"x": 0.5}, 1, 7)


def test_a_number_and_a_scored_number_give_the_same_outcome_but_for_the_info() -> None:
    number = dr.Observation.of(ASKED, 0.5, seconds=1.23456789, node="n", attempts=2)
    scored = dr.Observation.of(ASKED, dr.Scored(np.float32(0.5), {"epochs": np.int64(3)}))
    assert (number.id, number.config, number.context, number.status) == (3, {"x": 0.5}, 1, "ok")
    assert (number.seconds, number.node, number.attempts) == (1.234568, "n", 2)
    assert (number.cause, number.reason, number.info) == (None, None, {})
    assert scored.score == number.score == 0.5
    assert scored.info == {"epochs": 3}
    assert type(scored.info["epochs"]) is int


def test_a_pair_of_score_and_info_is_a_scored_number() -> None:
    pair = dr.Observation.of(ASKED, (0.5, {"rounds": 7}))
    assert (pair.score, pair.info) == (0.5, {"rounds": 7})
    for other in [(0.5, 7), (0.5, {}, {}), [0.5, {"rounds": 7}]]:
        assert dr.Observation.of(ASKED, other).cause == "value"


def test_a_scored_value_that_is_no_number_fails_and_keeps_its_info() -> None:
    seen = dr.Observation.of(ASKED, dr.Scored("high", {"epochs": 3}))
    assert (seen.status, seen.cause, seen.score) == ("failed", "value", None)
    assert "a score must be one number" in str(seen.reason)
    assert seen.info == {"epochs": 3}


def test_a_failure_always_has_a_reason_of_bounded_length() -> None:
    assert dr.Observation.failure(ASKED, "lost", None).reason == "no reason given"
    seen = dr.Observation.failure(ASKED, "error", "a" + "x" * 10**6 + "z")
    assert len(str(seen.reason)) < LONGEST_REASON + 100
    assert (str(seen.reason)[0], str(seen.reason)[-1]) == ("a", "z")


@pytest.mark.parametrize(
    "info",
    [
        {"model": object()},
        {"loss": float("nan")},
        {"curve": np.zeros(3)},
        {1: "key"},
        [1, 2],
        {"log": "x" * LARGEST_INFO},
    ],
)
def test_info_is_plain_data_of_bounded_size(info: Any) -> None:
    with pytest.raises(InvalidInput):
        dr.Scored(0.5, info)


def test_info_is_a_copy() -> None:
    own = {"losses": [1.0]}
    scored = dr.Scored(0.5, own)
    own["losses"].append(2.0)
    assert scored.info == {"losses": [1.0]}
