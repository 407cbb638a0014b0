"""A run in TensorBoard: every config is a run of its HParams page.

    tensorboard --logdir runs/board

The scores of a config are the scalar `score` with the fold as the step, and those of the whole
search the scalar `search/score` with the evaluation as the step. It is written by tensorboardX,
which comes with Ray Tune.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from drbqo_ray.records import Observation
from drbqo_ray.runtime.result import Result
from drbqo_ray.trackers import Tracker, load, metrics, plain


class TensorBoardTracker(Tracker):
    """Writes runs to a folder for TensorBoard.

    Args:
        folder: where it writes; a folder of its own for each run.

    Raises:
        InvalidInput: tensorboardX is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self._make = load("tensorboardX", "tensorboardX").SummaryWriter
        self._hparams = load("tensorboardX.summary", "tensorboardX").hparams
        self._folder = Path(folder)

    def begin(self) -> None:
        """Open the files of the search."""
        self._search: Any = self._make(str(self._folder))
        self._writers: dict[int, Any] = {}
        self._seen: dict[int, list[Observation]] = {}

    def tell(self, number: int, observation: Observation) -> None:
        """Record an outcome of a config and of the search."""
        if number not in self._writers:
            self._writers[number] = self._make(str(self._folder / f"config-{number:04d}"))
        self._seen.setdefault(number, []).append(observation)
        if observation.score is not None:
            self._writers[number].add_scalar("score", observation.score, observation.context)
            self._search.add_scalar("search/score", observation.score, observation.id)
            self._search.flush()

    def end(self, result: Result, report: Path | None) -> None:
        """Record the configs with their mean scores, and the answer."""
        for number, writer in self._writers.items():
            seen = self._seen[number]
            scores = [one.score for one in seen if one.score is not None]
            found = {"hparams/folds": float(len(scores))}
            found["hparams/failed"] = float(len(seen) - len(scores))
            if scores:
                found["hparams/mean_score"] = fmean(scores)
            for summary in self._hparams(plain(seen[0].config), found):
                writer.file_writer.add_summary(summary)
            for name, value in found.items():
                writer.add_scalar(name, value)
            writer.close()
        for name, value in metrics(result).items():
            self._search.add_scalar(f"search/{name}", value, len(result.observations))
        if result.recommendation is not None:
            words = [f"{k} = {v}" for k, v in plain(result.recommendation.config).items()]
            self._search.add_text("search/recommendation", "\n".join(words))
        self._search.close()
