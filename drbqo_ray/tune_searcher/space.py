"""A nested search space of Ray Tune <-> our flat Space, without importing Ray.

The nested structure is kept as a tree whose leaves are constants or parameters. A parameter is
named by its path, "model/layers/0/width". Options of a choice that are not plain numbers or
strings are searched by their number and handed out untouched, so a config of the flat space is
always plain data. Options may hold domains of their own: these are active with their option.
Plain-data forms hold scalars and small arrays of numpy exactly.
"""

from __future__ import annotations

import base64
import math
import numbers
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drbqo_ray.errors import InvalidInput, short_repr
from drbqo_ray.records import Config
from drbqo_ray.space.foreign import (
    from_scipy,
    from_tune,
    is_scipy_distribution,
    is_tune_domain,
    refuse_grid,
)
from drbqo_ray.space.parameters import Choice, Float, Int, Parameter, same
from drbqo_ray.space.space import Space
from drbqo_ray.storage.journal import refuse_changes
from drbqo_ray.types import PLAIN, is_plain, plain

Path = tuple[Any, ...]
Objects = Mapping[tuple[str, int], Any]
MARKERS = ("__ref_ph", "__fn_ph")
"""What Tune puts, with a hash, in place of objects and functions until the trial starts."""
NUMPY_KINDS = "biufcSUmM"
"""Kinds of numpy data that are stored; others hold objects."""
LARGEST_ARRAY = 1 << 20
"""Bytes of an array that is stored; larger ones are described, as objects are."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Constant:
    """A part of the space in which nothing is searched."""

    value: Any


@dataclass(frozen=True)
class Leaf:
    """The value of a parameter."""

    name: str


@dataclass(frozen=True)
class Options:
    """A choice by number: the parameter says which of the nodes is used."""

    name: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Branch:
    """A dict, list or tuple with something to search in it."""

    kind: type
    children: tuple[tuple[Any, Node], ...]


Node = Constant | Leaf | Options | Branch


@dataclass(frozen=True)
class TuneSpace:
    """A nested search space.

    Attributes:
        root: its structure.
        space: its parameters, flat.
    """

    root: Node
    space: Space

    @staticmethod
    def of(config: Mapping[str, Any] | Space) -> TuneSpace | None:
        """The space in a Tune config or in a Space of ours; None if there is nothing to search.

        Raises:
            InvalidInput: it holds a grid search, or a domain that cannot be searched.
        """
        if not isinstance(config, (Mapping, Space)):
            raise InvalidInput(
                "A search space is a dict, or a Space.", config, 'Write {"C": tune.uniform(0, 1)}.'
            )
        build = _Builder()
        root = build.node(config.parameters if isinstance(config, Space) else config, (), {})
        return TuneSpace(root, Space(build.finished())) if build.parameters else None

    def fill(self, values: Config) -> Any:
        """The nested config for flat values."""
        return _fill(self.root, values, {})

    def answer(self, values: Config, objects: Objects) -> Any:
        """The nested config for a reader: options in `objects` put in place of Tune's markers,
        other marked entries left out, as only Tune knows what they stand for."""
        return _without_markers(_fill(self.root, values, objects))

    def marked_options(self, values: Config, config: Mapping[str, Any]) -> Objects:
        """What stands in a nested config where the option for the flat values is a marker."""
        return dict(_marked_options(self.root, values, config))

    def read(self, config: Mapping[str, Any], strict: bool = False) -> Config:
        """The flat values found in a nested config, which may hold anything else besides.

        Args:
            config: nested as the space; parameters may be missing.
            strict: refuse keys that the space does not have.

        Raises:
            InvalidInput: no option of a choice matches, or a key is unknown and `strict`.
        """
        return dict(self._read(self.root, config, "", strict))

    def _read(self, node: Node, value: Any, place: str, strict: bool) -> Iterator[tuple[str, Any]]:
        if isinstance(node, Leaf):
            yield node.name, _settled(self.space.parameters[node.name], plain(value))
        elif isinstance(node, Options):
            k = self._option(node, value)
            yield node.name, k
            yield from self._read(node.nodes[k], value, place, strict)
        elif isinstance(node, Branch):
            found = dict(_items(value))
            unknown = set(found) - {str(key) for key, _ in node.children}
            if unknown and strict:
                raise InvalidInput(
                    f"A point has only keys of the search space{place}.",
                    sorted(unknown),
                    f"Use {[key for key, _ in node.children]}.",
                )
            for key, child in node.children:
                if str(key) in found:
                    inside = f"{place} under {key!r}"
                    yield from self._read(child, found[str(key)], inside, strict)

    def _option(self, node: Options, value: Any) -> int:
        for k, option in enumerate(node.nodes):
            if isinstance(option, Constant) and same(option.value, value):
                return k
        for k, option in enumerate(node.nodes):
            if self._matches(option, value):
                return k
        raise InvalidInput(
            f"{node.name!r} must be one of its {len(node.nodes)} options.", value, "Pick one."
        )

    def _matches(self, node: Node, value: Any) -> bool:
        if isinstance(node, Constant):
            return _alike(node.value, value)
        if isinstance(node, Leaf):
            try:
                item = self.space.parameters[node.name]
                item.check(node.name, _settled(item, plain(value)))
            except InvalidInput:
                return False
            return True
        if isinstance(node, Options):
            return any(self._matches(option, value) for option in node.nodes)
        found = dict(_items(value))
        keys = [str(key) for key, _ in node.children]
        return set(found) == set(keys) and all(
            self._matches(child, found[str(key)]) for key, child in node.children
        )

    def complete(self, values: Config, rng: np.random.Generator) -> Config:
        """A config with these flat values, the missing ones drawn at random.

        Raises:
            InvalidInput: a value is not in the space.
        """
        checked = {n: self.space.parameters[n].check(n, value) for n, value in values.items()}
        u = rng.random(len(self.space))
        for i, (name, item) in enumerate(self.space.parameters.items()):
            if name in checked:
                u[i] = item.to_unit(checked[name])
        drawn = self.space.from_unit(u)
        return {name: checked.get(name, value) for name, value in drawn.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form; objects are described, not stored."""
        return {"root": _encode(self.root), "parameters": plain(self.space.to_dict())}

    def refuse_change(self, stored: Mapping[str, Any], where: str) -> None:
        """Raise ProblemChanged unless this is the space with a plain-data form, or with one of an
        earlier version, which only described what is of numpy."""
        own = self.to_dict()
        old, described = _without_numpy(stored), _without_numpy(own)
        refuse_changes({"space": old}, {"space": described}, where)
        if stored != described:
            refuse_changes({"space": stored}, {"space": own}, where)

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> TuneSpace:
        """The space with this plain-data form.

        Raises:
            InvalidInput: it holds objects, which plain data only describes.
        """
        return TuneSpace(_decode(stored["root"]), Space(stored["parameters"]))


@dataclass
class _Builder:
    parameters: dict[str, Parameter] = field(default_factory=dict)
    numbered: dict[str, Choice] = field(default_factory=dict)
    inside: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def node(self, value: Any, path: Path, when: dict[str, list[int]]) -> Node:
        """The node of a part of the space at `path`, inside the options `when` names."""
        name = "/".join(str(part) for part in path)
        if isinstance(value, Mapping) and set(value) == {"grid_search"}:
            refuse_grid(name, value["grid_search"])
        if isinstance(value, Mapping) and set(value) == {"eval"}:
            raise InvalidInput(
                f"{name!r} must be a domain.", value, "Use tune.sample_from in the param_space."
            )
        if is_tune_domain(value):
            return self.parameter(name, path, from_tune(name, value), when)
        if is_scipy_distribution(value):
            return self.parameter(name, path, from_scipy(name, value), when)
        if isinstance(value, (Float, Int, Choice)):
            return self.parameter(name, path, value, when)
        if isinstance(value, (Mapping, list, tuple)):
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            children = tuple((key, self.node(item, (*path, key), when)) for key, item in items)
            if any(not isinstance(child, Constant) for _, child in children):
                return Branch(_kind(value), children)
        return Constant(value)

    def parameter(self, name: str, path: Path, item: Parameter, when: dict[str, list[int]]) -> Node:
        """The node of a parameter, which is taken note of."""
        if name in self.parameters:
            raise InvalidInput(
                "Two parameters have one path.", name, "Rename a key with '/' in it."
            )
        self.parameters[name] = item
        self.inside[name] = when
        if not isinstance(item, Choice) or all(map(is_plain, item.options)):
            return Leaf(name)
        self.numbered[name] = item
        self.parameters[name] = Choice(range(item.count), when=item.when)
        nodes = (
            self.node(option, (*path, k), {name: [k]}) for k, option in enumerate(item.options)
        )
        return Options(name, tuple(nodes))

    def finished(self) -> dict[str, Parameter]:
        """The parameters, with conditions on numbered options told by number."""
        found = {}
        for name, item in self.parameters.items():
            when = {
                parent: [self.numbered[parent].find(parent, v) for v in values]
                if parent in self.numbered
                else values
                for parent, values in item.when.items()
            }
            found[name] = replace(item, when=when | self.inside[name])
        return found


def _alike(a: Any, b: Any) -> bool:
    """Whether two values are equal, lists and tuples being one kind, as they are in JSON."""
    if any(isinstance(a, kind) and isinstance(b, kind) for kind in (dict, (list, tuple))):
        first, second = dict(_items(a)), dict(_items(b))
        return set(first) == set(second) and all(_alike(first[key], second[key]) for key in first)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    return same(a, b, exact=False)


def _settled(item: Parameter, value: Any) -> Any:
    """The value on the parameter's grid if it is one but for rounding, as Tune's 3 * 0.1 is."""
    if not isinstance(item, Float) or item.step is None:
        return value
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if number and item.low - item.step <= value <= item.high + item.step:
        nearest = item.from_unit(item.to_unit(min(max(float(value), item.low), item.high)))
        return nearest if math.isclose(nearest, value, abs_tol=1e-9 * item.step) else value
    return value


def _kind(value: object) -> type:
    return dict if isinstance(value, Mapping) else list if isinstance(value, list) else tuple


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Members of a dict, list or tuple by key as text, as in Tune's flat results."""
    if isinstance(value, Mapping):
        yield from ((str(key), item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((str(i), item) for i, item in enumerate(value))


def _fill(node: Node, values: Config, objects: Objects) -> Any:
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Leaf):
        return values.get(node.name)
    if isinstance(node, Options):
        k = values[node.name]
        known = (node.name, k) in objects
        return objects[node.name, k] if known else _fill(node.nodes[k], values, objects)
    if node.kind is dict:
        active = (
            (key, child)
            for key, child in node.children
            if not isinstance(child, (Leaf, Options)) or child.name in values
        )
        return {key: _fill(child, values, objects) for key, child in active}
    return node.kind(_fill(child, values, objects) for _, child in node.children)


def _marked(value: Any) -> bool:
    """Whether a value is, or has in it, one of Tune's markers."""
    if isinstance(value, tuple) and value and value[0] in MARKERS:
        return True
    return any(_marked(item) for _, item in _items(value))


def _without_markers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_markers(item) for key, item in value.items() if not _marked(item)}
    return value


def _marked_options(
    node: Node, values: Config, value: Any
) -> Iterator[tuple[tuple[str, int], Any]]:
    if isinstance(node, Options):
        k = values[node.name]
        option = node.nodes[k]
        if isinstance(option, Constant) and _marked(option.value) and not _marked(value):
            yield (node.name, k), value
        yield from _marked_options(option, values, value)
    elif isinstance(node, Branch):
        found = dict(_items(value))
        for key, child in node.children:
            if str(key) in found:
                yield from _marked_options(child, values, found[str(key)])


def encode_small(value: Any) -> dict[str, Any] | None:
    """Plain-data form of a number or string, Python's or numpy's; None for anything else."""
    small = type(value) in PLAIN or (isinstance(value, np.generic) and _is_stored(value))
    return _encode_constant(value) if small else None


def decode_small(stored: Mapping[str, Any]) -> Any:
    """The number or string with this plain-data form."""
    return _fill(_decode(stored), {}, {})


def _encode(node: Node) -> dict[str, Any]:
    if isinstance(node, Constant):
        return _encode_constant(node.value)
    if isinstance(node, Leaf):
        return {"leaf": node.name}
    if isinstance(node, Options):
        return {"choice": node.name, "options": [_encode(option) for option in node.nodes]}
    return {
        node.kind.__name__: [
            [_encode_constant(key), _encode(child)] for key, child in node.children
        ]
    }


def _encode_constant(value: Any) -> dict[str, Any]:
    if is_plain(value):
        return {"value": value}
    if type(value) is float:
        return {"float": repr(value)}
    if _is_stored(value):
        array = np.asarray(value)
        data = base64.b64encode(array.tobytes()).decode("ascii")
        shape = list(array.shape) if value is array else None
        return {"numpy": data, "dtype": array.dtype.str, "shape": shape}
    if type(value) in (dict, list, tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        pairs = [[_encode_constant(key), _encode_constant(item)] for key, item in items]
        return {type(value).__name__: pairs}
    return _describe(value)


def _describe(value: Any) -> dict[str, Any]:
    name = getattr(value, "__qualname__", None)
    text = f"{getattr(value, '__module__', '?')}:{name}" if name else short_repr(value, 1000)
    return {"object": _ADDRESS.sub("", text)}


def _decode(stored: Mapping[str, Any]) -> Node:
    if "value" in stored:
        return Constant(stored["value"])
    if "float" in stored:
        return Constant(float(stored["float"]))
    if "numpy" in stored:
        return Constant(_decode_numpy(stored))
    if "leaf" in stored:
        return Leaf(stored["leaf"])
    if "choice" in stored:
        return Options(stored["choice"], tuple(_decode(option) for option in stored["options"]))
    for kind in (dict, list, tuple):
        if kind.__name__ in stored:
            children = tuple(
                (_fill(_decode(key), {}, {}), _decode(child))
                for key, child in stored[kind.__name__]
            )
            branch = Branch(kind, children)
            settled = all(isinstance(child, Constant) for _, child in children)
            return Constant(_fill(branch, {}, {})) if settled else branch
    raise InvalidInput(
        "A saved search space can be rebuilt when it holds plain data only.",
        stored.get("object"),
        "Give the same space to DRBQOSearch(space=...) before you restore it.",
    )


def _is_stored(value: Any) -> bool:
    """Whether a value is of numpy, and is stored exactly."""
    ours = type(value) is np.ndarray or isinstance(value, np.generic)
    return ours and value.dtype.kind in NUMPY_KINDS and value.nbytes <= LARGEST_ARRAY


def _decode_numpy(stored: Mapping[str, Any]) -> Any:
    data, dtype = base64.b64decode(stored["numpy"], validate=True), np.dtype(stored["dtype"])
    if dtype.kind not in NUMPY_KINDS:
        raise ValueError(f"data of type {dtype} are not stored")
    array = np.ndarray(stored["shape"] or (), dtype, data).copy()
    return array[()] if stored["shape"] is None else array


def _without_numpy(stored: Any) -> Any:
    """A plain-data form as it was when numpy's data were described, not stored."""
    if isinstance(stored, dict) and "numpy" in stored:
        return _describe(_decode_numpy(stored))
    if isinstance(stored, dict):
        return {key: _without_numpy(item) for key, item in stored.items()}
    return [_without_numpy(item) for item in stored] if isinstance(stored, list) else stored
