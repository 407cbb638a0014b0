"""Ask for an evaluation, tell its score, get a recommendation: the paper's Algorithm 1.

Start with `Optimizer._ask`: it is lines 2 to 4 of the algorithm, by the rules of
`drbqo_ray.optimizer.proposals`. `Optimizer.tell` is lines 5 and 6, and `Optimizer.recommend` the
output, by the judgment of `drbqo_ray.optimizer.scoring`.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from drbqo_ray.core.contexts import check_contexts
from drbqo_ray.core.kernels import SHAPES
from drbqo_ray.core.paths import Sampler
from drbqo_ray.core.sets import UncertaintySet, as_uncertainty, reference_weights
from drbqo_ray.core.surrogate import Fit, Surrogate
from drbqo_ray.errors import InvalidInput, short_repr
from drbqo_ray.optimizer.certainty import Certainty, draw_certainty
from drbqo_ray.optimizer.design import Design
from drbqo_ray.optimizer.evaluations import Evaluations, own_copy
from drbqo_ray.optimizer.history import History
from drbqo_ray.optimizer.methods import find_method
from drbqo_ray.optimizer.model import Model, kernel_family, warn_of_many_contexts
from drbqo_ray.optimizer.proposals import InitialDesign, Search
from drbqo_ray.optimizer.scoring import RULES, Report, Scoring
from drbqo_ray.optimizer.stopping import StopCheck, StopRule
from drbqo_ray.records import Observation, Recommendation, Suggestion, told_score
from drbqo_ray.space.space import Space, as_space
from drbqo_ray.threads import one_thread
from drbqo_ray.types import Array

MOST_INITIAL = 2**20


class Optimizer:
    """Robust search over configs, one (config, context) evaluation at a time.

    Args:
        space: the search space, or a dict of parameters.
        contexts: number n of folds, or sample vectors (n, m).
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
        stop_when: when `stop_reason` says to stop, e.g. "loss < 0.002"; None: never.

    Attributes:
        model: the posterior and its fits.
        last_check: what the stop rule remembers; None before its first check.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        contexts: int | npt.ArrayLike,
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
        stop_when: str | None = None,
    ) -> None:
        self.space = as_space(space)
        checked = check_contexts(contexts)
        self.n_contexts = checked if isinstance(checked, int) else len(checked)
        warn_of_many_contexts(self.n_contexts)
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
        self._history = History(self.space, self.n_contexts)
        self._design = Design(self.space, self.n_contexts, self.n_initial, self.seed)
        self._evaluations = Evaluations()
        self.stop_when = None if stop_when is None else StopRule.parse(stop_when)
        self.last_check: StopCheck | None = None
        shape = SHAPES[_one_of("kernel", kernel, tuple(SHAPES))]
        family = kernel_family(shape, checked, self.method.free_form, self.space.n_features)
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

    @property
    def exhausted(self) -> bool:
        """Whether every (config, context) pair of a small finite space was handed out.

        Asking goes on all the same, with pairs that were evaluated before.
        """
        return self._design.exhausted

    # telling

    def tell(self, id: int, score: object) -> Observation:
        """Lines 5 and 6: record the score of a suggestion.

        A number that is not finite is recorded as a failure; what is no number is an error.
        Telling the same score twice changes nothing; another score for the same id is an error.
        """
        value, reason = told_score(score)
        return self._record(id, value, reason)

    def fail(self, id: int, reason: str) -> Observation:
        """Record that the evaluation of a suggestion failed."""
        return self._record(id, None, reason if isinstance(reason, str) else _said(reason))

    def observe(self, config: Mapping[str, Any], context: int, score: object) -> Observation:
        """Record an evaluation that was not suggested, e.g. from an earlier study.

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
        u = self.space.to_unit(valid)
        id = self._evaluations.add(self._design.known(u) or valid, int(context), u)
        return self._record(id, value, reason)

    def _record(self, id: int, score: float | None, reason: str | None) -> Observation:
        outcome, new = self._evaluations.record(id, score, reason)
        if new:
            u = self._evaluations.points[outcome.id]
            internal = None if score is None else self._sign * score
            self._history.add(outcome.config, u, outcome.context, internal)
            self._design.take(u, outcome.config, outcome.context)
        return own_copy(outcome)

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
    def predict(self, configs: Sequence[Mapping[str, Any]]) -> tuple[Array, Array]:
        """Posterior means and standard deviations of configs in every context, on the scale of
        the scores told: m configs -> (m, n), (m, n). Looking changes nothing that is asked later.
        """
        return self._judge().predictions(configs)

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


def _check_count(name: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
        raise InvalidInput(f"{name} is a whole number >= 0.", value, f"Pass e.g. {default}.")
    return int(value)
