"""The coordinator of one run: its journal, its optimizer, and a thread that thinks ahead.

Three parties meet here. `tell` writes outcomes to the journal, puts them in the inbox and returns:
it never waits for the model. The thinking thread alone touches the optimizer: it applies the inbox
in the order of the journal, asks whether the answer is sure enough to stop, then makes suggestions,
writes them to the journal and puts them on the shelf. `take` waits until the suggestion it wants is
on the shelf.

A suggestion is named by its number, counted from 0, and so is the request for it. Every call may
therefore be repeated: asking again for suggestion 7 gives suggestion 7.
"""

from __future__ import annotations

import math
import platform
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from drbqo_ray.core.costs import RECENT
from drbqo_ray.errors import JournalError, RunFailed, UnknownSuggestion
from drbqo_ray.optimizer.certainty import Certainty, Forecast
from drbqo_ray.optimizer.evaluations import own_copy
from drbqo_ray.problem import Limits, Problem
from drbqo_ray.records import Observation, Recommendation, Suggestion
from drbqo_ray.runtime.background import BackgroundFit, Lookahead
from drbqo_ray.runtime.deadline import Timed
from drbqo_ray.storage.checkpoint import Judgment, judge, keep_judgment
from drbqo_ray.storage.journal import Journal
from drbqo_ray.storage.location import RunLocation, open_when_free
from drbqo_ray.storage.mirror import ObjectStoreMirror
from drbqo_ray.storage.stored_run import recommend, replay, told_entry

LOCK_PATIENCE_SECONDS = 10.0
CLOSING_SECONDS = 2.0
BATCH = 32
BEST_PAUSE_SECONDS = 0.25
BEST_SHARE = 20


@dataclass(frozen=True)
class Plan:
    """One run.

    Attributes:
        problem: what it is about.
        place: where it is kept.
        limits: how it is run.
        resume: whether it goes on with a run that is there.
        labels: what it is called.
        raise_failures: whether the first failure ends the session with `EvaluationFailed`. It is
            not recorded, so that a resumed run evaluates the same again. A score that is no usable
            number does not end it.
        answered: whether the result has a recommendation and says how sure it is; whoever judges
            the scores himself saves that time.
        first: records that its journal starts with.
    """

    problem: Problem
    place: RunLocation
    limits: Limits
    resume: bool
    labels: dict[str, Any] = field(default_factory=dict)
    raise_failures: bool = False
    answered: bool = True
    first: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def stop_when(self) -> str | None:
        """The stop rule as it was written, None without one."""
        rule: str | None = self.problem.settings.get("stop_when")
        return rule

    def session(self) -> dict[str, Any]:
        """Plain data about a session, for the journal."""
        aware = self.problem.settings.get("cost_aware", False)
        return {**asdict(self.limits), "stop_when": self.stop_when, "cost_aware": aware}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a run stands when it is opened; `timed` are config, fold and seconds of the last
    evaluations before, and `earlier` the seconds of the sessions before."""

    pending: list[Suggestion]
    n_suggestions: int
    n_done: int
    n_failed: int
    fold_counts: dict[int, int]
    fold_failures: dict[int, int]
    seconds: float
    earlier: float = 0.0
    timed: list[Timed] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Final:
    """What is left of a run when it stops; `stop_reason` if its stop rule or its time budget has
    stopped it, and `not_uploaded` if the copy in an object store lacks something."""

    recommendation: Recommendation | None
    observations: list[Observation]
    certainty: Certainty | None = None
    n_folds: int = 0
    stop_reason: str | None = None
    context_names: tuple[str, ...] = ()
    forecast: Forecast | None = None
    not_uploaded: str | None = None


class Coordinator:
    """Owns the optimizer and the journal of one run. Methods may be called from any thread.

    Args:
        directory: the run directory.
        problem: what the run is about.
        n_evaluations: suggestions to hand out in all.
        session: plain data about this session for the journal.
        mirror: a copy of the journal elsewhere that is kept up, None without one.
        durable: whether the journal has to survive the machine, see `Journal.attach`.
        clock: seconds that never go back.
        fits: makes fits of the model beside the run, in a thread by default.
        stepwise: whether it has no thread of its own and thinks only when `think` is called, or
            when it is asked for what takes a thought. A simulation steps it by its own clock.
    """

    def __init__(
        self,
        directory: Path,
        problem: Problem,
        n_evaluations: int,
        session: dict[str, Any],
        mirror: ObjectStoreMirror | None = None,
        durable: bool = True,
        clock: Callable[[], float] = time.monotonic,
        fits: BackgroundFit | None = None,
        stepwise: bool = False,
    ) -> None:
        self._clock = clock
        self._clock_start = clock()
        self._problem = problem
        self._n_evaluations = n_evaluations
        self._journal: Journal = open_when_free(
            directory, problem, LOCK_PATIENCE_SECONDS, durable=durable
        )
        run = replay(self._journal.records(), problem)
        self._optimizer = run.optimizer
        self._suggestions = run.suggestions
        self._outcomes = run.outcomes
        self._offset = run.seconds
        self._journal.append("session", {"at": self._at(), **session, **_versions()})
        self._applied = len(run.outcomes)
        self._inbox: deque[Observation] = deque()
        self._requested = 0
        self._slots = 1
        self._lookahead = Lookahead()
        self._fits = fits or BackgroundFit()
        last = self._optimizer.last_check
        self._stop_reason = None if last is None else last.stop_reason
        self._checking_seconds = 0.0
        self._best: Recommendation | None = None
        self._best_watched = False
        self._best_due = math.inf
        self._best_rest = 0.0
        self._final_wanted = self._finished = False
        self._answered = True
        self._out_of_time: str | None = None
        self._final: Final | None = None
        self._judged: Judgment | None = None
        self._fault: BaseException | None = None
        self._closed = False
        self._telling = threading.Lock()
        self._changed = threading.Condition()
        self._stepwise = stepwise
        self._thread = threading.Thread(target=self._think, name="thinking", daemon=True)
        if not stepwise:
            self._thread.start()
        self._mirror = mirror
        if mirror is not None:
            mirror.start()

    # called by the driver

    def snapshot(self) -> Snapshot:
        """Where the run stands."""
        with self._changed:
            self._check()
            outcomes = self._outcomes
            folds = Counter(self._suggestions[number].context for number in outcomes)
            failures = Counter(
                self._suggestions[o.id].context for o in outcomes.values() if o.score is None
            )
            return Snapshot(
                pending=[s for s in self._suggestions if s.id not in outcomes],
                n_suggestions=len(self._suggestions),
                n_done=len(outcomes),
                n_failed=failures.total(),
                fold_counts=dict(folds),
                fold_failures=dict(failures),
                seconds=self._at(),
                earlier=self._offset,
                timed=self._timed(),
            )

    def _timed(self) -> list[Timed]:
        ok = [o for o in self._outcomes.values() if o.status == "ok" and o.seconds > 0]
        return [(o.config, o.context, o.seconds) for o in ok[-RECENT:]]

    def take(self, first: int, count: int, slots: int) -> list[Suggestion]:
        """Suggestions `first`, `first` + 1, ..., at most `count`; waits until there is one.

        There is none once the run is sure enough, see `stop_reason`.

        Args:
            first: number of the first suggestion.
            count: how many can be used.
            slots: evaluations that run side by side; with 1 nothing is prepared ahead.
        """
        self.request(first + count, slots)
        with self._changed:
            self._wait_until(
                lambda: (
                    len(self._suggestions) > first
                    or first >= self._n_evaluations
                    or self._stop_reason is not None
                    or self._closed
                    or self._fault is not None
                )
            )
            if self._stop_reason is not None:
                return []
            if len(self._suggestions) <= first:
                self._check()
            return self._suggestions[first : first + count]

    def request(self, total: int, slots: int) -> None:
        """Say that so many suggestions are wanted in all; see `take`."""
        with self._changed:
            self._requested = max(self._requested, total)
            self._slots = slots
            self._changed.notify_all()

    @property
    def n_suggestions(self) -> int:
        """Suggestions made so far."""
        return len(self._suggestions)

    def think(self) -> bool:
        """One thought of a coordinator that is stepped; False when there is nothing to do."""
        if not (self._inbox or self._missing() or self._final_wanted):
            return False
        return self._work()

    def stop_reason(self) -> str | None:
        """What the stop rule said, None while it is not met."""
        with self._changed:
            return self._stop_reason

    def tell(self, outcomes: Sequence[Observation]) -> list[Observation]:
        """Record outcomes for good; returns them once they are on the disk.

        Each gets the config of its suggestion, whatever config it came with.
        An outcome that was told before changes nothing. A different one for the same suggestion
        is written to the journal as a conflict and not used; the first one is returned.
        """
        with self._telling:
            self._check()
            new, entries = self._sorted_out(outcomes)
            self._journal.append_many(entries)
            with self._changed:
                self._outcomes.update(new)
                self._inbox.extend(new.values())
                if new:
                    self._lookahead.told(len(new), self._clock())
                    if self._best_watched:
                        self._best_due = self._best_rest
                self._changed.notify_all()
            return [own_copy(self._outcomes[outcome.id]) for outcome in outcomes]

    def best(self) -> Recommendation | None:
        """The recommendation so far, None before there is one.

        It may be a few outcomes old, and is searched for only once this was called.
        """
        with self._changed:
            if not self._best_watched:
                self._best_watched = True
                self._best_due = self._best_rest
                self._changed.notify_all()
            return self._best

    def upload_trouble(self) -> str | None:
        """Why the copy in an object store is behind and what it lacks, None when all is well."""
        mirror = self._mirror
        return None if mirror is None or mirror.trouble is None else mirror.missing()

    def finish(self, reason: str, answered: bool = True, out_of_time: str | None = None) -> Final:
        """Write why the run stops, close the journal and its copy, and say what came of the run.

        A run that is "finished" before its evaluations are used up was stopped by its stop rule, or
        because its time was used up.

        Args:
            reason: "finished", "interrupted" or "failed".
            answered: whether a recommendation, and how sure it is, are wanted.
            out_of_time: that its time was used up, None when it was not.
        """
        with self._changed:
            self._answered, self._out_of_time = answered, out_of_time
            if self._final is None:
                self._check()
                self._requested = 0
                self._final_wanted = True
                self._finished = reason == "finished"
                self._changed.notify_all()
                self._wait_until(
                    lambda: self._final is not None or self._fault is not None or self._closed
                )
            if self._final is None:
                self._check()
            assert self._final is not None
            said = self._final.stop_reason
        with self._telling:
            if not self._closed:
                why: dict[str, Any] = {} if said is None else {"stop_reason": said}
                if said is not None and said == out_of_time:
                    why["out_of_time"] = True
                self._journal.append("finish", {"reason": reason, "at": self._at(), **why})
                if self._judged is not None:
                    keep_judgment(self._journal.directory, self._judged, self._problem)
        self.close()
        if self._mirror is not None:
            self._final = replace(self._final, not_uploaded=self._mirror.close())
        return self._final

    def close(self) -> None:
        """Stop thinking and release the journal; a second call does nothing.

        A thought under way gets a moment to end: a process that leaves while a thread of it
        computes can be aborted.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(CLOSING_SECONDS)
        self._journal.close()
        if self._mirror is not None:
            self._mirror.stop()

    # inside

    def _at(self) -> float:
        return round(self._offset + self._clock() - self._clock_start, 6)

    def _check(self) -> None:
        if isinstance(self._fault, (JournalError, RunFailed)):
            raise self._fault
        if self._fault is not None:
            raise RunFailed(
                f"The next evaluation could not be chosen: {type(self._fault).__name__}:"
                f" {self._fault}. What was told is safe in {self._journal.directory}."
            ) from self._fault
        if self._closed:
            raise JournalError("The run is closed. Resume it to go on.")

    def _sorted_out(
        self, outcomes: Sequence[Observation]
    ) -> tuple[dict[int, Observation], list[tuple[str, dict[str, Any]]]]:
        """The outcomes that are news, and the journal entries to make."""
        new: dict[int, Observation] = {}
        entries = []
        for outcome in outcomes:
            if not 0 <= outcome.id < len(self._suggestions):
                raise UnknownSuggestion(
                    "An outcome must answer a suggestion of this run.", outcome.id, "Ask first."
                )
            earlier = self._outcomes.get(outcome.id) or new.get(outcome.id)
            if earlier is None:
                config = self._suggestions[outcome.id].config
                new[outcome.id] = replace(outcome, config=config)
                entries.append(told_entry(outcome, self._at()))
            elif not outcome.agrees_with(earlier):
                entries.append(("conflict", told_entry(outcome, self._at())[1]))
        return new, entries

    def _wait_until(self, done: Callable[[], bool]) -> None:
        """Wait for the thinking thread; without one, think."""
        if not self._stepwise:
            self._changed.wait_for(done)
        while not done():
            self._work()

    def _think(self) -> None:
        try:
            while self._work():
                pass
        except BaseException as error:  # told to every caller, see _check
            with self._changed:
                self._fault = error
                self._changed.notify_all()

    def _work(self) -> bool:
        """Wait for something to do and do it; False when the run is closed."""
        with self._changed:
            while not (self._closed or self._inbox or self._missing() or self._final_wanted):
                pause = self._best_due - self._clock()
                if pause <= 0:
                    break
                self._changed.wait(None if math.isinf(pause) else pause)
            if self._closed:
                return False
            inbox = list(self._inbox)
            self._inbox.clear()
            missing = self._missing()
            final = self._final_wanted
        for outcome in inbox:
            self._optimizer.record(outcome)
        self._applied += len(inbox)
        if final:
            self._conclude()
            return True
        alone = self._slots <= 1
        if alone:
            self._ask_whether_to_stop()
        if missing and self._stop_reason is None:
            self._prepare(missing)
        if not alone:
            self._ask_whether_to_stop()
        if self._clock() >= self._best_due:
            self._find_best()
        return True

    def _ask_whether_to_stop(self) -> None:
        """Check whether the stop rule is met; that may take a while and holds no lock.

        A run with one slot checks before it goes on, one with several while folds run. The journal
        keeps what the rule has seen, so that a resumed run does not count anew.
        """
        if self._stop_reason is not None:
            return
        start = self._clock()
        before = self._optimizer.last_check
        reason = self._optimizer.stop_reason()
        check = self._optimizer.last_check
        if check is not None and check != before:
            self._journal.append("look", {"told": self._applied, **check.to_dict()})
        self._checking_seconds += self._clock() - start
        with self._changed:
            self._stop_reason = reason
            self._changed.notify_all()

    def _missing(self) -> int:
        """How many suggestions should be on the shelf and are not."""
        if self._stop_reason is not None:
            return 0
        wanted = self._requested + self._lookahead.ahead(self._slots) if self._requested else 0
        return max(0, min(wanted, self._n_evaluations) - len(self._suggestions))

    def _prepare(self, count: int) -> None:
        """Make up to `count` suggestions, several at a time."""
        start = self._clock()
        before = self._optimizer.last_fit
        self._fits.follow(self._optimizer.model, in_background=self._slots > 1)
        made = self._optimizer.ask(min(count, BATCH))
        fit = self._optimizer.last_fit
        entries: list[tuple[str, dict[str, Any]]] = []
        if fit is not None and fit is not before:
            entries.append(("fit", {"fit": fit.to_dict(), "told": self._applied}))
        entries += [("ask", self._ask_data(suggestion, len(made))) for suggestion in made]
        self._journal.append_many(entries)
        with self._changed:
            self._lookahead.thought((self._clock() - start + self._checking_seconds) / len(made))
            self._checking_seconds = 0.0
            self._suggestions.extend(made)
            self._changed.notify_all()

    def _ask_data(self, suggestion: Suggestion, batch: int) -> dict[str, Any]:
        return {
            "id": suggestion.id,
            "config": self._problem.plain_config(suggestion.config),
            "context": suggestion.context,
            "seed": suggestion.seed,
            "told": self._applied,
            "batch": batch,
            "at": self._at(),
        }

    def _find_best(self) -> None:
        """Keep the best config for the display, in a small share of the thread's time."""
        start = self._clock()
        found = recommend(self._optimizer)
        spent = self._clock() - start
        with self._changed:
            self._best = found
            self._best_rest = start + max(BEST_PAUSE_SECONDS, BEST_SHARE * spent)
            self._best_due = self._best_rest if self._inbox else math.inf

    def _conclude(self) -> None:
        """Make the result from the model that a replay of the journal would have."""
        self._optimizer.model.fits_in_background = False
        self._optimizer.last_fit = self._optimizer.last_fit  # forget a posterior of an older fit
        judged = judge(self._optimizer) if self._answered else Judgment(None, None)
        early = len(self._suggestions) < self._n_evaluations
        rule = self._stop_reason if early else None
        with self._changed:
            self._judged = judged if self._answered else None
            self._final = Final(
                recommendation=judged.recommendation,
                observations=[own_copy(outcome) for outcome in self._outcomes.values()],
                certainty=judged.certainty,
                n_folds=self._optimizer.n_contexts,
                stop_reason=(rule or self._out_of_time) if self._finished else None,
                context_names=self._optimizer.context_names,
                forecast=judged.forecast,
            )
            self._final_wanted = False
            self._changed.notify_all()


def open_coordinator(
    place: RunLocation, problem: Problem, n_evaluations: int, session: dict[str, Any]
) -> Coordinator:
    """The coordinator of the run in a place, with the copy in an object store if it has one."""
    durable = not place.temporary
    return Coordinator(place.directory, problem, n_evaluations, session, place.mirror(), durable)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), "numpy": np.__version__}
