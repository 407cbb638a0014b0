"""What a run is about (`Problem`), how it is run (`Limits`), and the one list of its `Settings`.

Everything that takes or keeps options of `Optimizer` goes by `Settings`: `run`, `run_many`,
`DRBQOSearch`, the journal's header and what a resumed run is compared by, the code in reports, and
the state of a Tune search. An option that is added to `Optimizer` and named there is known to all
of them.
"""

from __future__ import annotations

import inspect
import math
import numbers
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import wraps
from typing import Any, Literal, TypedDict, TypeVar, cast

import numpy.typing as npt

from drbqo_ray.core.contexts import check_contexts, context_names
from drbqo_ray.core.paths import Sampler
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
NO_LIMIT = 2**62
F = TypeVar("F", bound=Callable[..., Any])


class SettingsWithoutMode(TypedDict, total=False):
    """The keyword arguments of `Optimizer` but for the mode, which Tune knows by itself, and for
    `cost_aware`: it tells no seconds."""

    method: str
    uncertainty: UncertaintySet | float | str
    n_initial: int | None
    kernel: str
    context_rule: str | None
    reference: npt.ArrayLike | None
    seed: int
    sampler: Sampler
    hyperparameters: Literal["map", "mle"]
    fixed_seed: bool
    stop_when: str | None


class Settings(SettingsWithoutMode, total=False):
    """The keyword arguments of `Optimizer`, which says what each of them means."""

    mode: Literal["max", "min"]
    cost_aware: bool


_OPTIONS = {
    name: option
    for name, option in inspect.signature(Optimizer).parameters.items()
    if name in Settings.__annotations__
}
SETTINGS = tuple(_OPTIONS)
"""Their names, in the order of `Optimizer`."""
DEFAULTS = {name: option.default for name, option in _OPTIONS.items()}
CHANGEABLE = ("fixed_seed", "stop_when", "cost_aware")
"""Settings that a resumed run may change: they are kept with its sessions, not in its header."""
_ALWAYS = frozenset((*SETTINGS[:8], *CHANGEABLE))
"""Settings that every problem names; others only if they are not as by default, for old headers."""


def takes_settings(without: Collection[str] = (), **defaults: Any) -> Callable[[F], F]:
    """Decorates a function that takes `**settings: Unpack[Settings]`.

    Its signature shows them all, and a name that is no argument is refused with the name that may
    have been meant.

    Args:
        without: settings that it does not take.
        defaults: settings that have another default here than for `Optimizer`.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        more = [_OPTIONS[name] for name in SETTINGS if name not in without]
        more = [one.replace(default=defaults.get(one.name, one.default)) for one in more]
        shown = signature.replace(parameters=[*own, *more])

        @wraps(function)
        def checked(*arguments: Any, **given: Any) -> Any:
            check_names(given, list(shown.parameters))
            return function(*arguments, **{**defaults, **given})

        checked.__signature__ = shown  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorate


def check_names(given: Collection[str], known: Collection[str]) -> None:
    """Raise InvalidInput for the first name that is none of those known."""
    for name in given:
        if name not in known:
            meant = get_close_matches(name, known, 1)
            cure = f"Did you mean {meant[0]!r}?" if meant else f"Use one of {sorted(known)}."
            raise InvalidInput("Every argument must be one we know.", name, cure)


@dataclass(frozen=True)
class Problem:
    """What one run is about; two runs with equal headers can continue each other.

    Attributes:
        space: the search space.
        contexts: number of folds, their names, or sample vectors as rows of a list.
        settings: keyword arguments of `Optimizer`, the uncertainty set included.
        objective: name of the objective.
        fingerprint: what the objective says about its data, None when it says nothing.
    """

    space: Space
    contexts: int | list[str] | list[list[float]]
    settings: dict[str, Any]
    objective: str
    fingerprint: str | None = None

    @staticmethod
    def of(
        space: Space | Mapping[str, Any],
        contexts: int | Sequence[str] | npt.ArrayLike,
        settings: Mapping[str, Any],
        objective: object,
        name: str,
    ) -> Problem:
        """The problem a user states; every argument is checked by making its optimizer.

        Settings are plain Python from here on, whatever numbers and texts of numpy were passed. An
        objective with an attribute `deterministic` that is True sets `fixed_seed` by itself.
        """
        check_names(settings, SETTINGS)
        if getattr(objective, "deterministic", False) is True:
            settings = {"fixed_seed": True, **settings}
        checked = check_contexts(contexts)
        listed = list(context_names(contexts)) or (
            checked if isinstance(checked, int) else checked.tolist()
        )
        told = getattr(objective, "fingerprint", None)
        told = told() if callable(told) else told
        told = None if told is None else str(told)
        problem = Problem(as_space(space), listed, _completed(settings), name, told)
        optimizer = problem.optimizer()
        check_folds(objective, optimizer.n_contexts)
        found = problem.settings | {
            "uncertainty": optimizer.uncertainty,
            "n_initial": optimizer.n_initial,
            "seed": optimizer.seed,
        }
        if found["reference"] is not None:
            found["reference"] = [float(weight) for weight in optimizer.reference]
        return replace(problem, settings=found)

    @property
    def n_folds(self) -> int:
        """Number of folds, or of samples."""
        return self.contexts if isinstance(self.contexts, int) else len(self.contexts)

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the folds in their order; empty where they are counted."""
        return context_names(self.contexts)

    def optimizer(self) -> Optimizer:
        """A fresh optimizer for the problem."""
        return Optimizer(self.space, self.contexts, **self.settings)

    def header(self) -> dict[str, Any]:
        """The problem as plain data."""
        uncertainty = self.settings.get("uncertainty", 1.0)
        apart = ("uncertainty", "reference", *CHANGEABLE)
        return {
            "space": {name: _plain_parameter(item) for name, item in self.space.to_dict().items()},
            "contexts": self.contexts,
            "uncertainty": uncertainty.to_dict()
            if isinstance(uncertainty, UncertaintySet)
            else uncertainty,
            "reference": self.settings.get("reference"),
            **{name: value for name, value in self.settings.items() if name not in apart},
            "objective": {"name": self.objective, "fingerprint": self.fingerprint},
        }

    @staticmethod
    def from_header(header: Mapping[str, Any]) -> Problem:
        """The problem in the header of a journal.

        Raises:
            JournalError: the header holds options that are no plain data, or was not written by
                a run.
        """
        try:
            uncertainty = header["uncertainty"]
            settings = {name: header[name] for name in SETTINGS if name in header}
            settings["reference"] = header["reference"]
            settings["uncertainty"] = (
                from_dict(uncertainty) if isinstance(uncertainty, Mapping) else uncertainty
            )
            return Problem(
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
            elif isinstance(parameter, Choice):  # the user's own option, such as a numpy number
                value = parameter.check(name, value)
            config[name] = value
        return config


@dataclass(frozen=True)
class Limits:
    """How evaluations are run; plain Python numbers, whatever was passed.

    Attributes:
        n_evaluations: evaluations in all, failed ones included; None: as the time budget allows.
        resources: what one evaluation needs.
        max_in_flight: evaluations of the run at a time, None for as many as fit.
        timeout_seconds: longest time one evaluation may run, None without limit.
        max_retries: how often an evaluation is started again after its worker, its node or its
            memory was lost.
        max_consecutive_failures: failures in a row that stop the run; None: no failures do.
        time_budget: seconds that all sessions of the run may take together, None without limit.
        at_deadline: what becomes of evaluations that run when this time is over: "finish" lets them
            come to their end, "stop" ends them without an outcome.
    """

    n_evaluations: int | None
    resources: Mapping[str, float] = field(default_factory=lambda: {"CPU": 1.0})
    max_in_flight: int | None = None
    timeout_seconds: float | None = None
    max_retries: int = 2
    max_consecutive_failures: int | None = 10
    time_budget: float | None = None
    at_deadline: Literal["finish", "stop"] = "finish"

    def __post_init__(self) -> None:
        if self.n_evaluations is None and self.time_budget is None:
            raise InvalidInput(
                "A run needs a number of evaluations, a time budget, or both.",
                None,
                "Pass e.g. n_evaluations=60 or time_budget=600.",
            )
        if self.at_deadline not in ("finish", "stop"):
            rule = "at_deadline says what becomes of evaluations that run when time is over."
            raise InvalidInput(rule, self.at_deadline, 'Pass "finish" or "stop".')
        checked = {
            "resources": check_resources(self.resources),
            "max_retries": _count("max_retries", self.max_retries, 0),
            "timeout_seconds": _time_limit("timeout_seconds", self.timeout_seconds),
            "time_budget": _time_limit("time_budget", self.time_budget),
            "at_deadline": str(self.at_deadline),
        }
        for name in ("n_evaluations", "max_in_flight", "max_consecutive_failures"):
            value = getattr(self, name)
            checked[name] = None if value is None else _count(name, value, 1)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def most(self) -> int:
        """The largest number of evaluations there may be."""
        return NO_LIMIT if self.n_evaluations is None else self.n_evaluations

    @property
    def threads(self) -> int:
        """Threads one evaluation may use."""
        return max(1, int(self.resources["CPU"]))


def _completed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in order: those of every header, and what else is not as by default."""
    asked = {name: given.get(name, DEFAULTS[name]) for name in SETTINGS}
    texts = {name: str(value) for name, value in asked.items() if isinstance(value, str)}
    return {
        name: value
        for name, value in (asked | texts).items()
        if name in _ALWAYS or type(value) is not type(DEFAULTS[name]) or value != DEFAULTS[name]
    }


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


def _time_limit(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            if 0 < float(value) < math.inf:
                return float(value)
    raise InvalidInput(f"{name} is a positive number or None.", value, "Pass e.g. 600.")
