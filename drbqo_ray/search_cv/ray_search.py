"""The folds of a search as tasks on Ray. Workers load this module, so it imports little."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drbqo_ray.errors import InvalidInput
from drbqo_ray.records import Suggestion
from drbqo_ray.search_cv.fold_fit import CrossValidation, FoldFit
from drbqo_ray.threads import limit_threads

if TYPE_CHECKING:
    from drbqo_ray.search_cv.callbacks import FitTasks

RETRIES = 2
"""How often a fold is started again after its worker, its node or its memory was lost."""
WAIT_SECONDS = 1.0


class RayCrew:
    """Trains every fold in a task of its own that needs one CPU.

    Lost workers, lost nodes and lack of memory are answered here by starting the fold again, and
    not by Ray, which would retry without end when memory runs out.

    Args:
        folds: what to train; goes to the object store once.
        limit: folds trained at a time, None for as many as fit.
        local: whether the cluster is this machine alone.
        tasks: told of every fold.
    """

    def __init__(
        self, folds: CrossValidation, limit: int | None, local: bool, tasks: FitTasks
    ) -> None:
        import ray

        from drbqo_ray.runtime.slots import Slots

        tasks.warn_of_workers()
        self._tasks = tasks
        self._data = _put(folds)
        self._task = ray.remote(num_cpus=1, max_retries=0)(train_fold)
        self._slots = Slots({"CPU": 1.0}, limit, local)
        self._running: dict[Any, tuple[Suggestion, int]] = {}

    @property
    def slots(self) -> int:
        """Folds trained at a time, followed as nodes join and leave."""
        self._slots.refresh()
        return self._slots.count

    def start(self, suggestion: Suggestion) -> None:
        """Hand a fold to Ray."""
        self._tasks.started(suggestion.id, suggestion.context)
        self._submit(suggestion, attempt=1)

    def _submit(self, suggestion: Suggestion, attempt: int) -> None:
        reference = self._task.remote(self._data, suggestion.config, suggestion.context)
        self._running[reference] = (suggestion, attempt)

    def finished(self, wait: bool) -> list[tuple[Suggestion, FoldFit]]:
        """What has been trained since the last call; with `wait`, after a moment if nothing has."""
        import ray

        if not self._running:
            return []
        ready: list[Any] = []
        if wait:
            ready, _ = ray.wait(list(self._running), timeout=WAIT_SECONDS)
        rest = [reference for reference in self._running if reference not in ready]
        if rest:
            ready += ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        ended = [(self._running.pop(reference), reference) for reference in ready]
        fits = [(task[0], self._collect(*task, reference)) for task, reference in ended]
        done = [(suggestion, fit) for suggestion, fit in fits if fit is not None]
        for suggestion, _ in done:
            self._tasks.ended(suggestion.id)
        return done

    def _collect(self, suggestion: Suggestion, attempt: int, reference: Any) -> FoldFit | None:
        """The fit of a task that has ended; None when the fold was started again."""
        import ray
        from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

        try:
            fit = unpickled(ray.get(reference))
        except RayTaskError as error:  # the worker could not even load the fold
            return FoldFit(None, error=str(error))
        except RayError as error:
            if attempt <= RETRIES:
                self._submit(suggestion, attempt + 1)
                return None
            cause = "out of memory" if isinstance(error, OutOfMemoryError) else "worker lost"
            return FoldFit(None, error=f"{cause}: {error} (started {attempt} times)")
        if fit.exception is not None:
            fit.exception.add_note(f"Raised on a worker:\n{fit.error}")
        return fit

    def cancel(self) -> None:
        """End what is being trained."""
        import ray
        from ray.exceptions import RayError

        for reference in self._running:
            with suppress(RayError, ValueError):
                ray.cancel(reference, force=True)


@contextmanager
def ray_crew(
    folds: CrossValidation, limit: int | None, tasks: FitTasks, verbose: bool
) -> Iterator[RayCrew]:
    """A crew on the Ray that is connected, else on one started for the time of the block."""
    from drbqo_ray.runtime.executor import connecting

    with ExitStack() as stack:
        with connecting(verbose):
            from drbqo_ray.runtime.connection import connection

            local = stack.enter_context(connection())
            crew = RayCrew(folds, limit, local, tasks)
        try:
            yield crew
        finally:
            crew.cancel()


def _put(folds: CrossValidation) -> Any:
    """Put data, splits and estimator into the object store."""
    import ray

    try:
        return ray.put(folds)
    except Exception as error:
        raise InvalidInput(
            "Estimator, data, scorer and parameters of fit must be picklable to go to workers.",
            f"{type(error).__name__}: {error}",
            "Pass n_jobs=1 to train in this process.",
        ) from error


def train_fold(folds: CrossValidation, config: Mapping[str, Any], fold: int) -> bytes:
    """Train one fold on a worker; a pickled `FoldFit`."""
    limit_threads(1)
    try:
        return pickled(folds.train(config, fold))
    except SystemExit as error:  # nothing of the user's ends the worker
        return pickled(FoldFit(None, error=f"SystemExit: {error}"))


def pickled(fit: FoldFit) -> bytes:
    """The fit as bytes, without an exception that would not survive the journey."""
    from ray import cloudpickle

    try:
        entry: bytes = cloudpickle.dumps(fit)
        pickle.loads(entry)
    except Exception:
        return pickle.dumps(replace(fit, exception=None))
    return entry


def unpickled(entry: bytes) -> FoldFit:
    """The fit that `pickled` turned into bytes."""
    fit: FoldFit = pickle.loads(entry)
    return fit
