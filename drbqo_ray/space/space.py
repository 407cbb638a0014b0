"""The search space: named parameters <-> points of the unit cube <-> model inputs.

| symbol | meaning                                              | shape  |
|--------|------------------------------------------------------|--------|
| p      | number of parameters                                 |        |
| u      | a config as a point of the unit cube, one number each | (p,)  |
| z      | the same as model inputs, choices one-hot            | (d,)   |

A *snapped* point is one that stands for a real config: whole numbers and steps on
their grid, choices in the middle of their cell, inactive parameters at 1/2 (so that
they add no distance between two configs).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from drbqo_ray.errors import InvalidInput, short_repr
from drbqo_ray.records import Config
from drbqo_ray.space.foreign import Normal, convert_domain
from drbqo_ray.space.parameters import MAX_GRID, Choice, Float, Int, Parameter, same
from drbqo_ray.types import Array

KINDS: dict[str, type[Parameter]] = {
    "float": Float,
    "int": Int,
    "choice": Choice,
    "normal": Normal,
}
REST = 0.5
WITHIN_CELL = 0.25 / MAX_GRID


class Space:
    """An ordered set of named parameters, some of them conditional on others.

    Args:
        parameters: name -> Float, Int or Choice, or the plain-data form of one,
            such as {"type": "float", "low": 1e-3, "high": 1e3, "log": True}. Domains of Ray Tune,
            frozen distributions of scipy.stats and lists of options are read as well.
    """

    def __init__(self, parameters: Mapping[str, Parameter | Mapping[str, Any]]) -> None:
        if not isinstance(parameters, Mapping) or not parameters:
            raise InvalidInput(
                "A space is a non-empty dict of name -> parameter.",
                parameters,
                'Write dr.Space({"C": dr.Float(1e-2, 1e3, log=True)}).',
            )
        self.parameters = {_name(name): _parameter(name, item) for name, item in parameters.items()}
        self._order = self._parents_first()
        column = itertools.accumulate(
            (item.n_features for item in self.parameters.values()), initial=0
        )
        self._columns = dict(zip(self.parameters, column, strict=False))
        self._index = {name: i for i, name in enumerate(self.parameters)}
        self._conditions = {
            name: {parent: self._values(parent, values) for parent, values in item.when.items()}
            for name, item in self.parameters.items()
            if item.when
        }

    def __repr__(self) -> str:
        return f"Space({self.parameters!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.parameters == other.parameters

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    @property
    def n_features(self) -> int:
        """Number of model inputs d."""
        return sum(item.n_features for item in self.parameters.values())

    @property
    def continuous(self) -> npt.NDArray[np.bool_]:
        """Which parameters move continuously, (p,)."""
        return np.array([item.count == 0 for item in self.parameters.values()])

    @property
    def feature_columns(self) -> npt.NDArray[np.int64]:
        """First model-input column of each parameter, (p,)."""
        return np.array(list(self._columns.values()), dtype=np.int64)

    def validate(self, config: Mapping[str, Any]) -> Config:
        """The config with exact values, inactive parameters left out.

        Raises:
            InvalidInput: a key is unknown or missing, or a value is not in the space.
        """
        if not isinstance(config, Mapping):
            raise InvalidInput("A config is a dict of name -> value.", config, "Pass a dict.")
        unknown = [name for name in config if name not in self.parameters]
        if unknown:
            raise InvalidInput(
                f"A config has only the parameters {list(self.parameters)}.",
                unknown,
                "Drop or rename the unknown keys.",
            )
        found: Config = {}
        for name in self._order:
            if not self._wanted(name, found):
                continue
            if name not in config:
                raise InvalidInput(
                    "A config has a value for every active parameter.",
                    dict(config),
                    f"Add {name!r}.",
                )
            found[name] = self.parameters[name].check(name, config[name])
        return {name: found[name] for name in self.parameters if name in found}

    def to_unit(self, config: Mapping[str, Any]) -> Array:
        """The snapped point (p,) of a config."""
        valid = self.validate(config)
        u = np.full(len(self), REST)
        for name, value in valid.items():
            u[self._index[name]] = self.parameters[name].to_unit(value)
        return self.snap(u[None])[0]

    def from_unit(self, u: Array) -> Config:
        """The config at a point (p,) of the unit cube."""
        found: Config = {}
        for name in self._order:
            if self._wanted(name, found):
                found[name] = self.parameters[name].from_unit(float(u[self._index[name]]))
        return {name: found[name] for name in self.parameters if name in found}

    def snap(self, u: Array) -> Array:
        """The snapped points (k, p) that stand for the configs at points (k, p)."""
        columns = [item.snap(u[:, i]) for i, item in enumerate(self.parameters.values())]
        snapped = np.stack(columns, axis=1)
        return np.where(self.active(snapped), snapped, REST) if self._conditions else snapped

    def active(self, u: Array) -> npt.NDArray[np.bool_]:
        """Which parameters are active at each snapped point: (k, p) -> (k, p)."""
        active = np.ones(u.shape, dtype=bool)
        for name in self._order:
            i = self._index[name]
            for parent, values in self._conditions.get(name, {}).items():
                j = self._index[parent]
                item = self.parameters[parent]
                at = item.snap(np.array([item.to_unit(value) for value in values]))
                hit = (np.abs(u[:, j, None] - at) <= WITHIN_CELL).any(axis=1)
                active[:, i] &= active[:, j] & hit
        return active

    def features(self, u: Array) -> Array:
        """Model inputs (k, d) of snapped points (k, p); inactive choices share a neutral value."""
        if not self._conditions:
            blocks = [item.features(u[:, i]) for i, item in enumerate(self.parameters.values())]
            return np.concatenate(blocks, axis=1)
        active = self.active(u)
        blocks = []
        for i, item in enumerate(self.parameters.values()):
            neutral = 1 / max(item.n_features, 2)
            blocks.append(np.where(active[:, i, None], item.features(u[:, i]), neutral))
        return np.concatenate(blocks, axis=1)

    def encode(self, configs: Sequence[Mapping[str, Any]]) -> Array:
        """Model inputs (m, d) of m configs, which are checked."""
        points = [self.to_unit(self.validate(config)) for config in configs]
        return self.features(np.reshape(points, (len(points), len(self))))

    def neighbors(self, u: Array) -> Array:
        """Snapped points (m, p) that differ from the snapped u (p,) in one discrete parameter."""
        active = self.active(u[None])[0]
        rows = []
        for i, item in enumerate(self.parameters.values()):
            for position in item.moves(float(u[i])) if active[i] else ():
                row = u.copy()
                row[i] = position
                rows.append(row)
        return self.snap(np.array(rows)) if rows else np.empty((0, len(self)))

    def grid(self, limit: int) -> Array | None:
        """All configs as snapped points (k, p), None if there are more than `limit` of them.

        A parameter multiplies only the configs in which it is active.
        """
        points = np.full((1, len(self)), REST)
        for name in self._order:
            i, item = self._index[name], self.parameters[name]
            active = self.active(points)[:, i]
            size = int(active.sum())
            if size and (item.count == 0 or size * item.count + len(points) - size > limit):
                return None
            if size:
                longer = np.repeat(points[active], item.count, axis=0)
                longer[:, i] = np.tile(_positions(item), size)
                points = np.concatenate([points[~active], longer])
        return np.unique(self.snap(points), axis=0)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain-data form, accepted by `Space(...)` again."""
        return {name: item.to_dict() for name, item in self.parameters.items()}

    def _wanted(self, name: str, found: Config) -> bool:
        return all(
            parent in found and any(same(found[parent], value) for value in values)
            for parent, values in self._conditions.get(name, {}).items()
        )

    def _values(self, parent: str, values: Sequence[Any]) -> list[Any]:
        """Values of a condition as the parent has them."""
        return [self.parameters[parent].check(parent, value) for value in values]

    def _parents_first(self) -> list[str]:
        order: list[str] = []
        waiting = dict(self.parameters)
        for name, item in waiting.items():
            self._check_condition(name, item)
        while waiting:
            ready = [n for n, item in waiting.items() if all(p in order for p in item.when)]
            if not ready:
                raise InvalidInput(
                    "Conditions must not run in a circle.", sorted(waiting), "Break the circle."
                )
            order += ready
            for name in ready:
                del waiting[name]
        return order

    def _check_condition(self, name: str, item: Parameter) -> None:
        if not isinstance(item.when, Mapping):
            raise InvalidInput(
                f"`when` of {name!r} is a dict of parameter -> list of values.",
                item.when,
                'Write when={"kernel": ["poly"]}.',
            )
        for parent, values in item.when.items():
            if parent not in self.parameters or self.parameters[parent].count == 0:
                raise InvalidInput(
                    f"`when` of {name!r} must name a Choice, Int or stepped parameter.",
                    parent,
                    f"Choose from {[n for n, i in self.parameters.items() if i.count]}.",
                )
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise InvalidInput(
                    f"`when` of {name!r} needs a list of values.", values, "Wrap it in []."
                )
            self._values(parent, values)


def as_space(space: Space | Mapping[str, Any]) -> Space:
    """The space itself, or one built from a dict of parameters."""
    return space if isinstance(space, Space) else Space(space)


def _positions(item: Parameter) -> Array:
    """Positions of all values of a discrete parameter, (count,)."""
    index = np.arange(item.count)
    return (index + 0.5) / item.count if isinstance(item, Choice) else item.axis.position(index)


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInput("Parameter names are non-empty strings.", name, "Rename it.")
    return name


def _parameter(name: str, item: object) -> Parameter:
    item = convert_domain(name, item)
    if isinstance(item, (Float, Int, Choice)):
        return item
    kind_name = item.get("type") if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or not isinstance(kind_name, str) or kind_name not in KINDS:
        raise InvalidInput(
            f"Parameter {name!r} must be a Float, Int or Choice.",
            item,
            'Write dr.Float(low, high), or {"type": "float", "low": 0.1, "high": 1.0}.',
        )
    kind = KINDS[kind_name]
    known = {f.name for f in fields(kind)}
    unknown = [key for key in item if key != "type" and key not in known]
    missing = [key for key in known & {"low", "high", "options"} if key not in item]
    if unknown or missing:
        raise InvalidInput(
            f"Parameter {name!r} of type {kind_name!r} takes the keys {sorted(known)}.",
            dict(item),
            f"Drop {short_repr(unknown)} and add {missing}.",
        )
    return kind(**{key: value for key, value in item.items() if key != "type"})
