"""What a run gives back."""

from __future__ import annotations

import logging
import shutil
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drbqo_ray.optimizer.certainty import Certainty, Forecast, Verdict
from drbqo_ray.records import Observation, Recommendation, fold_text, html_card
from drbqo_ray.runtime.coordinator import Final
from drbqo_ray.runtime.status import Coverage
from drbqo_ray.runtime.terminal import error_line, printable
from drbqo_ray.storage.checkpoint import Judgment, judged_run
from drbqo_ray.storage.listing import HeldLocks, find_run
from drbqo_ray.storage.location import RunLocation
from drbqo_ray.storage.stored_run import ReplayedRun, foresee, how_sure, recommend

if TYPE_CHECKING:
    import pandas as pd

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """What came of a run.

    Attributes:
        name: name of the run.
        recommendation: the best config, None when none can be recommended.
        observations: every outcome, in the order recorded.
        storage: the run directory with its journal. Of a run without storage it is a temporary
            directory that goes away with this object.
        stopped: "finished" when a budget was used up or the stop rule was met, "interrupted" or
            "failed". Of a loaded run it may be "running", "cut off" or "open", see `list_runs`.
        failure: why it failed, None when it did not.
        labels: what tells this run from its siblings, see `run_many`.
        stop_reason: what the stop rule said, or that the time budget was used up; None when
            neither stopped the run.
        certainty: how sure the recommendation is, None without one.
        n_folds: number of folds.
        context_names: their names in order; empty where they are counted.
        forecast: what to expect of the recommended config in a context that is not among these but
            of the same kind, None without a recommendation or with one context only.
        remote: its address in an object store without credentials, None when it has none.
        not_uploaded: what the copy in an object store lacks, None when nothing.
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
    context_names: tuple[str, ...] = ()
    forecast: Forecast | None = None
    remote: str | None = None
    not_uploaded: str | None = None

    @property
    def address(self) -> str:
        """What the run is called, and what `drbqo resume` takes: its address in an object store,
        else its directory."""
        return self.remote or str(self.storage)

    @property
    def verdict(self) -> Verdict | None:
        """What to make of the recommendation: clear, practically tied, or not settled; None without
        one."""
        return None if self.certainty is None else self.certainty.verdict

    @property
    def coverage(self) -> Coverage:
        """Which folds have a score, and how many evaluations failed; as text, one line."""
        return Coverage.of(self.observations, self.n_folds, self.context_names)

    @property
    def first_failure(self) -> Observation | None:
        """The first evaluation that failed, its traceback in `reason`; None when none did."""
        return next((seen for seen in self.observations if seen.status == "failed"), None)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per evaluation: id, fold, status, score, reason, seconds, node, and its config.
        Where folds have names, `context_name` is that of the fold.

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
            if self.context_names:
                row["context_name"] = self.context_names[seen.context]
            rows.append(row | {f"config.{name}": value for name, value in seen.config.items()})
        columns = ["id", "context", "status", "score", "reason", "seconds", "node", "attempts"]
        return pd.DataFrame(rows, columns=None if rows else columns)

    def _repr_html_(self) -> str:
        """What a notebook shows: how it went, how sure it is, what is recommended."""
        rows: list[tuple[str, object]] = [
            ("state", self.stopped if self.stop_reason is None else f"stopped: {self.stop_reason}"),
            ("evaluations", len(self.observations)),
            ("folds", str(self.coverage)),
            *([] if self.failure is None else [("failure", self.failure)]),
            *([] if self.not_uploaded is None else [("not uploaded", self.not_uploaded)]),
        ]
        if self.context_names and self.forecast is not None:
            rows.append(("forecast", str(self.forecast)))
        if self.certainty is not None:
            rows.append(("verdict", str(self.certainty.verdict)))
        best = self.recommendation
        rows += [("recommendation", "none")] if best is None else best.describe(self.context_names)
        return html_card(f"Run {self.name}", rows)

    def report(self, path: str | Path) -> Path:
        """Write one offline HTML page about the run to `path`; returns where it is."""
        from drbqo_ray.report.page import write_report
        from drbqo_ray.runtime.run_report import journal_facts

        return write_report(journal_facts(self.storage, self.name), path)


def result_of(
    place: RunLocation,
    final: Final,
    stopped: str,
    failure: str | None = None,
    labels: dict[str, Any] | None = None,
) -> Result:
    """The result of a run that has just stopped; a copy of it that is not whole is warned of."""
    if final.not_uploaded is not None:
        _logger.warning(
            "%s `%s` uploads what is missing.", final.not_uploaded, place.resume_command
        )
    result = Result(
        name=place.name,
        recommendation=final.recommendation,
        observations=final.observations,
        storage=place.directory,
        stopped=stopped,
        failure=failure,
        labels=labels or {},
        stop_reason=final.stop_reason,
        certainty=final.certainty,
        n_folds=final.n_folds,
        context_names=final.context_names,
        forecast=final.forecast,
        remote=None if place.remote is None else place.address,
        not_uploaded=final.not_uploaded,
    )
    if place.temporary:
        weakref.finalize(result, shutil.rmtree, place.directory, ignore_errors=True)
    return result


def result_of_replay(
    place: RunLocation,
    run: ReplayedRun,
    labels: dict[str, Any] | None = None,
    not_uploaded: str | None = None,
) -> Result:
    """The result of a run that was finished before; see `Result` for `not_uploaded`."""
    final = Final(
        recommend(run.optimizer),
        list(run.outcomes.values()),
        how_sure(run.optimizer),
        run.optimizer.n_contexts,
        run.stop_reason,
        run.optimizer.context_names,
        foresee(run.optimizer),
        not_uploaded,
    )
    return result_of(place, final, "finished", labels=labels)


def load(storage: str | Path, name: str | None = None) -> Result:
    """The result of a run from its journal, without Ray; it may be under way, done or dead.

    The first look at a run that stands still keeps its judgment beside the journal, so that the
    next one is quick.

    Args:
        storage: the directory of a run, one that holds a single run, or an address such as
            s3://bucket/runs.
        name: name of the run below `storage`, if it has one.

    Raises:
        InvalidInput: there is no run, or there are several.
        JournalError: the journal is damaged, of a later format, or cannot be rebuilt.
    """
    place = find_run(storage, name)
    return result_of_judged(place, *judged_run(place.directory))


def result_of_judged(place: RunLocation, run: ReplayedRun, judged: Judgment) -> Result:
    """The result of a run that was read and judged."""
    observations = list(run.outcomes.values())
    final = Final(
        judged.recommendation,
        observations,
        judged.certainty,
        run.optimizer.n_contexts,
        run.stop_reason,
        run.optimizer.context_names,
        judged.forecast,
    )
    stopped = run.stopped or HeldLocks().state_of(place.directory)
    failure = _failure(observations, final.context_names) if stopped == "failed" else None
    return result_of(place, final, stopped, failure)


def _failure(observations: list[Observation], context_names: tuple[str, ...]) -> str:
    last = next((seen for seen in reversed(observations) if seen.status == "failed"), None)
    if last is None:
        return "The run was stopped as failed."
    where = f"evaluation {last.id} ({printable(fold_text(last.context, context_names))})"
    return (
        f"The run was stopped because of failures, the last in {where}: {error_line(last.reason)}"
    )


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
