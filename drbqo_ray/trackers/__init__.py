"""Runs in MLflow, Weights & Biases and TensorBoard, as callbacks of `run`.

    from drbqo_ray.trackers.mlflow import MLflowTracker
    dr.run(objective, space, 5, n_evaluations=60, callbacks=[MLflowTracker("svm")])

A tracker follows one run at a time, so it goes with `run`, not with `run_many`. Evaluations of an
earlier session, before a resume, are told when the run ends. What a tracker raises is logged, and
the run goes on.
"""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from drbqo_ray.errors import DrbqoError, InvalidInput
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.callbacks import Callback
from drbqo_ray.runtime.result import Result


class Tracker(Callback, ABC):
    """What all trackers share: configs are numbered, every outcome is told once, and the report of
    the run is at hand when it ends. It can be used again for the next run."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}
        self._told: set[int] = set()
        self._begun = False

    def on_ask(self, suggestion: Suggestion) -> None:
        """An evaluation is about to start."""
        self._begin()

    def on_observation(self, observation: Observation) -> None:
        """An outcome was recorded for good."""
        self._begin()
        key = json.dumps(observation.config, sort_keys=True, default=str)
        number = self._numbers.setdefault(key, len(self._numbers))
        if observation.id not in self._told:
            self._told.add(observation.id)
            self.tell(number, observation)

    def on_finish(self, result: Result) -> None:
        """The run has ended."""
        self._begin()
        for observation in result.observations:
            self.on_observation(observation)
        with tempfile.TemporaryDirectory(prefix="drbqo-") as folder:
            report: Path | None = Path(folder) / "report.html"
            with suppress(DrbqoError, OSError):
                result.report(folder + "/report.html")
            self.end(result, report if report and report.exists() else None)
        self._forget()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self.begin()

    @abstractmethod
    def begin(self) -> None:
        """A run has begun."""

    @abstractmethod
    def tell(self, number: int, observation: Observation) -> None:
        """Record an outcome of the config with this number, counted from 0."""

    @abstractmethod
    def end(self, result: Result, report: Path | None) -> None:
        """The run has ended; `report` is its page, which is gone afterwards."""


def metrics(result: Result) -> dict[str, float]:
    """What a run has come to, as numbers by name."""
    found = {
        "evaluations": float(len(result.observations)),
        "failed": float(result.coverage.n_failed),
    }
    if result.recommendation is not None:
        best = result.recommendation
        found |= {"robust_value": best.robust_value, "mean_value": best.mean_value, "std": best.std}
    if result.certainty is not None:
        sure = result.certainty
        found |= {"probability": sure.probability, "expected_loss": sure.loss}
    return found


def plain(config: dict[str, Any]) -> dict[str, bool | float | str]:
    """A config in the kinds of value that every tracker takes."""
    return {
        name: value if isinstance(value, (bool, int, float, str)) else str(value)
        for name, value in config.items()
    }


def load(module: str, package: str) -> Any:
    """The library of a tracker; InvalidInput with the cure when it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidInput(
            f"This tracker needs {package}: {error}.", "no such package", f"pip install {package}."
        ) from None
