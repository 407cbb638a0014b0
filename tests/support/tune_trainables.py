"""Trainables for the tests of the Tune searcher; they must be importable by Ray's workers."""

from __future__ import annotations

import math
import os
import time
from typing import Any

from ray import tune


class Scale:
    """An option that Tune hides from searchers."""

    def __init__(self, factor: float) -> None:
        self.factor = factor


def every_domain(config: dict[str, Any]) -> None:
    expected = {
        "uniform": float,
        "quniform": float,
        "loguniform": float,
        "qloguniform": float,
        "randint": int,
        "qrandint": int,
        "lograndint": int,
        "qlograndint": int,
        "randn": float,
        "qrandn": float,
        "choice": str,
        "fold": int,
    }
    for key, kind in expected.items():
        assert type(config[key]) is kind, (key, config[key])
    assert config["nested"]["list"][1] == 5
    assert type(config["nested"]["list"][0]) is int
    assert config["twice"] == 2 * config["uniform"]
    assert isinstance(config["option"], Scale)
    assert isinstance(config["constant"], Scale)
    assert type(config["model"]["C" if config["model"]["kind"] == "svm" else "depth"]) is float
    tune.report({"eval": {"score": config["uniform"]}, "score": config["uniform"]})


def misbehaving(config: dict[str, Any]) -> None:
    if config["x"] > 0.8:
        if not os.path.exists(f"{config['fixed']}-{config['x']}"):
            raise ValueError("diverged")
        tune.report({"score": config["x"]})
    elif config["x"] > 0.6:
        tune.report({"score": math.nan})
    elif config["x"] > 0.4:
        tune.report({"score": -math.inf})
    elif config["x"] > 0.2:
        tune.report({"loss": 1.0})
    else:
        tune.report({"score": config["x"]})


def index(config: dict[str, Any]) -> None:
    tune.report({"score": config["k"] + config["fold"]})


def nested_loss(config: dict[str, Any]) -> None:
    shifted = config["x"] - config["shift"]["by"]
    tune.report({"eval": {"loss": shifted**2 + 0.1 * config["fold"]}})


def slow(config: dict[str, Any]) -> None:
    time.sleep(0.5)
    tune.report({"score": -((config["x"] - 0.3) ** 2) - 0.1 * config["fold"] * config["x"]})


def even(config: dict[str, Any]) -> None:
    tune.report({"score": -((config["x"] - 0.3) ** 2) - 0.1 * config["fold"] * config["width"]})
