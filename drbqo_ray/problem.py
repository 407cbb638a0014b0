"""What a run is about, as plain data for the journal's header and as an optimizer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from drbqo_ray.core.contexts import check_contexts
from drbqo_ray.core.sets import UncertaintySet, from_dict
from drbqo_ray.errors import DrbqoError, InvalidInput, JournalError, short_repr
from drbqo_ray.objective import check_folds
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import Config
from drbqo_ray.space.parameters import Choice
from drbqo_ray.space.space import Space, as_space
from drbqo_ray.types import check_plain

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_OPTION = "__option__"
PLAIN_SETTINGS = (
    "method",
    "mode",
    "n_initial",
    "kernel",
    "context_rule",
    "seed",
    "sampler",
    "hyperparameters",
)


@dataclass(frozen=True)
class RunProblem:
    """The problem of one run; two runs with equal headers can continue each other.

    Attributes:
        space: the search space.
        contexts: number of folds, or sample vectors as rows of a list.
        settings: keyword arguments of `Optimizer`, the uncertainty set included.
        objective: name of the objective.
        fingerprint: what the objective says about its data, None when it says nothing.
    """

    space: Space
    contexts: int | list[list[float]]
    settings: dict[str, Any]
    objective: str
    fingerprint: str | None = None

    @staticmethod
    def of(
        space: Space | Mapping[str, Any],
        contexts: int | npt.ArrayLike,
        settings: Mapping[str, Any],
        objective: object,
        name: str,
    ) -> RunProblem:
        """The problem a user states; every argument is checked by making its optimizer.

        Settings are plain Python from here on, whatever numbers and texts of numpy were passed.
        """
        checked = check_contexts(contexts)
        plain = checked if isinstance(checked, int) else checked.tolist()
        told = getattr(objective, "fingerprint", None)
        told = told() if callable(told) else told
        problem = RunProblem(
            as_space(space), plain, dict(settings), name, None if told is None else str(told)
        )
        optimizer = problem.optimizer()
        check_folds(objective, optimizer.n_contexts)
        settings = {name: str(v) if isinstance(v, str) else v for name, v in settings.items()}
        settings |= {"uncertainty": optimizer.uncertainty, "n_initial": optimizer.n_initial}
        if "seed" in settings:
            settings["seed"] = optimizer.seed
        if settings.get("reference") is not None:
            settings["reference"] = [float(weight) for weight in optimizer.reference]
        return RunProblem(problem.space, plain, settings, name, problem.fingerprint)

    @property
    def n_folds(self) -> int:
        """Number of folds, or of samples."""
        return self.contexts if isinstance(self.contexts, int) else len(self.contexts)

    def optimizer(self) -> Optimizer:
        """A fresh optimizer for the problem."""
        contexts = self.contexts
        given = contexts if isinstance(contexts, int) else np.array(contexts, dtype=np.float64)
        return Optimizer(self.space, given, **self.settings)

    def header(self) -> dict[str, Any]:
        """The problem as plain data."""
        uncertainty = self.settings.get("uncertainty", 1.0)
        known = {name: self.settings[name] for name in PLAIN_SETTINGS if name in self.settings}
        return {
            "space": {name: _plain_parameter(item) for name, item in self.space.to_dict().items()},
            "contexts": self.contexts,
            "uncertainty": uncertainty.to_dict()
            if isinstance(uncertainty, UncertaintySet)
            else uncertainty,
            "reference": self.settings.get("reference"),
            **known,
            "objective": {"name": self.objective, "fingerprint": self.fingerprint},
        }

    @staticmethod
    def from_header(header: Mapping[str, Any]) -> RunProblem:
        """The problem in the header of a journal.

        Raises:
            JournalError: the header holds options that are no plain data, or was not written by
                a run.
        """
        try:
            uncertainty = header["uncertainty"]
            settings = {name: header[name] for name in PLAIN_SETTINGS if name in header}
            settings["reference"] = header["reference"]
            settings["uncertainty"] = (
                from_dict(uncertainty) if isinstance(uncertainty, Mapping) else uncertainty
            )
            return RunProblem(
                Space(header["space"]),
                header["contexts"],
                settings,
                header["objective"]["name"],
                header["objective"]["fingerprint"],
            )
        except (KeyError, TypeError, DrbqoError) as error:
            raise JournalError(
                f"Record 0 of the journal, its header, does not describe a run that can be rebuilt:"
                f" {error}. Resume it with the script that started it."
            ) from error

    def plain_config(self, config: Config) -> dict[str, Any]:
        """A config as plain data; an option that is not plain is named by its number."""
        plain = {}
        for name, value in config.items():
            parameter = self.space.parameters[name]
            if isinstance(parameter, Choice) and not _is_plain(value):
                value = {_OPTION: parameter.find(name, value)}
            plain[name] = value
        return plain

    def config(self, plain: Mapping[str, Any]) -> Config:
        """The config with this plain form."""
        config = {}
        for name, value in plain.items():
            parameter = self.space.parameters.get(name)
            if (
                isinstance(value, dict)
                and set(value) == {_OPTION}
                and isinstance(parameter, Choice)
            ):
                value = parameter.options[value[_OPTION]]
            config[name] = value
        return config


def _plain_parameter(item: dict[str, Any]) -> dict[str, Any]:
    if "options" not in item:
        return item
    return {**item, "options": [_plain_option(option) for option in item["options"]]}


def _plain_option(option: object) -> object:
    if _is_plain(option):
        return option
    name = getattr(option, "__qualname__", None)
    text = f"{getattr(option, '__module__', '?')}:{name}" if name else short_repr(option, 1000)
    return {"object": _ADDRESS.sub("", text)}


def _is_plain(value: object) -> bool:
    try:
        check_plain({"value": value})
    except InvalidInput:
        return False
    return not isinstance(value, tuple)
