"""A search under way: its problem, its ledger, the trials that are live, and why it ends."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.optimizer.stopping import StopCheck
from drbqo_ray.records import Observation, Recommendation
from drbqo_ray.tune_searcher.problem import Pair, StartingPoints, TuneProblem
from drbqo_ray.tune_searcher.results import KeptTrial, best, config_in, mean, metric_in
from drbqo_ray.tune_searcher.space import TuneSpace, decode_small, encode_small
from drbqo_ray.tune_searcher.trials import LiveTrials, TrialLedger

logger = logging.getLogger(__name__)

NOT_BEGUN: dict[str, Any] = {
    "events": None,
    "last_fit": None,
    "last_look": None,
    "queue": [],
    "best": {},
    "stopped": None,
    "objects": [],
}
"""The plain-data form of a search that has not begun."""
GIVE_METRIC = "no score is learned. Give metric and mode to DRBQOSearch itself."
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
        stored: Mapping[str, Any], problem: TuneProblem, live: LiveTrials
    ) -> RunningSearch | None:
        """The search with this plain-data form; None if it has not begun."""
        events, queue, best_so_far = stored["events"], stored["queue"], dict(stored["best"])
        if events is None:
            return None
        fit = stored["last_fit"] and Fit.from_dict(stored["last_fit"])
        check = stored.get("last_look") and StopCheck.from_dict(stored["last_look"])
        return RunningSearch(
            problem,
            TrialLedger(problem.maker(), events, fit, check),
            live,
            deque((config, fold) for config, fold in queue),
            best_so_far,
            stored.get("stopped"),
            {(name, k): decode_small(value) for name, k, value in stored.get("objects", ())},
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form, without the problem and the live trials."""
        fit, check = self.ledger.optimizer.last_fit, self.ledger.optimizer.last_check
        objects = [(*place, encode_small(value)) for place, value in self.objects.items()]
        return {
            "events": self.ledger.events,
            "last_fit": None if fit is None else fit.to_dict(),
            "last_look": None if check is None else check.to_dict(),
            "queue": list(self.queue),
            "best": self.best,
            "stopped": self.stopped,
            "objects": [one for one in objects if one[-1] is not None],
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
        problem = self.problem
        self.live.hear(trial)
        if trial not in self.ledger.trials:
            values, fold = self._read_pair(config_in(result))
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

    def _read_pair(self, config: Mapping[str, Any]) -> Pair:
        """The flat config and the fold in a nested config."""
        folds = self.problem.folds
        values = self.space.read(folds.without(config))
        return self.space.space.validate(values), folds.needed(config)

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
            elif value is None and None in result:
                logger.warning(
                    "The wrapper of the searcher does not know its metric: %s", GIVE_METRIC
                )
            elif value is None:
                logger.info("Trial %s was stopped before it reported.", trial)
            elif not ledger.tell(trial, value):
                logger.info("Trial %s ended again; its first score stands.", trial)

    def compare_notes(self, kept: list[KeptTrial]) -> None:
        """Learn what Tune kept and we do not know; what Tune forgot is no longer live."""
        for trial, *repeats in self._by_evaluation(kept):
            result, error = {**trial.result, "config": trial.config}, trial.status == "ERROR"
            self._hear_again(trial, result)
            known = trial.id in self.ledger.trials and self.ledger.status(trial.id) == "ok"
            if known or not all(one.ended for one in (trial, *repeats)):
                continue
            if repeats:
                metric = str(self.problem.metric)
                scores = [metric_in(one.result, metric) for one in (trial, *repeats)]
                result[metric] = mean(scores)
                error = result[metric] is None
            self.complete(trial.id, result, error)
        self.live.keep(trial.id for trial in kept)

    def _by_evaluation(self, kept: list[KeptTrial]) -> list[list[KeptTrial]]:
        """The trials, those of one evaluation together and the one we know first. Tune's `Repeater`
        trains what was handed out to one trial in others as well, of which we are not told."""
        groups: list[list[KeptTrial]] = []
        first: dict[object, list[KeptTrial]] = {}
        for trial in sorted(kept, key=lambda one: one.id not in self.ledger.trials):
            pair = self._pair_of(trial)
            if pair in first and trial.id not in self.ledger.trials:
                first[pair].append(trial)
                continue
            groups.append([trial])
            if pair is not None:
                first.setdefault(pair, groups[-1])
        return groups

    def _pair_of(self, trial: KeptTrial) -> object:
        """The config and fold of a trial, to compare; None if they cannot be read."""
        try:
            config, fold = self._read_pair(trial.config)
        except Exception:
            return None
        return tuple(config.items()), fold

    def _hear_again(self, trial: KeptTrial, result: Mapping[str, Any]) -> None:
        metric, mode = str(self.problem.metric), str(self.problem.mode)
        try:
            self.hear(trial.id, result)
            found = best([trial.bests.get(metric, {}).get(mode)], mode)
            if self.problem.reported == "best" and found is not None:
                self.best[trial.id] = found
        except Exception:
            logger.exception("Trial %s, which Tune kept, could not be read.", trial.id)

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
