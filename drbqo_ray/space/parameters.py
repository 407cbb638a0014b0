"""The three kinds of hyperparameter: Float, Int and Choice.

Each knows how to lay its values on the unit interval and back. Discrete values own
equal cells (on their scale) of the interval and sit at one fixed position in it, so
that rounding is exact: `from_unit(to_unit(v)) == v` for every value v. Real values closer
together than positions can tell share one, and `from_unit` settles on one of them: coming
back again changes nothing, `from_unit(to_unit(from_unit(u))) == from_unit(u)`.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from drbqo_ray.errors import InvalidInput, short_repr
from drbqo_ray.types import Array

Condition = Mapping[str, Sequence[Any]]
MAX_GRID = 2**48  # floats tell this many positions apart, with some room for rounding
SMALLEST = sys.float_info.min
ROUND_TRIPS = 32
WIDE, NARROW = 1e300, 1 + 1e-9  # ratios high / low above and below which logarithms need care


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
    def between(low: float, high: float, log: bool) -> Axis:
        """An axis without a grid. A log scale over next to no range is a linear one."""
        return Axis(low, high, log and high / low > NARROW)

    @staticmethod
    def on_grid(low: float, step: float, count: int, log: bool) -> Axis:
        """An axis whose grid values all own a cell, those at the ends too."""
        edge, end = low - step / 2, low + (count - 0.5) * step
        if log:
            edge = max(edge, low / 2) or low  # half of the smallest float is 0
        return replace(Axis.between(edge, end, log), start=low, step=step, count=count)

    @property
    def _wide(self) -> bool:
        """Whether high / low is too large to compute with."""
        return self.high / self.low > WIDE

    def warp(self, values: Array | np.float64) -> Array:
        """Position in [0, 1] of each value, any shape."""
        if not self.log:
            return np.asarray((values - self.low) / (self.high - self.low))
        if self._wide:
            low, high = math.log(self.low), math.log(self.high)
            return np.asarray((np.log(values) - low) / (high - low))
        return np.asarray(np.log(values / self.low) / math.log(self.high / self.low))

    def unwarp(self, u: Array | np.float64) -> Array:
        """Value at each position u in [0, 1], any shape, not rounded to the grid."""
        if not self.log:
            return np.asarray(self.low + u * (self.high - self.low))
        if self._wide:
            low, high = math.log(self.low), math.log(self.high)
            with np.errstate(over="ignore"):  # rounded up at the largest float
                return np.asarray(np.minimum(np.exp(low + u * (high - low)), self.high))
        return np.asarray(self.low * np.exp(u * math.log(self.high / self.low)))

    def index(self, u: Array | np.float64) -> npt.NDArray[np.int64]:
        """Number of the grid value nearest to each position u, any shape."""
        k = np.rint((self.unwarp(u) - self.start) / self.step)
        return np.clip(k, 0, self.count - 1).astype(np.int64)

    def position(self, index: npt.ArrayLike) -> Array:
        """Position in [0, 1] of grid value number `index`, any shape."""
        return self.warp(self.start + np.asarray(index, dtype=np.float64) * self.step)

    def check_cells(self, kind: str) -> None:
        """Raise InvalidInput unless floats tell the grid values, and their positions, apart.

        Cells are narrowest at one of the ends on every scale.
        """
        if self.count < 2:
            return
        last = self.count - 1
        reach = max(abs(self.start), abs(self.start + last * self.step))
        places = self.position([0, 1, last - 1, last])
        if reach > MAX_GRID * self.step or min(np.diff(places)[::2]) < 1 / MAX_GRID:
            raise InvalidInput(
                f"{kind} needs steps that floats can tell apart.",
                (self.start, self.step, self.count),
                "Pass a larger step, or none.",
            )


def stepped(index: int, count: int) -> list[int]:
    """Grid indices to try from `index`: both neighbors, then ever longer strides."""
    strides = [1]
    while strides[-1] * 4 < count:
        strides.append(strides[-1] * 4)
    tries = {index + sign * stride for stride in strides for sign in (-1, 1)}
    return sorted(k for k in tries if 0 <= k < count)


def check_range(kind: str, low: float, high: float, log: object, step: float | None) -> None:
    """Raise InvalidInput unless low < high, finite, positive for log, with a positive step."""
    if not all(is_finite(end) for end in (low, high)) or not is_finite(high - low):
        raise InvalidInput(
            f"{kind} bounds must be finite numbers, not too far apart.", (low, high), "Narrow them."
        )
    if not low < high:
        raise InvalidInput(
            f"{kind} needs low < high.", (low, high), "Swap them, or use Choice([value]) for one."
        )
    if high - low < SMALLEST:
        raise InvalidInput(
            f"{kind} needs high - low >= {SMALLEST:.2g}: smaller floats lose their digits.",
            (low, high),
            "Search for a multiple of the value.",
        )
    if not isinstance(log, bool):
        raise InvalidInput(f"`log` of {kind} is True or False.", log, "Pass log=True.")
    if log and low <= 0:
        raise InvalidInput(
            f"{kind} on a log scale needs low > 0.", low, "Raise low above 0 or drop log=True."
        )
    if step is not None:
        _check_step(kind, low, high, step)


def _check_step(kind: str, low: float, high: float, step: float) -> None:
    width = max(_decimal(high - low), _decimal(high) - _decimal(low))
    if not is_finite(step) or not 0 < _decimal(step) <= width:
        raise InvalidInput(
            f"{kind} needs 0 < step <= high - low.", step, "Pass a smaller step, or none."
        )
    if (high - low) / step > MAX_GRID or step < SMALLEST:
        raise InvalidInput(
            f"{kind} can hold at most 2**48 steps.", (low, high, step), "Pass a larger step."
        )


def is_finite(value: object) -> bool:
    """Whether the value is a real number, not a bool, that a float can hold."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(float(value))
    except Exception:  # a number beyond float64, or of a class that may do anything
        return False


def make_plain(item: Any, *names: str) -> None:
    """Turn attributes that are numpy scalars into Python numbers."""
    for name in names:
        value = getattr(item, name)
        if isinstance(value, np.generic):
            object.__setattr__(item, name, value.item())


def _decimal(value: float) -> Decimal:
    """The number as it is written, so that 0.1 is a tenth."""
    return Decimal(str(float(value)))


def check_number(name: str, value: object, low: float, high: float) -> float:
    """The value as a float, or an int if it is one; InvalidInput unless it is a finite number in
    [low, high]."""
    if not isinstance(value, numbers.Real) or not is_finite(value):
        raise InvalidInput(f"{name!r} must be a finite number.", value, f"Pass {low} to {high}.")
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
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
        make_plain(self, "low", "high", "log", "step")
        check_range("Float", self.low, self.high, self.log, self.step)
        self.axis.check_cells("Float")

    @cached_property
    def axis(self) -> Axis:
        """How the range lies on [0, 1]."""
        low, high = float(self.low), float(self.high)
        if self.step is None:
            return Axis.between(low, high, self.log)
        count = int((_decimal(high) - _decimal(low)) // _decimal(self.step)) + 1
        return Axis.on_grid(low, float(self.step), count, self.log)

    @property
    def count(self) -> int:
        """Number of values, 0 when continuous."""
        return self.axis.count

    n_features = 1

    def check(self, name: str, value: object) -> float:
        """The value, moved onto the grid exactly; InvalidInput if it is not one of ours."""
        number = float(check_number(name, value, self.low, self.high)) + 0.0  # never -0.0
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
        if self.step is None and not self.low < value < self.high:
            return 0.0 if value <= self.low else 1.0
        return min(max(float(self.axis.warp(np.float64(value))), 0.0), 1.0)

    def from_unit(self, u: float) -> float:
        """Value at a position in [0, 1], on the grid if there is one.

        The value is one that stays when it is laid on [0, 1] and read back. Where rounding moves
        all of them, it is the value at a rounded position, which comes back by rounding again.
        """
        if self.step is not None:
            k = int(self.axis.index(np.float64(u)))
            return float(_decimal(self.low) + k * _decimal(self.step))
        value = self._settled(u)
        if value is None:
            coarse = self._at(round(u * 2**40) / 2**40)
            value = self._settled(self.to_unit(coarse))
        return coarse if value is None else value

    def _settled(self, u: float) -> float | None:
        """The value that stays, or the least of those that take turns, on the way from a position
        to its value and back; None if none is met soon."""
        seen: list[float] = []
        value = self._at(u)
        while value not in seen:
            if len(seen) == ROUND_TRIPS:
                return None
            seen.append(value)
            value = self._at(self.to_unit(value))
        return min(seen[seen.index(value) :])

    def _at(self, u: float) -> float:
        """Value at a position in [0, 1], as the scale has it."""
        if u <= 0 or u >= 1:
            return float(self.low if u <= 0 else self.high) + 0.0
        value = float(self.axis.unwarp(np.float64(u)))
        return float(min(max(value, self.low), self.high)) + 0.0

    def snap(self, u: Array) -> Array:
        """Positions (k,) moved to those of real values, (k,)."""
        if self.step is None:
            return np.clip(u, 0.0, 1.0) + 0.0  # never -0.0
        return self.axis.position(self.axis.index(u))

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
        make_plain(self, "low", "high", "log", "step")
        for part in (self.low, self.high, self.step):
            if isinstance(part, bool) or not isinstance(part, numbers.Integral):
                raise InvalidInput("Int takes whole numbers.", part, "Pass int values, or Float.")
        check_range("Int", self.low, self.high, self.log, self.step)
        self.axis.check_cells("Int")

    @cached_property
    def axis(self) -> Axis:
        """How the range lies on [0, 1]. A linear one is counted in steps from `low`, so that whole
        numbers beyond 2**53 stay exact."""
        count = (self.high - self.low) // self.step + 1
        if self.log:
            return Axis.on_grid(float(self.low), float(self.step), count, True)
        return Axis.on_grid(0.0, 1.0, count, False)

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
        place = value if self.log else (value - self.low) / self.step
        return float(self.axis.warp(np.float64(place)))

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
            f"{name!r} must be one of {short_repr(list(self.options))}.",
            value,
            "Pick one, or add it.",
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
    except Exception:  # a user's object may do anything
        return False


def optional(when: Condition, **fields: Any) -> dict[str, Any]:
    """The fields that say something (not None or False), with the condition as plain data."""
    plain = {name: value for name, value in fields.items() if value}
    if when:
        plain["when"] = {name: list(values) for name, values in when.items()}
    return plain
