"""The contract every uncertainty set keeps, what it says of itself, and the checks on input.

The notation is that of `drbqo_ray.core.sets`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from math import isfinite, nan
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from drbqo_ray.errors import InvalidInput
from drbqo_ray.types import Array

TINY = float(np.finfo(np.float64).tiny)
ROUNDING = 4e-16
LARGEST = 1e300
"""Size of a matrix entry of which a float holds the sum over many contexts."""

_SETS: dict[str, type[UncertaintySet]] = {}


class Divergence(NamedTuple):
    """How far weights are from the reference, in the measure of a set.

    Attributes:
        name: the measure in words.
        distance: that of the weights.
        limit: the largest distance the set allows.
    """

    name: str
    distance: float
    limit: float


@dataclass(frozen=True)
class Family:
    """Sets of one kind from the reference alone to the worst context.

    Attributes:
        label: what the size is, for an axis.
        kind: kind of the sets.
        high: size from which on the set holds every single context.
        own: size of the set that was asked; may exceed `high`.
        make: the set of a size in [0, high].
        mean_minus_spread: whether the value at a size is mean - sqrt(2 size) spread while every
            weight is positive, as it is for the chi-square ball alone.
    """

    label: str
    kind: str
    high: float
    own: float
    make: Callable[[float], UncertaintySet]
    mean_minus_spread: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class UncertaintySet(ABC):
    """The distributions over n contexts that the adversary may choose from.

    A set never changes, has no random part, and may be called from many threads. Two sets of
    the same kind with equal parameters are equal. Where several weights are optimal, the sets
    return the ones that share mass among tied contexts as the reference does.

    A new set is a frozen dataclass (with eq=False and repr=False if it holds arrays, which are
    compared and shown here) with a `kind` and `_solve_rows`; the rest has defaults, which it may
    replace: `within_support`, `words`, `short_name`, `slow`, `check_contexts`,
    `divergence` and `_family`. `drbqo_ray.testing.sets` checks the contract.
    """

    kind: ClassVar[str]
    """Name of the set in its plain-data form."""

    within_support: ClassVar[bool] = False
    """Whether a context without reference weight can never receive any."""

    words: ClassVar[str] = ""
    """The set in words, before its size; its kind if empty."""

    short_name: ClassVar[str] = ""
    """Its name in names of directories; its kind if empty."""

    slow: ClassVar[bool] = False
    """Whether it is too slow to be solved for many configs at many sizes."""

    _block_elements: ClassVar[int] = 40_000
    """Numbers per block of rows: the work arrays of one block stay in cache."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Make the set known by its kind."""
        super().__init_subclass__(**keywords)
        if "kind" not in cls.__dict__:  # a base of other sets
            return
        known = _SETS.setdefault(cls.kind, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise InvalidInput(
                f"Every set needs a kind of its own; {known.__qualname__} of {known.__module__}"
                " has this one.",
                cls.kind,
                "Choose another name: journals tell sets apart by it.",
            )
        _SETS[cls.kind] = cls

    def worst_case(
        self, values: ArrayLike, reference: ArrayLike | None = None
    ) -> tuple[Array, Array]:
        """Lowest weighted mean of the values over the set, and the weights that attain it.

        Args:
            values: scores, shape (..., n), finite.
            reference: weights q of the contexts, shape (n,), non-negative, summing to 1;
                None means 1/n each.

        Returns:
            The value, shape (...), a NumPy float for a single row; and the weights, shape
            (..., n).
        """
        rows = checked_values(values)
        n = rows.shape[-1]
        self.check_contexts(n)
        return self.solve(rows, reference_weights(reference, n))

    def solve(self, values: Array, q: Array) -> tuple[Array, Array]:
        """`worst_case` for arguments that are known to be right; nothing is checked.

        Args:
            values: finite float64 array, shape (..., n).
            q: reference weights, shape (n,), as `reference_weights` returns them.

        Returns:
            The value, shape (...), and the weights, shape (..., n).
        """
        n = q.size
        if values.size == 0:
            return np.zeros(values.shape[:-1]), np.zeros(values.shape)
        rows = values.reshape(-1, n)  # (m, n)
        if self.within_support and np.count_nonzero(q) < n:
            value, weights = self._solve_support(rows, q)
        elif rows.size > self._block_elements:
            value, weights = self._solve_blocks(rows, q)
        else:
            value, weights = self._solve_rows(rows, q)
        scalar_or_array: Array = value.reshape(values.shape[:-1])[()]
        return scalar_or_array, weights.reshape(values.shape)

    def check_contexts(self, n: int) -> None:
        """Raise `InvalidInput` when the set was made for another number of contexts than n."""
        return

    def to_dict(self) -> dict[str, Any]:
        """Plain data from which `from_dict` makes an equal set; fit for JSON."""
        plain: dict[str, Any] = {"set": self.kind}
        for name, entry in self._parameters().items():
            plain[name] = entry.tolist() if isinstance(entry, np.ndarray | np.generic) else entry
        return plain

    def __repr__(self) -> str:
        """The parameters, and the shape of those that are arrays."""
        texts = [
            f"{name}=<{' x '.join(map(str, entry.shape))}>"
            if isinstance(entry, np.ndarray)
            else f"{name}={entry!r}"
            for name, entry in self._parameters().items()
        ]
        return f"{type(self).__qualname__}({', '.join(texts)})"

    def __eq__(self, other: object) -> bool:
        """Whether the other is a set of this kind with equal parameters."""
        if not isinstance(other, UncertaintySet) or type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._parameters().values(), other._parameters().values()
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    def __hash__(self) -> int:
        """Equal sets hash alike."""
        entries = self._parameters().values()
        sums = (float(e.sum()) if isinstance(e, np.ndarray) else e for e in entries)
        return hash((self.kind, *sums))

    def _parameters(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.init}

    def to_python(self) -> tuple[str, str]:
        """Code that makes an equal set: the line that must come before, and the expression."""
        plain, name, home = self.to_dict(), type(self).__qualname__, type(self).__module__
        given = ", ".join(
            f"{field.name}={plain[field.name]!r}" if field.kw_only else repr(plain[field.name])
            for field in fields(self)
            if field.init
        )
        if home.rpartition(".")[0] == __package__:
            return "import drbqo_ray as dr", f"dr.{name}({given})"
        if home == "__main__" or "." in name:
            name = name.rpartition(".")[2]
            return f"{name} = ...  # the set that was called '{home}:{name}'", f"{name}({given})"
        return f"from {home} import {name}", f"{name}({given})"

    def describe(self) -> str:
        """The set in words, e.g. "chi-square ball of radius 0.7"."""
        return " ".join([self.words or self.kind, *(f"{size:.4g}" for size in self._sizes())])

    def label(self) -> str:
        """A short name that is fit for a directory, e.g. "radius-1" or "cvar-0.3"."""
        return "-".join([self.short_name or self.kind, *(f"{size:g}" for size in self._sizes())])

    def _sizes(self) -> list[float]:
        return [entry for entry in self.to_dict().values() if isinstance(entry, int | float)]

    def divergence(self, p: Array, q: Array) -> Divergence | None:
        """How far weights p (n,) are from q (n,); None for a set without a simple measure."""
        return None

    def family(self, q: Array) -> Family | None:
        """The sets of all sizes for reference weights q (n,); None when there is only one."""
        family = self._family(q) if q.size > 1 else None
        return family if family is not None and family.high > 0 else None

    def _family(self, q: Array) -> Family | None:
        return None

    @abstractmethod
    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        """Values (m, n) and reference (n,) to value (m,) and weights (m, n)."""

    def _solve_blocks(self, rows: Array, q: Array) -> tuple[Array, Array]:
        step = max(1, self._block_elements // q.size)
        value = np.empty(rows.shape[0])
        weights = np.empty(rows.shape)
        for start in range(0, rows.shape[0], step):
            block = slice(start, start + step)
            value[block], weights[block] = self._solve_rows(rows[block], q)
        return value, weights

    def _solve_support(self, rows: Array, q: Array) -> tuple[Array, Array]:
        support = np.flatnonzero(q)
        weights = np.zeros(rows.shape)
        value, weights[:, support] = self.solve(rows[:, support], q[support])
        return value, weights


def from_dict(plain: Mapping[str, Any]) -> UncertaintySet:
    """The set that `UncertaintySet.to_dict` wrote down."""
    cure = (
        f"Pass what to_dict() returns; the sets are {', '.join(_SETS)}. A set of your own is known"
        " once its module is imported."
    )
    name = plain.get("set") if isinstance(plain, Mapping) else None
    if not isinstance(name, str) or name not in _SETS:
        raise InvalidInput("A set in plain data needs a known name under 'set'.", plain, cure)
    parameters = {key: entry for key, entry in plain.items() if key != "set"}
    try:
        return _SETS[name](**parameters)
    except TypeError:
        rule = f"The set {name!r} must come with exactly its own parameters."
        raise InvalidInput(rule, plain, cure) from None


def is_set(thing: object) -> bool:
    """Whether it is the class of a set."""
    return isinstance(thing, type) and thing in _SETS.values()


def unit_rows(values: Array) -> tuple[Array, Array, Array]:
    """Each row shifted and scaled to run from 0 to 1, so that offsets cost no digits.

    Args:
        values: shape (m, n).

    Returns:
        x, shape (m, n); the shift and the scale, shape (m, 1), with values = shift + scale x.
        A constant row gives x = 0.
    """
    shift = np.minimum.reduce(values, axis=-1, keepdims=True)
    x = values - shift
    scale = np.maximum.reduce(x, axis=-1, keepdims=True)
    np.maximum(scale, TINY, out=scale)
    x /= scale
    return x, shift, scale


def finish(x: Array, shift: Array, scale: Array, p: Array) -> tuple[Array, Array]:
    """Normalise the weights p of unit rows x in place; give value (m,) and weights (m, n)."""
    p /= np.add.reduce(p, axis=-1, keepdims=True)
    value = np.einsum("ij,ij->i", p, x)
    value *= scale[:, 0]
    value += shift[:, 0]
    return value, p


def share_of_ties(x: Array, q: Array) -> Array:
    """The reference restricted to the lowest contexts of each unit row and normalised.

    Where the lowest contexts have no reference weight they share equally.

    Args:
        x: unit rows, shape (m, n).
        q: reference weights, shape (n,).

    Returns:
        Weights, shape (m, n).
    """
    ties = x == 0.0
    p: Array = ties * q
    mass = np.add.reduce(p, axis=-1, keepdims=True)
    if not mass.all():
        p = np.where(mass > 0, p, ties.astype(np.float64))
        mass = np.add.reduce(p, axis=-1, keepdims=True)
    p /= mass
    return p


def value_at_mass(x: Array, q: Array, mass: Array | float) -> Array:
    """Lowest value of each row, shape (m, 1), at or below which lies reference mass `mass`."""
    if is_uniform(q):
        ascending = np.sort(x, axis=-1)
        q_ascending = q
    else:
        order = np.argsort(x, axis=-1)
        ascending = np.take_along_axis(x, order, axis=-1)
        q_ascending = q[order]
    cumulative = np.add.accumulate(q_ascending, axis=-1)
    short = cumulative < mass  # (m, n) or (n,)
    index = np.minimum(np.add.reduce(short, axis=-1, dtype=np.intp), x.shape[-1] - 1)
    cut: Array = ascending[np.arange(x.shape[0]), index]
    return cut[:, None]


def least_weight(q: Array) -> float:
    """The smallest positive reference weight of q (n,)."""
    return float(q[q > 0].min())


@lru_cache(maxsize=256)
def uniform_weights(n: int) -> Array:
    """The weights 1/n, shape (n,), as a read-only array shared by all callers."""
    q = np.full(n, 1.0 / n)
    q.flags.writeable = False
    return q


def is_uniform(q: Array) -> bool:
    """Whether all reference weights, shape (n,), are equal."""
    return bool(np.count_nonzero(q == q[0]) == q.size)


def checked_values(values: ArrayLike) -> Array:
    """Values of shape (..., n) as a finite float64 array, or `InvalidInput`."""
    array = as_floats(values, "Values", "Pass one score per context along the last axis.")
    if array.ndim == 0 or array.shape[-1] == 0:
        raise InvalidInput(
            "Values must have at least one context along the last axis.",
            f"shape {array.shape}",
            "Pass an array of shape (..., n) with n >= 1.",
        )
    flat = array.ravel()
    squares = np.vdot(flat, flat)  # finite for all but wild input: one cheap pass settles the rest
    if not isfinite(squares) and not isfinite(float(array.max()) - float(array.min())):
        raise InvalidInput(
            "Values must be finite, and so must their range.",
            array,
            "Leave out or replace NaN and infinite scores first.",
        )
    return array


def reference_weights(reference: ArrayLike | None, n: int) -> Array:
    """Reference weights q of shape (n,), summing to 1; `InvalidInput` where that cannot be.

    Args:
        reference: weights, shape (n,), or None for 1/n each.
        n: number of contexts.
    """
    if reference is None:
        return uniform_weights(n)
    cure = "Pass one non-negative weight per context, summing to 1, or None for equal weights."
    q = as_floats(reference, "Reference weights", cure)
    if q.shape != (n,):
        raise InvalidInput(
            f"Reference weights must have shape ({n},), one per context.", f"shape {q.shape}", cure
        )
    if not np.isfinite(q).all() or q.min() < 0:
        raise InvalidInput("Reference weights must be finite and not negative.", q, cure)
    total = float(q.sum())
    if abs(total - 1.0) > 1e-6:
        raise InvalidInput("Reference weights must sum to 1.", total, cure)
    return q / total


def checked_radius(radius: object) -> float:
    """A finite radius >= 0 as a float, or `InvalidInput`."""
    number = real_number(radius)
    if isfinite(number) and number >= 0:
        return number
    raise InvalidInput(
        "A radius must be a finite number that is at least 0.",
        radius,
        "Use 0 for the plain average; use WorstCase() for the worst single context.",
    )


def real_number(value: object) -> float:
    """A real number as a float, NaN for anything else and for what a float cannot hold."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return nan
    try:
        return float(value)
    except Exception:  # a number beyond float64, or of a class that may do anything
        return nan


def checked_matrix(matrix: ArrayLike, name: str, cure: str) -> Array:
    """A finite, square, symmetric matrix as a read-only float64 copy, or `InvalidInput`."""
    array = np.array(as_floats(matrix, name, cure))
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise InvalidInput(
            f"{name} must be a square matrix, one row per context.", f"shape {array.shape}", cure
        )
    if not np.abs(array).max() <= LARGEST:
        raise InvalidInput(f"{name} must be finite, and at most {LARGEST:g} in size.", array, cure)
    if np.abs(array - array.T).max() > 1e-9 * np.abs(array).max():
        raise InvalidInput(f"{name} must be symmetric.", array, cure)
    array = 0.5 * (array + array.T)
    array.flags.writeable = False
    return array


def as_floats(values: ArrayLike, name: str, cure: str) -> Array:
    """Any array of real numbers as float64, or `InvalidInput`."""
    try:
        array = np.asarray(values)
        if array.dtype == np.float64:
            return array
        if array.dtype.kind not in "biufO":
            raise TypeError(array.dtype)
        return array.astype(np.float64)
    except Exception:  # no numbers, numbers beyond float64, or a class that may do anything
        raise InvalidInput(f"{name} must be an array of real numbers.", values, cure) from None
