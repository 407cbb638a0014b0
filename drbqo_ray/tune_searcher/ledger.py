"""An optimizer together with the Tune trials it answers, as a list of events that can be replayed.

| event   | meaning                                                          |
|---------|------------------------------------------------------------------|
| ask     | a config and a fold were handed out to a trial                   |
| end     | its score came back, or it failed                                |
| observe | an evaluation that was not handed out here came with its outcome |
| adopt   | another trial goes on with what was handed out                   |

The optimizer's state is a function of the events in order and of its last fit, so these two are
all that has to be saved. A failure that turns out well in a second run of its trial is replaced
where it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

import numpy as np

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.optimizer import Optimizer
from drbqo_ray.records import Config, Observation, Suggestion
from drbqo_ray.scores import read_score

Event = dict[str, Any]
NO_SCORE = "the trial reported no score"


class TrialLedger:
    """What was handed out to which trial, and how it ended.

    Args:
        make: makes the optimizer, fresh.
        events, last_fit: where to go on from.
    """

    def __init__(
        self,
        make: Callable[[], Optimizer],
        events: Sequence[Event] = (),
        last_fit: Fit | None = None,
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

    def _apply(self, event: Event) -> None:
        kind, id = event["event"], event["id"]
        if kind in ("ask", "observe"):
            suggestion = Suggestion(id, event["config"], event["context"], event.get("seed", 0))
            if kind == "ask":
                self.optimizer.register(suggestion)
            else:
                score = math.nan if event["score"] is None else event["score"]
                event = _ended(
                    event, self.optimizer.observe(suggestion.config, suggestion.context, score)
                )
            self._suggestions[id] = suggestion
        elif kind == "end":
            score, wrong = read_score(event["score"])
            if score is None:  # no score, or a trial that reports what is none
                reason = event["reason"] if event["score"] is None else str(wrong)
                event = _ended(event, self.optimizer.fail(id, reason))
            else:
                event = _ended(event, self.optimizer.tell(id, score))
        if event.get("trial") is not None:
            self.trials[event["trial"]] = id
        if "score" in event:
            self._ends[id] = len(self.events)
        self.events.append(event)

    @property
    def _next_id(self) -> int:
        return len(self._suggestions)

    # handing out

    def ask(self, trial: str) -> Suggestion:
        """The optimizer's next evaluation, for this trial."""
        suggestion = self.optimizer.ask()
        event = {"event": "ask", "id": suggestion.id, "trial": trial, "config": suggestion.config,
                 "context": suggestion.context, "seed": suggestion.seed}  # fmt: skip
        self._suggestions[suggestion.id] = suggestion
        self.trials[trial] = suggestion.id
        self.events.append(event)
        return suggestion

    def hand_out(self, trial: str, config: Config, context: int) -> Suggestion:
        """An evaluation of the user's choice, for this trial."""
        self._apply({"event": "ask", "id": self._next_id, "trial": trial, "config": config,
                     "context": context, "seed": 0})  # fmt: skip
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
        mended = {**self.events[at], "score": score}
        events = [*self.events[:at], mended, *self.events[at + 1 :]]
        self.__dict__.update(TrialLedger(self._make, events, self.optimizer.last_fit).__dict__)
        return self.status(trial) == "ok"

    def observe(
        self, config: Config, context: int, score: object, trial: str | None = None
    ) -> None:
        """Record an evaluation that was not handed out here; no usable score is a failure."""
        valid = self.optimizer.space.validate(config)
        self._apply({"event": "observe", "id": self._next_id, "trial": trial, "config": valid,
                     "context": int(context), "score": score})  # fmt: skip

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
