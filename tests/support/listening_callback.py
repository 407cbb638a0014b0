"""Callbacks of scikit-learn that write down what they hear."""

from __future__ import annotations


class Listener:
    """Hears of the tasks of the estimator it is set on."""

    def __init__(self):
        self.heard = []
        self.estimators = []
        self.given = []

    def _hear(self, what, estimator, context):
        self.heard.append((what, context.task_name))
        self.estimators.append(estimator)

    def setup(self, estimator, context):
        self._hear("setup", estimator, context)

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self._hear("begin", estimator, context)
        self.given.append((context.task_name, {"X": X, "y": y, "metadata": metadata}))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
        self._hear("end", estimator, context)
        self.given.append((context.task_name, {"X": X, "y": y, "metadata": metadata}))

    def teardown(self, estimator, context):
        self._hear("teardown", estimator, context)


class NosyListener(Listener):
    """Hears of the estimators inside as well."""

    max_propagation_depth = None
