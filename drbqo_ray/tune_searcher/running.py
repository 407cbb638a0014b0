"""A search under way: its problem, its ledger, the trials that are live, and why it ends."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.records import Observation, Recommendation
from drbqo_ray.tune_searcher.experiment import KeptTrial
from drbqo_ray.tune_searcher.ledger import TrialLedger
from drbqo_ray.tune_searcher.live import LiveTrials
from drbqo_ray.tune_searcher.points import Pair, StartingPoints
from drbqo_ray.tune_searcher.problem import TuneProblem
from drbqo_ray.tune_searcher.results import best, config_in, metric_in
from drbqo_ray.tune_searcher.space import TuneSpace

logger = logging.getLogger(__name__)

NOT_BEGUN: dict[str, Any] = {
    "events": None, "last_fit": None, "queue": [], "best": {}, "stopped": None,
}  # fmt: skip
"""The plain-data form of a search that has not begun."""
EXHAUSTED = "every config was handed out in every fold"


@dataclass
class RunningSearch:
    """A search whose space, metric and mode are known.

    Attributes:
        problem: what is searched for.
        ledger: the optimizer and the trials it answers.
        live: the trials under way.
        queue: evaluations that the user wants to be run first.
        best: best report of each live trial, where that is its score.
        stopped: why no more trials are suggested, None while they are.
        objects: options that Tune hides, as far as results showed them.
    """

    problem: TuneProblem
    ledger: TrialLedger
    live: LiveTrials
    queue: deque[Pair] = field(default_factory=deque)
    best: dict[str, float] = field(default_factory=dict)
    stopped: str | None = None
    objects: dict[tuple[str, int], Any] = field(default_factory=dict)

    @staticmethod
    def begin(problem: TuneProblem, start: StartingPoints, live: LiveTrials) -> RunningSearch:
        """A search from what the user gave.

        Raises:
            InvalidInput: a point is not in the space.
        """
        assert problem.space is not None
        queue, known = start.read(problem.space, problem.folds, problem.settings["seed"])
        ledger = TrialLedger(problem.maker())
        for triple in known:
            ledger.observe(*triple)
        return RunningSearch(problem, ledger, live, queue)

    @staticmethod
    def from_dict(
        plain: Mapping[str, Any], problem: TuneProblem, live: LiveTrials
    ) -> RunningSearch | None:
        """The search with this plain-data form; None if it has not begun."""
        events, queue, best_so_far = plain["events"], plain["queue"], dict(plain["best"])
        if events is None:
            return None
        fit = plain["last_fit"] and Fit.from_dict(plain["last_fit"])
        return RunningSearch(
            problem,
            TrialLedger(problem.maker(), events, fit),
            live,
            deque((config, fold) for config, fold in queue),
            best_so_far,
            plain.get("stopped"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form, without the problem and the live trials."""
        fit = self.ledger.optimizer.last_fit
        return {
            "events": self.ledger.events,
            "last_fit": None if fit is None else fit.to_dict(),
            "queue": list(self.queue),
            "best": self.best,
            "stopped": self.stopped,
        }

    @property
    def space(self) -> TuneSpace:
        """The search space."""
        assert self.problem.space is not None
        return self.problem.space

    # suggesting

    def ending(self) -> str | None:
        """Why no more trials are suggested, None to go on. An end is final."""
        if self.stopped is None and not self.queue:
            self.stopped = self._reason_to_stop()
        return self.stopped

    def _reason_to_stop(self) -> str | None:
        optimizer = self.ledger.optimizer
        if optimizer.exhausted:
            return EXHAUSTED
        try:
            return optimizer.stop_reason()
        except Exception:
            logger.exception("Whether to stop could not be decided; the search goes on.")
            return None

    def hand_out(self, trial: str) -> None:
        """Decide what the trial evaluates."""
        if self.queue:
            self.ledger.hand_out(trial, *self.queue.popleft())
        else:
            try:
                self.ledger.ask(trial)
            except Exception:
                logger.exception("The model could not suggest a config; trial %s is random.", trial)
                self.ledger.draw(trial)
        self.live.add(trial)

    def config(self, trial: str) -> dict[str, Any]:
        """What was handed out to a trial, as a nested config with its fold."""
        suggestion, key = self.ledger.suggestion(trial), self.problem.folds.key
        config: dict[str, Any] = self.space.fill(suggestion.config)
        return config if key is None else {**config, key: suggestion.context}

    # results

    def hear(self, trial: str, result: Mapping[str, Any]) -> None:
        """Take in what a result says about its trial.

        A trial that is not known was forgotten in a crash, or given a new id by Tune: it is found
        or rebuilt by the config in the result.
        """
        problem, folds = self.problem, self.problem.folds
        self.live.hear(trial)
        if trial not in self.ledger.trials:
            config = config_in(result)
            fold = folds.needed(config)
            values = self.space.space.validate(self.space.read(folds.without(config)))
            other = self.ledger.adopt(trial, values, fold, self.live.busy)
            if other is None:
                self.ledger.hand_out(trial, values, fold)
            else:
                self.live.forget(other)
            self.live.add(trial)
        if problem.reported == "best":
            reports = (self.best.get(trial), metric_in(result, str(problem.metric)))
            found = best(reports, str(problem.mode))
            if found is not None:
                self.best[trial] = found

    def complete(self, trial: str, result: Mapping[str, Any] | None, error: bool) -> None:
        """Record how a trial ended; never raises."""
        try:
            self._complete(trial, result, error)
        except Exception:
            logger.exception("The end of trial %s could not be recorded.", trial)
        self.live.end(trial)
        self.best.pop(trial, None)

    def _complete(self, trial: str, result: Mapping[str, Any] | None, error: bool) -> None:
        ledger, metric = self.ledger, str(self.problem.metric)
        if result is not None:
            self.hear(trial, result)
        if trial not in ledger.trials:
            logger.warning("Trial %s ended, of which nothing is known: not recorded.", trial)
        elif error:
            ledger.fail(trial, "the trial raised an error")
        elif result is not None:
            values = ledger.suggestion(trial).config
            self.objects.update(self.space.marked_options(values, config_in(result)))
            value = self.best.get(trial, metric_in(result, metric))
            if value is None and result.get("done"):
                ledger.fail(trial, f"the result has no {metric!r}")
            elif value is None:
                logger.info("Trial %s was stopped before it reported.", trial)
            elif not ledger.tell(trial, value):
                logger.info("Trial %s ended again; its first score stands.", trial)

    def compare_notes(self, kept: list[KeptTrial]) -> None:
        """Learn what Tune kept and we do not know; what Tune forgot is no longer live."""
        metric, mode = str(self.problem.metric), str(self.problem.mode)
        for trial in kept:
            result = {**trial.result, "config": trial.config}
            try:
                self.hear(trial.id, result)
                if self.problem.reported == "best" and metric in trial.bests:
                    self.best[trial.id] = trial.bests[metric][mode]
            except Exception:
                logger.exception("Trial %s, which Tune kept, could not be read.", trial.id)
            known = trial.id in self.ledger.trials and self.ledger.status(trial.id) == "ok"
            if trial.status in ("TERMINATED", "ERROR") and not known:
                self.complete(trial.id, result, error=trial.status == "ERROR")
        self.live.keep(trial.id for trial in kept)

    # answers

    def recommend(self) -> Recommendation:
        """The optimizer's recommendation, its config nested."""
        found = self.ledger.optimizer.recommend()
        return replace(found, config=self.space.answer(found.config, self.objects))

    @property
    def observations(self) -> list[Observation]:
        """The outcomes in order, their configs nested."""
        seen = self.ledger.optimizer.observations
        return [replace(one, config=self.space.answer(one.config, self.objects)) for one in seen]
