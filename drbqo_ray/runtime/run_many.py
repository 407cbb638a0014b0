"""`run_many`: the same objective with several methods, uncertainty sets and seeds, in parallel."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy.typing as npt

from drbqo_ray.core.sets import UncertaintySet
from drbqo_ray.errors import InvalidInput
from drbqo_ray.objective import FoldObjective, as_objective
from drbqo_ray.optimizer.methods import DEFAULT
from drbqo_ray.problem import RunProblem
from drbqo_ray.runtime.callbacks import Callbacks
from drbqo_ray.runtime.executor import check_backend
from drbqo_ray.runtime.plan import Limits, Plan
from drbqo_ray.runtime.result import ManyResults, Result
from drbqo_ray.runtime.run import drive, earlier_result
from drbqo_ray.space.space import Space
from drbqo_ray.storage.location import RunLocation, find_location


def run_many(
    objective: FoldObjective | str,
    space: Space | Mapping[str, Any],
    contexts: int | npt.ArrayLike,
    *,
    n_evaluations: int,
    methods: Sequence[str] = (DEFAULT,),
    uncertainties: Sequence[UncertaintySet | float | str] = (1.0,),
    seeds: Iterable[int] = range(5),
    mode: Literal["max", "min"] = "max",
    n_initial: int | None = None,
    kernel: str = "se",
    context_rule: str | None = None,
    reference: npt.ArrayLike | None = None,
    storage: str | Path | None = None,
    resume: bool = False,
    backend: Literal["ray", "local"] = "ray",
    resources: Mapping[str, float] | None = None,
    max_in_flight: int | None = None,
    max_in_flight_per_run: int = 1,
    timeout_seconds: float | None = None,
    max_retries: int = 2,
    max_consecutive_failures: int | None = 10,
    stop_when: str | None = None,
    progress: bool | None = None,
    callbacks: Iterable[object] = (),
) -> ManyResults:
    """Run every combination of method, uncertainty set and seed on one cluster or machine.

    Each combination is a run of its own with its own journal, named for example
    `foldwise_radius-1_seed-0`. By default each run evaluates one fold at a time, so that it is the
    exact algorithm and can be repeated, and the slots are filled by running many runs at once.

    Args:
        objective, space, contexts, mode, n_initial, kernel, context_rule, reference, backend,
            resources, timeout_seconds, max_retries, max_consecutive_failures, stop_when,
            progress: see `run`.
        n_evaluations: evaluations of each run.
        methods: names of methods.
        uncertainties: sets, chi-square radii, or "auto".
        seeds: one run of each combination for each of them.
        storage: directory that holds the directories of the runs; temporary without it.
        resume: go on with the runs that are there and return finished ones as they are.
        max_in_flight: evaluations of all runs at a time, by default as many as fit.
        max_in_flight_per_run: evaluations of one run at a time.
        callbacks: told of the asks and observations of all runs, and at the end of all results.

    Returns:
        The results in the order of methods, uncertainties and seeds. A run that was stopped by
        failures says so in its result; after Ctrl-C runs that had not begun are missing.
    """
    check_backend(backend)
    function, label = as_objective(objective)
    limits = Limits(
        n_evaluations,
        resources or {},
        max_in_flight_per_run,
        timeout_seconds,
        max_retries,
        max_consecutive_failures,
    )
    in_flight = Limits(n_evaluations, max_in_flight=max_in_flight).max_in_flight
    common = {
        "mode": mode,
        "n_initial": n_initial,
        "kernel": kernel,
        "stop_when": stop_when,
        "context_rule": context_rule,
        "reference": reference,
    }
    problems = []
    for method, uncertainty, seed in product(methods, uncertainties, seeds):
        settings = {**common, "method": method, "uncertainty": uncertainty, "seed": seed}
        problems.append(RunProblem.of(space, contexts, settings, function, label))
    told = Callbacks(callbacks)
    root = find_location(storage, None, resume) if storage is None else None
    try:
        plans = _plans(problems, limits, root.directory if root else storage, resume)
        results = _results(plans, function, told, progress, in_flight, backend)
    except BaseException:
        if root is not None:
            shutil.rmtree(root.directory, ignore_errors=True)
        raise
    many = ManyResults.kept(
        [results[plan.place.name] for plan in plans if plan.place.name in results], root
    )
    told.call("on_finish", many)
    return many


def _plans(
    problems: list[RunProblem], limits: Limits, storage: str | Path | None, resume: bool
) -> list[Plan]:
    plans: dict[str, Plan] = {}
    for problem in problems:
        uncertainty = problem.settings["uncertainty"]
        labels = {
            "method": problem.settings["method"],
            "uncertainty": uncertainty.label(),
            "seed": problem.settings["seed"],
        }
        name = f"{labels['method']}_{labels['uncertainty']}_seed-{labels['seed']}"
        if name in plans:
            raise InvalidInput(
                "Every combination of method, uncertainty set and seed may occur once.",
                name,
                "Drop the repeat; sets of one kind must differ in their first parameter.",
            )
        place: RunLocation = find_location(storage, name)
        plans[name] = Plan(problem, place, limits, resume, labels)
    if not plans:
        raise InvalidInput(
            "There must be a method, an uncertainty set and a seed.", [], "Name at least one each."
        )
    return list(plans.values())


def _results(
    plans: list[Plan],
    objective: FoldObjective,
    callbacks: Callbacks,
    progress: bool | None,
    in_flight: int | None,
    backend: str,
) -> dict[str, Result]:
    results = {}
    waiting = []
    for plan in plans:
        earlier = earlier_result(plan)
        if earlier is None:
            waiting.append(plan)
        else:
            results[plan.place.name] = earlier
    if waiting:
        title = f"{len(waiting)} runs"
        found = drive(waiting, objective, title, callbacks, progress, in_flight, True, backend)
        results |= {result.name: result for result in found}
    return results
