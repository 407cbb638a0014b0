"""A run in MLflow: one parent run, and a child run for every config.

A child has the parameters of its config, and its scores as the metric `score` with the fold as
the step. The parent has the answer as metrics and as parameters `best.*`, and the report as an
artifact.
Runs are written by a client of their own, so whatever run is active stays active.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drbqo_ray.records import Observation
from drbqo_ray.runtime.result import Result
from drbqo_ray.runtime.terminal import error_line, printable
from drbqo_ray.trackers import Tracker, load, metrics

PARENT, NAME = "mlflow.parentRunId", "mlflow.runName"
ENDS = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
LONGEST_VALUE = 500
_ODD = re.compile(r"[^\w\-./ ]")


class MLflowTracker(Tracker):
    """Writes runs to MLflow.

    Args:
        experiment: name of the experiment, made if there is none.
        run_name: name of the parent run; that of the run by default.
        tracking_uri: where MLflow keeps its runs; what MLflow is set to by default.
        tags: more tags of the parent run.

    Raises:
        InvalidInput: mlflow is not installed.
    """

    def __init__(
        self,
        experiment: str = "drbqo",
        run_name: str | None = None,
        tracking_uri: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        tracking = load("mlflow.tracking", "mlflow-skinny")
        self._client = tracking.MlflowClient(tracking_uri=tracking_uri)
        self._experiment, self._run_name, self._tags = experiment, run_name, dict(tags or {})
        self.parent_run_id: str | None = None

    def begin(self) -> None:
        """Make the parent run."""
        found = self._client.get_experiment_by_name(self._experiment)
        self._experiment_id = (
            self._client.create_experiment(self._experiment)
            if found is None
            else found.experiment_id
        )
        self.parent_run_id = self._run(self._run_name or "drbqo", self._tags)
        self._children: dict[int, str] = {}

    def tell(self, number: int, observation: Observation) -> None:
        """Record an outcome in the child run of its config, made when the first one comes."""
        if number not in self._children:
            tags = {PARENT: self.parent_run_id, "drbqo.config": str(number)}
            self._children[number] = self._run(f"config {number}", tags)
            self._log_params(self._children[number], observation.config)
        child, fold = self._children[number], observation.context
        if observation.score is None:
            why = error_line(observation.reason, LONGEST_VALUE)
            self._client.set_tag(child, f"failed.fold-{fold}", why)
        else:
            self._client.log_metric(child, "score", observation.score, step=fold)
            self._client.log_metric(child, "seconds", observation.seconds, step=fold)
            self._client.log_metric(
                self.parent_run_id, "score", observation.score, step=observation.id
            )

    def end(self, result: Result, report: Path | None) -> None:
        """Record the answer and the report, and end all runs."""
        parent = self.parent_run_id
        for name, value in metrics(result).items():
            self._client.log_metric(parent, name, value)
        if result.recommendation is not None:
            best = result.recommendation.config
            self._log_params(parent, {f"best.{name}": value for name, value in best.items()})
        self._client.set_tag(parent, "drbqo.stopped", result.stopped)
        if self._run_name is None:
            self._client.set_tag(parent, NAME, printable(result.name))
        if report is not None:
            self._client.log_artifact(parent, str(report))
        for child in self._children.values():
            self._client.set_terminated(child)
        self._client.set_terminated(parent, ENDS.get(result.stopped, "FINISHED"))

    def _run(self, name: str, tags: Mapping[str, Any]) -> str:
        made = self._client.create_run(self._experiment_id, tags={**tags, NAME: name})
        return str(made.info.run_id)

    def _log_params(self, run: str | None, config: Mapping[str, object]) -> None:
        """Names that MLflow does not take have underscores in the odd places, and a number where
        that makes two of them the same."""
        taken: set[str] = set()
        for number, (name, value) in enumerate(config.items()):
            key = _ODD.sub("_", name)[:200] or "_"
            if posixpath.normpath(key) != key or key.startswith((".", "/")):
                key = key.replace("/", "_").lstrip(".") or "_"
            key = f"{key}_{number}" if key in taken else key
            taken.add(key)
            self._client.log_param(run, key, printable(value, LONGEST_VALUE))
