"""Ask for an evaluation, tell its score, get a recommendation: the paper's Algorithm 1.

Start with `Optimizer._ask`: it is lines 2 to 4 of the algorithm, by the rules of
`drbqo_ray.optimizer.proposals`. `Optimizer.tell` is lines 5 and 6, and `Optimizer.recommend` the
output, by the judgment of `drbqo_ray.optimizer.scoring`.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from drbqo_ray.core.contexts import check_contexts, context_names
from drbqo_ray.core.kernels import SHAPES
from drbqo_ray.core.paths import Sampler
from drbqo_ray.core.sets import UncertaintySet, as_uncertainty, reference_weights
from drbqo_ray.core.surrogate import Fit, Surrogate
from drbqo_ray.errors import InvalidInput, NothingObserved, short_repr
from drbqo_ray.optimizer.certainty import Certainty, Forecast, draw_certainty, forecast_of
from drbqo_ray.optimizer.design import Design
from drbqo_ray.optimizer.evaluations import Evaluations, own_copy
from drbqo_ray.optimizer.history import History
from drbqo_ray.optimizer.methods import find_method
from drbqo_ray.optimizer.model import Model, kernel_family, warn_of_many_contexts
from drbqo_ray.optimizer.proposals import InitialDesign, Search
from drbqo_ray.optimizer.scoring import RULES, Report, Scoring
from drbqo_ray.optimizer.stopping import StopCheck, StopRule
from drbqo_ray.records import (
    Observation,
    Recommendation,
    Suggestion,
    html_card,
    read_score,
    told_score,
)
from drbqo_ray.space.space import Space, as_space
from drbqo_ray.threads import one_thread
from drbqo_ray.types import Array

MOST_INITIAL = 2**20


class Optimizer:
    """Robust search over configs, one (config, context) evaluation at a time.

    Args:
        space: the search space, or a dict of parameters.
        contexts: number n of folds, n distinct names of them, or sample vectors (n, m).
        method: name of a recipe, see `drbqo_ray.optimizer.methods`.
        uncertainty: a set, a chi-square radius >= 0, or "auto" for 95 % confidence.
        mode: "max" if larger scores are better, "min" if smaller ones are.
        n_initial: evaluations spread over the space before the model is used.
        kernel: "se", "matern12", "matern32" or "matern52".
        context_rule: None for the method's own, "variance", "task-ei" or "random".
        reference: weights of the contexts (n,), uniform by default.
        seed: same seed and same tells give the same asks.
        sampler: "pathwise" or the paper's "rff".
        hyperparameters: "map" with weak priors, or "mle" as in the paper.
        fixed_seed: whether training the same fold again is known to give the same score. If not,
            `foldwise` trains some folds again, at most a tenth, to find out.
        stop_when: when `stop_reason` says to stop, e.g. "loss < 0.002"; None: never.
        cost_aware: whether the seconds in outcomes that `record` takes from a run count as costs.
            Costs that are passed to `tell` and `observe` always do. `foldwise` goes where the
            expected gain for the expected cost is largest; costs that do not vary change nothing.

    Attributes:
        context_names: names of the contexts (n,) in their order; empty where they are counted.
        model: the posterior and its fits.
        last_check: what the stop rule remembers; None before its first check.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        contexts: int | Sequence[str] | npt.ArrayLike,
        *,
        method: str = "drbqo",
        uncertainty: UncertaintySet | float | str = 1.0,
        mode: Literal["max", "min"] = "max",
        n_initial: int | None = None,
        kernel: str = "se",
        context_rule: str | None = None,
        reference: npt.ArrayLike | None = None,
        seed: int = 0,
        sampler: Sampler = "pathwise",
        hyperparameters: Literal["map", "mle"] = "map",
        fixed_seed: bool = False,
        stop_when: str | None = None,
        cost_aware: bool = False,
    ) -> None:
        self.space = as_space(space)
        checked = check_contexts(contexts)
        self.context_names = context_names(contexts)
        self.n_contexts = checked if isinstance(checked, int) else len(checked)
        self.method = find_method(method, context_rule)
        self.uncertainty = as_uncertainty(uncertainty, self.n_contexts)
        self.reference = reference_weights(reference, self.n_contexts)
        self.uncertainty.solve(np.zeros((1, self.n_contexts)), self.reference)
        self.mode: Literal["max", "min"] = _one_of("mode", mode, ("max", "min"))
        self._sign = 1.0 if self.mode == "max" else -1.0
        self.n_initial = _check_count("n_initial", n_initial, default=3 * len(self.space) + 2)
        if self.n_initial > MOST_INITIAL:
            rule = "The initial configs are laid out together, at most 2**20 of them."
            raise InvalidInput(rule, n_initial, 'Pass a smaller n_initial, or method="random".')
        self.seed = _check_count("seed", seed, default=0)
        prior_weight = float(_one_of("hyperparameters", hyperparameters, ("map", "mle")) == "map")
        self.fixed_seed = _check_flag("fixed_seed", fixed_seed)
        self.cost_aware = _check_flag("cost_aware", cost_aware)
        self._history = History(self.space, self.n_contexts)
        self._design = Design(self.space, self.n_contexts, self.n_initial, self.seed)
        self._evaluations = Evaluations()
        self.stop_when = None if stop_when is None else StopRule.parse(stop_when)
        self.last_check: StopCheck | None = None
        shape = SHAPES[_one_of("kernel", kernel, tuple(SHAPES))]
        family = kernel_family(shape, checked, self.method.free_form, self.space.n_features)
        warn_of_many_contexts(self.n_contexts, family.separable and not self.method.free_form)
        surrogate = Surrogate(family, prior_weight, self.method.noisy_prior)
        self.model = Model(surrogate, self._history, self.space)
        self._search = Search(
            self.space,
            self.uncertainty,
            self.reference,
            _one_of("sampler", sampler, ("pathwise", "rff")),
            self._design,
            self._history,
            self._evaluations,
            self.model,
            self.method.report,
            self._sign,
            self.fixed_seed,
        )

    @overload
    def ask(self) -> Suggestion: ...
    @overload
    def ask(self, q: int) -> list[Suggestion]: ...
    @one_thread
    def ask(self, q: int | None = None) -> Suggestion | list[Suggestion]:
        """The next evaluation to run, or a list of q of them to run side by side."""
        count = 1 if q is None else _check_count("q", q, default=1)
        asked: list[Suggestion] = []
        while len(asked) < count:
            asked += self._ask(count - len(asked))
        return asked[0] if q is None else asked

    def _ask(self, limit: int) -> list[Suggestion]:
        """Lines 2 to 4 of Algorithm 1: at least one and at most `limit` suggestions.

        The rule for x picks configs (lines 2 and 3), the rule for w a context for each (line 4);
        before there is a model, evenly spread pairs come first. Every suggestion is noted before
        the next one is made.
        """
        pick_x = InitialDesign() if self._starting() else self.method.config_rule
        pick_w = self.method.context_rule
        first, together = self._evaluations.next_id, pick_x.batch_limit(self._search)
        rngs = [self._rng(first + k) for k in range(min(limit, together))]
        pairs = pick_x.pairs(self._search, pick_w, rngs)
        asked = []
        for (u, context), rng in zip(pairs, rngs, strict=False):
            id, seed = self._evaluations.next_id, int(rng.integers(2**31))
            suggestion = Suggestion(id, self._design.config_at(u), context, seed)
            self.register(suggestion)
            asked.append(own_copy(suggestion))
        return asked

    def _starting(self) -> bool:
        """Whether initial pairs are still to be handed out, or nothing has a score."""
        known = len(self._history) + len(self._evaluations.pending)
        return known < self.n_initial or self._history.n_ok == 0

    def _rng(self, id: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(id,)))

    def register(self, suggestion: Suggestion) -> None:
        """Take note of a suggestion that was handed out, e.g. when a run is replayed."""
        valid = self.space.validate(suggestion.config)
        u = self.space.to_unit(valid)
        self._evaluations.hand_out(suggestion, u)
        self._design.take(u, valid, suggestion.context)

    def record(self, outcome: Observation) -> None:
        """Take note of an outcome that was checked before, e.g. when a run is replayed.

        If the optimizer is `cost_aware`, its seconds are its cost, unless it failed halfway.
        """
        whole = outcome.status == "ok" or outcome.cause == "timeout"
        known = self.cost_aware and whole and 0 < outcome.seconds < math.inf
        cost = outcome.seconds if known else None
        self._record(outcome.id, outcome.score, outcome.reason, cost)

    @property
    def exhausted(self) -> bool:
        """Whether every (config, context) pair of a small finite space was handed out.

        Asking goes on all the same, with pairs that were evaluated before.
        """
        return self._design.exhausted

    # telling

    def tell(self, id: int, score: object, cost: float | None = None) -> Observation:
        """Lines 5 and 6: record the score of a suggestion.

        A number that is not finite is recorded as a failure; what is no number is an error.
        Telling the same score twice changes nothing; another score for the same id is an error.

        Args:
            id: id of the suggestion.
            score: its score.
            cost: what the evaluation cost, in seconds or any other unit > 0; None if not known.
        """
        value, reason = told_score(score)
        return self._record(id, value, reason, _check_cost(cost))

    def fail(self, id: int, reason: str) -> Observation:
        """Record that the evaluation of a suggestion failed."""
        return self._record(id, None, reason if isinstance(reason, str) else _said(reason))

    def observe(
        self, config: Mapping[str, Any], context: int, score: object, cost: float | None = None
    ) -> Observation:
        """Record an evaluation that was not suggested, e.g. from an earlier study; `cost` as for
        `tell`.

        A config that differs from one seen before only by rounding is recorded as that one.
        """
        valid = self.space.validate(config)
        if isinstance(context, bool) or not isinstance(context, numbers.Integral):
            raise InvalidInput("A context is a whole number.", context, "Pass a fold index.")
        if not 0 <= context < self.n_contexts:
            raise InvalidInput(
                f"A context lies in 0..{self.n_contexts - 1}.", context, "Count folds from 0."
            )
        value, reason = told_score(score)
        cost = _check_cost(cost)
        u = self.space.to_unit(valid)
        id = self._evaluations.add(self._design.known(u) or valid, int(context), u)
        return self._record(id, value, reason, cost)

    def _record(
        self, id: int, score: float | None, reason: str | None, cost: float | None = None
    ) -> Observation:
        outcome, new = self._evaluations.record(id, score, reason)
        if new:
            u = self._evaluations.points[outcome.id]
            internal = None if score is None else self._sign * score
            self._history.add(outcome.config, u, outcome.context, internal, cost)
            self._design.take(u, outcome.config, outcome.context)
        return own_copy(outcome)

    def __repr__(self) -> str:
        told, waiting = len(self._history), len(self._evaluations.pending)
        return (
            f"Optimizer({list(self.space.parameters)}, {self.n_contexts} contexts,"
            f" mode={self.mode!r}, seed={self.seed}: {told} told, {waiting} pending)"
        )

    def describe(self) -> list[tuple[str, object]]:
        """What a notebook shows of it: pairs of a word and its value."""
        told, ok = len(self._history), self._history.n_ok
        known: list[tuple[str, object]] = [
            ("parameters", ", ".join(self.space.parameters)),
            ("contexts", ", ".join(self.context_names) or self.n_contexts),
            ("uncertainty set", self.uncertainty.describe()),
            ("scores", f"mode {self.mode}, seed {self.seed}"),
            ("told", f"{told}, {told - ok} failed, {len(self._evaluations.pending)} pending"),
        ]
        try:
            best = self.recommend().describe(self.context_names)
        except NothingObserved:
            return [*known, ("recommendation", "none yet")]
        if self.context_names and self.n_contexts > 1:
            known.append(("forecast", str(self.forecast())))
        return [*known, *best]

    def _repr_html_(self) -> str:
        return html_card("Optimizer", self.describe())

    @property
    def observations(self) -> list[Observation]:
        """All outcomes, in the order they were told."""
        return [own_copy(outcome) for outcome in self._evaluations.outcomes.values()]

    @property
    def pending(self) -> list[Suggestion]:
        """Suggestions that were handed out and have no outcome yet."""
        return [own_copy(suggestion) for suggestion in self._evaluations.pending.values()]

    @one_thread
    def recommend(self, report: Report | None = None) -> Recommendation:
        """The evaluated config with the best posterior value.

        A config with a failed fold is never recommended.

        Args:
            report: rank configs by their "robust" or "mean" posterior value, or by the robust
                value of their scores, "completed" by the model; by default as the method does.
        """
        return self._judge(report).recommend()

    @one_thread
    def scoring(self, report: Report | None = None) -> Scoring:
        """How all evaluated configs are judged by now, for tables and reports: what they are judged
        by, how they rank, and how unsure that is. What is told later does not change it.

        Args:
            report: as for `recommend`.
        """
        now = self._judge(report)
        return replace(now, history=now.history.first(len(now.history)))

    def _judge(self, report: Report | None = None) -> Scoring:
        if report is not None:
            _one_of("report", report, tuple(RULES))
        return self._search.scoring(report)

    @one_thread
    def certainty(self) -> Certainty:
        """How sure the recommendation is. Looking changes nothing that is asked later."""
        return draw_certainty(self._judge(), self._rng(2**32 - 2))

    @one_thread
    def forecast(self, level: float = 0.95, config: Mapping[str, Any] | None = None) -> Forecast:
        """What score to expect of the recommended config in a context that is not among those seen
        but of the same kind. Looking changes nothing that is asked later.

        Args:
            level: probability that the interval holds the score.
            config: another evaluated config to speak of.
        """
        real = isinstance(level, numbers.Real) and not isinstance(level, bool)
        if not real or not 0 < level < 1:
            raise InvalidInput("The level is a probability in (0, 1).", level, "Pass e.g. 0.95.")
        if self.n_contexts < 2:
            rule = "How a score differs between contexts takes at least 2 of them."
            raise InvalidInput(rule, self.n_contexts, "Pass more contexts.")
        scoring = self._judge()
        number = scoring.best() if config is None else scoring.number_of(config)
        return forecast_of(scoring, float(level), number)

    @one_thread
    def predict(self, configs: Sequence[Mapping[str, Any]]) -> tuple[Array, Array]:
        """Posterior means and standard deviations of configs in every context, on the scale of
        the scores told: m configs -> (m, n), (m, n). Looking changes nothing that is asked later.
        """
        return self._judge().predictions(configs)

    @one_thread
    def expected_costs(self, configs: Sequence[Mapping[str, Any]]) -> Array:
        """What an evaluation of configs is expected to cost in every context, in the unit of the
        costs told: m configs -> (m, n).

        Raises:
            NothingObserved: no cost was told.
        """
        model = self._search.cost_model()
        if model is None:
            raise NothingObserved(
                "Costs are expected by costs that were told. Got none. Tell some."
            )
        return model.expected(self.space.encode(configs))

    @one_thread
    def completed_scores(self, configs: Sequence[Mapping[str, Any]]) -> Array:
        """What evaluated configs are judged by in every context, on the scale of the scores told:
        m configs -> (m, n). Posterior means, or for the report "completed" the scores, completed
        by the model where there are none."""
        return self._judge().completed_scores(configs)

    def stop_reason(self) -> str | None:
        """Why to stop now by the rule `stop_when`, None to go on.

        The certainty is checked again after every twentieth part more scores, and not before
        every context has had two beyond the initial ones.
        """
        size, last = len(self._history), self.last_check
        if self.stop_when is None or size < self.n_initial + 2 * self.n_contexts:
            return None
        if (last is None or size >= last.next) and len(self._history.usable):
            self.last_check = last = self.stop_when.check(self.certainty(), size, last)
        return None if last is None else last.stop_reason

    # the model

    @property
    def last_fit(self) -> Fit | None:
        """The hyperparameters in use; None before the model was first needed."""
        return self.model.last_fit

    @last_fit.setter
    def last_fit(self, fit: Fit | None) -> None:
        self.model.last_fit = fit

    @one_thread
    def to_gpytorch(self) -> Any:
        """The posterior as a `gpytorch.models.ExactGP`, to go on in gpytorch (extra `torch`).

        The model has our data, kernel and noise, in double precision; scores told later do not
        change it. `model.inputs(configs, contexts)` are its inputs (k, d + m) for k configs in k
        contexts. It predicts standardized values v: scores are
        `model.score_center + model.score_scale * v`.

        Raises:
            NothingObserved: no score was told.
            InvalidInput: gpytorch is not installed.
        """
        from drbqo_ray.core.gpytorch_bridge import to_gpytorch

        if self._history.n_ok == 0:
            raise NothingObserved("A model needs scores. Got none. Tell some first.")
        fit, gp = self.model.current()
        center, scale = self._sign * fit.center, self._sign * fit.scale
        return to_gpytorch(gp, self.space.encode, center, scale)


def _said(reason: object) -> str:
    """The reason as text, whatever was passed as one."""
    try:
        return str(reason)
    except Exception:  # a user's object may do anything
        return short_repr(reason)


def _one_of(name: str, value: Any, options: tuple[str, ...]) -> Any:
    if not isinstance(value, str) or value not in options:
        raise InvalidInput(f"{name} must be one we know.", value, f"Use one of {list(options)}.")
    return str(value)


def _check_flag(name: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"{name} is True or False.", value, "Pass one of them.")
    return bool(value)


def _check_cost(cost: object) -> float | None:
    if cost is None:
        return None
    value, _ = read_score(cost)
    if value is None or value <= 0:
        raise InvalidInput("A cost is a finite number > 0.", cost, "Pass None if it is not known.")
    return value


def _check_count(name: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
        raise InvalidInput(f"{name} is a whole number >= 0.", value, f"Pass e.g. {default}.")
    return int(value)
