"""The space of a study: read off its trials, for Optuna's spaces are defined while they run.

A name that was suggested with several ranges gets one range that holds them all. A name that only
some trials suggested is conditional, and what it hangs on is found in the trials:

| the name is there if                                 | becomes                               |
|------------------------------------------------------|---------------------------------------|
| a categorical or whole-number parameter has some of  | `when={parent: values}`; whole numbers |
| its values, in all trials so far                     | not seen yet count as the nearest one |
| anything else, such as a float above a threshold     | `when={SHAPE: numbers}`               |

A *shape* is the set of names that a trial suggested; their number is a parameter of its own where
it is needed. It is never passed to Optuna: the objective decides what it asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from drbqo_ray.errors import InvalidInput
from drbqo_ray.records import Config
from drbqo_ray.space.parameters import Choice, Condition, Float, Int, Parameter
from drbqo_ray.space.space import Space

SHAPE = "(shape)"
MOST_VALUES = 64  # of a whole-number parameter that others may hang on

Params = Mapping[str, Any]
Distributions = Mapping[str, BaseDistribution]


@dataclass(frozen=True)
class StudySpace:
    """The space that some trials were drawn from.

    Attributes:
        space: as the optimizer takes it, at least one parameter.
        distributions: as Optuna has them, each as it was suggested last.
        shapes: the sets of names that were suggested together, in the order first seen.
    """

    space: Space
    distributions: dict[str, BaseDistribution]
    shapes: list[frozenset[str]]

    @staticmethod
    def of(trials: Iterable[tuple[Params, Distributions]]) -> StudySpace | None:
        """The space of trials, given as values and distributions by name, folds left out; None if
        none of them suggested anything."""
        seen = [(params, drawn) for params, drawn in trials if params]
        if not seen:
            return None
        whole: dict[str, BaseDistribution] = {}
        last: dict[str, BaseDistribution] = {}
        for _, drawn in seen:
            for name, new in drawn.items():
                whole[name] = merged(whole[name], new) if name in whole else new
                last[name] = new
        shapes = list(dict.fromkeys(frozenset(params) for params, _ in seen))
        rows = [{**params, SHAPE: shapes.index(frozenset(params))} for params, _ in seen]
        return StudySpace(_space(whole, rows, len(shapes)), last, shapes)

    def config(self, params: Params) -> Config:
        """The config of a trial that suggested these values.

        Raises:
            InvalidInput: they are not all that a trial suggests, or lie outside the space.
        """
        if SHAPE not in self.space.parameters:
            return self.space.validate(params)
        names = frozenset(params)
        if names not in self.shapes:
            rule = "A trial suggests the parameters of one before it."
            raise InvalidInput(rule, sorted(names), "Tell a score of such a trial first.")
        return self.space.validate({**params, SHAPE: self.shapes.index(names)})

    def params(self, config: Config) -> dict[str, Any]:
        """The values that a trial of this config suggests."""
        return {name: value for name, value in config.items() if name != SHAPE}


def as_parameter(distribution: BaseDistribution, when: Condition | None = None) -> Parameter:
    """A distribution of Optuna as a parameter of ours."""
    condition: Condition = when or {}
    if isinstance(distribution, CategoricalDistribution):
        return Choice(distribution.choices, when=condition)
    if not isinstance(distribution, (FloatDistribution, IntDistribution)):
        raise InvalidInput(
            "A parameter is a float, an int or categorical.",
            distribution,
            "Use suggest_float, suggest_int or suggest_categorical.",
        )
    low, high, log = distribution.low, distribution.high, distribution.log
    if low == high:
        return Choice((low,), when=condition)
    if isinstance(distribution, IntDistribution):
        return Int(int(low), int(high), log=log, step=distribution.step, when=condition)
    return Float(low, high, log=log, step=distribution.step, when=condition)


def merged(one: BaseDistribution, other: BaseDistribution) -> BaseDistribution:
    """A distribution that holds the values of both; Optuna sees to it that they are of one kind."""
    if one == other or isinstance(one, CategoricalDistribution):
        return other
    assert isinstance(one, (FloatDistribution, IntDistribution))
    assert isinstance(other, (FloatDistribution, IntDistribution))
    low, high = min(one.low, other.low), max(one.high, other.high)
    if isinstance(one, IntDistribution) and isinstance(other, IntDistribution):
        step = math.gcd(one.step, other.step, int(one.low - other.low))
        return IntDistribution(int(low), int(high), log=one.log, step=step)
    same_grid = one.step is not None and one.step == other.step and one.low == other.low
    return FloatDistribution(low, high, log=one.log, step=one.step if same_grid else None)


def _space(distributions: Distributions, rows: Sequence[Mapping[str, Any]], n_shapes: int) -> Space:
    """The space of trials, given as rows of values by name, the shape among them."""
    options = {name: as_parameter(distributions[name]) for name in sorted(distributions)}
    shape = Choice(range(n_shapes))
    parents = _parents(options | {SHAPE: shape}, rows)
    found = {name: replace(item, when=_when(name, parents, rows)) for name, item in options.items()}
    if any(SHAPE in item.when for item in found.values()):
        found[SHAPE] = shape
    return Space(found)


def _parents(options: Mapping[str, Parameter], rows: Sequence[Params]) -> dict[str, Parameter]:
    """Parameters that others may hang on: choices first, then small ranges of whole numbers, then
    the shape, on which anything can."""

    def rank(name: str) -> tuple[bool, bool, int, str]:
        item = options[name]
        seen = {row[name] for row in rows if name in row}
        return name == SHAPE, not isinstance(item, Choice), len(seen), name

    small = [name for name, item in options.items() if 1 < item.count <= MOST_VALUES]
    return {name: options[name] for name in sorted({*small, SHAPE}, key=rank)}


def _when(name: str, parents: Mapping[str, Parameter], rows: Sequence[Params]) -> Condition:
    """What a parameter hangs on; nothing if all trials have it."""
    having = sum(name in row for row in rows)
    if having == len(rows):
        return {}
    for parent, item in parents.items():
        with_parent = [row for row in rows if parent in row]
        if parent == name or len(with_parent) <= having:
            continue  # a parent is there more often, so that nothing runs in a circle
        pairs = {(_index(item, row[parent]), name in row) for row in with_parent}
        there = dict(pairs)  # number of the parent's value -> whether the name is there
        orphaned = sum(name in row for row in with_parent) < having
        if len(there) == len(pairs) and not orphaned:
            return {parent: _values(item, there)}
    raise AssertionError("the shape of a trial says which parameters it has")


def _index(item: Parameter, value: Any) -> int:
    """Number of a value of a discrete parameter."""
    if isinstance(item, Choice):
        return item.find("value", value)
    return int(item.axis.index(np.float64(item.to_unit(value))))


def _values(item: Parameter, there: Mapping[int, bool]) -> list[Any]:
    """Values of a parent at which its child is there: those seen, and of whole numbers and steps
    those not seen that lie nearest to one of these."""
    if isinstance(item, Choice):
        return [item.options[k] for k in sorted(there) if there[k]]
    nearest = (min(there, key=lambda seen: (abs(seen - k), seen)) for k in range(item.count))
    found = [k for k, seen in enumerate(nearest) if there[seen]]
    return [item.from_unit(float(item.axis.position(k))) for k in found]
