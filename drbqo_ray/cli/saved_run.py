"""A run on disk, seen from outside: what its journal says, and what it takes to go on with it.

Nothing is locked or changed, so this works on a run that is under way, done or dead.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.certainty import COVERAGE, Certainty
from drbqo_ray.records import BAND, Recommendation
from drbqo_ray.runtime.coverage import Coverage
from drbqo_ray.runtime.display import duration
from drbqo_ray.runtime.result import Result, result_of_replay
from drbqo_ray.runtime.terminal import error_line, printable
from drbqo_ray.storage.journal import JOURNAL
from drbqo_ray.storage.location import RunLocation, find_location
from drbqo_ray.storage.mirror import ObjectStoreMirror
from drbqo_ray.storage.stored_run import ReplayedRun, how_sure, read_run, recommend

RESUMED = (
    "n_evaluations",
    "resources",
    "max_in_flight",
    "timeout_seconds",
    "max_retries",
    "max_consecutive_failures",
    "stop_when",
)
"""Settings of the last session that the next one keeps."""


@dataclass(frozen=True)
class SavedRun:
    """A run as its journal tells it.

    Attributes:
        place: where it is kept.
        run: problem, suggestions, outcomes and settings of the last session.
    """

    place: RunLocation
    run: ReplayedRun

    @staticmethod
    def read(storage: str, name: str | None = None) -> SavedRun:
        """The run kept in `storage`, below `name` if it has one.

        A directory that holds one run and is none itself stands for that run.
        """
        place = _find(find_location(storage, name, resume=True))
        return SavedRun(place, read_run(place.directory))

    def lines(self) -> Iterator[str]:
        """The status of the run, line by line."""
        run, directory = self.run, self.place.directory
        failed = [outcome for outcome in run.outcomes.values() if outcome.status == "failed"]
        age = time.time() - (directory / JOURNAL).stat().st_mtime
        budget = run.session.get("n_evaluations")
        done = f"{len(run.outcomes)}" + ("" if budget is None else f" of {budget}")
        counts = Counter(outcome.context for outcome in run.outcomes.values())
        folds = " ".join(str(counts[fold]) for fold in range(run.optimizer.n_contexts))
        yield f"run        {printable(directory)}"
        yield f"objective  {printable(run.problem.objective)}"
        yield f"state      {self._state()}, last record {duration(age)} ago"
        yield f"counts     {done} done, {len(failed)} failed, {len(run.pending)} pending"
        if run.stop_when is not None:
            yield f"stop when  {printable(run.stop_when)}"
        yield f"time       {duration(run.seconds)}"
        yield f"per fold   {folds}"
        yield coverage_line(Coverage.of(run.optimizer.observations, run.optimizer.n_contexts))
        yield from recommendation_lines(recommend(run.optimizer), how_sure(run.optimizer))
        if failed:
            yield f"failure    evaluation {failed[-1].id}: {error_line(failed[-1].reason)}"

    def over(self, n_evaluations: int, stop_when: str | None) -> str | None:
        """Why there is nothing left to do with this budget and stop rule, None when there is."""
        done, reason = len(self.run.outcomes), self.run.stop_reason
        if self.run.is_sure(stop_when):
            return f"{reason}. To go on, pass another --stop-when, or never."
        if done >= n_evaluations:
            return (
                f"{done} of {n_evaluations} evaluations are done. To go on, pass --evaluations with"
                f" a new total above {done}."
            )
        return None

    def result(self) -> Result:
        """The result of the run as it stands."""
        return result_of_replay(self.place, self.run)

    def _state(self) -> str:
        if self.run.stopped is None:
            return "under way or cut off"
        why = self.run.stop_reason
        return printable(self.run.stopped + ("" if why is None else f", {why}"))


def _find(place: RunLocation) -> RunLocation:
    if place.remote is not None and not (place.directory / JOURNAL).exists():
        ObjectStoreMirror(place.remote, place.name, place.directory).restore()
    if (place.directory / JOURNAL).is_file():
        return place
    below = sorted(path.parent for path in place.directory.glob(f"*/{JOURNAL}"))
    if len(below) == 1:
        return RunLocation(below[0], below[0].name)
    if below:
        names = [path.name for path in below]
        raise InvalidInput("The directory must hold one run.", names, "Choose one by --name.")
    raise InvalidInput(
        f"The directory of a run holds a {JOURNAL}.",
        str(place.directory),
        "Pass the --storage of a run, and its --name if it has one.",
    )


def coverage_line(coverage: Coverage) -> str:
    """How much of a run came through, as one line."""
    return f"folds      {coverage}"


def recommendation_lines(
    found: Recommendation | None, certainty: Certainty | None = None
) -> Iterator[str]:
    """A recommendation and how sure it is, line by line."""
    if found is None:
        yield "best       none: no config has a score and no failed fold"
        return
    band = f" ± {BAND * found.std:.2g}" if found.std else ""
    yield f"best       {found.robust_value:.6g}{band} robust, {found.mean_value:.6g} mean"
    width = max((len(printable(name, 40)) for name in found.config), default=0)
    for name, value in found.config.items():
        text = f"{value:.8g}" if isinstance(value, float) else value
        yield f"           {printable(name, 40):<{width}} = {printable(text)}"
    if certainty is not None:
        yield f"certainty  {in_words(certainty)}"


def in_words(certainty: Certainty) -> str:
    """How sure a recommendation is, as one line."""
    low, high = certainty.interval
    between = f"{low:.4g} to {high:.4g} ({COVERAGE:.0%})"
    value = between if low < high else f"{low:.4g} by its own scores"
    return (
        f"best of those seen with probability {certainty.probability:.2f}; robust value {value};"
        f" expected loss of stopping {certainty.loss:.2g}"
    )


def resume_arguments(saved: SavedRun) -> dict[str, Any]:
    """Keyword arguments of `run` that go on with a saved run as it was."""
    problem = saved.run.problem
    known = {name: value for name, value in problem.settings.items() if value is not None}
    last = saved.run.session
    session = {name: last[name] for name in RESUMED if name in last}
    where: dict[str, Any] = {"storage": saved.place.directory, "name": None}
    if saved.place.remote is not None:
        where = {"storage": saved.place.remote, "name": saved.place.name}
    return {"space": problem.space, "contexts": problem.contexts, **known, **session, **where}
