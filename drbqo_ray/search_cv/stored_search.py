"""A search that is kept on disk and can be resumed: a run of `drbqo_ray.run` over the folds.

What a fold fit knows beside its score comes back through the ledger, and is appended to
`fold_fits.jsonl` beside the journal, where a resumed run finds it. A fold whose entry was lost
keeps its score.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import joblib

from drbqo_ray.errors import RunFailed
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.search_cv.callbacks import FitTasks
from drbqo_ray.search_cv.fold_fit import CrossValidation, FoldFit
from drbqo_ray.search_cv.fold_ledger import open_ledger
from drbqo_ray.search_cv.fold_search import SearchPlan, TrainedFold
from drbqo_ray.search_cv.ray_search import pickled, train_fold, unpickled

FOLD_FITS = "fold_fits.jsonl"
PATIENCE = 10.0
"""Seconds to wait for the ledger before an entry counts as lost."""


class RemoteFolds:
    """The fold objective of a search: trains on a worker, writes the ledger, returns the score.

    Args:
        folds: what to train, with the data inside.
        plan: what a failed fold counts as.
        ledger: handle of the ledger.
        fingerprint: changes with the data, the splits and the estimator.
    """

    def __init__(
        self, folds: CrossValidation, plan: SearchPlan, ledger: Any, fingerprint: str
    ) -> None:
        self.fingerprint = fingerprint
        self.n_folds = folds.n_folds
        self._folds = folds
        self._plan = plan
        self._ledger = ledger

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> float:
        """The score of a config on a fold."""
        fit = self._folds.train(config, fold)
        self._write(seed, fold, fit)
        return self._plan.value(fit)

    def _write(self, seed: int, fold: int, fit: FoldFit) -> None:
        import ray
        from ray.exceptions import RayError

        with suppress(RayError):  # the score itself does not need the ledger
            ray.get(self._ledger.write.remote(seed, fold, pickled(fit)))


class Recorder:
    """The callback that collects the fold fits of a run as their outcomes are acknowledged.

    Args:
        ledger: handle of the ledger.
        path: file that keeps the fits for a resumed run.
        tasks: told of every fold that is trained in this session.
    """

    def __init__(self, ledger: Any, path: Path, tasks: FitTasks) -> None:
        self._ledger = ledger
        self._tasks = tasks
        self._path = path
        self._asked: dict[int, Suggestion] = {}
        self.fits = read_fits(path)

    def on_ask(self, suggestion: Suggestion) -> None:
        """Remember the seed that the worker will file the fit under."""
        self._tasks.started(suggestion.id, suggestion.context)
        self._asked[suggestion.id] = suggestion

    def on_observation(self, observation: Observation) -> None:
        """Fetch the fit and write it down."""
        import ray
        from ray.exceptions import RayError

        asked, entry = self._asked.pop(observation.id, None), None
        if asked is None:
            return
        with suppress(RayError):
            entry = ray.get(self._ledger.take.remote(asked.seed, asked.context), timeout=PATIENCE)
        if entry is not None:
            self._keep(observation.id, unpickled(entry))
        self._tasks.ended(observation.id)

    def _keep(self, number: int, fit: FoldFit) -> None:
        self.fits[number] = fit
        append_fit(self._path, number, fit)

    def retrain(self, folds: CrossValidation, observations: list[Observation]) -> None:
        """Train again what failed in an earlier session; raise what it raises now.

        A failure of this session has been raised already, so that whatever else stopped an
        earlier one, such as a full disk, does not spoil a run for good.
        """
        import ray

        failed = [seen for seen in observations if self.fit(seen, "").score is None]
        train = ray.remote(num_cpus=1)(train_fold)
        data = ray.put(folds) if failed else None
        for seen in failed:
            fit = unpickled(ray.get(train.remote(data, seen.config, seen.context)))
            if fit.score is None:
                raise RunFailed(fit.error) if fit.exception is None else fit.exception
            self._keep(seen.id, fit)

    def fit(self, observation: Observation, metric: str) -> FoldFit:
        """The fit behind an observation; where its entry was lost, what the journal knows."""
        found: FoldFit | None = self.fits.get(observation.id)
        if found is not None:
            return found
        if observation.score is None:
            return FoldFit(None, error=observation.reason or "no reason given")
        return FoldFit(observation.score, {metric: observation.score})


def append_fit(path: Path, number: int, fit: FoldFit) -> None:
    """Add a fit to the file, on the disk when this returns."""
    line = {
        "id": number,
        "score": fit.score,
        "test_scores": fit.test_scores,
        "train_scores": fit.train_scores,
        "fit_time": fit.fit_time,
        "score_time": fit.score_time,
        "error": fit.error,
    }
    with open(path, "a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(line))
        file.flush()
        os.fsync(file.fileno())


def read_fits(path: Path) -> dict[int, FoldFit]:
    """The fits in the file by evaluation; the last one counts.

    A line that a crash cut short is left out.
    """
    fits: dict[int, FoldFit] = {}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            number = entry.pop("id")
            fits[number] = FoldFit(**entry)
        except (ValueError, TypeError, AttributeError, KeyError):
            continue
    return fits


def search_in_storage(
    plan: SearchPlan,
    folds: CrossValidation,
    slots: int | None,
    storage: str | Path,
    fingerprint: str,
    tasks: FitTasks,
) -> tuple[Optimizer, list[TrainedFold], str | None]:
    """An optimizer that was told every evaluation of a run; these, those of earlier sessions
    included, in the order recorded; and why the stop rule ended the run, if it did.

    Args:
        plan: what to search.
        folds: what to train; goes to the object store once.
        slots: folds trained at a time, None for as many as fit.
        storage: see `drbqo_ray.run`; a run that is there is resumed.
        fingerprint: what the run in `storage` must have been started with.
        tasks: told of every fold that is trained in this session.
    """
    from drbqo_ray.runtime.connection import connection
    from drbqo_ray.runtime.run import run
    from drbqo_ray.storage.location import find_location

    tasks.warn_of_workers()
    path = find_location(storage, None).directory / FOLD_FITS
    with connection(), open_ledger() as ledger:
        recorder = Recorder(ledger, path, tasks)
        go = partial(
            run,
            RemoteFolds(folds, plan, ledger, fingerprint),
            plan.space,
            folds.n_folds,
            n_evaluations=plan.budget(folds.n_folds),
            storage=storage,
            resume=True,
            max_in_flight=slots,
            max_consecutive_failures=1 if plan.error_score == "raise" else None,
            progress=plan.verbose,
            **plan.settings,
        )
        try:
            stopped = go(callbacks=[recorder]).stopped
        except RunFailed as failure:
            _raise_original(recorder, failure)
        if stopped == "interrupted":
            raise KeyboardInterrupt
        # read from the journal, where options are those of the space and not a worker's copies
        ended = go()
        observations = ended.observations
        if plan.error_score == "raise":
            recorder.retrain(folds, observations)
    optimizer = Optimizer(plan.space, folds.n_folds, **plan.settings)
    trained = []
    for number, seen in enumerate(observations):
        fit = recorder.fit(seen, folds.target({}))
        optimizer.register(Suggestion(number, seen.config, seen.context, seed=0))
        plan.tell(optimizer, number, fit)
        trained.append(TrainedFold(seen.config, seen.context, fit))
    return optimizer, trained, ended.stop_reason


def _raise_original(recorder: Recorder, failure: RunFailed) -> NoReturn:
    """Raise what a fold raised on its worker; the failure itself where that was lost."""
    for fit in recorder.fits.values():
        if fit.exception is not None:
            fit.exception.add_note(f"Raised on a worker:\n{fit.error}")
            raise fit.exception from None
    raise failure


def fingerprint_of(*parts: Any) -> str:
    """Digits that are the same for equal data, splits and estimators, in every process."""
    return str(joblib.hash([_digest(part) for part in parts]))


def _digest(part: Any) -> str:
    try:
        return str(joblib.hash(part))
    except Exception:  # what cannot be pickled, such as a lambda in a pipeline, by its text
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(part))
