"""A small search problem, and trials run on a searcher as Tune would, without a cluster."""

from __future__ import annotations

from typing import Any

from ray import tune

from drbqo_ray.tune_searcher import DRBQOSearch

SPACE = {"x": tune.uniform(0, 1), "net": {"width": tune.randint(1, 9)}}


def ready(space: Any = None, mode: str = "max", **options: Any) -> Any:
    search = DRBQOSearch(**{"n_folds": 3, **options})
    assert search.set_search_properties("score", mode, space or SPACE, num_samples=10)
    return search


def flat(config: dict[str, Any], prefix: str = "config/") -> Any:
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}/")
        else:
            found[f"{prefix}{key}"] = value
    return found


def score_of(config: dict[str, Any]) -> Any:
    return -((config["x"] - 0.3) ** 2) - 0.1 * config.get("fold", 0) * config["x"]


def run(search: Any, trials: Any, score: Any = score_of) -> Any:
    """Suggest and complete trials one by one; the configs."""
    configs = []
    for trial in trials:
        config = search.suggest(trial)
        search.on_trial_complete(trial, {"score": score(config), "done": True, **flat(config)})
        configs.append(config)
    return configs
