"""Robust hyperparameter tuning under cross-validation, on Ray.

Names are loaded when first used, so that importing the package is quick and brings in neither
Ray nor PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drbqo_ray.core.sets import (
        ChiSquareBall,
        CVaR,
        Expectation,
        KLBall,
        MMDBall,
        TotalVariationBall,
        WassersteinBall,
        WorstCase,
    )
    from drbqo_ray.errors import DrbqoError, InvalidInput
    from drbqo_ray.optimizer.optimizer import Optimizer
    from drbqo_ray.records import Observation, Recommendation, Scored, Suggestion
    from drbqo_ray.runtime.result import Result, load
    from drbqo_ray.runtime.run import run, run_many
    from drbqo_ray.space.parameters import Choice, Float, Int
    from drbqo_ray.space.space import Space
    from drbqo_ray.storage.listing import RunSummary, list_runs
    from drbqo_ray.storage.warm_start import WarmStart

__version__ = "0.1.0"

__all__ = [
    "CVaR",
    "ChiSquareBall",
    "Choice",
    "DrbqoError",
    "Expectation",
    "Float",
    "Int",
    "InvalidInput",
    "KLBall",
    "MMDBall",
    "Observation",
    "Optimizer",
    "Recommendation",
    "Result",
    "RunSummary",
    "Scored",
    "Space",
    "Suggestion",
    "TotalVariationBall",
    "WarmStart",
    "WassersteinBall",
    "WorstCase",
    "list_runs",
    "load",
    "run",
    "run_many",
]

_HOMES = {
    "drbqo_ray.runtime.result": ("Result", "load"),
    "drbqo_ray.storage.listing": ("RunSummary", "list_runs"),
    "drbqo_ray.storage.warm_start": ("WarmStart",),
    "drbqo_ray.runtime.run": ("run", "run_many"),
    "drbqo_ray.errors": ("DrbqoError", "InvalidInput"),
    "drbqo_ray.optimizer.optimizer": ("Optimizer",),
    "drbqo_ray.space.parameters": ("Choice", "Float", "Int"),
    "drbqo_ray.records": ("Observation", "Recommendation", "Scored", "Suggestion"),
    "drbqo_ray.space.space": ("Space",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # a class without a home here may be a set: their package knows them all
    home = _HOME.get(name, "drbqo_ray.core.sets" if name[:1].isupper() else None)
    value = home and getattr(import_module(home), name, None)
    if value is None:
        raise AttributeError(f"module 'drbqo_ray' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
