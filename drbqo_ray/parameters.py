"""The three kinds of hyperparameter: Float, Int and Choice.

Each knows how to lay its values on the unit interval and back. Discrete values own
equal cells (on their scale) of the interval and sit at one fixed position in it, so
that rounding is exact: `from_unit(to_unit(v)) == v` for every value v.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from drbqo_ray.errors import InvalidInput

Array = npt.NDArray[np.float64]
Condition = Mapping[str, Sequence[Any]]
MAX_GRID = 2**53


@dataclass(frozen=True)
class Axis:
    """A numeric range laid on [0, 1], linear or logarithmic, continuous or on a grid.

    Attributes:
        low, high: ends of the range that u = 0 and u = 1 stand for.
        log: whether equal steps of u are equal ratios.
        start, step, count: the grid start + k * step, k < count; count 0 is no grid.
    """

    low: float
    high: float
    log: bool
    start: float = 0.0
    step: float = 0.0
    count: int = 0

    @staticmethod
    def on_grid(low: float, high: float, log: bool, step: float) -> Axis:
        """An axis whose grid values all own a cell, those at the ends too."""
        count = int((_decimal(high) - _decimal(low)) // _decimal(step)) + 1
        edge = low - step / 2
        if log:
            edge = max(edge, low / 2)
        return Axis(edge, low + (count - 0.5) * step, log, low, step, count)

    def warp(self, values: Array | np.float64) -> Array:
        """Position in [0, 1] of each value, any shape."""
        if self.log:
            return np.asarray(np.log(values / self.low) / math.log(self.high / self.low))
        return np.asarray((values - self.low) / (self.high - self.low))

    def unwarp(self, u: Array | np.float64) -> Array:
        """Value at each position u in [0, 1], any shape, not rounded to the grid."""
        if self.log:
            return np.asarray(self.low * np.exp(u * math.log(self.high / self.low)))
        return np.asarray(self.low + u * (self.high - self.low))

    def index(self, u: Array | np.float64) -> npt.NDArray[np.int64]:
        """Number of the grid value nearest to each position u, any shape."""
        k = np.rint((self.unwarp(u) - self.start) / self.step)
        return np.clip(k, 0, self.count - 1).astype(np.int64)

    def position(self, index: npt.ArrayLike) -> Array:
        """Position in [0, 1] of grid value number `index`, any shape."""
        return self.warp(self.start + np.asarray(index, dtype=np.float64) * self.step)


def stepped(index: int, count: int) -> list[int]:
    """Grid indices to try from `index`: both neighbors, then ever longer strides."""
    strides = [1]
    while strides[-1] * 4 < count:
        strides.append(strides[-1] * 4)
    tries = {index + sign * stride for stride in strides for sign in (-1, 1)}
    return sorted(k for k in tries if 0 <= k < count)


def check_range(kind: str, low: float, high: float, log: bool, step: float | None) -> None:
    """Raise InvalidInput unless low < high, finite, positive for log, with a positive step."""
    if not all(_is_finite(end) for end in (low, high)) or not _is_finite(high - low):
        raise InvalidInput(
            f"{kind} bounds must be finite numbers, not too far apart.", (low, high), "Narrow them."
        )
    if not low < high:
        raise InvalidInput(
            f"{kind} needs low < high.", (low, high), "Swap them, or use Choice([value]) for one."
        )
    if log and low <= 0:
        raise InvalidInput(
            f"{kind} on a log scale needs low > 0.", low, "Raise low above 0 or drop log=True."
        )
    if step is None:
        return
    width = max(_decimal(high - low), _decimal(high) - _decimal(low))
    if not _is_finite(step) or not 0 < _decimal(step) <= width:
        raise InvalidInput(
            f"{kind} needs 0 < step <= high - low.", step, "Pass a smaller step, or none."
        )
    if (high - low) / step > MAX_GRID:
        raise InvalidInput(
            f"{kind} can hold at most 2**53 steps.", (low, high, step), "Pass a larger step."
        )


def _is_finite(value: object) -> bool:
    """Whether the value is a real number, not a bool, that a float can hold."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(float(value))
    except (OverflowError, ValueError):
        return False


def _decimal(value: float) -> Decimal:
    """The number as it is written, so that 0.1 is a tenth."""
    return Decimal(str(float(value)))


def check_number(name: str, value: object, low: float, high: float) -> float:
    """The value as a float; InvalidInput unless it is a finite number in [low, high]."""
    if not isinstance(value, numbers.Real) or not _is_finite(value):
        raise InvalidInput(f"{name!r} must be a finite number.", value, f"Pass {low} to {high}.")
    number = float(value)
    if not low <= number <= high:
        raise InvalidInput(
            f"{name!r} must lie in [{low}, {high}].", value, "Clip it, or widen the space."
        )
    return number


@dataclass(frozen=True)
class Float:
    """A real hyperparameter between `low` and `high`, both included.

    Args:
        low, high: the bounds.
        log: search on a logarithmic scale; needs low > 0.
        step: only low, low + step, low + 2 step, ... are used.
        when: active only when the named parameters have one of the listed values.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None
    when: Condition = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_range("Float", self.low, self.high, self.log, self.step)

    @cached_property
    def axis(self) -> Axis:
        """How the range lies on [0, 1]."""
        if self.step is None:
            return Axis(float(self.low), float(self.high), self.log)
        return Axis.on_grid(float(self.low), float(self.high), self.log, float(self.step))

    @property
    def count(self) -> int:
        """Number of values, 0 when continuous."""
        return self.axis.count

    n_features = 1

    def check(self, name: str, value: object) -> float:
        """The value, moved onto the grid exactly; InvalidInput if it is not one of ours."""
        number = check_number(name, value, self.low, self.high)
        if self.step is None:
            return number
        nearest = self.from_unit(self.to_unit(number))
        if abs(nearest - number) > 1e-9 * max(abs(number), self.step):
            raise InvalidInput(
                f"{name!r} moves in steps of {self.step} from {self.low}.", value, f"Use {nearest}."
            )
        return nearest

    def to_unit(self, value: float) -> float:
        """Position of a value in [0, 1]."""
        return float(np.clip(self.axis.warp(np.float64(value)), 0.0, 1.0))

    def from_unit(self, u: float) -> float:
        """Value at a position in [0, 1], on the grid if there is one."""
        if self.step is None:
            if u <= 0 or u >= 1:
                return float(self.low if u <= 0 else self.high)
            return float(np.clip(self.axis.unwarp(np.float64(u)), self.low, self.high))
        k = int(self.axis.index(np.float64(u)))
        return float(_decimal(self.low) + k * _decimal(self.step))

    def snap(self, u: Array) -> Array:
        """Positions (k,) moved to those of real values, (k,)."""
        return np.clip(u, 0.0, 1.0) if self.step is None else self.axis.position(self.axis.index(u))

    def features(self, u: Array) -> Array:
        """Model inputs (k, 1) of snapped positions (k,)."""
        return u[:, None]

    def moves(self, u: float) -> Array:
        """Positions of other grid values worth trying from u, (m,)."""
        if self.step is None:
            return np.empty(0)
        return self.axis.position(stepped(int(self.axis.index(np.float64(u))), self.axis.count))

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form, as written in a YAML space or a journal."""
        plain = {"type": "float", "low": float(self.low), "high": float(self.high)}
        return plain | optional(self.when, log=self.log, step=self.step)


@dataclass(frozen=True)
class Int:
    """A whole-number hyperparameter between `low` and `high`, both included.

    Args:
        low, high: the bounds.
        log: search on a logarithmic scale; needs low >= 1.
        step: only low, low + step, low + 2 step, ... are used.
        when: active only when the named parameters have one of the listed values.
    """

    low: int
    high: int
    log: bool = False
    step: int = 1
    when: Condition = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in (self.low, self.high, self.step):
            if isinstance(part, bool) or not isinstance(part, numbers.Integral):
                raise InvalidInput("Int takes whole numbers.", part, "Pass int values, or Float.")
        check_range("Int", self.low, self.high, self.log, self.step)

    @cached_property
    def axis(self) -> Axis:
        """How the range lies on [0, 1]."""
        return Axis.on_grid(float(self.low), float(self.high), self.log, float(self.step))

    @property
    def count(self) -> int:
        """Number of values."""
        return self.axis.count

    n_features = 1

    def check(self, name: str, value: object) -> int:
        """The value as int; InvalidInput if it is not one of ours."""
        number = check_number(name, value, self.low, self.high)
        if number != int(number) or (int(number) - self.low) % self.step:
            raise InvalidInput(
                f"{name!r} takes whole numbers in steps of {self.step} from {self.low}.",
                value,
                f"Use {self.from_unit(self.to_unit(number))}.",
            )
        return int(number)

    def to_unit(self, value: float) -> float:
        """Position of a value in [0, 1]."""
        return float(self.axis.warp(np.float64(value)))

    def from_unit(self, u: float) -> int:
        """Value nearest to a position in [0, 1]."""
        return int(self.low) + int(self.step) * int(self.axis.index(np.float64(u)))

    def snap(self, u: Array) -> Array:
        """Positions (k,) moved to those of whole values, (k,)."""
        return self.axis.position(self.axis.index(u))

    def features(self, u: Array) -> Array:
        """Model inputs (k, 1) of snapped positions (k,)."""
        return u[:, None]

    def moves(self, u: float) -> Array:
        """Positions of other values worth trying from u, (m,)."""
        return self.axis.position(stepped(int(self.axis.index(np.float64(u))), self.axis.count))

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form, as written in a YAML space or a journal."""
        plain = {"type": "int", "low": int(self.low), "high": int(self.high)}
        step = int(self.step) if self.step != 1 else None
        return plain | optional(self.when, log=self.log, step=step)


@dataclass(frozen=True)
class Choice:
    """A hyperparameter that is one of several options without order.

    Args:
        options: the options, any distinct Python objects.
        when: active only when the named parameters have one of the listed values.
    """

    options: Sequence[Any]
    when: Condition = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.options, (str, bytes)) or not isinstance(self.options, Sequence):
            raise InvalidInput("Choice takes a list of options.", self.options, "Wrap it in [].")
        if not self.options:
            raise InvalidInput("Choice needs at least one option.", [], "List the options.")
        object.__setattr__(self, "options", tuple(self.options))
        for i, option in enumerate(self.options):
            if any(same(option, other) for other in self.options[:i]):
                raise InvalidInput("Choice options must differ.", option, "Drop the repeat.")

    @property
    def count(self) -> int:
        """Number of options."""
        return len(self.options)

    @property
    def n_features(self) -> int:
        """Model inputs: none for one option, one for two, else one per option."""
        return (0, 1)[self.count - 1] if self.count <= 2 else self.count

    def check(self, name: str, value: object) -> Any:
        """The option equal to the value; InvalidInput if there is none."""
        return self.options[self.find(name, value)]

    def find(self, name: str, value: object) -> int:
        """Number of the option equal to the value; InvalidInput if there is none."""
        for exact in (True, False):
            for k, option in enumerate(self.options):
                if same(option, value, exact=exact):
                    return k
        raise InvalidInput(
            f"{name!r} must be one of {list(self.options)!r}.", value, "Pick one, or add it."
        )

    def to_unit(self, value: object) -> float:
        """Position of an option in [0, 1]."""
        return (self.find("value", value) + 0.5) / self.count

    def index(self, u: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Number of the option whose cell holds each position u."""
        cells = np.floor(np.asarray(u, dtype=np.float64) * self.count)
        return np.clip(cells, 0, self.count - 1).astype(np.int64)

    def from_unit(self, u: float) -> Any:
        """Option whose cell holds a position in [0, 1]."""
        return self.options[int(self.index(u))]

    def snap(self, u: Array) -> Array:
        """Positions (k,) moved to the middle of their cell, (k,)."""
        return (self.index(u) + 0.5) / self.count

    def features(self, u: Array) -> Array:
        """Model inputs (k, n_features): 0/1 for two options, one-hot for more."""
        index = self.index(u)
        if self.count <= 2:
            return index[:, None][:, : self.n_features].astype(np.float64)
        return np.eye(self.count)[index]

    def moves(self, u: float) -> Array:
        """Positions of all other options, (count - 1,)."""
        others = np.delete(np.arange(self.count), int(self.index(u)))
        return (others + 0.5) / self.count

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form, as written in a YAML space or a journal."""
        return {"type": "choice", "options": list(self.options)} | optional(self.when)


Parameter = Float | Int | Choice


def same(a: object, b: object, exact: bool = True) -> bool:
    """Whether two options are one: the same object, or equal (and of one type if exact)."""
    if a is b:
        return True
    if exact and type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except (TypeError, ValueError):
        return False


def optional(when: Condition, **fields: Any) -> dict[str, Any]:
    """The fields that say something (not None or False), with the condition as plain data."""
    plain = {name: value for name, value in fields.items() if value}
    if when:
        plain["when"] = {name: list(values) for name, values in when.items()}
    return plain
