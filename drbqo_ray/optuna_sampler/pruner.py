"""`FoldPruner`: drop a config in the middle of its folds once it can hardly be the best.

What is missing of a config's row of scores is drawn from the model, given all scores of the study
and those it has already (`drbqo_ray.core.missing_scores`). Each draw completes the row, and a
complete row has a robust value R. With `best` the highest robust value of a complete row so far:

    prune  if  chance(R > best) < limit  and  R(mixed row) < best

The mixed row is that of the best config with the scores of this one put in where it has some. So
the second half asks no model: what is ahead of the best config in its own folds is never dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from optuna.pruners import BasePruner
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial

from drbqo_ray.core.sets import UncertaintySet
from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer import DEFAULT
from drbqo_ray.optuna_sampler.study import Folds, check_step, mode_of, read, ruled_out
from drbqo_ray.types import Array


class FoldPruner(BasePruner):
    """A pruner for trials that train all folds in a loop, with any sampler.

    The objective calls `trial.report(score, step=fold)` after each fold, in any order, and then
    `trial.should_prune()`. A fold whose score is not finite drops its config at once.

    Args:
        n_folds: number of folds n.
        uncertainty: a set, a chi-square radius >= 0, or "auto"; 0 is the plain mean of the folds.
        chance: drop a config once its chance to beat the best one is below this.
        n_startup_trials: so many trials train all their folds before the first one is dropped.
        settings: other keyword arguments of `Optimizer`, such as `kernel`.

    Raises:
        InvalidInput: an argument is out of its range.
    """

    def __init__(
        self,
        n_folds: int,
        uncertainty: UncertaintySet | float | str = 1.0,
        chance: float = 0.05,
        n_startup_trials: int = 4,
        **settings: Any,
    ) -> None:
        if not isinstance(chance, (int, float)) or not 0 <= chance < 1:
            raise InvalidInput("A chance is at least 0 and below 1.", chance, "Pass e.g. 0.05.")
        if not isinstance(n_startup_trials, int) or n_startup_trials < 1:
            rule = "A config is dropped against one that trained all its folds."
            raise InvalidInput(rule, n_startup_trials, "Pass n_startup_trials of 1 or more.")
        settings |= {"uncertainty": uncertainty, "method": DEFAULT}
        self.folds = Folds(n_folds, None, settings)
        self._chance, self._n_startup = chance, n_startup_trials

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether to drop the config of a trial that is under way."""
        sign = 1.0 if mode_of(study) == "max" else -1.0
        own = sign * self._row(trial)
        if any(not np.isfinite(score) for score in trial.intermediate_values.values()):
            return True
        usable = [each for each in study.get_trials(deepcopy=False) if not ruled_out(each)]
        rows = [sign * self._row(each) for each in usable]
        complete = np.array([row for row in rows if np.isfinite(row).all()])
        unknown = np.isnan(own)
        if len(complete) < self._n_startup or unknown.all() or not unknown.any():
            return False
        values = self._robust(complete)
        best, row = values.max(), complete[values.argmax()]
        if self._robust(np.where(unknown, row, own)) >= best:
            return False
        return bool(np.mean(sign * self._draws(study, trial) > best) < self._chance)

    def expected_value(self, trial: Trial) -> float:
        """The robust value to expect of a trial's config, from the scores it has reported: what to
        return for a dropped trial if the sampler is to learn from it."""
        trials = trial.study.get_trials(deepcopy=False)
        frozen = next(each for each in trials if each.number == trial.number)
        return float(self._draws(trial.study, frozen).mean())

    def _row(self, trial: FrozenTrial) -> Array:
        """Scores of a trial in every fold, NaN where it has none (n,)."""
        row = np.full(self.folds.n, np.nan)
        for step, score in trial.intermediate_values.items():
            row[check_step(self.folds, step)] = score
        return row

    def _robust(self, rows: Array) -> Array:
        """Robust values (...) of complete rows (..., n), larger is better."""
        return self.folds.uncertainty.worst_case(rows, self.folds.reference)[0]

    def _draws(self, study: Study, trial: FrozenTrial) -> Array:
        """Draws (S,) of the robust value of a trial's config, missing folds drawn."""
        state = read(study, self.folds)
        if state is None:
            rule = "A value is expected of a config with a score."
            raise InvalidInput(rule, trial.number, "Call trial.report(score, step=fold) first.")
        scoring = state.optimizer.scoring()
        state.keep_fit(study, trial, scoring.fit)
        return scoring.drawn_values([state.space.config(trial.params)])[0]
