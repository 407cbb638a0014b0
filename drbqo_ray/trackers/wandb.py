"""A run in Weights & Biases: one run of theirs, with every evaluation as a step and a row.

The answer is in the summary, all evaluations are a table, and the report is a file of the run. With
`mode="offline"` nothing leaves the machine until `wandb sync`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from drbqo_ray.records import Observation
from drbqo_ray.runtime.result import Result
from drbqo_ray.runtime.terminal import error_line
from drbqo_ray.trackers import Tracker, load, metrics, plain


class WandbTracker(Tracker):
    """Writes runs to Weights & Biases.

    Args:
        project: name of the project.
        group: what runs with other seeds or methods share, so that they are shown together.
        job_type: what kind of run it is.
        name: name of the run; theirs by default.
        mode: "online", "offline" or "disabled"; as their settings say by default.
        folder: where their files are kept; `wandb` in this folder by default.
        tags: tags of the run.

    Raises:
        InvalidInput: wandb is not installed.
    """

    def __init__(
        self,
        project: str = "drbqo",
        group: str | None = None,
        job_type: str = "search",
        name: str | None = None,
        mode: Literal["online", "offline", "disabled"] | None = None,
        folder: str | Path | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._wandb = load("wandb", "wandb")
        self._how: dict[str, Any] = {
            "project": project,
            "group": group,
            "job_type": job_type,
            "name": name,
            "mode": mode,
            "dir": None if folder is None else str(folder),
            "tags": list(tags),
            "reinit": "create_new",
        }
        self.run: Any = None

    def begin(self) -> None:
        """Begin a run of theirs beside whatever run is active."""
        self.run = self._wandb.init(**self._how)

    def tell(self, number: int, observation: Observation) -> None:
        """Record an outcome as the next step."""
        row: dict[str, Any] = {
            "evaluation": observation.id,
            "config_number": number,
            "fold": observation.context,
            "seconds": observation.seconds,
        }
        row |= {f"config/{name}": value for name, value in plain(observation.config).items()}
        if observation.score is None:
            row["failure"] = error_line(observation.reason)
        else:
            row["score"] = observation.score
        self.run.log(row)

    def end(self, result: Result, report: Path | None) -> None:
        """Record the answer, the table of evaluations and the report."""
        best = result.recommendation
        self.run.summary.update({**metrics(result), "stopped": result.stopped})
        if best is not None:
            found = {f"best/{name}": value for name, value in plain(best.config).items()}
            self.run.summary.update(found)
        frame = result.to_dataframe().astype(object)
        rows = frame.where(frame.notna(), None).map(_cell).to_numpy().tolist()
        table = self._wandb.Table(columns=list(frame.columns), data=rows, allow_mixed_types=True)
        self.run.log({"all_evaluations": table})
        if report is not None:
            shutil.copy(report, Path(self.run.dir) / report.name)
            self.run.save(str(Path(self.run.dir) / report.name), base_path=self.run.dir)
        self.run.finish(exit_code=int(result.stopped == "failed"))


def _cell(value: object) -> object:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
