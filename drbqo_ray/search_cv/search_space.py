"""The space of a search: one dict, or a list of dicts of which every config fills one.

A list is searched as one conditional space. A choice that is hidden from the user says which dict
a config comes from, and a parameter is active only with the dicts that hold it:

    [{"kernel": ["rbf"], "C": low}, {"kernel": ["poly"], "C": low, "degree": [2, 3]}]

    dict no.            0, 1
    kernel of dict 0    "rbf"      when dict no. is 0
    kernel of dict 1    "poly"     when dict no. is 1
    C                   low        always: one axis to the model, which learns from both dicts
    degree              2, 3       when dict no. is 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from drbqo_ray.errors import InvalidInput
from drbqo_ray.records import Config
from drbqo_ray.space.foreign import convert_space
from drbqo_ray.space.parameters import Choice, Float, Int, Parameter, same
from drbqo_ray.space.space import Space

DICT = "dict no."
"""Name of the hidden choice, which no parameter of an estimator can have."""

Parameters = dict[str, Parameter]


class SearchSpace:
    """A space as the optimizer searches it, and how its configs read to the user.

    Args:
        given: a Space, a dict as RobustSearchCV takes it, or a list of these.

    Attributes:
        space: what the optimizer searches; no parameter in it is the user's own object, which
            `fit` must not change.
        names: parameter of `space` -> what the user calls it; the hidden choice is not in it.
    """

    def __init__(self, given: Any) -> None:
        dicts = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(dicts) == 1:
            self.space = _own_space(dicts[0])
            self.names = {name: name for name in self.space}
            return
        if not dicts:
            raise InvalidInput("A list of dicts holds at least one.", given, "Add a dict.")
        self.space, self.names = _union([_own_parameters(item) for item in dicts])

    @property
    def order(self) -> list[str]:
        """Parameters of `space`, those first that change slowest in the order of a grid."""
        hidden = [name for name in self.space if name not in self.names]
        return hidden + sorted(self.names, key=lambda name: self.names[name])

    def params(self, config: Mapping[str, Any]) -> Config:
        """A config of `space` as parameters of the estimator."""
        return {self.names[name]: value for name, value in config.items() if name in self.names}


def _own_space(given: Any) -> Space:
    """One dict as a space. Tuples, ranges and arrays of options are read as lists."""
    if isinstance(given, Space):
        given = given.parameters
    if isinstance(given, Mapping):
        given = convert_space({name: _listed(value) for name, value in given.items()})
        given = {k: replace(v) if isinstance(v, (Float, Int)) else v for k, v in given.items()}
    return Space(given)


def _own_parameters(given: Any) -> Parameters:
    """One dict of several; an empty one is the estimator as it is."""
    empty = isinstance(given, Mapping) and not given
    return {} if empty else _own_space(given).parameters


def _listed(value: Any) -> Any:
    array = isinstance(value, np.ndarray) and value.ndim == 1
    return list(value) if array or isinstance(value, (tuple, range)) else value


def _union(dicts: Sequence[Parameters]) -> tuple[Space, dict[str, str]]:
    """The space of all dicts together, and what the user calls its parameters."""
    labels = _labels(dicts)
    names: dict[str, str] = {}
    parameters: Parameters = {DICT: Choice(range(len(dicts)))}
    for number, own in enumerate(dicts):
        for name, parameter in own.items():
            label = labels[number][name]
            holders = [k for k, other in enumerate(labels) if other.get(name) == label]
            when = {labels[number][parent]: values for parent, values in parameter.when.items()}
            if len(holders) < len(dicts):
                when[DICT] = holders
            parameters[label] = replace(parameter, when=when)
            names[label] = name
    return Space(parameters), names


def _labels(dicts: Sequence[Parameters]) -> list[dict[str, str]]:
    """For every dict: parameter -> its name in the union, the same where dicts hold it alike."""
    labels: list[dict[str, str]] = [{} for _ in dicts]
    for name in dict.fromkeys(name for own in dicts for name in own):
        holders = [k for k, own in enumerate(dicts) if name in own]
        first = {k: _first_alike(name, dicts, holders, k) for k in holders}
        for k in holders:
            labels[k][name] = (
                name if len(set(first.values())) == 1 else f"{name} of dict {first[k]}"
            )
    return labels


def _first_alike(name: str, dicts: Sequence[Parameters], holders: list[int], number: int) -> int:
    """The first dict that holds a parameter as dict `number` does."""
    mine = dicts[number][name]
    return next(k for k in holders if k == number or _alike(dicts[k][name], mine))


def _alike(one: Parameter, other: Parameter) -> bool:
    """Whether a parameter of one dict can be that of another: equal and free of conditions."""
    if one.when or other.when or type(one) is not type(other):
        return False
    if isinstance(one, Choice) and isinstance(other, Choice):
        return one.count == other.count and all(map(same, one.options, other.options))
    return one == other
