"""What Tune says of its trials: in results, flat ("config/model/C") or nested, and in files that it
keeps in the directory of an experiment.

Tune copies its own state and the searcher's to the storage file by file, so after a crash one may
be older than the other, or cut short. What Tune kept is what it goes on from: a searcher that is
restored compares notes with it. Nothing is unpickled here; objects in Tune's file stay opaque.
"""

from __future__ import annotations

import json
import logging
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drbqo_ray.tune_searcher.space import MARKERS

logger = logging.getLogger(__name__)


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


@dataclass(frozen=True)
class KeptTrial:
    """A trial as Tune remembers it.

    Attributes:
        id: its id.
        status: as Tune calls it: "PENDING", "RUNNING", "PAUSED", "TERMINATED" or "ERROR".
        config: its config, with Tune's markers in place of objects.
        result: its last result, empty if it had none.
        bests: the best values of its metrics, metric -> {"max": ..., "min": ...}.
    """

    id: str
    status: str
    config: dict[str, Any]
    result: dict[str, Any]
    bests: dict[str, dict[str, float]]

    @property
    def ended(self) -> bool:
        """Whether it will not go on by itself."""
        return self.status in ("TERMINATED", "ERROR")


def kept_trials(directory: str | Path) -> list[KeptTrial] | None:
    """The trials in Tune's newest state file; None if there is none that can be read."""
    files = sorted(Path(directory).glob("experiment_state-*.json"))
    if not files:
        return None
    try:
        state = json.loads(files[-1].read_text())
        return [_kept_trial(json.loads(t), json.loads(run)) for t, run in state["trial_data"]]
    except Exception:
        logger.warning("Tune's state %s could not be compared with ours.", files[-1], exc_info=True)
        return None


def _kept_trial(trial: dict[str, Any], run: dict[str, Any]) -> KeptTrial:
    config = trial.get("_Trial__unresolved_config") or trial["config"]
    return KeptTrial(
        id=trial["trial_id"],
        status=trial["status"],
        config=_with_markers(config),
        result=run.get("last_result") or {},
        bests=run.get("metric_analysis") or {},
    )


def _with_markers(value: Any) -> Any:
    """The value with Tune's markers as the tuples they were before they became JSON."""
    if isinstance(value, dict):
        return {key: _with_markers(item) for key, item in value.items()}
    if isinstance(value, list):
        marker = len(value) == 2 and value[0] in MARKERS
        return tuple(value) if marker else [_with_markers(item) for item in value]
    return value
