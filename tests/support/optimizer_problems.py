"""A small problem for the tests of the optimizer, and what of its state a user can see."""

from __future__ import annotations

import copy
from typing import Any

import drbqo_ray as dr

NAN = float("nan")
SPACE = {"a": dr.Float(0.0, 1.0), "b": dr.Int(1, 5)}


def make(contexts: Any = 3, **options: Any) -> dr.Optimizer:
    return dr.Optimizer(SPACE, contexts, **{"n_initial": 3, **options})


def score(suggestion: dr.Suggestion) -> float:
    config = suggestion.config
    return -((config["a"] - 0.3) ** 2) - 0.01 * config["b"] - 0.05 * suggestion.context


def spend(opt: dr.Optimizer, count: int) -> None:
    for _ in range(count):
        suggestion = opt.ask()
        opt.tell(suggestion.id, score(suggestion))


def state(opt: dr.Optimizer) -> tuple[object, ...]:
    """What a user can see, and the next ask of a copy."""
    return (
        copy.deepcopy(opt.observations),
        copy.deepcopy(opt.pending),
        opt.last_fit,
        copy.deepcopy(opt).ask(),
    )
