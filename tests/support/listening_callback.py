"""Callbacks of scikit-learn that write down what they hear."""

from __future__ import annotations

from typing import Any


class Listener:
    """Hears of the tasks of the estimator it is set on."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.estimators: list[Any] = []
        self.given: list[Any] = []

    def _hear(self, what: Any, estimator: Any, context: Any) -> None:
        self.heard.append((what, context.task_name))
        self.estimators.append(estimator)

    def setup(self, estimator: Any, context: Any) -> None:
        self._hear("setup", estimator, context)

    def on_fit_task_begin(
        self, estimator: Any, context: Any, *, X: Any = None, y: Any = None, metadata: Any = None
    ) -> None:
        self._hear("begin", estimator, context)
        self.given.append((context.task_name, {"X": X, "y": y, "metadata": metadata}))

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, X: Any = None, y: Any = None, metadata: Any = None
    ) -> None:
        self._hear("end", estimator, context)
        self.given.append((context.task_name, {"X": X, "y": y, "metadata": metadata}))

    def teardown(self, estimator: Any, context: Any) -> None:
        self._hear("teardown", estimator, context)


class NosyListener(Listener):
    """Hears of the estimators inside as well."""

    max_propagation_depth = None
