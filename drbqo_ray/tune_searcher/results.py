"""What Tune's results say: the metric and the config, flat ("config/model/C") or nested."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any


def metric_in(result: Mapping[str, Any], metric: str) -> Any:
    """The value of a metric, which may be nested as "a/b"; None if there is none."""
    if metric in result:
        return result[metric]
    found: Any = result
    for part in metric.split("/"):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def config_in(result: Mapping[str, Any]) -> dict[str, Any]:
    """The nested config of a result; keys with a slash in them are there as they are, too."""
    if isinstance(result.get("config"), Mapping):
        return dict(result["config"])
    flat = {key[7:]: value for key, value in result.items() if str(key).startswith("config/")}
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split("/")
        place: Any = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return {**flat, **nested}


def best(values: Iterable[object], mode: str) -> float | None:
    """The best of the values that are finite numbers; None if there is none."""
    usable = _usable(values)
    if not usable:
        return None
    return max(usable) if mode == "max" else min(usable)


def mean(values: Iterable[object]) -> float | None:
    """The mean of the values that are finite numbers; None if there is none."""
    usable = _usable(values)
    return math.fsum(value / len(usable) for value in usable) if usable else None


def _usable(values: Iterable[object]) -> list[float]:
    return [
        float(value)
        for value in values
        if isinstance(value, numbers.Real) and math.isfinite(value) and not isinstance(value, bool)
    ]
