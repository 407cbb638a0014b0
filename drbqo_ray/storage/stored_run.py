"""The state of a run from its journal alone.

| record   | written                                 | data                                        |
|----------|-----------------------------------------|---------------------------------------------|
| session  | when a process takes the run over       | versions and settings; `at` goes on         |
| fit      | when the model's parameters changed     | the fit, before the ask it was made for     |
| ask      | before a suggestion leaves the actor    | the suggestion; `told`: outcomes it knew    |
|          |                                         | of; `batch`: how many were made together;   |
|          |                                         | `warm` if it comes from an earlier run      |
| tell     | before an outcome is acknowledged       | score, seconds, node, attempts; `info` if   |
|          |                                         | the objective gave any                      |
| fail     | the same for a failed evaluation        | cause and reason instead of a score         |
| look     | when the stop rule was checked          | `told`: outcomes it knew of; passes in a    |
|          |                                         | row, when it is checked next, what it said  |
| conflict | for a second, different outcome         | as told; not used                           |
| finish   | when a run stops                        | why; what the stop rule said, if it did, or |
|          |                                         | `out_of_time` and that its time was used up |

Outcomes count in the order of their records. `at` is the time in seconds the run had been worked
on when the record was made; it comes from a clock that never goes back.

A record may be intact and yet not be what a run writes, for whoever can write a file can write a
right checksum. So every record is read under one guard: whatever goes wrong is JournalCorrupt with
the number of the record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.errors import JournalCorrupt, JournalError, NothingObserved, short_repr
from drbqo_ray.optimizer.certainty import Certainty, Forecast
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.optimizer.stopping import StopCheck, StopRule
from drbqo_ray.problem import Problem
from drbqo_ray.records import Observation, Recommendation, Status, Suggestion, read_score
from drbqo_ray.storage.format import JournalRecord
from drbqo_ray.storage.journal import read_journal

REQUIRED = {
    "fit": ("fit",),
    "ask": ("id", "config", "context", "seed"),
    "tell": ("id", "score"),
    "fail": ("id",),
    "look": ("passed", "next", "stop_reason"),
    "finish": ("reason",),
    "session": (),
}
"""Fields that a record of each kind cannot do without."""

_Types = frozenset[type]
_WHOLE, _NUMBER, _TEXT = _Types([int]), _Types([int, float]), _Types([str])
_DICT, _NONE, _FLAG = _Types([dict]), _Types([type(None)]), _Types([bool])
TYPES: dict[str, _Types] = {
    "at": _NUMBER,
    "fit": _DICT,
    "id": _WHOLE,
    "config": _DICT,
    "context": _WHOLE,
    "seed": _WHOLE,
    "told": _WHOLE,
    "batch": _WHOLE,
    "score": _NUMBER,
    "seconds": _NUMBER,
    "node": _TEXT | _NONE,
    "attempts": _WHOLE,
    "info": _DICT,
    "cause": _TEXT | _NONE,
    "reason": _TEXT | _NONE,
    "passed": _WHOLE,
    "next": _WHOLE,
    "stop_reason": _TEXT | _NONE,
    "stop_when": _TEXT | _NONE,
    "n_evaluations": _WHOLE | _NONE,
    "time_budget": _NUMBER | _NONE,
    "at_deadline": _TEXT,
    "cost_aware": _FLAG,
    "out_of_time": _FLAG,
    "resources": _DICT,
    "max_in_flight": _WHOLE | _NONE,
    "timeout_seconds": _NUMBER | _NONE,
    "max_retries": _WHOLE,
    "max_consecutive_failures": _WHOLE | _NONE,
}
"""What may stand in a field, whichever record it is in."""

LARGEST_PARAMETER = 100.0
_TOLD = ("score", "reason", "cause", "seconds", "node", "attempts", "info")


@dataclass
class ReplayedRun:
    """A run as its journal tells it.

    Attributes:
        problem: what the run is about.
        optimizer: told everything, ready for the next ask and the next check of its stop rule.
        suggestions: every suggestion, its id is its place.
        outcomes: by id, in the order they were told.
        seconds: how long the run has been worked on.
        stopped: why it stopped last, None while it goes on.
        stop_when: the stop rule of the last session, None without one.
        stop_reason: what that rule said when it stopped the run, or that its time was used up; None
            when it was not stopped.
        out_of_time: whether it stopped because its time was used up.
        session: settings of the last session: n_evaluations, resources, time limit and so on.
        fits: fits of the model that were put into use, by the number of outcomes known then.
        n_warm: evaluations that came from an earlier run, see `warm_start`.
        told_at: when the outcome of each evaluation was told, by id, in seconds into the run, as
            far as the journal says.
    """

    problem: Problem
    optimizer: Optimizer
    suggestions: list[Suggestion] = field(default_factory=list)
    outcomes: dict[int, Observation] = field(default_factory=dict)
    seconds: float = 0.0
    stopped: str | None = None
    stop_when: str | None = None
    stop_reason: str | None = None
    out_of_time: bool = False
    session: dict[str, Any] = field(default_factory=dict)
    fits: dict[int, Fit] = field(default_factory=dict)
    n_warm: int = 0
    told_at: dict[int, float] = field(default_factory=dict)

    @property
    def pending(self) -> list[Suggestion]:
        """Suggestions without an outcome."""
        return [s for s in self.suggestions if s.id not in self.outcomes]

    def is_sure(self, stop_when: str | None) -> bool:
        """Whether its stop rule has ended it and `stop_when` is that rule still."""
        rules = [text and StopRule.parse(text) for text in (self.stop_when, stop_when)]
        said = self.stop_reason is not None and not self.out_of_time
        return said and rules[0] == rules[1]

    def is_late(self, time_budget: float | None) -> bool:
        """Whether its time was used up and `time_budget` is no longer."""
        last = self.session.get("time_budget")
        if not self.out_of_time or last is None or time_budget is None:
            return False
        return bool(time_budget <= last)

    def ask(self, suggestion: Suggestion) -> None:
        """Take over a suggestion that was handed out."""
        self.optimizer.register(suggestion)
        self.suggestions.append(suggestion)

    def tell(self, outcome: Observation) -> None:
        """Take over the first outcome of a suggestion."""
        self.optimizer.record(outcome)
        self.outcomes[outcome.id] = outcome


def replay(records: Iterable[JournalRecord], problem: Problem) -> ReplayedRun:
    """The run that these records, header first, describe.

    The model's parameters are set once, at the end: the posterior is a function of the last fit
    and the outcomes in order, so the next ask is the one that an uncut run would have made. Checks
    of a stop rule count if the problem still has that rule.
    """
    with _guarded(0):
        replaying = _Replaying(problem)
    for record in records:
        if record.kind in REQUIRED:
            with _guarded(record.seq):
                replaying.take(record)
    return replaying.done()


def replay_alone(records: Iterable[JournalRecord]) -> ReplayedRun:
    """The run that these records describe, its problem taken from the header, the first of them."""
    records = iter(records)
    header = next(records)
    with _guarded(header.seq):
        problem = Problem.from_header(header.data["problem"])
    return replay(records, problem)


def read_run(directory: Path, problem: Problem | None = None) -> ReplayedRun:
    """The run in a directory; nothing is locked or changed, so it may be under way.

    Args:
        directory: the run directory.
        problem: what it is about, whose own options are then those of its configs.
    """
    records = read_journal(directory)
    return replay_alone(records) if problem is None else replay(records, problem)


@contextmanager
def _guarded(seq: int) -> Iterator[None]:
    """Whatever a record makes go wrong is JournalCorrupt with its number."""
    try:
        yield
    except JournalError:
        raise
    except Exception as error:  # there is no telling what a crafted record may do
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise JournalCorrupt(
            f"Record {seq} of the journal is intact, but not what a run writes: {what.rstrip('.')}."
            " Restore the file from a copy, or read it with the version of drbqo_ray that wrote it."
        ) from error


class _Replaying:
    """A run that is being read, record by record."""

    def __init__(self, problem: Problem) -> None:
        self._run = ReplayedRun(problem, problem.optimizer())
        self._n_parameters = self._run.optimizer.model.n_parameters
        self._fit: Fit | None = None
        self._check: StopCheck | None = None

    def take(self, record: JournalRecord) -> None:
        """Take over the next record."""
        _check_fields(record)
        run, data = self._run, record.data
        run.seconds = max(run.seconds, data.get("at", 0.0))
        if record.kind == "fit":
            self._fit = read_fit(data["fit"], self._n_parameters)
            run.fits[len(run.outcomes)] = self._fit
        elif record.kind == "ask":
            run.ask(_suggestion(data, run))
            run.n_warm += data.get("warm") is True
        elif record.kind in ("tell", "fail"):
            outcome = _outcome(data, run)
            run.tell(outcome)
            if "at" in data:
                run.told_at[outcome.id] = float(data["at"])
        elif record.kind == "finish":
            run.stopped, run.stop_reason = data["reason"], data.get("stop_reason")
            run.out_of_time = data.get("out_of_time", False)
        elif record.kind == "look":
            self._check = StopCheck.from_dict(data)
        elif record.kind == "session":
            run.session = data
            run.stopped = run.stop_reason = None
            run.out_of_time = False
            before, run.stop_when = run.stop_when, data.get("stop_when")
            self._check = self._check if run.stop_when == before else None

    def done(self) -> ReplayedRun:
        """The run, ready for the next ask and check."""
        run = self._run
        if self._fit is not None:
            run.optimizer.last_fit = self._fit
        if self._check is not None and run.stop_when == run.problem.settings.get("stop_when"):
            run.optimizer.last_check = self._check
        return run


def _check_fields(record: JournalRecord) -> None:
    for name in REQUIRED[record.kind]:
        if name not in record.data:
            raise ValueError(f"its {name!r} is missing")
    for name, value in record.data.items():
        if name in TYPES and type(value) not in TYPES[name]:
            raise ValueError(f"its {name!r} is {short_repr(value)}")


def read_fit(plain: dict[str, Any], n_parameters: int) -> Fit:
    """The fit with this plain form, for a model with so many parameters; else ValueError."""
    fit = Fit.from_dict(plain)
    scales = (fit.value, fit.center, fit.scale)
    modes = (fit.parameters, *fit.rivals)
    flat = [number for mode in modes for number in mode]
    good = (
        all(len(mode) == n_parameters for mode in modes)
        and all(type(number) in _NUMBER for number in (*flat, *scales, *fit.weights))
        and all(abs(number) <= LARGEST_PARAMETER for number in flat)
        and (not fit.rivals or len(fit.weights) == len(modes))
        and all(0 <= weight <= 1 for weight in fit.weights)
        and all(math.isfinite(number) for number in scales)
        and all(type(count) is int and count >= 1 for count in (fit.size, fit.explored))
        and fit.scale > 0
    )
    if not good:
        raise ValueError(f"its fit of the model is {short_repr(plain)}")
    return fit


def _suggestion(data: dict[str, Any], run: ReplayedRun) -> Suggestion:
    if data["id"] != len(run.suggestions):
        raise ValueError(
            f"it hands out suggestion {data['id']} where {len(run.suggestions)} is next"
        )
    if not 0 <= data["context"] < run.optimizer.n_contexts:
        raise ValueError(f"its context {data['context']} is none of {run.optimizer.n_contexts}")
    config = run.problem.config(data["config"])
    return Suggestion(data["id"], config, data["context"], data["seed"])


def _outcome(data: dict[str, Any], run: ReplayedRun) -> Observation:
    number, score = data["id"], data.get("score")
    if not 0 <= number < len(run.suggestions) or number in run.outcomes:
        raise ValueError(
            f"it tells the outcome of suggestion {number}, which was never handed out or has"
            " one already"
        )
    if score is not None and read_score(score)[1] is not None:
        raise ValueError(f"its score is {score}")
    return observation_of(data, run.suggestions[number])


def observation_of(data: dict[str, Any], suggestion: Suggestion) -> Observation:
    """The outcome of a suggestion in the data of a "tell" or "fail" record."""
    known = {name: data[name] for name in _TOLD if name in data}
    status: Status = "failed" if data.get("score") is None else "ok"
    return Observation(suggestion.id, dict(suggestion.config), suggestion.context, status, **known)


def told_entry(observation: Observation, at: float) -> tuple[str, dict[str, Any]]:
    """Kind and data of the record of an outcome, written `at` seconds into the run."""
    told: dict[str, Any] = {"id": observation.id}
    if observation.status == "ok":
        told["score"] = observation.score
    else:
        told |= {"cause": observation.cause, "reason": observation.reason}
    told |= {"seconds": observation.seconds, "at": at}
    told |= {"node": observation.node, "attempts": observation.attempts}
    if observation.info:
        told["info"] = observation.info
    return ("tell" if observation.status == "ok" else "fail"), told


def recommend(optimizer: Optimizer) -> Recommendation | None:
    """The recommendation, None if none can be made; later asks do not depend on this call."""
    try:
        return optimizer.recommend()
    except NothingObserved:
        return None


def foresee(optimizer: Optimizer) -> Forecast | None:
    """What to expect of the recommendation in a new context, None if none can be made or there is
    one context only; changes no later ask."""
    try:
        return optimizer.forecast() if optimizer.n_contexts > 1 else None
    except NothingObserved:
        return None


def how_sure(optimizer: Optimizer) -> Certainty | None:
    """How sure the recommendation is, None if none can be made; changes no later ask."""
    try:
        return optimizer.certainty()
    except NothingObserved:
        return None
