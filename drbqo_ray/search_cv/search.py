"""A search as a run: the folds of a cross-validation are what the runtime evaluates.

    config, fold -> CrossValidation.train -> FoldFit -> score and info -> journal -> FoldFit

What a fold fit knows beside its score travels in the info of its outcome, so the journal says all
there is to say of a search, and what came of it is read from there, on whatever backend it ran.
Without storage the journal lies in a temporary directory and goes with the search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib

from drbqo_ray.errors import InvalidInput, ObjectiveError, RunFailed
from drbqo_ray.objective import objective_name
from drbqo_ray.optimizer.design import GRID_LIMIT
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.problem import Limits, Problem
from drbqo_ray.records import Config, Observation, Suggestion
from drbqo_ray.runtime.callbacks import Callbacks
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.runtime.executor import EvaluationFailed
from drbqo_ray.runtime.result import Result
from drbqo_ray.runtime.run import drive, earlier_result, removed_on_error
from drbqo_ray.search_cv.callbacks import FitTasks
from drbqo_ray.search_cv.fold_fit import CrossValidation, FoldFit, FoldScores, SentException
from drbqo_ray.space.space import Space
from drbqo_ray.storage.location import find_location
from drbqo_ray.storage.stored_run import read_run

TITLE = "RobustSearchCV"
OLD_FITS = "fold_fits.jsonl"
"""Where the first versions kept what a fold fit knows beside its score."""


@dataclass(frozen=True)
class TrainedFold:
    """One evaluation of a search."""

    config: Config
    fold: int
    fit: FoldFit


@dataclass(frozen=True)
class SearchPlan:
    """What a search may do, wherever it runs.

    Attributes:
        space: the search space.
        settings: `method`, `uncertainty`, `seed`, `stop_when` and `cost_aware` of the optimizer.
        n_evaluations: fold fits in all, None for as many as there is time for.
        error_score: "raise", or the score of a fold that fails.
        verbose: whether to show progress.
        backend: where folds are trained, see `drbqo_ray.run`.
        slots: folds trained at a time, None for as many as fit.
        storage: where the search is kept; None: nowhere.
        names: names of the folds; empty where they are counted.
        time_budget: seconds that the search may take, None without limit.
    """

    space: Space
    settings: dict[str, Any]
    n_evaluations: int | None
    error_score: str | float
    verbose: bool = False
    backend: str = "inline"
    slots: int | None = 1
    storage: str | Path | None = None
    names: tuple[str, ...] = ()
    time_budget: float | None = None

    def budget(self, n_folds: int) -> int | None:
        """Fold fits to make: no more than a small finite space has pairs of config and fold; None
        for as many as there is time for."""
        grid, most = self.space.grid(GRID_LIMIT), self.n_evaluations
        if grid is None:
            return most
        pairs = len(grid) * n_folds
        return pairs if most is None else min(most, pairs)

    def run(self, objective: FoldScores) -> Plan:
        """The search as a run; a temporary directory is made for one without storage."""
        kept, budget = self.storage is not None, self.budget(objective.n_folds)
        limits = Limits(
            budget,
            max_in_flight=self.slots,
            max_consecutive_failures=None,
            time_budget=self.time_budget,
        )
        name = objective_name(objective)
        contexts = self.names or objective.n_folds
        problem = Problem.of(self.space, contexts, self.settings, objective, name)
        place = find_location(self.storage, None, resume=kept)
        strict = self.error_score == "raise"
        return Plan(
            problem, place, limits, resume=kept, raise_failures=strict, answered=self.verbose
        )


class Told:
    """Tells scikit-learn's callbacks of the folds that a run starts and ends.

    Args:
        tasks: the tasks that callbacks are told of.
        here: whether folds are trained in this process, where a task begins with its model.
    """

    def __init__(self, tasks: FitTasks, here: bool) -> None:
        self._tasks = tasks
        self._here = here

    def on_ask(self, suggestion: Suggestion) -> None:
        """A fold is about to be trained."""
        with ending_the_search():
            if self._here:
                self._tasks.expected(suggestion.id)
            else:
                self._tasks.started(suggestion.id, suggestion.context)

    def on_observation(self, observation: Observation) -> None:
        """A fold has been trained and scored, or has failed."""
        with ending_the_search():
            self._tasks.ended(observation.id)


class CallbackFailed(BaseException):
    """A callback of scikit-learn raised something: its cause. A run would log a mere Exception."""


@contextmanager
def ending_the_search() -> Iterator[None]:
    """What callbacks raise in the block ends the search, as it ends GridSearchCV."""
    try:
        yield
    except Exception as error:
        raise CallbackFailed from error


def search(
    plan: SearchPlan, folds: CrossValidation, tasks: FitTasks, fingerprint: str | None
) -> tuple[Optimizer, list[TrainedFold], str | None]:
    """An optimizer that was told every score; the evaluations, those of earlier sessions included,
    in the order recorded; and why the stop rule or its time ended the search, if one did.

    Args:
        plan: what to search.
        folds: what to train.
        tasks: told of every fold that is trained in this session.
        fingerprint: what the search in storage must have been started with.
    """
    here = plan.backend == "inline"
    if not here:
        tasks.warn_of_workers()
    objective = FoldScores(folds, plan.error_score, fingerprint, tasks if here else None)
    run = plan.run(objective)
    with removed_on_error(run.place if run.place.temporary else None):
        result = earlier_result(run) if plan.storage is not None else None
        if result is None:
            result = work_on(run, plan, objective, Told(tasks, here))
        # options of these configs are those of the space, and not a worker's copies
        kept = read_run(run.place.directory, run.problem)
        old = old_fits(run.place.directory / OLD_FITS)
    trained = []
    for number, seen in kept.outcomes.items():
        fit = old.get(number) or FoldFit.of(seen, folds.target({}))
        trained.append(TrainedFold(seen.config, seen.context, fit))
    failed = any(seen.status == "failed" for seen in kept.outcomes.values())
    if failed and plan.error_score == "raise":
        return *without_failures(run.problem.optimizer(), folds, trained), kept.stop_reason
    return kept.optimizer, trained, kept.stop_reason


def work_on(run: Plan, plan: SearchPlan, objective: FoldScores, told: Told) -> Result:
    """Run a search to its end; what ends it before is raised as itself."""
    error: BaseException
    try:
        callbacks, backend = Callbacks([told]), plan.backend
        (result,) = drive(
            [run], objective, TITLE, callbacks, plan.verbose, plan.slots, backend=backend
        )
        if result.stopped != "interrupted":
            return result
        error = KeyboardInterrupt()
    except EvaluationFailed as failed:
        error = original(failed.observation)
    except CallbackFailed as failed:
        error = failed.__cause__ or failed
    except ObjectiveError as refused:
        raise not_sendable(refused) from refused
    raise error


def original(observation: Observation) -> Exception:
    """What a failed fold raised; where that was lost, an error with its reason."""
    sent = observation.raised
    error = sent.original() if isinstance(sent, SentException) else None
    return RunFailed(observation.reason) if error is None else error


def not_sendable(refused: ObjectiveError) -> InvalidInput:
    """What to say of a search that cannot be sent to workers."""
    cause = refused.__cause__ or refused
    return InvalidInput(
        "Estimator, data, scorer and parameters of fit must be picklable to go to workers.",
        f"{type(cause).__name__}: {cause}",
        "Pass n_jobs=1 to train in this process.",
    )


# searches that the first versions kept


def old_fits(path: Path) -> dict[int, FoldFit]:
    """The fold fits in the file by evaluation, none without one; the last of an evaluation counts.

    A line that a crash cut short is left out; its fold keeps the score that the journal has.
    """
    fits: dict[int, FoldFit] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError, TypeError, AttributeError, KeyError):
            entry = json.loads(line)
            number = entry.pop("id")
            fits[number] = FoldFit(**entry)
    return fits


def without_failures(
    optimizer: Optimizer, folds: CrossValidation, trained: list[TrainedFold]
) -> tuple[Optimizer, list[TrainedFold]]:
    """The search with failed folds trained again, here, and an optimizer told of all.

    The first versions recorded the failure that ended a search with error_score="raise". Its cause
    may be gone; if not, it is raised again.
    """
    again = []
    for number, item in enumerate(trained):
        fit = item.fit if item.fit.score is not None else folds.train(item.config, item.fold)
        if fit.score is None:
            raise RunFailed(fit.error) if fit.exception is None else fit.exception
        optimizer.register(Suggestion(number, item.config, item.fold, seed=0))
        optimizer.tell(number, fit.score)
        again.append(TrainedFold(item.config, item.fold, fit))
    return optimizer, again


def fingerprint_of(*parts: Any) -> str:
    """Digits that are the same for equal data, splits and estimators, in every process."""
    return str(joblib.hash([_digest(part) for part in parts]))


def _digest(part: Any) -> str:
    try:
        return str(joblib.hash(part))
    except Exception:  # what cannot be pickled, such as a lambda in a pipeline, by its text
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(part))
