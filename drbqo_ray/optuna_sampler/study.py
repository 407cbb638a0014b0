"""A study as an optimizer: what its trials tell, however they are written, and the answers.

| a trial of                  | tells                                                          |
|-----------------------------|----------------------------------------------------------------|
| one fold (`FoldSampler`)    | its value: the score of its config in the fold it suggested    |
| all folds (`FoldPruner`)    | every `report(score, step=fold)`: a score in that fold         |

A study has trials of one kind only. Nothing is kept elsewhere: the optimizer is made anew from the
trials, in the order of their numbers, so whoever opens the study sees the same one. Two attributes
of a trial, both written by us, help: `CLAIM`, the values that were picked for it, and `FIT`, the
fit of the model that was made for it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from drbqo_ray.core.sets import UncertaintySet
from drbqo_ray.core.surrogate import Fit
from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.optimizer.certainty import Certainty
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.optuna_sampler.space import StudySpace
from drbqo_ray.records import Recommendation, Suggestion
from drbqo_ray.space.parameters import Float
from drbqo_ray.types import Array

CLAIM, FIT = "drbqo:claim", "drbqo:fit"
Trials = list[FrozenTrial]
Pair = tuple[dict[str, Any], int]


@dataclass(frozen=True, eq=False)
class Folds:
    """What the trials of a study are about.

    Attributes:
        n: number of folds.
        key: name of the parameter that is the fold of a trial, None where trials train all folds.
        settings: keyword arguments of `Optimizer`.
        uncertainty, reference: the set of weights, and the weights of the folds (n,).
    """

    n: int
    key: str | None
    settings: dict[str, Any]
    uncertainty: UncertaintySet = field(init=False)
    reference: Array = field(init=False)

    def __post_init__(self) -> None:
        if self.key is not None and (not isinstance(self.key, str) or not self.key):
            rule = "The fold is a parameter of the trial, so its key is a name."
            raise InvalidInput(rule, self.key, 'Pass fold_key="fold".')
        checked = Optimizer({"x": Float(0.0, 1.0)}, self.n, **self.settings)
        object.__setattr__(self, "uncertainty", checked.uncertainty)
        object.__setattr__(self, "reference", checked.reference)

    def index(self, trial: FrozenTrial) -> int | None:
        """Number of the fold that a trial suggested; None if it suggested none."""
        if self.key is None or self.key not in trial.params:
            return 0 if self.n == 1 else None
        drawn = trial.distributions[self.key]
        self.check(drawn)
        return int(drawn.to_internal_repr(trial.params[self.key]))

    def check_trial(self, trial: FrozenTrial) -> None:
        """Raise InvalidInput unless a trial of one fold suggested which."""
        if self.index(trial) is None:
            raise InvalidInput(
                f"Trial {trial.number} must suggest the fold it trains.",
                sorted(trial.params),
                f"Call trial.suggest_int({self.key!r}, 0, {self.n - 1}) in the objective.",
            )

    def check(self, drawn: BaseDistribution) -> None:
        """Raise InvalidInput unless a fold was drawn from all n."""
        ints = isinstance(drawn, IntDistribution) and (drawn.low, drawn.high) == (0, self.n - 1)
        names = isinstance(drawn, CategoricalDistribution) and len(drawn.choices) == self.n
        if not ints and not names:
            raise InvalidInput(
                f"A fold is one of the {self.n}.",
                drawn,
                f"Call trial.suggest_int({self.key!r}, 0, n_folds - 1).",
            )


@dataclass(frozen=True, eq=False)
class StudyState:
    """A study at one moment.

    Attributes:
        folds: what its trials are about.
        space: the space they were drawn from.
        optimizer: told all of it.
        trials: its trials, one that is asking left out.
        pairs: values and fold of those whose fold is known, by number, as of this moment: trials of
            a study in memory change while they run.
        recalled: the fit of the model that was left in the study, None if there is none.
    """

    folds: Folds
    space: StudySpace
    optimizer: Optimizer
    trials: Trials
    pairs: dict[int, Pair]
    recalled: Fit | None

    def keep_fit(self, study: Study, trial: FrozenTrial, fit: Fit | None) -> None:
        """Leave a fit of the model with a trial that is under way, if it is a new one."""
        if fit is not None and fit != self.recalled:
            kept: dict[str, Any] = {"space": _fingerprint(self.space), "fit": fit.to_dict()}
            study._storage.set_trial_system_attr(trial._trial_id, FIT, kept)


def _recall_fit(space: StudySpace, trials: Trials) -> Fit | None:
    """The fit of the last trial that has one for this space."""
    kept = (trial.system_attrs.get(FIT) for trial in reversed(trials))
    mine = _fingerprint(space)
    found = (Fit.from_dict(each["fit"]) for each in kept if each and each["space"] == mine)
    return next(found, None)


def _fingerprint(space: StudySpace) -> int:
    """Tells spaces apart, so that a fit is not used in another one."""
    return zlib.crc32(repr(space.space.to_dict()).encode())


def mode_of(study: Study) -> Literal["max", "min"]:
    """Whether larger values of a study are better, as the optimizer says it."""
    return "max" if study.direction == StudyDirection.MAXIMIZE else "min"


def read(study: Study, folds: Folds, asking: FrozenTrial | None = None) -> StudyState | None:
    """The state of a study, None before a trial has told what the space is.

    Args:
        study: the study, of one objective.
        folds: what its trials are about.
        asking: a trial that is to be given values; it is left out.
    """
    trials = sorted(study.get_trials(deepcopy=False), key=lambda trial: trial.number)
    others = [trial for trial in trials if asking is None or trial.number != asking.number]
    if folds.key is None:
        drawn = [(t.params, t.distributions) for t in others if t.intermediate_values]
    else:
        complete = [t for t in others if t.state == TrialState.COMPLETE]
        for trial in complete:
            folds.check_trial(trial)
        drawn = [
            (_without(t.params, folds.key), _without(t.distributions, folds.key)) for t in complete
        ]
    space = StudySpace.of(drawn)
    if space is None:
        return None
    pairs = {} if folds.key is None else pairs_of(others, folds)
    optimizer = Optimizer(
        space.space, folds.n, mode=mode_of(study), fixed_seed=True, **folds.settings
    )
    state = StudyState(folds, space, optimizer, others, pairs, _recall_fit(space, trials))
    if folds.key is None:
        _tell_reports(state)
    else:
        _tell_trials(state, 0 if asking is None else asking.number)
    optimizer.last_fit = state.recalled
    return state


def _without(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


# trials of one fold


def pairs_of(trials: Trials, folds: Folds) -> dict[int, Pair]:
    """Values and fold of the trials whose fold is known, by number."""
    found = {trial.number: _pair_of(trial, folds) for trial in trials}
    return {number: pair for number, pair in found.items() if pair is not None}


def _pair_of(trial: FrozenTrial, folds: Folds) -> Pair | None:
    """Values and fold that a trial has, or will have by what was picked for it or fixed when it
    was enqueued; None if its fold is not known."""
    assert folds.key is not None
    fold, values = folds.index(trial), dict(trial.params)
    if not trial.state.is_finished():
        picked = trial.system_attrs.get(CLAIM, {})
        fixed = trial.system_attrs.get("fixed_params", {})
        values = {**picked.get("params", {}), **fixed, **values}
        if fold is None:
            fold = fixed.get(folds.key, picked.get("fold"))
    return (_without(values, folds.key), fold) if isinstance(fold, int) else None


def _tell_trials(state: StudyState, number: int) -> None:
    """Register all trials, those under way and enqueued too, and tell what came of them.

    Ids grow with the number of the trial, and the next one is `number` or more: chance goes by it.
    """
    known = list(_known_pairs(state))
    scored = {_key(pair) for trial, pair in known if _score(trial) is not None}
    for id, (trial, (config, fold)) in enumerate(known):
        id = max(id, number - 1) if id == len(known) - 1 else id
        state.optimizer.register(Suggestion(id, config, fold, 0))
        score = _score(trial)
        if score is not None:
            state.optimizer.tell(id, score)
        elif trial.state.is_finished() and _key((config, fold)) not in scored:
            state.optimizer.fail(id, f"trial {trial.number} {_fate(trial)}")


def _known_pairs(state: StudyState) -> Iterator[tuple[FrozenTrial, Pair]]:
    for trial in state.trials:
        if trial.number in state.pairs:
            params, fold = state.pairs[trial.number]
            with suppress(InvalidInput):  # not all of its values are known, or never will be
                yield trial, (state.space.config(params), fold)


def _key(pair: Pair) -> str:
    return repr((sorted(pair[0].items()), pair[1]))


def _score(trial: FrozenTrial) -> float | None:
    """The score of a trial, None if it has none, not a finite one, or breaks a constraint."""
    if trial.state != TrialState.COMPLETE or breaks_constraint(trial):
        return None
    assert trial.value is not None
    return trial.value if math.isfinite(trial.value) else None


def breaks_constraint(trial: FrozenTrial) -> bool:
    """Whether a constraint of the trial is above zero; Optuna has them from version 5."""
    return any(value > 0 for value in getattr(trial, "constraints", {}).values())


def _fate(trial: FrozenTrial) -> str:
    if trial.state != TrialState.COMPLETE:
        return {TrialState.PRUNED: "was pruned"}.get(trial.state, "failed")
    return "broke a constraint" if breaks_constraint(trial) else f"scored {trial.value}"


# trials of all folds


def _tell_reports(state: StudyState) -> None:
    """Tell every reported score. A trial that failed has failed in the first fold it lacks, unless
    another trial of its config has all folds."""
    trials = [trial for trial in state.trials if trial.intermediate_values]
    n = state.folds.n
    whole = [t.params for t in trials if len(t.intermediate_values) == n and not ruled_out(t)]
    for trial in trials:
        config = state.space.config(trial.params)
        for step, score in sorted(trial.intermediate_values.items()):
            state.optimizer.observe(config, check_step(state.folds, step), score)
        if ruled_out(trial) and trial.params not in whole:
            lacking = set(range(n)) - set(trial.intermediate_values)
            state.optimizer.observe(config, min(lacking, default=0), math.nan)


def ruled_out(trial: FrozenTrial) -> bool:
    """Whether a trial failed or breaks a constraint, so that its config is not the answer."""
    return trial.state == TrialState.FAIL or breaks_constraint(trial)


def check_step(folds: Folds, step: int) -> int:
    """The fold that a step is."""
    if not 0 <= step < folds.n:
        raise InvalidInput(
            f"The step of a report is a fold in 0..{folds.n - 1}.",
            step,
            "Call trial.report(score, step=fold) once a fold, or raise n_folds.",
        )
    return step


# the answers


def recommend(study: Study, by: Any = None) -> Recommendation:
    """The config with the best robust value; one with a failed fold is never recommended.

    Args:
        study: a study of `FoldSampler` or `FoldPruner`.
        by: the sampler or pruner, or one with the same arguments, where the study does not have it.

    Returns:
        the recommendation; its `config` holds the values to fix or to train with.
    """
    state = _answering(study, by)
    found = state.optimizer.recommend()
    return replace(found, config=state.space.params(found.config))


def certainty(study: Study, by: Any = None) -> Certainty:
    """How sure the recommendation is; arguments as for `recommend`."""
    return _answering(study, by).optimizer.certainty()


def report(study: Study, path: str | Path, by: Any = None) -> Path:
    """Write the study as one HTML page; arguments as for `recommend`.

    Returns:
        the path of the page.
    """
    from drbqo_ray.report.facts import About, Snippet, gather
    from drbqo_ray.report.page import write_report

    state = _answering(study, by)
    left = [t for t in study.get_trials(deepcopy=False) if not t.state.is_finished()]
    snippets = []
    with suppress(NothingObserved):
        snippets = [Snippet("Recommended values", repr(recommend(study, by).config))]
    about = About(
        name=study.study_name,
        objective="a trial a fold" if state.folds.key is not None else "all folds in a trial",
        method=state.folds.settings["method"],
        state=f"{len(left)} trials under way" if left else "no trial under way",
        reproduce=tuple(snippets),
    )
    return write_report(gather(state.optimizer, about), path)


def _answering(study: Study, by: Any) -> StudyState:
    given = [study.sampler, study.pruner] if by is None else [by]
    folds = next((each.folds for each in given if hasattr(each, "folds")), None)
    if not isinstance(folds, Folds):
        raise InvalidInput(
            "The answer needs to know the folds.",
            given,
            "Pass the sampler or pruner: recommend(study, by=FoldSampler(n_folds=5)).",
        )
    state = read(study, folds)
    if state is None:
        raise NothingObserved(
            f"An answer needs a trial with a score. Got {len(study.trials)} trials, none with one."
        )
    return state
