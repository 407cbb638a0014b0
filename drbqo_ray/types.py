"""Kinds of value that the whole package shares: arrays, and plain data.

Plain data are str, bool, None, int, finite float, list and dict with str keys: what JSON holds
without loss.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from drbqo_ray.errors import InvalidInput

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MAX_DEPTH = 32
PLAIN = (str, int, float, bool, type(None))


def check_plain(data: object) -> None:
    """Raise InvalidInput, naming the place, unless `data` is a dict of plain data."""
    if not isinstance(data, dict):
        raise InvalidInput("The data of a record must be a dict.", data, "Pass a dict.")
    _check_value(data, ("data",), 1)


def _check_value(value: object, place: tuple[Any, ...], depth: int) -> None:
    """Check one value; `place` is (key or index, place of its container), joined on error only."""
    if value is None or isinstance(value, (str, int)):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(
                f"Numbers in a journal must be finite, at {_joined(place)}.",
                value,
                "Record a failure with a reason instead.",
            )
        return
    if not isinstance(value, (dict, list)):
        raise InvalidInput(
            f"A journal holds only str, bool, None, int, float, list, dict, at {_joined(place)}.",
            value,
            "Convert it first, e.g. with int(), float(), list() or .tolist().",
        )
    if depth > MAX_DEPTH:
        raise InvalidInput(
            f"Data in a journal may nest {MAX_DEPTH} levels.", value, "Flatten the data."
        )
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_value(item, (index, place), depth + 1)
        return
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidInput(
                f"Keys in a journal must be strings, at {_joined(place)}.", key, "Use str(key)."
            )
        _check_value(item, (key, place), depth + 1)


def _joined(place: tuple[Any, ...]) -> str:
    name, *outer = place
    if not outer:
        return str(name)
    return _joined(outer[0]) + (f"[{name}]" if isinstance(name, int) else f".{name}")


def plain(value: Any) -> Any:
    """The value, with numpy's scalars in it as Python's own at any depth of dicts, lists and
    tuples. Arrays, and scalars that Python has no type for, stay as they are."""
    if isinstance(value, np.generic):
        item = value.item()
        return item if type(item) in PLAIN else value
    if type(value) is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(plain(item) for item in value)
    return value


def is_plain(value: Any) -> bool:
    """Whether JSON holds the value, which is no container, as it is."""
    return type(value) in PLAIN and (type(value) is not float or math.isfinite(value))
