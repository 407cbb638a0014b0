"""The problem a run was started for: its fingerprint, and how two problems differ.

A problem is a dict of plain data (space, contexts, objective, method, seed, ...). Numbers compare
by value, so a radius of 1 and one of 1.0 are the same problem; True and 1 are not.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from drbqo_ray.errors import ProblemChanged, short_repr

_ABSENT = object()
_SHOWN_CHANGES = 20


def fingerprint(problem: dict[str, Any]) -> str:
    """Sixteen hexadecimal digits that are the same for equal problems, whatever the key order."""
    text = json.dumps(_by_value(problem), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def _by_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _by_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_by_value(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def problem_changes(old: object, new: object) -> list[str]:
    """One line for each place where two problems differ, e.g. "space.C.high: 1.0 -> 10.0"."""
    return _changes(old, new, "")


def _changes(old: object, new: object, place: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        pairs = [
            (f"{place}.{k}" if place else k, old.get(k, _ABSENT), new.get(k, _ABSENT)) for k in keys
        ]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(f"{place}[{i}]", a, b) for i, (a, b) in enumerate(zip(old, new, strict=True))]
    else:
        return [] if _same(old, new) else [f"{place}: {_text(old)} -> {_text(new)}"]
    return [line for name, a, b in pairs for line in _changes(a, b, name)]


def _same(old: object, new: object) -> bool:
    return isinstance(old, bool) == isinstance(new, bool) and old == new


def _text(value: object) -> str:
    return "absent" if value is _ABSENT else short_repr(value)


def refuse_changes(old: dict[str, Any], new: dict[str, Any], where: str) -> None:
    """Raise ProblemChanged, naming every difference, unless the two problems are equal."""
    changes = problem_changes(old, new)
    if not changes:
        return
    lines = changes[:_SHOWN_CHANGES]
    if len(changes) > len(lines):
        lines.append(f"and {len(changes) - len(lines)} more")
    listing = "\n".join(f"  {line}" for line in lines)
    raise ProblemChanged(
        f"The run in {where} was started for another problem (old -> new):\n{listing}\n"
        "Put the old values back to resume it, or start the new problem under another name or"
        " directory."
    )
