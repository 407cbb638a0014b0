"""What a run gives back."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drbqo_ray.optimizer.certainty import Certainty
from drbqo_ray.records import Observation, Recommendation
from drbqo_ray.runtime.coordinator import Final
from drbqo_ray.runtime.coverage import Coverage
from drbqo_ray.storage.location import RunLocation
from drbqo_ray.storage.stored_run import ReplayedRun, how_sure, recommend

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """What came of a run.

    Attributes:
        name: name of the run.
        recommendation: the best config, None when none can be recommended.
        observations: every outcome, in the order recorded.
        storage: the run directory with its journal. Of a run without storage it is a temporary
            directory that goes away with this object.
        stopped: "finished" when the budget was used up or the stop rule was met, "interrupted" or
            "failed".
        failure: why it failed, None when it did not.
        labels: what tells this run from its siblings, see `run_many`.
        stop_reason: what the stop rule said, None when it did not stop the run.
        certainty: how sure the recommendation is, None without one.
        n_folds: number of folds.
    """

    name: str
    recommendation: Recommendation | None
    observations: list[Observation] = field(repr=False)
    storage: Path
    stopped: str
    failure: str | None = None
    labels: dict[str, Any] = field(default_factory=dict)
    stop_reason: str | None = None
    certainty: Certainty | None = None
    n_folds: int = 0

    @property
    def coverage(self) -> Coverage:
        """Which folds have a score, and how many evaluations failed; as text, one line."""
        return Coverage.of(self.observations, self.n_folds)

    @property
    def first_failure(self) -> Observation | None:
        """The first evaluation that failed, its traceback in `reason`; None when none did."""
        return next((seen for seen in self.observations if seen.status == "failed"), None)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per evaluation: id, fold, status, score, reason, seconds, node, and its config.

        Columns of the config are named `config.` and the parameter; a parameter that was not
        active is missing there.
        """
        import pandas as pd

        rows = []
        for seen in self.observations:
            row = {
                "id": seen.id,
                "context": seen.context,
                "status": seen.status,
                "score": seen.score,
                "reason": seen.reason,
                "seconds": seen.seconds,
                "node": seen.node,
                "attempts": seen.attempts,
            }
            rows.append(row | {f"config.{name}": value for name, value in seen.config.items()})
        columns = ["id", "context", "status", "score", "reason", "seconds", "node", "attempts"]
        return pd.DataFrame(rows, columns=None if rows else columns)

    def report(self, path: str | Path) -> Path:
        """Write one offline HTML page about the run to `path`; returns where it is."""
        from drbqo_ray.report.file import write_report
        from drbqo_ray.runtime.run_report import journal_facts

        return write_report(journal_facts(self.storage, self.name), path)


def result_of(
    place: RunLocation,
    final: Final,
    stopped: str,
    failure: str | None = None,
    labels: dict[str, Any] | None = None,
    stop_reason: str | None = None,
) -> Result:
    """The result of a run that has just stopped."""
    result = Result(
        name=place.name,
        recommendation=final.recommendation,
        observations=final.observations,
        storage=place.directory,
        stopped=stopped,
        failure=failure,
        labels=labels or {},
        stop_reason=stop_reason,
        certainty=final.certainty,
        n_folds=final.n_folds,
    )
    if place.temporary:
        weakref.finalize(result, shutil.rmtree, place.directory, ignore_errors=True)
    return result


def result_of_replay(
    place: RunLocation, run: ReplayedRun, labels: dict[str, Any] | None = None
) -> Result:
    """The result of a run that was finished before."""
    observations = list(run.outcomes.values())
    certainty = how_sure(run.optimizer)
    n_folds = run.optimizer.n_contexts
    final = Final(recommend(run.optimizer), observations, certainty, n_folds)
    return result_of(place, final, "finished", labels=labels, stop_reason=run.stop_reason)


@dataclass(frozen=True)
class ManyResults(Sequence[Result]):
    """The results of several runs, in the order of methods, uncertainty sets and seeds."""

    results: list[Result]

    @staticmethod
    def kept(results: list[Result], root: RunLocation | None) -> ManyResults:
        """The results; a temporary `root` of their journals goes away with the returned object."""
        many = ManyResults(results)
        if root is not None:
            weakref.finalize(many, shutil.rmtree, root.directory, ignore_errors=True)
        return many

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: Any) -> Any:
        return self.results[index]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per run: its labels, how it ended, and its recommendation.

        `failed` counts evaluations that failed, `folds` those with a score.
        """
        import pandas as pd

        rows = []
        for result in self.results:
            coverage = result.coverage
            row = {"name": result.name, **result.labels, "stopped": result.stopped}
            row |= {"evaluations": len(result.observations), "failed": coverage.n_failed}
            row |= {"folds": coverage.n_folds - len(coverage.missing)}
            best = result.recommendation
            if best is not None:
                row |= {"robust_value": best.robust_value, "mean_value": best.mean_value}
                row |= {"std": best.std}
                row |= {f"config.{name}": value for name, value in best.config.items()}
            rows.append(row)
        return pd.DataFrame(rows)
