"""Ask for an evaluation, tell its score, get a recommendation: the paper's Algorithm 1.

`Optimizer._propose` is lines 2 and 3 of the algorithm, `Optimizer._choose_contexts` line 4,
`Optimizer.tell` lines 5 and 6, and `Optimizer.recommend` its output.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt

from drbqo_ray.core.acquisition import Acquisition, ExpectedImprovement, RobustPaths
from drbqo_ray.core.contexts import EmbeddedContexts, FreeFormContexts, check_contexts
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import SHAPES, KernelFamily
from drbqo_ray.core.maximize import candidates, maximize
from drbqo_ray.core.missing_scores import pick
from drbqo_ray.core.paths import Sampler, draw_paths
from drbqo_ray.core.sets.base import UncertaintySet, reference_weights
from drbqo_ray.core.sets.catalog import Expectation, as_uncertainty
from drbqo_ray.core.surrogate import Fit, Surrogate
from drbqo_ray.errors import InvalidInput, short_repr
from drbqo_ray.optimizer.certainty import Certainty
from drbqo_ray.optimizer.design import Design
from drbqo_ray.optimizer.evaluations import Evaluations, own_copy
from drbqo_ray.optimizer.history import History
from drbqo_ray.optimizer.methods import Report, find_method
from drbqo_ray.optimizer.model import Model, warn_of_many_contexts
from drbqo_ray.optimizer.scoring import Recommender
from drbqo_ray.optimizer.stopping import StopCheck, StopRule
from drbqo_ray.records import Observation, Recommendation, Suggestion, told_score
from drbqo_ray.space.space import Space, as_space
from drbqo_ray.threads import one_thread
from drbqo_ray.types import Array

Rngs = Sequence[np.random.Generator]

BATCH_PAIRS = 512
FAST_ABOVE = 800
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
        self._sign = 1.0 if _one_of("mode", mode, ("max", "min")) == "max" else -1.0
        self.n_initial = _check_count("n_initial", n_initial, default=3 * len(self.space) + 2)
        if self.n_initial > MOST_INITIAL:
            rule = "The initial configs are laid out together, at most 2**20 of them."
            raise InvalidInput(rule, n_initial, 'Pass a smaller n_initial, or method="random".')
        self.seed = _check_count("seed", seed, default=0)
        self._sampler: Sampler = _one_of("sampler", sampler, ("pathwise", "rff"))
        prior_weight = float(_one_of("hyperparameters", hyperparameters, ("map", "mle")) == "map")
        self._history = History(self.space, self.n_contexts)
        self._design = Design(self.space, self.n_contexts, self.n_initial, self.seed)
        self._evaluations = Evaluations()
        self.stop_when = None if stop_when is None else StopRule.parse(stop_when)
        self.last_check: StopCheck | None = None
        surrogate = Surrogate(
            self._kernel_family(kernel, checked), prior_weight, self.method.noisy_prior
        )
        self.model = Model(surrogate, self._history, self.space)
        self._recommender = Recommender(
            self.model,
            self._history,
            self.space,
            self.uncertainty,
            self.reference,
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
        """At least one and at most `limit` suggestions."""
        first = self._evaluations.next_id
        rngs = [self._rng(first + k) for k in range(min(limit, self._batch_limit()))]
        if self._starting():
            pairs = iter([self._design.initial_pair(self._evaluations.n_asked, rngs[0])])
        elif self.method.propose == "uniform":
            pairs = iter([self._design.uniform_pair(rngs[0])])
        else:
            pairs = self._choose_contexts(self._propose(rngs), rngs)
        asked = []
        for (u, context), rng in zip(pairs, rngs, strict=False):
            id, seed = self._evaluations.next_id, int(rng.integers(2**31))
            suggestion = Suggestion(id, self._design.config_at(u), context, seed)
            self.register(suggestion)
            asked.append(own_copy(suggestion))
        return asked

    def _rng(self, id: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(id,)))

    def _batch_limit(self) -> int:
        """Suggestions that can be made together: draws can, rules that build on each other not."""
        together = self.method.propose in ("robust-draw", "mean-draw") or (
            self.method.propose == "gain-per-fold" and self._design.choices is None
        )
        return max(1, BATCH_PAIRS // self.n_contexts) if together and not self._starting() else 1

    def register(self, suggestion: Suggestion) -> None:
        """Take note of a suggestion that was handed out, e.g. when a run is replayed."""
        valid = self.space.validate(suggestion.config)
        u = self.space.to_unit(valid)
        self._evaluations.hand_out(suggestion, u)
        self._design.take(u, valid, suggestion.context)

    def _starting(self) -> bool:
        known = len(self._history) + len(self._evaluations.pending)
        return known < self.n_initial or self._history.n_ok == 0

    @property
    def exhausted(self) -> bool:
        """Whether every (config, context) pair of a small finite space was handed out.

        Asking goes on all the same, with pairs that were evaluated before.
        """
        return self._design.exhausted

    # Algorithm 1

    def _propose(self, rngs: Rngs) -> Array:
        """Lines 2 and 3: draw posterior paths and maximize the (robust) mean of each over configs,
        one config (p,) for each source of chance."""
        gp = self.model.posterior()
        acquisition: Acquisition
        if self.method.propose == "mean-ei":
            values = gp.means(self._history.config_Z) @ self.reference
            near = self._history.config_Z[[np.argmax(values)]]
            ahead = self._with_pending(gp, near)
            acquisition = ExpectedImprovement(ahead, self.reference, float(values.max()))
        else:
            inner = Expectation() if self.method.propose == "mean-draw" else self.uncertainty
            acquisition = RobustPaths(draw_paths(gp, rngs, self._sampler), inner, self.reference)
        choices = self._design.choices
        if choices is not None:
            U = self._design.spread(choices, acquisition.values(self.space.features(choices)))
        else:
            fast = len(rngs) * len(gp.y) > FAST_ABOVE
            U = maximize(acquisition, self.space, self._recommender.incumbents(gp), rngs[0], fast)
        if self.method.propose == "gain-per-fold":
            U = self._prefer_unfinished(U)
        return U if choices is not None else self._avoid_exhausted(acquisition, U, rngs)

    def _prefer_unfinished(self, U: Array) -> Array:
        """The new configs U (T, p), but where another fold of a seen one is worth more."""
        numbers, scores = self._recommender.contenders()
        if not len(numbers):
            return U
        seen, gp = self._history.U[numbers], self.model.posterior()
        z = np.concatenate([self._history.config_Z[numbers], self.space.features(U)])
        unknown = np.full((len(U), self.n_contexts), np.nan)
        R = self._recommender.score_draws.robust(gp, z, np.concatenate([scores, unknown]))
        best = R[: len(seen)].mean(axis=1).max()
        gain = np.maximum(R - best, 0.0).mean(axis=1)
        left = np.array([self._design.left(u) for u in seen])
        picks = pick(gain[: len(seen)], left, gain[len(seen) :], self.n_contexts)
        return np.where((picks < 0)[:, None], U, seen[picks])

    def _avoid_exhausted(self, acquisition: Acquisition, U: Array, rngs: Rngs) -> Array:
        """The configs U (T, p), but where every context of one was handed out the best other
        config nearby; the config itself if there is none."""
        reserved: Counter[bytes] = Counter()
        for t, rng in enumerate(rngs):
            options = iter([self._design.settle(U[t])])
            u = U[t] = next(options)
            if not self._design.is_open(u, reserved[u.tobytes()]):
                near = candidates(self.space, u[None], rng)
                values, _ = acquisition(self.space.features(near), np.full(len(near), t))
                order = np.argsort(-values, kind="stable")
                options = (self._design.settle(near[k]) for k in order)
                is_open = (v for v in options if self._design.is_open(v, reserved[v.tobytes()]))
                found = next(is_open, None)
                U[t] = self._design.other(u, rng) if found is None else found
            reserved[U[t].tobytes()] += 1
        return U

    def _choose_contexts(self, U: Array, rngs: Rngs) -> Iterator[tuple[Array, int]]:
        """Line 4: with each config (T, p) its context of highest posterior variance, pending
        evaluations and the pairs before it counted in."""
        if self.method.context_rule == "random":
            for u, rng in zip(U, rngs, strict=True):
                yield u, int(rng.choice(self._design.open_contexts(u)))
            return
        z = self.space.features(U)
        gp = self._with_pending(self.model.posterior(), z)
        if self.method.context_rule == "task-ei":
            best = gp.means(self._history.config_Z).max(axis=0)  # (n,)
            tasks = zip(np.eye(self.n_contexts), best, strict=True)
            merit = [ExpectedImprovement(gp, e, b).values(z)[0, 0] for e, b in tasks]
            yield U[0], self._best_open(U[0], np.array(merit))
            return
        C = gp.covariance(z)  # (T n, T n)
        variance, learned = np.diagonal(C).copy(), np.zeros((len(U), len(C)))
        for t, u in enumerate(U):
            start = t * self.n_contexts
            context = self._best_open(u, variance[start : start + self.n_contexts])
            column = C[start + context] - learned[:, start + context] @ learned
            learned[t] = column / math.sqrt(max(column[start + context], 0.0) + gp.kernel.noise)
            variance -= learned[t] ** 2
            yield u, context

    def _best_open(self, u: Array, merit: Array) -> int:
        contexts = self._design.open_contexts(u)
        return contexts[int(np.argmax(merit[contexts]))]

    def _with_pending(self, gp: GaussianProcess, z: Array) -> GaussianProcess:
        """The posterior for a decision about the configs z (k, d)."""
        pending, points = self._evaluations.pending, self._evaluations.points
        return self.model.with_pending(gp, pending, points, z)

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
        if report is not None:
            _one_of("report", report, get_args(Report))
        return self._recommender.recommend(report)

    @one_thread
    def certainty(self) -> Certainty:
        """How sure the recommendation is. Looking changes nothing that is asked later."""
        return self._recommender.certainty(self._rng(2**32 - 2))

    @one_thread
    def predict(self, configs: Sequence[Mapping[str, Any]]) -> tuple[Array, Array]:
        """Posterior means and standard deviations of configs in every context, on the scale of
        the scores told: m configs -> (m, n), (m, n). Looking changes nothing that is asked later.
        """
        return self._recommender.predict(configs)

    @one_thread
    def completed_scores(self, configs: Sequence[Mapping[str, Any]]) -> Array:
        """What evaluated configs are judged by in every context, on the scale of the scores told:
        m configs -> (m, n). Posterior means, or for the report "completed" the scores, completed
        by the model where there are none."""
        return self._recommender.completed_scores(configs)

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

    def _kernel_family(self, kernel: str, contexts: int | Array) -> KernelFamily:
        shape = SHAPES[_one_of("kernel", kernel, tuple(SHAPES))]
        model: EmbeddedContexts | FreeFormContexts
        if self.method.free_form:
            model = FreeFormContexts(self.n_contexts)
        elif isinstance(contexts, int):
            model = EmbeddedContexts.folds(contexts)
        else:
            model = EmbeddedContexts.samples(contexts)
        return KernelFamily(shape, model, self.space.n_features)


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
