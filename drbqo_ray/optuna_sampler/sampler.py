"""`FoldSampler`: trials of one fold each, config and fold picked by the model.

Several processes may pick at once, and no storage of Optuna has a lock for them. So a pick is
*claimed*: written to its trial, and only then compared with those of all others. Of two that claim
the same pair at the same time at least one sees the other, because both write before they look.
Whoever sees another one picks again.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.exceptions import TrialPruned
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from drbqo_ray.core.sets import UncertaintySet
from drbqo_ray.errors import DrbqoError, InvalidInput
from drbqo_ray.optimizer import DEFAULT
from drbqo_ray.optuna_sampler.space import as_parameter
from drbqo_ray.optuna_sampler.study import CLAIM, Folds, Pair, StudyState, pairs_of, read

MOST_PICKS = 64
MOST_DRAWS = 64
EXHAUSTED = "Every config of the space was asked in every fold: there is nothing left to train."
_logger = logging.getLogger(__name__)


class FoldSampler(BaseSampler):
    """A sampler for trials that train one fold, which is a parameter of the trial.

    The objective calls `fold = trial.suggest_int("fold", 0, n_folds - 1)`, before or after its
    other parameters, and returns the score of that fold. No (config, fold) pair is asked twice,
    by however many processes; a study that has asked all pairs of a finite space stops.

    The study is all there is to know: a new sampler with the same arguments goes on where another
    one stopped.

    Args:
        n_folds: number of folds n. With 1 the objective need not suggest a fold.
        fold_key: name of the fold. Names may be suggested as well, as n categories.
        uncertainty: a set, a chi-square radius >= 0, or "auto"; 0 is the plain mean of the folds.
        seed: the same seed and the same study give the same values; None for any.
        method: name of a recipe, see `drbqo_ray.optimizer.methods`.
        settings: other keyword arguments of `Optimizer`, such as `n_initial`.

    Raises:
        InvalidInput: an argument is none that `Optimizer` takes.
    """

    def __init__(
        self,
        n_folds: int,
        fold_key: str = "fold",
        uncertainty: UncertaintySet | float | str = 1.0,
        seed: int | None = None,
        method: str = DEFAULT,
        **settings: Any,
    ) -> None:
        unusable = sorted({"mode", "stop_when", "cost_aware"} & set(settings))
        if unusable:
            rule = "The study has a direction, a callback may stop it, and it tells no seconds."
            raise InvalidInput(rule, unusable, "Leave them out.")
        chance = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        settings |= {"uncertainty": uncertainty, "method": method, "seed": chance}
        self.folds = Folds(n_folds, fold_key, settings)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """All parameters that a trial with a score has suggested, the fold among them."""
        found: dict[str, BaseDistribution] = {}
        for each in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            found |= each.distributions
        return {name: found[name] for name in sorted(found) if not found[name].single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Values for the parameters that the model picked, a fold among them.

        Parameters of other branches of the space are left out; if the objective asks for one all
        the same, it is drawn at random.
        """
        self._raise_error_if_multi_objective(study)
        if not search_space:
            return {}
        fold_drawn = search_space.get(self._key)
        for turn in range(MOST_PICKS):
            began = time.perf_counter()
            state = read(study, self.folds, trial)
            if state is None:
                return {}
            params, fold = self._pick(study, trial, state, search_space)
            claim: dict[str, Any] = {"params": params, "fold": fold}
            study._storage.set_trial_system_attr(trial._trial_id, CLAIM, claim)
            rivals = self._rivals(study, trial, state, (params, fold))
            if not rivals:
                state.keep_fit(study, trial, state.optimizer.last_fit)
                picked = {name: params[name] for name in search_space if name in params}
                if fold_drawn is not None:
                    picked[self._key] = fold_drawn.to_external_repr(float(fold))
                return picked
            # the first of those that claimed the pair goes on at once, the others one by one
            ahead = sum(number < trial.number for number in rivals)
            time.sleep(ahead * 1.5 * (time.perf_counter() - began) * (1 + 0.1 * turn))
        raise DrbqoError(f"Trial {trial.number} met another one at {MOST_PICKS} picks in a row.")

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A random value, for what no trial with a score has suggested yet; the same one for the
        same trial. Folds take turns. If this is the last value of a pair, it is a new pair."""
        self._raise_error_if_multi_objective(study)
        name = zlib.crc32(param_name.encode())
        entropy = [self.folds.settings["seed"], trial.number, name]
        rng = np.random.default_rng(np.random.SeedSequence(entropy))
        if param_name == self._key:
            self.folds.check(param_distribution)
            first = np.random.default_rng(self.folds.settings["seed"]).permutation(self.folds.n)
            order = np.roll(first, -trial.number)
            draws = [param_distribution.to_external_repr(float(fold)) for fold in order]
        else:
            parameter = as_parameter(param_distribution)
            draws = [parameter.from_unit(rng.random()) for _ in range(MOST_DRAWS)]
        taken = [
            each.params
            for each in study.get_trials(deepcopy=False)
            if each.number != trial.number and len(each.params) == len(trial.params) + 1
        ]
        fresh = (draw for draw in draws if {**trial.params, param_name: draw} not in taken)
        return next(fresh, draws[0])

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Check that the trial has a fold, and stop a study that has asked everything."""
        if state == TrialState.COMPLETE:
            self.folds.check_trial(trial)
        drawn = {name: each for name, each in trial.distributions.items() if name != self._key}
        if drawn and all(as_parameter(each).count for each in drawn.values()):
            found = read(study, self.folds)
            if found is not None and found.optimizer.exhausted:
                _stop(study)

    @property
    def _key(self) -> str:
        assert self.folds.key is not None
        return self.folds.key

    def _pick(
        self,
        study: Study,
        trial: FrozenTrial,
        state: StudyState,
        search_space: Mapping[str, BaseDistribution],
    ) -> Pair:
        """Values and fold for a trial: what the optimizer asks, and what was enqueued for it."""
        if state.optimizer.exhausted:
            _stop(study)
            raise TrialPruned(EXHAUSTED)
        asked = state.optimizer.ask()
        params = {
            name: _within(value, search_space.get(name))
            for name, value in state.space.params(asked.config).items()
        }
        fixed = dict(trial.system_attrs.get("fixed_params", {})) | dict(trial.params)
        fold = fixed.pop(self._key, None)
        if isinstance(fold, int):
            return {**params, **fixed}, fold
        if all(params.get(name) == value for name, value in fixed.items()):
            return params, asked.context
        params |= fixed
        order = map(int, np.roll(np.arange(self.folds.n), -asked.context))
        taken = list(state.pairs.values())
        return params, next((fold for fold in order if (params, fold) not in taken), asked.context)

    def _rivals(self, study: Study, trial: FrozenTrial, state: StudyState, pair: Pair) -> set[int]:
        """Numbers of the trials that got a pair since the state was read. They may be finished."""
        others = [each for each in study.get_trials(deepcopy=False) if each.number != trial.number]
        now = pairs_of(others, self.folds)
        return {k for k in now if now[k] == pair and state.pairs.get(k) != pair}


def _within(value: Any, drawn: BaseDistribution | None) -> Any:
    """A value moved into the range that was suggested last, which may be a narrower one."""
    if drawn is None or isinstance(drawn, CategoricalDistribution):
        return value
    if drawn._contains(drawn.to_internal_repr(value)):
        return value
    parameter = as_parameter(drawn)
    low, high = drawn.low, drawn.high  # type: ignore[attr-defined]
    return parameter.from_unit(parameter.to_unit(min(max(value, low), high)))


def _stop(study: Study) -> None:
    with suppress(RuntimeError):  # asked and told by hand there is no loop to stop
        study.stop()
    _logger.info(EXHAUSTED)
