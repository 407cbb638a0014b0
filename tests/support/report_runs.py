"""Journals of small runs for the tests of the report, written as a run writes them, without Ray."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drbqo_ray import Choice, Float, Int, Space
from drbqo_ray.problem import Problem
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.storage.journal import Journal
from drbqo_ray.storage.stored_run import told_entry

Score = Callable[[dict[str, Any], int], float]

SPACE = {"x": Float(0.0, 1.0), "rate": Float(1e-4, 1.0, log=True), "kind": Choice(["a", "b", "c"])}


def two_peaks(config: dict[str, Any], fold: int) -> float:
    """A high peak at x = 0.2 that fold 0 spoils, and a lower one at x = 0.8 for every fold."""
    x = config["x"]
    high = math.exp(-(((x - 0.2) / 0.12) ** 2)) * (0.2 if fold == 0 else 1.0)
    low = 0.75 * math.exp(-(((x - 0.8) / 0.2) ** 2))
    rate = 0.05 * math.log10(config.get("rate", 1e-2) / 1e-2) ** 2
    return high + low - rate + 0.01 * fold


def write_run(
    directory: Path,
    score: Score = two_peaks,
    space: dict[str, Any] | Space = SPACE,
    folds: int | list[list[float]] = 4,
    evaluations: int = 24,
    *,
    configs: list[dict[str, Any]] | None = None,
    objective: str = "tests:two_peaks",
    fails: Callable[[dict[str, Any], int, int], str | None] = lambda config, fold, id: None,
    finished: bool = True,
    timed: bool = True,
    **settings: Any,
) -> Path:
    """Write the journal of a run that suggests by itself, or that tries every fold of `configs`."""
    settings = {"method": "drbqo", "mode": "max", "seed": 0, "uncertainty": 1.0, **settings}
    problem = Problem.of(space, folds, settings, _objective, objective)
    optimizer = problem.optimizer()
    if configs is not None:
        evaluations = len(configs) * optimizer.n_contexts
    entries: list[tuple[str, dict[str, Any]]] = []
    session = {
        "at": 0.0,
        "n_evaluations": evaluations,
        "max_in_flight": 2,
        "python": "3",
    }
    entries.append(("session", session))
    for k in range(evaluations):
        before = optimizer.last_fit
        if configs is None:
            asked = optimizer.ask()
            config, fold, seed = asked.config, asked.context, asked.seed
        else:
            config, fold, seed = configs[k // optimizer.n_contexts], k % optimizer.n_contexts, k
        fit = optimizer.last_fit
        if fit is not None and fit is not before:
            entries.append(("fit", {"fit": fit.to_dict(), "told": k}))
        ask = {"id": k, "config": problem.plain_config(config), "context": fold, "seed": seed}
        entries.append(("ask", ask | {"told": k, **_at(timed, k)}))
        reason = fails(config, fold, k)
        asked = Suggestion(k, config, fold, seed)
        details: dict[str, Any] = {"seconds": 0.8 + 0.1 * (k % 3), "node": f"node-{k % 2}"}
        if reason is None:
            outcome = Observation.of(asked, score(config, fold), **details)
        else:
            outcome = Observation.failure(asked, "error", reason, **details)
        kind, told = told_entry(outcome, k + 1.0)
        entries.append((kind, told if timed else {key: told[key] for key in told if key != "at"}))
        if configs is None:
            if outcome.score is None:
                optimizer.fail(k, outcome.reason or "")
            else:
                optimizer.tell(k, outcome.score)
    if finished:
        entries.append(("finish", {"reason": "finished", "at": evaluations + 1.0}))
    with Journal.create(directory, problem.header()) as journal:
        journal.append_many(entries)
    return directory


def _at(timed: bool, k: int) -> dict[str, float]:
    return {"at": k + 0.1} if timed else {}


def _objective(config: dict[str, Any], fold: int, seed: int) -> float:
    raise NotImplementedError


def many_parameters(count: int) -> dict[str, Any]:
    """A space with `count` parameters of all kinds."""
    kinds = [Float(0.0, 1.0), Int(1, 9), Choice(["u", "v"]), Float(1e-3, 1.0, log=True)]
    return {f"parameter_{k}": kinds[k % len(kinds)] for k in range(count)}
