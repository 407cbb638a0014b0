"""An optimizer together with the Tune trials it answers, as a list of events that can be replayed.

| event   | meaning                                                          |
|---------|------------------------------------------------------------------|
| ask     | a config and a fold were handed out to a trial                   |
| end     | its score came back, or it failed                                |
| observe | an evaluation that was not handed out here came with its outcome |
| adopt   | another trial goes on with what was handed out                   |

The optimizer's state is a function of the events in order, of its last fit and of the last check of
its stop rule, so these three are all that has to be saved. A failure that turns out well in a
second run of its trial is replaced where it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.optimizer.stopping import StopCheck
from drbqo_ray.records import Config, Observation, Suggestion

Event = dict[str, Any]
NO_SCORE = "the trial reported no score"


class TrialLedger:
    """What was handed out to which trial, and how it ended.

    Args:
        make: makes the optimizer, fresh.
        events, last_fit, last_check: where to go on from.
    """

    def __init__(
        self,
        make: Callable[[], Optimizer],
        events: Sequence[Event] = (),
        last_fit: Fit | None = None,
        last_check: StopCheck | None = None,
    ) -> None:
        self._make = make
        self.optimizer = make()
        self.events: list[Event] = []
        self.trials: dict[str, int] = {}
        self._suggestions: dict[int, Suggestion] = {}
        self._ends: dict[int, int] = {}
        for event in events:
            self._apply(event)
        if last_fit is not None:
            self.optimizer.last_fit = last_fit
        self.optimizer.last_check = last_check

    def _apply(self, event: Event) -> None:
        kind, id = event["event"], event["id"]
        if kind in ("ask", "observe"):
            suggestion = Suggestion(id, event["config"], event["context"], event.get("seed", 0))
            if kind == "ask":
                self.optimizer.register(suggestion)
            else:
                score = math.nan if event["score"] is None else event["score"]
                outcome = self.optimizer.observe(suggestion.config, suggestion.context, score)
                event = _ended(event, outcome)
            self._suggestions[id] = suggestion
        elif kind == "end":
            event = _ended(event, self._outcome(id, event["score"], event["reason"]))
        if event.get("trial") is not None:
            self.trials[event["trial"]] = id
        if "score" in event:
            self._ends[id] = len(self.events)
        self.events.append(event)

    def _outcome(self, id: int, score: object, reason: str) -> Observation:
        """What comes of a trial: whatever it reports that is no score is a failure of the trial."""
        try:
            if score is not None:
                return self.optimizer.tell(id, score)
        except InvalidInput as error:
            reason = str(error)
        return self.optimizer.fail(id, reason)

    @property
    def _next_id(self) -> int:
        return len(self._suggestions)

    # handing out

    def ask(self, trial: str) -> Suggestion:
        """The optimizer's next evaluation, for this trial."""
        suggestion = self.optimizer.ask()
        event = {
            "event": "ask",
            "id": suggestion.id,
            "trial": trial,
            "config": suggestion.config,
            "context": suggestion.context,
            "seed": suggestion.seed,
        }
        self._suggestions[suggestion.id] = suggestion
        self.trials[trial] = suggestion.id
        self.events.append(event)
        return suggestion

    def hand_out(self, trial: str, config: Config, context: int) -> Suggestion:
        """An evaluation of the user's choice, for this trial."""
        self._apply(
            {
                "event": "ask",
                "id": self._next_id,
                "trial": trial,
                "config": config,
                "context": context,
                "seed": 0,
            }
        )
        return self.suggestion(trial)

    def draw(self, trial: str) -> Suggestion:
        """An evaluation at random, for this trial."""
        space = self.optimizer.space
        rng = np.random.default_rng([self.optimizer.seed, self._next_id])
        config = space.from_unit(rng.random(len(space)))
        return self.hand_out(trial, config, int(rng.integers(self.optimizer.n_contexts)))

    def suggestion(self, trial: str) -> Suggestion:
        """What was handed out to a trial."""
        return self._suggestions[self.trials[trial]]

    # outcomes

    @property
    def empty(self) -> bool:
        """Whether no evaluation has an outcome yet."""
        return not self._ends

    def status(self, trial: str) -> Literal["waiting", "ok", "failed"]:
        """How a trial stands."""
        at = self._ends.get(self.trials[trial])
        if at is None:
            return "waiting"
        return "failed" if self.events[at]["score"] is None else "ok"

    def tell(self, trial: str, score: object) -> bool:
        """Record the score of a trial; whether it counts.

        The first usable score of a trial counts, also after a failure. An unusable score is a
        failure.
        """
        return self._end(trial, score, None)

    def fail(self, trial: str, reason: str) -> bool:
        """Record that a trial failed; whether it counts, which it does not after another end."""
        return self._end(trial, None, reason)

    def _end(self, trial: str, score: object, reason: str | None) -> bool:
        id, status = self.trials[trial], self.status(trial)
        if status == "waiting":
            self._apply({"event": "end", "id": id, "score": score, "reason": reason or NO_SCORE})
            return True
        if status == "ok" or score is None:
            return False
        at = self._ends[id]
        success = {**self.events[at], "score": score}
        events = [*self.events[:at], success, *self.events[at + 1 :]]
        old = self.optimizer
        self.__dict__.update(TrialLedger(self._make, events, old.last_fit, old.last_check).__dict__)
        return self.status(trial) == "ok"

    def observe(
        self, config: Config, context: int, score: object, trial: str | None = None
    ) -> None:
        """Record an evaluation that was not handed out here; no usable score is a failure."""
        valid = self.optimizer.space.validate(config)
        self._apply(
            {
                "event": "observe",
                "id": self._next_id,
                "trial": trial,
                "config": valid,
                "context": int(context),
                "score": score,
            }
        )

    def adopt(self, trial: str, config: Config, context: int, busy: Collection[str]) -> str | None:
        """Let an unknown trial go on with what was handed out to another that failed or never
        ended and is not `busy` with it; the other trial, None if there is none."""
        valid = self.optimizer.space.validate(config)
        for other, id in self.trials.items():
            suggestion, status = self._suggestions[id], self.status(other)
            left = status == "failed" or (status == "waiting" and other not in busy)
            if left and suggestion.config == valid and suggestion.context == context:
                self._apply({"event": "adopt", "id": id, "trial": trial})
                return other
        return None


def _ended(event: Event, outcome: Observation) -> Event:
    return {**event, "score": outcome.score, "reason": outcome.reason}


class LiveTrials:
    """Trials that have a suggestion and did not end yet.

    Those of an earlier run, or from before a restore, may be dead: Tune may have dropped them, or
    gone on under new ids. As long as nothing is heard of them they are *silent*: they count until
    a newer trial ends, and never take the last free place.

    Args:
        earlier: trials that were live when the state was saved.
        limit: how many may be live, None for any number.
    """

    def __init__(self, earlier: Iterable[str] = (), limit: int | None = None) -> None:
        self._live = set(earlier)
        self.limit = limit
        self.begin_run()

    def begin_run(self) -> None:
        """A run begins: those that are live are of an earlier one."""
        self._silent = set(self._live)
        self._earlier = frozenset(self._live)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._live))

    @property
    def full(self) -> bool:
        """Whether no trial may be added."""
        live = len(self._live)
        return self.limit is not None and live >= self.limit and live > len(self._silent)

    @property
    def busy(self) -> set[str]:
        """The live trials that are not silent."""
        return self._live - self._silent

    def add(self, trial: str) -> None:
        """A trial was given a suggestion."""
        self._live.add(trial)

    def hear(self, trial: str) -> None:
        """Something was heard of a trial."""
        self._silent.discard(trial)

    def end(self, trial: str) -> None:
        """A trial ended."""
        if trial in self._live and trial not in self._earlier:
            self._live -= self._silent
            self._silent.clear()
        self.forget(trial)

    def keep(self, trials: Iterable[str]) -> None:
        """After a restore: only these may be live, and nothing was heard of them yet."""
        self._live &= set(trials)
        self.begin_run()

    def forget(self, trial: str) -> None:
        """A trial is no more, or another goes on in its place."""
        self._live.discard(trial)
        self._silent.discard(trial)
