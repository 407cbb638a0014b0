"""A run on disk, seen from outside: what its journal says, and what it takes to go on with it.

Nothing is locked or changed, so this works on a run that is under way, done or dead.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.certainty import COVERAGE, Certainty, Forecast
from drbqo_ray.problem import CHANGEABLE, Limits
from drbqo_ray.records import BAND, Recommendation
from drbqo_ray.runtime.display import counts_by_name, duration
from drbqo_ray.runtime.result import Result, result_of_replay
from drbqo_ray.runtime.status import Coverage
from drbqo_ray.runtime.terminal import error_line, printable, printable_lines
from drbqo_ray.storage.directory import written_by_others
from drbqo_ray.storage.journal import JOURNAL
from drbqo_ray.storage.listing import find_run
from drbqo_ray.storage.location import RunLocation, upload_missing
from drbqo_ray.storage.stored_run import ReplayedRun, foresee, how_sure, read_run, recommend

REPORT = "report.html"
PAUSE_SECONDS = 1.0
RESUMED = (*(one.name for one in fields(Limits)), *CHANGEABLE)
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
        place = find_run(storage, name)
        return SavedRun(place, read_run(place.directory))

    def lines(self) -> Iterator[str]:
        """The status of the run, line by line."""
        run, directory = self.run, self.place.directory
        failed = [outcome for outcome in run.outcomes.values() if outcome.status == "failed"]
        age = time.time() - (directory / JOURNAL).stat().st_mtime
        budget = run.session.get("n_evaluations")
        done = f"{len(run.outcomes)}" + ("" if budget is None else f" of {budget}")
        counts = Counter(outcome.context for outcome in run.outcomes.values())
        names, every = run.optimizer.context_names, range(run.optimizer.n_contexts)
        tally = [counts[fold] for fold in every]
        folds = counts_by_name(names, tally) if names else " ".join(map(str, tally))
        yield f"run        {printable(self.place.address)}"
        yield f"objective  {printable(run.problem.objective)}"
        yield f"state      {self._state()}, last record {duration(age)} ago"
        yield f"counts     {done} done, {len(failed)} failed, {len(run.pending)} pending"
        if run.stop_when is not None:
            yield f"stop when  {printable(run.stop_when)}"
        limit = run.session.get("time_budget")
        most = "" if limit is None else f" of {duration(limit)}"
        yield f"time       {duration(run.seconds)}{most}"
        yield f"per fold   {folds}"
        yield coverage_line(Coverage.of(run.optimizer.observations, len(every), names))
        expects = foresee(run.optimizer) if names else None
        best, sure = recommend(run.optimizer), how_sure(run.optimizer)
        yield from recommendation_lines(best, sure, expects)
        if failed:
            yield f"failure    evaluation {failed[-1].id}: {error_line(failed[-1].reason)}"
        if self.not_uploaded is not None:
            yield f"copy       {printable_lines(self.not_uploaded)}"

    def check_trusted(self, named: str | None) -> None:
        """Raise InvalidInput unless the user vouches for the objective that the journal names.

        He does so by naming it himself, or by being the only one who can have written the journal.
        """
        objective = self.run.problem.objective
        if named is not None and named != objective:
            raise InvalidInput(
                "A run is resumed with the objective it was started with.",
                named,
                f"The journal names {printable(objective)}.",
            )
        if named is not None:
            return
        others = written_by_others(self.place.directory, JOURNAL)
        if self.place.remote is not None:
            others = f"{self.place.address}, a store that does not say who wrote it"
        if others is not None:
            raise InvalidInput(
                "Resuming a run calls the objective its journal names, so it must be yours alone.",
                others,
                f"It names {printable(objective)}: if that is what you want to run, pass"
                f" --objective {printable(objective)}, or --trust.",
            )

    def over(
        self, n_evaluations: int | None, stop_when: str | None, time_budget: float | None = None
    ) -> str | None:
        """Why there is nothing left to do with these budgets and stop rule, None when there is."""
        done, reason = len(self.run.outcomes), self.run.stop_reason
        if self.run.is_sure(stop_when):
            return f"{reason}. To go on, pass another --stop-when, or never."
        if self.run.is_late(time_budget):
            return f"{reason}. To go on, pass --time with a longer time in all."
        if n_evaluations is not None and done >= n_evaluations:
            return (
                f"{done} of {n_evaluations} evaluations are done. To go on, pass --evaluations with"
                f" a new total above {done}."
            )
        return None

    def result(self) -> Result:
        """The result of the run as it stands."""
        return result_of_replay(self.place, self.run)

    def uploaded_result(self) -> Result:
        """The result, once what the copy in an object store lacks was uploaded."""
        return result_of_replay(self.place, self.run, not_uploaded=upload_missing(self.place))

    @property
    def not_uploaded(self) -> str | None:
        """What a copy in an object store lacks, None when it is whole or there is none."""
        mirror = self.place.mirror()
        return None if mirror is None else mirror.look()

    def write_report(self, out: str | None) -> Path:
        """Write the page of the run, into its directory by default; returns where it is."""
        from drbqo_ray.report.page import write_report
        from drbqo_ray.runtime.run_report import run_facts

        path = self.place.directory / REPORT if out is None else out
        return write_report(run_facts(self.run, self.place.name), path)

    def watch_report(self, port: int) -> None:
        """Serve the page of the run on this machine until Ctrl-C."""
        from drbqo_ray.report.page import render_page
        from drbqo_ray.report.watch import PageServer
        from drbqo_ray.runtime.run_report import journal_facts

        directory, name = self.place.directory, self.place.name

        def version() -> str:
            found = (directory / JOURNAL).stat()
            return f"{found.st_size}-{found.st_mtime_ns}"

        server = PageServer(version, lambda w: render_page(journal_facts(directory, name), w), port)
        click.echo(f"report of {printable(self.place.address)} on {server.url} (Ctrl-C ends)")
        try:
            while True:
                time.sleep(PAUSE_SECONDS)
        except KeyboardInterrupt:
            click.echo("drbqo: stopped")
        finally:
            server.close()

    def _state(self) -> str:
        if self.run.stopped is None:
            return "under way or cut off"
        why = self.run.stop_reason
        return printable(self.run.stopped + ("" if why is None else f", {why}"))


def coverage_line(coverage: Coverage) -> str:
    """How much of a run came through, as one line."""
    return f"folds      {coverage}"


def recommendation_lines(
    found: Recommendation | None,
    certainty: Certainty | None = None,
    forecast: Forecast | None = None,
) -> Iterator[str]:
    """A recommendation, what to expect of it in a new context, and how sure it is, line by line."""
    if found is None:
        yield "best       none: no config has a score and no failed fold"
        return
    band = f" ± {BAND * found.std:.2g}" if found.std else ""
    yield f"best       {found.robust_value:.6g}{band} robust, {found.mean_value:.6g} mean"
    width = max((len(printable(name, 40)) for name in found.config), default=0)
    for name, value in found.config.items():
        text = f"{value:.8g}" if isinstance(value, float) else value
        yield f"           {printable(name, 40):<{width}} = {printable(text)}"
    if forecast is not None:
        yield f"forecast   {forecast}"
    if certainty is not None:
        yield f"verdict    {certainty.verdict}"
        yield f"value      {value_in_words(certainty)}"


def value_in_words(certainty: Certainty) -> str:
    """Where the robust value of a recommendation lies, as one line."""
    low, high = certainty.interval
    if low < high:
        return f"robust value {low:.4g} to {high:.4g} ({COVERAGE:.0%})"
    return f"robust value {low:.4g} by its own scores"


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
