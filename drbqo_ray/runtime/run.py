"""`run`: tune an objective, one fold at a time, and get a recommendation. `run_many`: the same with
several methods, uncertainty sets and seeds, in parallel.
"""

from __future__ import annotations

import numbers
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy.typing as npt

from drbqo_ray.core.sets import UncertaintySet
from drbqo_ray.errors import InvalidInput, RunFailed
from drbqo_ray.objective import FoldObjective, as_objective
from drbqo_ray.optimizer.methods import DEFAULT
from drbqo_ray.problem import Limits, Problem, Settings, takes_settings
from drbqo_ray.runtime.callbacks import Callbacks
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.runtime.executor import check_backend, open_executor
from drbqo_ray.runtime.loop import Loop
from drbqo_ray.runtime.result import ManyResults, Result, result_of_replay
from drbqo_ray.runtime.session import Session
from drbqo_ray.runtime.status import RunStatus
from drbqo_ray.space.space import Space
from drbqo_ray.storage.location import (
    RunLocation,
    begin,
    find_location,
    prepare,
    upload_missing,
)
from drbqo_ray.storage.warm_start import Entry, WarmStart


@takes_settings(method=DEFAULT)
def run(
    objective: FoldObjective | str,
    space: Space | Mapping[str, Any],
    contexts: int | Sequence[str] | npt.ArrayLike,
    *,
    n_evaluations: int | None = None,
    time_budget: float | None = None,
    at_deadline: Literal["finish", "stop"] = "finish",
    storage: str | Path | None = None,
    name: str | None = None,
    resume: bool = False,
    backend: Literal["ray", "local", "inline"] = "ray",
    resources: Mapping[str, float] | None = None,
    max_in_flight: int | None = None,
    timeout_seconds: float | None = None,
    max_retries: int = 2,
    max_consecutive_failures: int | None = 10,
    progress: bool | None = None,
    callbacks: Iterable[object] = (),
    warm_start: WarmStart | str | Path | None = None,
    **settings: Unpack[Settings],
) -> Result:
    """Evaluate single folds of configs until the evaluations or the time are used up.

    With `backend="ray"` it runs on the Ray that is connected, else on the cluster that RAY_ADDRESS
    names, which must ask for a token, else on a local Ray that is started quietly and ends with the
    run. Ctrl-C once stops with what there is, twice leaves at once; neither loses an outcome that
    was recorded. What the objective prints is not shown.

    Args:
        objective: a callable (config, fold, seed) -> float, or its name "module:attribute".
        space: the search space, or a dict of parameters.
        contexts: number n of folds, n distinct names of them, or sample vectors (n, m). The
            objective is always passed the number of the fold, from 0.
        n_evaluations: evaluations of single folds in all, failed ones included. Those of a warm
            start come on top, so that 0 will do with one. None with a time budget: no limit.
        time_budget: seconds that the run may take, all its sessions and the start of Ray included.
            No fold is started that is expected to end later. Folds count by their seconds then,
            unless `cost_aware=False` is passed; a run that is to be repeated exactly has neither.
        at_deadline: "finish" lets folds that run at the end of the time come to theirs; "stop" ends
            them, and they count as not evaluated.
        storage: directory for the run's journal, or an address such as s3://bucket/runs. Without
            it the journal is kept in a private temporary directory that goes with the result.
        name: name of the run below `storage`; without it `storage` is the run's own directory.
        resume: go on with the run that is there; start it when there is none.
        backend: "ray"; "local" for processes of this machine without Ray, which starts at once; or
            "inline" for this very process, one evaluation at a time, where Ctrl-C leaves at once.
            Journals are the same: a run begun on one can be resumed on the other.
        resources: what one evaluation needs, one CPU by default. The local backend knows CPUs only.
        max_in_flight: evaluations at a time, by default as many as fit. With 1
            every suggestion knows all earlier outcomes, and the run can be repeated exactly.
        timeout_seconds: an evaluation that runs longer is ended and counts as failed.
        max_retries: how often an evaluation whose worker, node or memory was lost starts again.
        max_consecutive_failures: failures in a row that stop the run. It is stopped too when a
            fold has failed three times and never worked although others do, as when there are
            fewer folds than `contexts` says. None goes on for ever.
        progress: True shows a live bar on a terminal and lines elsewhere, on standard error; None
            does the same, but nothing inside pytest; False shows nothing.
        callbacks: objects with any of on_ask(suggestion), on_observation(observation),
            on_finish(result); see `Callback`. What they raise is logged.
        warm_start: directory of an earlier run, or a `WarmStart`, whose evaluations are told first
            as far as they are valid in this space; the others are counted and named in the log.
        settings: method, uncertainty, mode, seed, stop_when and all else that `Optimizer` takes.
            Once `stop_when` holds, running folds are finished. A resumed run may have another
            `stop_when`, or none.

    Raises:
        RunFailed: too many evaluations in a row failed, or all of one fold.
        ObjectiveError: the objective cannot be loaded, called or sent to workers.
        JournalError: the storage cannot be used, holds another run, or is in use.
        ClusterRefused: the cluster that RAY_ADDRESS names cannot be joined safely.
    """
    check_backend(backend, timeout_seconds, at_deadline)
    function, label = as_objective(objective)
    how = (
        resources or {},
        max_in_flight,
        timeout_seconds,
        max_retries,
        max_consecutive_failures,
        time_budget,
        at_deadline,
    )
    settings.setdefault("cost_aware", time_budget is not None)
    if warm_start is None:
        Limits(n_evaluations, *how)
    problem = Problem.of(space, contexts, settings, function, label)
    told = Callbacks(callbacks)
    place = find_location(storage, name, resume)
    with removed_on_error(place if place.temporary else None):
        first, n_warm = _carried(warm_start, problem, place, resume)
        limits = Limits(_total(n_evaluations, n_warm), *how)
        plan = Plan(problem, place, limits, resume, first=first)
        result = earlier_result(plan)
        if result is None:
            most = limits.max_in_flight
            result = drive([plan], function, place.name, told, progress, most, backend=backend)[0]
    told.call("on_finish", result)
    if result.failure is not None:
        raise RunFailed(result.failure)
    return result


@takes_settings(without=("method", "uncertainty", "seed"))
def run_many(
    objective: FoldObjective | str,
    space: Space | Mapping[str, Any],
    contexts: int | Sequence[str] | npt.ArrayLike,
    *,
    n_evaluations: int | None = None,
    time_budget: float | None = None,
    at_deadline: Literal["finish", "stop"] = "finish",
    methods: Sequence[str] = (DEFAULT,),
    uncertainties: Sequence[UncertaintySet | float | str] = (1.0,),
    seeds: Iterable[int] = range(5),
    storage: str | Path | None = None,
    resume: bool = False,
    backend: Literal["ray", "local", "inline"] = "ray",
    resources: Mapping[str, float] | None = None,
    max_in_flight: int | None = None,
    max_in_flight_per_run: int = 1,
    timeout_seconds: float | None = None,
    max_retries: int = 2,
    max_consecutive_failures: int | None = 10,
    progress: bool | None = None,
    callbacks: Iterable[object] = (),
    **settings: Unpack[Settings],
) -> ManyResults:
    """Run every combination of method, uncertainty set and seed on one cluster or machine.

    Each combination is a run of its own with its own journal, named for example
    `foldwise_radius-1_seed-0`. By default each run evaluates one fold at a time, so that it is the
    exact algorithm and can be repeated, and the slots are filled by running many runs at once.

    Args:
        objective, space, contexts, backend, resources, timeout_seconds: see `run`.
        max_retries, max_consecutive_failures, progress: see `run`.
        n_evaluations: evaluations of each run; None with a time budget: no limit.
        time_budget, at_deadline: see `run`; each run has its own time, from when it begins.
        methods: names of methods.
        uncertainties: sets, chi-square radii, or "auto".
        seeds: one run of each combination for each of them.
        storage: directory that holds the directories of the runs; temporary without it.
        resume: go on with the runs that are there and return finished ones as they are.
        max_in_flight: evaluations of all runs at a time, by default as many as fit.
        max_in_flight_per_run: evaluations of one run at a time.
        callbacks: told of the asks and observations of all runs, and at the end of all results.
        settings: all else that `Optimizer` takes, for every run.

    Returns:
        The results in the order of methods, uncertainties and seeds. A run that was stopped by
        failures says so in its result; after Ctrl-C runs that had not begun are missing.
    """
    check_backend(backend, timeout_seconds, at_deadline)
    function, label = as_objective(objective)
    settings.setdefault("cost_aware", time_budget is not None)
    limits = Limits(
        n_evaluations,
        resources or {},
        max_in_flight_per_run,
        timeout_seconds,
        max_retries,
        max_consecutive_failures,
        time_budget,
        at_deadline,
    )
    in_flight = replace(limits, max_in_flight=max_in_flight).max_in_flight
    combinations = product(methods, uncertainties, seeds)
    problems = [
        Problem.of(space, contexts, {**settings, **combination}, function, label)
        for combination in (
            {"method": method, "uncertainty": uncertainty, "seed": seed}
            for method, uncertainty, seed in combinations
        )
    ]
    told = Callbacks(callbacks)
    root = find_location(storage, None, resume) if storage is None else None
    with removed_on_error(root):
        plans = _plans(problems, limits, root.directory if root else storage, resume)
        results = _results(plans, function, told, progress, in_flight, backend)
    many = ManyResults.kept(
        [results[plan.place.name] for plan in plans if plan.place.name in results], root
    )
    told.call("on_finish", many)
    return many


def _plans(
    problems: list[Problem], limits: Limits, storage: str | Path | None, resume: bool
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
        place = find_location(storage, name)
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


@contextmanager
def removed_on_error(temporary: RunLocation | None) -> Iterator[None]:
    """Remove a temporary directory when the block fails, so that nothing is left behind."""
    try:
        yield
    except BaseException:
        if temporary is not None:
            shutil.rmtree(temporary.directory, ignore_errors=True)
        raise


def _carried(
    warm_start: WarmStart | str | Path | None, problem: Problem, place: RunLocation, resume: bool
) -> tuple[tuple[Entry, ...], int]:
    """The records a run starts from, and how many evaluations they are: those its journal has, if
    it was worked on before, else those of the earlier run."""
    if warm_start is None:
        return (), 0
    there = prepare(place, problem, resume)
    if there is not None and there.session:
        return (), there.n_warm
    carried = WarmStart.of(warm_start).carry(problem)
    return tuple(carried.entries(problem)), len(carried.taken)


def _total(n_evaluations: int | None, n_warm: int) -> int | None:
    """The budget with what is there already; what makes no sense is left for `Limits` to refuse."""
    whole = isinstance(n_evaluations, numbers.Integral) and not isinstance(n_evaluations, bool)
    if n_evaluations is None or not whole or n_evaluations < 0:
        return n_evaluations
    return n_evaluations + n_warm


def earlier_result(plan: Plan) -> Result | None:
    """Check storage; the result if the run was finished before, without starting anything.

    A run that its stop rule has ended stays finished until it gets another rule, or none; one whose
    time was used up until it gets more of it, or no limit.
    """
    earlier = prepare(plan.place, plan.problem, plan.resume)
    if earlier is None:
        return None
    left = len(earlier.outcomes) < plan.limits.most
    late = earlier.is_late(plan.limits.time_budget)
    if left and not late and not earlier.is_sure(plan.stop_when):
        return None
    return result_of_replay(plan.place, earlier, plan.labels, upload_missing(plan.place))


def drive(
    plans: Sequence[Plan],
    objective: FoldObjective,
    title: str,
    callbacks: Callbacks,
    progress: bool | None,
    in_flight: int | None = None,
    many: bool = False,
    backend: str = "ray",
) -> list[Result]:
    """Run all plans and return the results of those that were begun, in order.

    A journal is made only when its run begins, after everything that can be refused.

    Args:
        plans: the runs, with equal limits.
        objective: what all of them evaluate.
        title: what the display is headed with.
        callbacks: told of every ask and observation of every run.
        progress: see `run`.
        in_flight: evaluations of all runs at a time, None for as many as fit.
        many: whether the runs belong together, so that no single best value is shown.
        backend: where they run, see `executor`.
    """
    from drbqo_ray.runtime.display import make_progress

    limits, since = plans[0].limits, time.monotonic()
    with open_executor(backend, objective, limits.resources, in_flight, progress) as executor:
        total = None if limits.n_evaluations is None else len(plans) * limits.n_evaluations
        folds, display = plans[0].problem.n_folds, make_progress(progress)
        status = RunStatus(
            title,
            total,
            lambda: executor.slots,
            folds,
            display,
            time_budget=None if many else limits.time_budget,
            context_names=plans[0].problem.context_names,
        )
        sessions: list[Session] = []

        def opener(plan: Plan) -> Callable[[], Session]:
            def open_session() -> Session:
                begin(plan.place, plan.problem, plan.resume, plan.first)
                watched = not many and progress is not False
                host, begun = executor.open(plan), None if many else since
                session = Session(plan, host, callbacks, status, watched, begun)
                sessions.append(session)
                return session

            return open_session

        try:
            short = limits.timeout_seconds is not None or limits.at_deadline == "stop"
            Loop([opener(plan) for plan in plans], executor, fast=short).run()
        finally:
            only = sessions[0].result if len(sessions) == 1 else None
            if only is None:
                status.finish()
            else:
                status.finish(only.recommendation, only.stop_reason, only.coverage)
    for session in sessions:
        if session.error is not None:
            raise session.error
    return [session.result for session in sessions if session.result is not None]
