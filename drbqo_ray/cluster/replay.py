"""The state of a run from its journal alone.

| record   | written                                 | data                                        |
|----------|-----------------------------------------|---------------------------------------------|
| session  | when a process takes the run over       | versions and settings; `at` goes on         |
| fit      | when the model's parameters changed     | the fit, before the ask it was made for     |
| ask      | before a suggestion leaves the actor    | the suggestion; `told`: outcomes it knew    |
|          |                                         | of; `batch`: how many were made together    |
| tell     | before an outcome is acknowledged       | score, seconds, node, attempts              |
| fail     | the same for a failed evaluation        | cause and reason instead of a score         |
| look     | when the stop rule looked at the model  | `told`: outcomes it knew of; passes in a    |
|          |                                         | row, when it looks next, what it said       |
| conflict | for a second, different outcome         | as told; not used                           |
| finish   | when a run stops                        | why; what the stop rule said, if it did     |

Outcomes count in the order of their records. `at` is the time in seconds the run had been worked
on when the record was made; it comes from a clock that never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from drbqo_ray.certainty import Certainty
from drbqo_ray.cluster.outcome import Outcome
from drbqo_ray.cluster.run_problem import RunProblem
from drbqo_ray.core.surrogate import Fit
from drbqo_ray.errors import JournalCorrupt, NothingObserved
from drbqo_ray.journal_format import JournalRecord
from drbqo_ray.optimizer import Optimizer
from drbqo_ray.records import Recommendation, Suggestion
from drbqo_ray.stopping import Look


@dataclass
class ReplayedRun:
    """A run as its journal tells it.

    Attributes:
        problem: what the run is about.
        optimizer: told everything, ready for the next ask and the next look.
        suggestions: every suggestion, its id is its place.
        outcomes: by id, in the order they were told.
        seconds: how long the run has been worked on.
        stopped: why it stopped last, None while it goes on.
        stop_when: the stop rule of the last session, None without one.
        stop_reason: what that rule said when it stopped the run, None when it did not.
    """

    problem: RunProblem
    optimizer: Optimizer
    suggestions: list[Suggestion] = field(default_factory=list)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    seconds: float = 0.0
    stopped: str | None = None
    stop_when: str | None = None
    stop_reason: str | None = None

    @property
    def pending(self) -> list[Suggestion]:
        """Suggestions without an outcome."""
        return [s for s in self.suggestions if s.id not in self.outcomes]

    def ask(self, suggestion: Suggestion) -> None:
        """Take over a suggestion that was handed out."""
        self.optimizer.register(suggestion)
        self.suggestions.append(suggestion)

    def tell(self, outcome: Outcome) -> None:
        """Take over the first outcome of a suggestion."""
        tell_optimizer(self.optimizer, outcome)
        self.outcomes[outcome.id] = outcome


def replay(records: Iterable[JournalRecord], problem: RunProblem) -> ReplayedRun:
    """The run that these records, header first, describe.

    The model's parameters are set once, at the end: the posterior is a function of the last fit
    and the outcomes in order, so the next ask is the one that an uncut run would have made. Looks
    of a stop rule count if the problem still has that rule.
    """
    run = ReplayedRun(problem, problem.optimizer())
    fit: Fit | None = None
    look: Look | None = None
    for record in records:
        data = record.data
        run.seconds = max(run.seconds, data.get("at", 0.0))
        if record.kind == "fit":
            fit = _fit(record)
        elif record.kind == "ask":
            run.ask(_suggestion(record, problem, len(run.suggestions)))
        elif record.kind in ("tell", "fail"):
            _take_outcome(run, record)
        elif record.kind == "finish":
            run.stopped, run.stop_reason = data["reason"], data.get("stop_reason")
        elif record.kind == "look":
            look = Look.from_dict(data)
        elif record.kind == "session":
            run.stopped = run.stop_reason = None
            before, run.stop_when = run.stop_when, data.get("stop_when")
            look = look if run.stop_when == before else None
    if fit is not None:
        run.optimizer.last_fit = fit
    if look is not None and run.stop_when == problem.settings.get("stop_when"):
        run.optimizer.last_look = look
    return run


def _fit(record: JournalRecord) -> Fit:
    try:
        return Fit.from_dict(record.data["fit"])
    except (TypeError, KeyError) as error:
        raise JournalCorrupt(
            f"Record {record.seq} of the journal holds a fit of the model that this version cannot"
            f" read: {error}. Resume the run with the version that wrote it."
        ) from error


def _suggestion(record: JournalRecord, problem: RunProblem, expected: int) -> Suggestion:
    data = record.data
    if data["id"] != expected:
        raise JournalCorrupt(
            f"Record {record.seq} of the journal hands out suggestion {data['id']} where"
            f" {expected} is next. The file was not written by this package."
        )
    return Suggestion(data["id"], problem.config(data["config"]), data["context"], data["seed"])


def _take_outcome(run: ReplayedRun, record: JournalRecord) -> None:
    outcome = Outcome.from_record(record.data)
    if not 0 <= outcome.id < len(run.suggestions) or outcome.id in run.outcomes:
        raise JournalCorrupt(
            f"Record {record.seq} of the journal tells the outcome of suggestion {outcome.id},"
            " which was never handed out or has one already. The file was not written by this"
            " package."
        )
    run.tell(outcome)


def tell_optimizer(optimizer: Optimizer, outcome: Outcome) -> None:
    """Tell the outcome of a suggestion."""
    if outcome.score is None:
        optimizer.fail(outcome.id, outcome.reason or "")
    else:
        optimizer.tell(outcome.id, outcome.score)


def recommend(optimizer: Optimizer) -> Recommendation | None:
    """The recommendation, None if none can be made; later asks do not depend on this call."""
    try:
        return optimizer.recommend()
    except NothingObserved:
        return None


def how_sure(optimizer: Optimizer) -> Certainty | None:
    """How sure the recommendation is, None if none can be made; changes no later ask."""
    try:
        return optimizer.certainty()
    except NothingObserved:
        return None
