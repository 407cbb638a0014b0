"""Numbers, truth values and strings of numpy as Python's own, as JSON and trainables want them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

PLAIN = (str, int, float, bool, type(None))


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
