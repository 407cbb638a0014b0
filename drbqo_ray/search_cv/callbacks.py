"""What a search tells callbacks of scikit-learn: its tasks, as scikit-learn's own searches do.

    fit
      search
        candidate-split-evaluation    one fold of one config, in the order started
      refit-with-best-params

Callbacks came with scikit-learn 1.9. Before, a search has no `set_callbacks` and tells nobody.

A fold that is trained in this process hands the callbacks that want it on to its estimator. Folds
on workers are told of here, when they are started and when they have ended: callbacks of
scikit-learn reach this process from others on the same machine only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar, cast

from drbqo_ray.search_cv.fold_fit import CrossValidation

try:
    from sklearn import callback as theirs
except ImportError:  # before scikit-learn 1.9
    theirs = None

F = TypeVar("F", bound=Callable[..., Any])


class NoCallbacks:
    """What a search has in the place of scikit-learn's mixin where there are no callbacks."""


CallbackMixin: Any = NoCallbacks if theirs is None else theirs.CallbackSupportMixin
"""Gives a search `set_callbacks`."""


def ending_callbacks(fit: F) -> F:
    """Decorator of `fit`: callbacks are torn down however it ends."""
    return fit if theirs is None else cast(F, theirs.with_callbacks(fit))


class Nobody:
    """What is told of a task in the place of scikit-learn's CallbackContext, then."""

    def subcontext(self, **_: Any) -> Nobody:
        """The same for a task inside."""
        return self

    def call_on_fit_task_begin(self, **_: Any) -> None:
        """Nothing."""

    def call_on_fit_task_end(self, **_: Any) -> None:
        """Nothing."""

    def propagate_callback_context(self, model: Any) -> AbstractContextManager[None]:
        """Nothing to hand on."""
        return nullcontext(model)


class FitTasks:
    """The tasks of one `fit`. The first one begins here.

    Args:
        search: the search that is fitted; hooks get it as their estimator.
        X, y: all data.
        folds: the folds that will be trained.
    """

    def __init__(self, search: Any, X: Any, y: Any, folds: CrossValidation) -> None:
        self._search = search
        self._folds = folds
        self._all = {"X": X, "y": y, "metadata": _weights(folds.fit_params)}
        subtasks = 1 + bool(search.refit)
        self._root = (
            Nobody() if theirs is None else search._init_callback_context(max_subtasks=subtasks)
        )
        self._begin(self._root, self._all)
        self._searching: Any = None
        self._started = 0
        self._expected = 0
        self._under_way: dict[int, tuple[Any, dict[str, Any]]] = {}

    def end(self) -> None:
        """The fit has ended well."""
        self._end(self._root, self._all)

    @contextmanager
    def searching(self, budget: int | None) -> Iterator[None]:
        """The task of the search itself, which trains at most `budget` folds, if that is known."""
        self._searching = self._root.subcontext(
            task_name="search", max_subtasks=budget, sequential_subtasks=False
        )
        self._begin(self._searching, {})
        yield
        self._end(self._searching, {})

    @contextmanager
    def refitting(self, model: Any) -> Iterator[None]:
        """The task of training the best config on all data."""
        task = self._root.subcontext(task_name="refit-with-best-params")
        with task.propagate_callback_context(model):
            self._begin(task, self._all)
            yield
        self._end(task, self._all)

    # folds

    def expected(self, number: int) -> None:
        """Evaluation `number` is the next to be trained in this process."""
        self._expected = number

    def training(self, fold: int) -> Callable[[Any], AbstractContextManager[None]]:
        """What the expected evaluation is to fit its model in: a function of the model."""
        return partial(self._training, fold)

    @contextmanager
    def _training(self, fold: int, model: Any) -> Iterator[None]:
        task, given = self._open(self._expected, fold)
        with task.propagate_callback_context(model):
            self._begin(task, given)
            yield

    def started(self, number: int, fold: int) -> None:
        """Evaluation `number` was handed to a worker."""
        if number not in self._under_way:
            self._begin(*self._open(number, fold))

    def ended(self, number: int) -> None:
        """Evaluation `number` has been trained and scored, or has failed."""
        if number in self._under_way:
            self._end(*self._under_way.pop(number))

    def warn_of_workers(self) -> None:
        """Say that callbacks will not hear of estimators that are trained elsewhere."""
        own = getattr(self._search, "_skl_callbacks", ())
        sent = [type(callback).__name__ for callback in own if _is_handed_on(callback)]
        if sent and hasattr(self._folds.estimator, "set_callbacks"):
            warnings.warn(
                f"Folds are trained on workers, so {sent} hear of every fold, but not of what"
                " happens inside one. Pass n_jobs=1 to hear it all.",
                stacklevel=2,
            )

    def _open(self, number: int, fold: int) -> tuple[Any, dict[str, Any]]:
        task = self._searching.subcontext(
            task_name="candidate-split-evaluation", task_id=self._started
        )
        self._started += 1
        # cut to the rows in use only if a callback wants to see them
        given = {
            "X": lambda: self._folds.training_rows(fold)[0],
            "y": lambda: self._folds.training_rows(fold)[1],
            "metadata": lambda: _weights(self._folds.training_params(fold)),
        }
        self._under_way[number] = task, given
        return task, given

    def _begin(self, task: Any, given: dict[str, Any]) -> None:
        task.call_on_fit_task_begin(estimator=self._search, **given)

    def _end(self, task: Any, given: dict[str, Any]) -> None:
        task.call_on_fit_task_end(estimator=self._search, **given)


def _is_handed_on(callback: Any) -> bool:
    """Whether a callback wants to be told of the estimators inside."""
    return isinstance(callback, theirs.AutoPropagatedCallback) and (
        callback.max_propagation_depth != 0
    )


def _weights(params: dict[str, Any]) -> dict[str, Any] | None:
    """The parameters of a fit that callbacks are told."""
    weights = params.get("sample_weight")
    return None if weights is None else {"sample_weight": weights}
