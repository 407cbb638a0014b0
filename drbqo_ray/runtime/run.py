"""`run`: tune an objective, one fold at a time, and get a recommendation."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy.typing as npt

from drbqo_ray.core.sets import UncertaintySet
from drbqo_ray.errors import RunFailed
from drbqo_ray.objective import FoldObjective, as_objective
from drbqo_ray.optimizer.methods import DEFAULT
from drbqo_ray.problem import RunProblem
from drbqo_ray.runtime.callbacks import Callbacks
from drbqo_ray.runtime.executor import check_backend, open_executor
from drbqo_ray.runtime.loop import Loop
from drbqo_ray.runtime.plan import Limits, Plan
from drbqo_ray.runtime.result import Result, result_of_replay
from drbqo_ray.runtime.session import Session
from drbqo_ray.runtime.status import RunStatus
from drbqo_ray.space.space import Space
from drbqo_ray.storage.location import begin, find_location, prepare


def run(
    objective: FoldObjective | str,
    space: Space | Mapping[str, Any],
    contexts: int | npt.ArrayLike,
    *,
    n_evaluations: int,
    method: str = DEFAULT,
    uncertainty: UncertaintySet | float | str = 1.0,
    mode: Literal["max", "min"] = "max",
    n_initial: int | None = None,
    kernel: str = "se",
    context_rule: str | None = None,
    reference: npt.ArrayLike | None = None,
    seed: int = 0,
    storage: str | Path | None = None,
    name: str | None = None,
    resume: bool = False,
    backend: Literal["ray", "local"] = "ray",
    resources: Mapping[str, float] | None = None,
    max_in_flight: int | None = None,
    timeout_seconds: float | None = None,
    max_retries: int = 2,
    max_consecutive_failures: int | None = 10,
    stop_when: str | None = None,
    progress: bool | None = None,
    callbacks: Iterable[object] = (),
) -> Result:
    """Evaluate single folds of configs until the budget is used up.

    With `backend="ray"` it runs on the Ray that is connected, else on the cluster that RAY_ADDRESS
    names, which must ask for a token, else on a local Ray that is started quietly and ends with the
    run. Ctrl-C once stops with what there is, twice leaves at once; neither loses an outcome that
    was recorded. What the objective prints is not shown.

    Args:
        objective: a callable (config, fold, seed) -> float, or its name "module:attribute".
        space: the search space, or a dict of parameters.
        contexts: number n of folds, or sample vectors (n, m).
        n_evaluations: evaluations of single folds in all, failed ones included.
        method: name of a recipe, see `drbqo_ray.optimizer.methods`; "drbqo" is the paper's.
        uncertainty, mode, n_initial, kernel, context_rule, reference, seed: see `Optimizer`.
        storage: directory for the run's journal, or an address such as s3://bucket/runs. Without
            it the journal is kept in a private temporary directory that goes with the result.
        name: name of the run below `storage`; without it `storage` is the run's own directory.
        resume: go on with the run that is there; start it when there is none.
        backend: "ray", or "local" for processes of this machine without Ray, which starts at once.
            Journals are the same: a run begun on one can be resumed on the other.
        resources: what one evaluation needs, one CPU by default. The local backend knows CPUs only.
        max_in_flight: evaluations at a time, by default as many as fit. With 1
            every suggestion knows all earlier outcomes, and the run can be repeated exactly.
        timeout_seconds: an evaluation that runs longer is ended and counts as failed.
        max_retries: how often an evaluation whose worker, node or memory was lost starts again.
        max_consecutive_failures: failures in a row that stop the run. It is stopped too when a
            fold has failed three times and never worked although others do, as when there are
            fewer folds than `contexts` says. None goes on for ever.
        stop_when: stop before the budget is used up once the recommendation is sure enough, e.g.
            "loss < 0.002" or "probability > 0.95", see `Certainty`. Running folds are finished.
            A resumed run may have another rule, or none.
        progress: True shows a live bar on a terminal and lines elsewhere, on standard error; None
            does the same, but nothing inside pytest; False shows nothing.
        callbacks: objects with any of on_ask(suggestion), on_observation(observation),
            on_finish(result); see `Callback`. What they raise is logged.

    Raises:
        RunFailed: too many evaluations in a row failed, or all of one fold.
        ObjectiveError: the objective cannot be loaded, called or sent to workers.
        JournalError: the storage cannot be used, holds another run, or is in use.
        ClusterRefused: the cluster that RAY_ADDRESS names cannot be joined safely.
    """
    check_backend(backend)
    function, label = as_objective(objective)
    limits = Limits(
        n_evaluations,
        resources or {},
        max_in_flight,
        timeout_seconds,
        max_retries,
        max_consecutive_failures,
    )
    settings = {
        "method": method,
        "uncertainty": uncertainty,
        "mode": mode,
        "n_initial": n_initial,
        "kernel": kernel,
        "context_rule": context_rule,
        "reference": reference,
        "seed": seed,
        "stop_when": stop_when,
    }
    problem = RunProblem.of(space, contexts, settings, function, label)
    told = Callbacks(callbacks)
    plan = Plan(problem, find_location(storage, name, resume), limits, resume)
    with removed_on_error(plan):
        result = earlier_result(plan)
        if result is None:
            most = limits.max_in_flight
            name = plan.place.name
            result = drive([plan], function, name, told, progress, most, backend=backend)[0]
    told.call("on_finish", result)
    if result.failure is not None:
        raise RunFailed(result.failure)
    return result


@contextmanager
def removed_on_error(plan: Plan) -> Iterator[None]:
    """Remove a temporary directory when the block fails, so that nothing is left behind."""
    try:
        yield
    except BaseException:
        if plan.place.temporary:
            shutil.rmtree(plan.place.directory, ignore_errors=True)
        raise


def earlier_result(plan: Plan) -> Result | None:
    """Check storage; the result if the run was finished before, without starting anything.

    A run that its stop rule has ended stays finished until it gets another rule, or none.
    """
    earlier = prepare(plan.place, plan.problem, plan.resume)
    left = len(earlier.outcomes) < plan.limits.n_evaluations
    if left and not earlier.is_sure(plan.stop_when):
        return None
    return result_of_replay(plan.place, earlier, plan.labels)


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
        plans: the runs, with equal resources.
        objective: what all of them evaluate.
        title: what the display is headed with.
        callbacks: told of every ask and observation of every run.
        progress: see `run`.
        in_flight: evaluations of all runs at a time, None for as many as fit.
        many: whether the runs belong together, so that no single best value is shown.
        backend: where they run, see `executor`.
    """
    from drbqo_ray.runtime.display import make_progress

    limits = plans[0].limits
    with open_executor(backend, objective, limits.resources, in_flight, progress) as executor:
        shown = Callbacks([make_progress(progress)])
        standing = RunStatus(shown, lambda: executor.slots)
        sessions: list[Session] = []

        def opener(plan: Plan) -> Callable[[], Session]:
            def open_session() -> Session:
                begin(plan.place, plan.problem, plan.resume)
                watched = not many and progress is not False
                session = Session(plan, executor.open(plan), callbacks, standing, watched)
                sessions.append(session)
                return session

            return open_session

        total = sum(plan.limits.n_evaluations for plan in plans)
        shown.call("on_start", title, total, executor.slots, plans[0].problem.n_folds)
        try:
            short = limits.timeout_seconds is not None
            Loop([opener(plan) for plan in plans], executor, fast=short).run()
        finally:
            results = [session.result for session in sessions]
            shown.call("on_finish", results[0] if len(results) == 1 else results)
    for session in sessions:
        if session.error is not None:
            raise session.error
    return [session.result for session in sessions if session.result is not None]
