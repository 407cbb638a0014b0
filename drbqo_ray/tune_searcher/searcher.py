"""`DRBQOSearch`: robust search over single folds as a search algorithm of Ray Tune.

Everything Tune calls is here; the work is done by `TuneProblem` and `TuneSpace` (what is searched),
`TrialLedger` (the optimizer and the trials it answers) and `state` (the state file).

Tune's contract: an exception in `suggest`, `on_trial_complete` or `save` ends the whole run. So a
wrong setting raises before the first trial, and afterwards a bad result is recorded or logged.
"""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ray.tune.result import DEFAULT_METRIC
from ray.tune.search import UNDEFINED_METRIC_MODE, UNDEFINED_SEARCH_SPACE, Searcher

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.core.uncertainty_set import UncertaintySet
from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.records import Observation, Recommendation
from drbqo_ray.space import Space
from drbqo_ray.tune_searcher.experiment import KeptTrial, kept_trials
from drbqo_ray.tune_searcher.ledger import TrialLedger
from drbqo_ray.tune_searcher.live import LiveTrials
from drbqo_ray.tune_searcher.points import Pair, StartingPoints, evaluated
from drbqo_ray.tune_searcher.problem import TuneProblem
from drbqo_ray.tune_searcher.results import best, config_in, metric_in
from drbqo_ray.tune_searcher.scheduler import warn_of_scheduler
from drbqo_ray.tune_searcher.space import TuneSpace
from drbqo_ray.tune_searcher.state import (
    newest_state,
    next_state,
    read_state,
    refusing_damage,
    write_state,
)

if TYPE_CHECKING:
    from drbqo_ray.tune_searcher.callback import RobustValueCallback

logger = logging.getLogger(__name__)


class DRBQOSearch(Searcher):  # type: ignore[misc]
    """Suggest single folds of configs to Ray Tune, and recommend the most robust config.

    Args:
        space: nested dict of domains of Ray Tune, scipy.stats or our own, or a Space. None
            takes the `param_space` of `tune.Tuner`.
        n_folds: number of folds; the trainable reads its fold, counted from 0, under `fold_key`.
            None is an ordinary search without folds.
        fold_key: key of the fold in the config.
        metric: name of the score in the results, "a/b" if nested; `tune.TuneConfig` may give it.
        mode: "max" or "min"; `tune.TuneConfig` may give it.
        method, uncertainty, seed: see `Optimizer`.
        points_to_evaluate: configs to run first, in order, with or without a fold. What they
            leave out is drawn at random.
        evaluated_rewards: scores of these points, so that they need not be run: a number, a list
            of one number per fold, or None to run the point.
        reported: which of several reports of a trial is its score, the "last" or the "best".
        **options: n_initial, kernel, context_rule, reference, sampler, hyperparameters of
            `Optimizer`.
    """

    CKPT_FILE_TMPL = "searcher-state-{}.json"

    def __init__(
        self,
        space: Mapping[str, Any] | Space | None = None,
        *,
        n_folds: int | None,
        fold_key: str = "fold",
        metric: str | None = None,
        mode: Literal["min", "max"] | None = None,
        method: str = "drbqo",
        uncertainty: UncertaintySet | float | str = 1.0,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        evaluated_rewards: Sequence[Any] | None = None,
        seed: int = 0,
        reported: Literal["last", "best"] = "last",
        **options: Any,
    ) -> None:
        settings = {"method": method, "uncertainty": uncertainty, "seed": seed, **options}
        problem = TuneProblem.of(space, n_folds, fold_key, reported, settings)
        self._start = StartingPoints.of(points_to_evaluate, evaluated_rewards)
        self._set_problem(problem.with_metric(metric, mode))
        super().__init__(metric=metric, mode=mode)
        self._ledger: TrialLedger | None = None
        self._queue: deque[Pair] = deque()
        self._live = LiveTrials()
        self._best: dict[str, float] = {}
        self._objects: dict[tuple[str, int], Any] = {}
        self._warned = False
        self._saves = 0

    def _set_problem(self, problem: TuneProblem) -> None:
        self._problem = problem
        self._metric, self._mode = problem.metric, problem.mode

    @staticmethod
    def convert_search_space(spec: Mapping[str, Any]) -> Space:
        """The parameters of a Tune search space, named by their path."""
        found = TuneSpace.of(spec)
        if found is None:
            raise InvalidInput("A search space has a domain.", spec, "Use tune.uniform and others.")
        return found.space

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Take over metric, mode and search space from Tune; False if there is a space already.

        Raises:
            InvalidInput: a setting is wrong.
            ProblemChanged: the searcher has results of another problem.
        """
        if self._problem.given and TuneSpace.of(config) is not None:
            return False
        problem = self._problem.with_metric(metric, mode)
        problem = problem if self._problem.given else problem.with_space(config)
        if problem.metric is None and problem.mode is not None:
            problem = problem.with_metric(DEFAULT_METRIC, None)
        if self._ledger is None:
            self._set_problem(problem)
        else:
            self._problem.refuse_change_to(problem, "this searcher")
        if problem.space is not None and problem.mode is not None:
            self._prepare(problem.space)
        self._warn_of_scheduler()
        return True

    def _ready(self) -> tuple[TuneProblem, TuneSpace, TrialLedger]:
        problem, name = self._problem, type(self).__name__
        if problem.space is None:
            raise RuntimeError(UNDEFINED_SEARCH_SPACE.format(cls=name, space="space"))
        if problem.metric is None or problem.mode is None:
            raise RuntimeError(
                UNDEFINED_METRIC_MODE.format(cls=name, metric=problem.metric, mode=problem.mode)
            )
        return problem, problem.space, self._ledger or self._prepare(problem.space)

    def _prepare(self, space: TuneSpace) -> TrialLedger:
        """Read what the user gave against the space; the ledger is made only if all is well."""
        if self._ledger is not None:
            return self._ledger
        problem = self._problem
        queue, known = self._start.read(space, problem.folds, problem.settings["seed"])
        ledger = TrialLedger(problem.maker())
        for triple in known:
            ledger.observe(*triple)
        self._ledger, self._queue = ledger, queue
        return ledger

    def _warn_of_scheduler(self) -> None:
        if self._problem.folds.key is not None and not self._warned:
            self._warned = warn_of_scheduler()

    def suggest(self, trial_id: str) -> Any:
        """The config of a trial, with its fold; None at the limit of live trials; FINISHED when
        every config of a finite space was handed out in every fold."""
        problem, space, ledger = self._ready()
        self._warn_of_scheduler()
        if trial_id not in ledger.trials:
            if self._live.full:
                return None
            if not self._queue and ledger.optimizer.exhausted:
                logger.info("Every config was handed out in every fold: no more suggestions.")
                return Searcher.FINISHED
            self._hand_out(ledger, trial_id)
            self._live.add(trial_id)
        suggestion = ledger.suggestion(trial_id)
        config = space.fill(suggestion.config)
        key = problem.folds.key
        return config if key is None else {**config, key: suggestion.context}

    def _hand_out(self, ledger: TrialLedger, trial_id: str) -> None:
        if self._queue:
            ledger.hand_out(trial_id, *self._queue.popleft())
            return
        try:
            ledger.ask(trial_id)
        except Exception:
            logger.exception("The model could not suggest a config; trial %s is random.", trial_id)
            ledger.draw(trial_id)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Limit the live trials; True, as we keep to the limit ourselves."""
        self._live.limit = max_concurrent
        return True

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Take note of a report; never raises."""
        try:
            self._hear(trial_id, result)
        except Exception:
            logger.exception("A report of trial %s could not be read.", trial_id)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Record how a trial ended; never raises.

        An error, an end without the metric and a score that is no finite number are failures. A
        trial that was stopped before it reported the metric stays without an outcome.
        """
        try:
            self._complete(trial_id, result, error)
        except Exception:
            logger.exception("The end of trial %s could not be recorded.", trial_id)
        self._live.end(trial_id)
        self._best.pop(trial_id, None)

    def _hear(self, trial_id: str, result: dict[str, Any]) -> None:
        """Take in what a result says about its trial.

        A trial that is not known was forgotten in a crash, or given a new id by Tune: it is found
        or rebuilt by the config in the result.
        """
        problem, space, ledger = self._ready()
        self._live.hear(trial_id)
        if trial_id not in ledger.trials:
            config = config_in(result)
            fold = problem.folds.needed(config)
            values = space.space.validate(space.read(problem.folds.without(config)))
            other = ledger.adopt(trial_id, values, fold, self._live.busy)
            if other is None:
                ledger.hand_out(trial_id, values, fold)
            else:
                self._live.forget(other)
            self._live.add(trial_id)
        if problem.reported == "best":
            reports = (self._best.get(trial_id), metric_in(result, str(problem.metric)))
            found = best(reports, str(problem.mode))
            if found is not None:
                self._best[trial_id] = found

    def _complete(self, trial_id: str, result: dict[str, Any] | None, error: bool) -> None:
        problem, space, ledger = self._ready()
        if result is not None:
            self._hear(trial_id, result)
        if trial_id not in ledger.trials:
            logger.warning("Trial %s ended, of which nothing is known: not recorded.", trial_id)
        elif error:
            ledger.fail(trial_id, "the trial raised an error")
        elif result is not None:
            values = ledger.suggestion(trial_id).config
            self._objects.update(space.marked_options(values, config_in(result)))
            value = self._best.get(trial_id, metric_in(result, str(problem.metric)))
            if value is None and result.get("done"):
                ledger.fail(trial_id, f"the result has no {problem.metric!r}")
            elif value is None:
                logger.info("Trial %s was stopped before it reported.", trial_id)
            elif not ledger.tell(trial_id, value):
                logger.info("Trial %s ended again; its first score stands.", trial_id)

    def recommend(self) -> Recommendation:
        """The evaluated config with the best robust value over all folds.

        This is the answer of a run. `ResultGrid.get_best_result()` is not: it picks the config
        with the luckiest single fold.

        Raises:
            NothingObserved: no config has a score and no failed fold.
        """
        if self._ledger is None or self._problem.space is None:
            raise NothingObserved(
                "A recommendation needs scores. Got none, the search has not begun. Run "
                "tuner.fit() first, or read a finished run with DRBQOSearch.load(directory)."
            )
        found = self._ledger.optimizer.recommend()
        return replace(found, config=self._problem.space.answer(found.config, self._objects))

    @property
    def observations(self) -> list[Observation]:
        """The outcomes of all evaluations, in the order they came in."""
        if self._ledger is None or self._problem.space is None:
            return []
        answer = self._problem.space.answer
        seen = self._ledger.optimizer.observations
        return [replace(one, config=answer(one.config, self._objects)) for one in seen]

    def callback(self) -> RobustValueCallback:
        """A Tune callback that adds the robust value to every result."""
        from drbqo_ray.tune_searcher.callback import RobustValueCallback

        return RobustValueCallback(self)

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float | None,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learn from an evaluation made elsewhere; `parameters` holds its fold.

        Raises:
            InvalidInput: it is not in the space, or names no fold.
        """
        if value is None and not error:
            return
        score = float("nan") if error else value
        if self._ledger is None or self._problem.space is None:
            self._start.told.append((copy.deepcopy(parameters), score))
            return
        for triple in evaluated(parameters, score, self._problem.space, self._problem.folds):
            self._ledger.observe(*triple)

    def save(self, checkpoint_path: str) -> None:
        """Write the whole state to a file, as JSON."""
        ledger = self._ledger
        fit = None if ledger is None else ledger.optimizer.last_fit
        state = {
            "saves": self._saves,
            "problem": self._problem.to_dict(),
            "events": None if ledger is None else ledger.events,
            "last_fit": None if fit is None else fit.to_dict(),
            "queue": list(self._queue),
            "live": list(self._live),
            "limit": self._live.limit,
            "best": self._best,
        }
        write_state(checkpoint_path, state)

    def restore(self, checkpoint_path: str) -> None:
        """Go on from a state that `save` wrote; everything set before is replaced.

        Raises:
            InvalidInput: the file is not such a state, or others can write it.
            ProblemChanged: it was saved for another search space than the one already set.
        """
        state = read_state(checkpoint_path)
        with refusing_damage(checkpoint_path):
            problem = TuneProblem.from_dict(state["problem"], self._problem.space)
            ledger = None
            if state["events"] is not None:
                fit = state["last_fit"] and Fit.from_dict(state["last_fit"])
                ledger = TrialLedger(problem.maker(), state["events"], fit)
            queue = deque((config, fold) for config, fold in state["queue"])
            live, best_so_far = LiveTrials(state["live"], state["limit"]), dict(state["best"])
        self._set_problem(problem)
        self._saves = state["saves"]
        self._ledger, self._queue, self._live, self._best = ledger, queue, live, best_so_far

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """As Tune calls it: restore the newest state that is whole, then compare notes.

        Trials that Tune kept in the same directory and the state does not know of are learned, so
        none is lost when the state is older than they are, or was cut short by a crash.
        """
        self.restore(str(newest_state(checkpoint_dir, self.CKPT_FILE_TMPL)))
        kept, problem = kept_trials(checkpoint_dir), self._problem
        if kept is not None and None not in (problem.space, problem.metric, problem.mode):
            self._compare_notes(kept)

    def _compare_notes(self, kept: list[KeptTrial]) -> None:
        problem, _, ledger = self._ready()
        metric, mode = str(problem.metric), str(problem.mode)
        for trial in kept:
            result = {**trial.result, "config": trial.config}
            try:
                self._hear(trial.id, result)
                if problem.reported == "best" and metric in trial.bests:
                    self._best[trial.id] = trial.bests[metric][mode]
            except Exception:
                logger.exception("Trial %s, which Tune kept, could not be read.", trial.id)
            known = trial.id in ledger.trials and ledger.status(trial.id) == "ok"
            if trial.status in ("TERMINATED", "ERROR") and not known:
                self.on_trial_complete(trial.id, result, error=trial.status == "ERROR")
        self._live = LiveTrials(set(self._live) & {trial.id for trial in kept}, self._live.limit)

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """As Tune calls it during a run: a failure is logged, and the older state stays."""
        try:
            self._saves += 1
            with next_state(checkpoint_dir, self.CKPT_FILE_TMPL, session_str, self._saves) as path:
                self.save(str(path))
        except Exception:
            logger.exception("The searcher's state could not be saved in %s.", checkpoint_dir)

    @classmethod
    def load(cls, directory: str | Path) -> DRBQOSearch:
        """The searcher of a Tune run, from the directory of its experiment.

        Another `tune.Tuner` with the same `param_space` can go on with it.
        """
        search = cls(n_folds=None)
        search.restore_from_dir(str(Path(directory).expanduser()))
        return search
