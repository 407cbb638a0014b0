"""`DRBQOSearch`: robust search over single folds as a search algorithm of Ray Tune.

Everything Tune calls is here; the work is done by `TuneProblem` and `TuneSpace` (what is searched),
`RunningSearch` and `TrialLedger` (the trials, and the optimizer that answers them) and `state` (the
state file).

Tune's contract: an exception in `suggest`, `on_trial_complete` or `save` ends the whole run. So a
wrong setting raises before the first trial, and afterwards a bad result is recorded or logged.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from ray.tune import Callback
from ray.tune.result import DEFAULT_METRIC
from ray.tune.search import UNDEFINED_METRIC_MODE, UNDEFINED_SEARCH_SPACE, Searcher

from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.optimizer.certainty import Certainty
from drbqo_ray.optimizer.methods import DEFAULT
from drbqo_ray.problem import SettingsWithoutMode, takes_settings
from drbqo_ray.records import Observation, Recommendation, html_card
from drbqo_ray.space.space import Space
from drbqo_ray.tune_searcher.problem import StartingPoints, TuneProblem, evaluated
from drbqo_ray.tune_searcher.results import kept_trials
from drbqo_ray.tune_searcher.running import NOT_BEGUN, RunningSearch
from drbqo_ray.tune_searcher.space import TuneSpace
from drbqo_ray.tune_searcher.state import (
    NAMES,
    encode_state,
    is_turn,
    newest_state,
    next_state,
    read_state,
    refusing_damage,
    write_state,
)
from drbqo_ray.tune_searcher.trials import LiveTrials

logger = logging.getLogger(__name__)

ROBUST_VALUE = "robust_value"


class DRBQOSearch(Searcher):  # type: ignore[misc]
    """Suggest single folds of configs to Ray Tune, and recommend the most robust config.

    Args:
        space: nested dict of domains of Ray Tune, scipy.stats or our own, or a Space. None
            takes the `param_space` of `tune.Tuner`.
        n_folds: number of folds, or their names; the trainable reads the number of its fold,
            counted from 0, under `fold_key`. None is an ordinary search without folds.
        fold_key: key of the fold in the config.
        metric: name of the score in the results, "a/b" if nested; `tune.TuneConfig` may give it.
        mode: "max" or "min"; `tune.TuneConfig` may give it.
        points_to_evaluate: configs to run first, in order, with or without a fold. What they
            leave out is drawn at random.
        evaluated_rewards: scores of these points, so that they need not be run: a number, a list
            of one number per fold, or None to run the point.
        reported: which of several reports of a trial is its score, the "last" or the "best".
        settings: method, uncertainty, seed, stop_when and all else that `Optimizer` takes. Once
            `stop_when` holds no more trials are suggested.
    """

    CKPT_FILE_TMPL = NAMES

    @takes_settings(without=("mode", "cost_aware"), method=DEFAULT)
    def __init__(
        self,
        space: Mapping[str, Any] | Space | None = None,
        *,
        n_folds: int | Sequence[str] | None,
        fold_key: str = "fold",
        metric: str | None = None,
        mode: Literal["min", "max"] | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        evaluated_rewards: Sequence[Any] | None = None,
        reported: Literal["last", "best"] = "last",
        **settings: Unpack[SettingsWithoutMode],
    ) -> None:
        problem = TuneProblem.of(space, n_folds, fold_key, reported, settings)
        self._start = StartingPoints.of(points_to_evaluate, evaluated_rewards)
        self._set_problem(problem.with_metric(metric, mode))
        super().__init__(metric=self._metric, mode=self._mode)
        self._live = LiveTrials()
        self._running: RunningSearch | None = None
        self._warned = False
        self._farewell = False
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
        if self._running is None:
            self._set_problem(problem)
        else:
            self._problem.refuse_change_to(problem, "this searcher")
        self._ready_if_known()
        self._live.begin_run()
        self._warn_of_scheduler()
        return True

    def _ready(self) -> RunningSearch:
        """The search, which begins now if it did not before."""
        problem, name = self._problem, type(self).__name__
        if problem.space is None:
            raise RuntimeError(UNDEFINED_SEARCH_SPACE.format(cls=name, space="space"))
        if problem.metric is None or problem.mode is None:
            raise RuntimeError(
                UNDEFINED_METRIC_MODE.format(cls=name, metric=problem.metric, mode=problem.mode)
            )
        if self._running is None:
            running = RunningSearch.begin(problem, self._start, self._live)
            encode_state(self._state(running))  # what cannot be saved is refused before a trial
            self._running = running
        return self._running

    def _ready_if_known(self) -> RunningSearch | None:
        """The search, which begins now if it can; None while space, metric or mode is unknown."""
        problem = self._problem
        unknown = None in (problem.space, problem.metric, problem.mode)
        return self._running if unknown else self._ready()

    def _informed(self) -> RunningSearch | None:
        """The search, which begins now if it can and the user gave it scores to begin with."""
        return self._ready_if_known() if self._start.told else self._running

    def _warn_of_scheduler(self) -> None:
        if self._problem.folds.key is not None and not self._warned:
            self._warned = warn_of_scheduler()

    def suggest(self, trial_id: str) -> Any:
        """The config of a trial, with its fold; None at the limit of live trials; FINISHED when
        `stop_when` holds, or every config of a finite space was handed out in every fold."""
        running = self._ready()
        self._warn_of_scheduler()
        if trial_id not in running.ledger.trials:
            if self._live.full:
                return None
            if running.ending() is not None:
                self._say_farewell(running)
                return Searcher.FINISHED
            running.hand_out(trial_id)
        return running.config(trial_id)

    def _say_farewell(self, running: RunningSearch) -> None:
        if not self._farewell:
            logger.warning("No more trials are suggested: %s.", running.stopped)
            self._farewell = True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Limit the live trials of a run that begins; whether we keep to the limit ourselves.

        We do, as Tune's limiter loses what a failed trial reports in a second run. Only batches
        are left to it.
        """
        batches = limited_in_batches(self)
        self._live.limit = None if batches else int(max_concurrent)
        self._live.begin_run()
        return not batches

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Take note of a report; never raises."""
        try:
            self._ready().hear(trial_id, result)
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
            self._ready().complete(trial_id, result, error)
        except Exception:
            logger.exception("The end of trial %s could not be recorded.", trial_id)

    def recommend(self) -> Recommendation:
        """The evaluated config with the best robust value over all folds.

        This is the answer of a run. `ResultGrid.get_best_result()` is not: it picks the config
        with the luckiest single fold.

        Raises:
            NothingObserved: no config has a score and no failed fold.
        """
        return self._begun("A recommendation needs scores").recommend()

    def certainty(self) -> Certainty:
        """How sure the recommendation is. Looking changes nothing that is suggested later.

        Raises:
            NothingObserved: no config has a score and no failed fold.
        """
        return self._begun("A certainty needs scores").ledger.optimizer.certainty()

    def stop_reason(self) -> str | None:
        """Why no more trials are suggested, None while they are."""
        return None if self._running is None else self._running.stopped

    def report(self, path: str | Path) -> Path:
        """Write one HTML page that shows why the config is recommended; returns its path.

        Raises:
            NothingObserved: no trial has ended.
            InvalidInput: the file cannot be written.
        """
        from drbqo_ray.tune_searcher.search_report import write_search_report

        return write_search_report(self._begun("A report needs results"), path)

    def _begun(self, need: str) -> RunningSearch:
        running = self._informed()
        if running is None or running.ledger.empty:
            raise NothingObserved(
                f"{need}. Got none, no trial has ended. Run tuner.fit() first, or read a run with "
                "DRBQOSearch.load(directory)."
            )
        return running

    def _repr_html_(self) -> str:
        running = self._informed()
        if running is None:
            return html_card("DRBQOSearch", [("state", "no trial was suggested yet")])
        state = self.stop_reason() or "going on"
        return html_card("DRBQOSearch", [("state", state), *running.ledger.optimizer.describe()])

    @property
    def observations(self) -> list[Observation]:
        """The outcomes of all evaluations, in the order they came in."""
        running = self._informed()
        return [] if running is None else running.observations

    def callback(self) -> RobustValueCallback:
        """A Tune callback that adds the robust value to every result."""
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
        running = self._ready_if_known()
        if running is None:
            self._start.told.append((copy.deepcopy(parameters), score))
            return
        for triple in evaluated(parameters, score, running.space, self._problem.folds):
            running.ledger.observe(*triple)

    def _state(self, running: RunningSearch | None) -> dict[str, Any]:
        return {
            "saves": self._saves,
            "problem": self._problem.to_dict(),
            "live": list(self._live),
            "limit": self._live.limit,
            **(NOT_BEGUN if running is None else running.to_dict()),
        }

    def save(self, checkpoint_path: str) -> None:
        """Write the whole state to a file, as JSON with a checksum."""
        write_state(checkpoint_path, self._state(self._running))

    def restore(self, checkpoint_path: str) -> None:
        """Go on from a state that `save` wrote; everything set before is replaced, but a limit of
        live trials.

        The files in the directory of a Tune run take turns, and a wrapper picks any of them: they
        all stand for the newest state there, as in `restore_from_dir`.

        Raises:
            InvalidInput: the file is not such a state or is damaged, or others can write it.
            ProblemChanged: it was saved for another search space than the one already set.
        """
        if is_turn(checkpoint_path):
            self.restore_from_dir(str(Path(checkpoint_path).parent))
        else:
            self._restore(Path(checkpoint_path))

    def _restore(self, path: Path) -> None:
        state, limit = read_state(path), self._live.limit
        with refusing_damage(path):
            problem = TuneProblem.from_dict(state["problem"], self._problem.space)
            live = LiveTrials(state["live"], state["limit"] if limit is None else limit)
            running = RunningSearch.from_dict(state, problem, live)
            saves = int(state["saves"])
        self._set_problem(problem)
        self._saves, self._farewell = saves, False
        self._live, self._running = live, running

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """As Tune calls it: restore the newest state that is whole, then compare notes.

        Trials that Tune kept in the same directory and the state does not know of are learned, so
        none is lost when the state is older than they are, or was cut short by a crash.
        """
        self._restore(newest_state(checkpoint_dir))
        kept, running = kept_trials(checkpoint_dir), self._ready_if_known()
        if kept is not None and running is not None:
            running.compare_notes(kept)

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """As Tune calls it during a run: a failure is logged, and the older state stays."""
        try:
            self._saves += 1
            with next_state(checkpoint_dir, session_str, self._saves) as path:
                self.save(str(path))
        except Exception:
            logger.exception("The searcher's state could not be saved in %s.", checkpoint_dir)

    @classmethod
    def load(cls, directory: str | Path) -> DRBQOSearch:
        """The searcher of a Tune run, from the directory of its experiment.

        Another `tune.Tuner` with the same `param_space` can go on with it, with a limit of its own
        on the trials at a time.
        """
        search = cls(n_folds=None)
        search.restore_from_dir(str(Path(directory).expanduser()))
        search._live.limit = None
        return search


class RobustValueCallback(Callback):  # type: ignore[misc]
    """Put `robust_value`, that of the config recommended so far, into each result.

    Tune hands a result to its table, its loggers and its `ResultGrid` after the callbacks, so the
    value appears in all of them, as NaN before there is one. When a trial completes, the entry in
    the `ResultGrid` is brought up to date with the trial's own score.

    Args:
        search: the searcher of the same run.
    """

    def __init__(self, search: DRBQOSearch) -> None:
        self._search = search

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Add the value to a result that was just reported."""
        result[ROBUST_VALUE] = self._value()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Bring the value of the trial's last result up to date."""
        if ROBUST_VALUE in trial.last_result:
            trial.last_result[ROBUST_VALUE] = self._value()

    def _value(self) -> float:
        try:
            return self._search.recommend().robust_value
        except NothingObserved:
            return float("nan")
        except Exception:
            logger.exception("The robust value could not be computed.")
            return float("nan")


def limited_in_batches(searcher: Searcher) -> bool:
    """Whether the wrapper that is calling, e.g. a `ConcurrencyLimiter`, has `batch=True`.

    A limiter hands over its number of trials only, so the wrapper is looked up among the callers.
    """
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Searcher) and getattr(caller, "searcher", None) is searcher:
            return bool(getattr(caller, "batch", False))
        frame = frame.f_back  # type: ignore[assignment]
    return False


def scheduler_in_use() -> str | None:
    """Class name of the scheduler of the Tune run that is calling, None if there is none.

    Tune does not tell a searcher about the scheduler, so the argument `scheduler` of `tune.run`
    is looked up among the callers.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "run" and frame.f_globals.get("__name__") == "ray.tune.tune":
            scheduler = frame.f_locals.get("scheduler")
            return None if scheduler is None else type(scheduler).__name__
        frame = frame.f_back  # type: ignore[assignment]
    return None


def warn_of_scheduler() -> bool:
    """Warn if the scheduler compares trials; whether a scheduler was found at all."""
    name = scheduler_in_use()
    if name not in (None, "FIFOScheduler"):
        logger.warning(
            "%s compares trials with each other, but the trials of DRBQOSearch are scored on"
            " different folds, so it would favor easy folds. Use FIFOScheduler, the default of"
            " tune.TuneConfig.",
            name,
        )
    return name is not None
