"""`Optimizer.to_gpytorch`: the same posterior in gpytorch, on the scale of the scores."""

from __future__ import annotations

import builtins
import math
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import NothingObserved

SPACE = {
    "kernel": dr.Choice(["rbf", "poly", "linear"]),
    "C": dr.Float(1e-2, 1e3, log=True),
    "degree": dr.Int(1, 5, when={"kernel": ["poly"]}),
}
VECTORS = np.array([[0.0, 0.3], [0.5, 0.9], [1.0, 0.1]])


def searched(contexts: Any, evaluations: int = 20, **settings: Any) -> dr.Optimizer:
    optimizer = dr.Optimizer(SPACE, contexts, n_initial=8, seed=3, **settings)
    for _ in range(evaluations):
        s = optimizer.ask()
        hardness = {"rbf": 0.0, "poly": 0.2, "linear": 0.5}[s.config["kernel"]]
        score = 50 - 3 * math.log10(s.config["C"]) ** 2 - hardness * s.context
        optimizer.tell(s.id, score if settings.get("mode") != "min" else -score)
    return optimizer


@pytest.fixture
def torch() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gpytorch's own imports warn
        pytest.importorskip("gpytorch")
        import torch

        yield torch


@pytest.mark.parametrize(
    ("contexts", "settings"),
    [
        (3, {}),
        (3, {"mode": "min", "kernel": "matern52", "method": "foldwise"}),
        (3, {"method": "mtbo"}),
        (VECTORS, {"kernel": "matern32"}),
    ],
)
def test_the_model_predicts_what_the_optimizer_does(torch, contexts, settings) -> None:
    optimizer = searched(contexts, **settings)
    configs = [
        {"kernel": "poly", "C": 2.5, "degree": 3},
        {"kernel": "rbf", "C": 0.1},
        optimizer.recommend().config,
    ]
    means, stds = optimizer.predict(configs)
    model = optimizer.to_gpytorch()
    pairs = [(config, context) for config in configs for context in range(3)]
    with torch.no_grad():
        found = model(model.inputs(*zip(*pairs, strict=True)))
    scores = model.score_center + model.score_scale * found.mean.numpy()
    deviations = abs(model.score_scale) * found.stddev.numpy()
    np.testing.assert_allclose(scores, means.ravel(), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(deviations, stds.ravel(), rtol=1e-4, atol=1e-5)
    assert (model.score_scale < 0) == (settings.get("mode") == "min")


def test_looking_changes_no_ask(torch) -> None:
    one, other = searched(3), searched(3)
    one.to_gpytorch()
    assert one.ask() == other.ask()


def test_a_model_needs_scores() -> None:
    with pytest.raises(NothingObserved, match="Tell some first"):
        dr.Optimizer(SPACE, 3).to_gpytorch()


def test_a_config_outside_the_space_is_refused(torch) -> None:
    with pytest.raises(dr.InvalidInput, match="C"):
        searched(3).to_gpytorch().inputs([{"kernel": "rbf", "C": -1.0}], [0])


def test_without_gpytorch_the_error_says_what_to_install(monkeypatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "gpytorch":
            raise ImportError("No module named 'gpytorch'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "gpytorch", raising=False)
    with pytest.raises(dr.InvalidInput, match=r"pip install 'drbqo_ray\[torch\]'"):
        searched(3, evaluations=9).to_gpytorch()
