"""Ask for an evaluation, tell its score, get a recommendation: the paper's Algorithm 1.

`Optimizer._propose` is lines 2 and 3 of the algorithm, `Optimizer._choose_context` line 4,
`Optimizer.tell` lines 5 and 6, and `Optimizer.recommend` its output.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar, get_args, overload

import numpy as np
import numpy.typing as npt

from drbqo_ray.core.acquisition import Acquisition, ExpectedImprovement, RobustPath
from drbqo_ray.core.contexts import EmbeddedContexts, FreeFormContexts, check_contexts
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import SHAPES, KernelFamily
from drbqo_ray.core.maximize import candidates, maximize
from drbqo_ray.core.paths import Sampler, draw_path
from drbqo_ray.core.surrogate import Fit, Surrogate
from drbqo_ray.core.uncertainty import Expectation, as_uncertainty
from drbqo_ray.core.uncertainty_set import UncertaintySet, reference_weights
from drbqo_ray.design import Design
from drbqo_ray.errors import (
    ConflictingResult,
    InvalidInput,
    NothingObserved,
    UnknownSuggestion,
)
from drbqo_ray.history import History
from drbqo_ray.methods import Report, find_method
from drbqo_ray.records import Observation, Recommendation, Suggestion
from drbqo_ray.scores import read_score
from drbqo_ray.space import Space, as_space

Array = npt.NDArray[np.float64]
Record = TypeVar("Record", Suggestion, Observation)

INCUMBENTS = 8
SHORTLIST = 64


class Optimizer:
    """Robust search over configs, one (config, context) evaluation at a time.

    Args:
        space: the search space, or a dict of parameters.
        contexts: number n of folds, or sample vectors (n, m).
        method: name of a recipe, see `drbqo_ray.methods`.
        uncertainty: a set, a chi-square radius >= 0, or "auto" for 95 % confidence.
        mode: "max" if larger scores are better, "min" if smaller ones are.
        n_initial: evaluations spread over the space before the model is used.
        kernel: "se", "matern12", "matern32" or "matern52".
        context_rule: None for the method's own, "variance", "task-ei" or "random".
        reference: weights of the contexts (n,), uniform by default.
        seed: same seed and same tells give the same asks.
        sampler: "pathwise" or the paper's "rff".
        hyperparameters: "map" with weak priors, or "mle" as in the paper.
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
    ) -> None:
        self.space = as_space(space)
        checked = check_contexts(contexts)
        self.n_contexts = checked if isinstance(checked, int) else len(checked)
        self.method = find_method(method, context_rule)
        self.uncertainty = as_uncertainty(uncertainty, self.n_contexts)
        self.reference = reference_weights(reference, self.n_contexts)
        self.uncertainty.solve(np.zeros((1, self.n_contexts)), self.reference)
        self._sign = 1.0 if _one_of("mode", mode, ("max", "min")) == "max" else -1.0
        self.n_initial = _check_count("n_initial", n_initial, default=3 * len(self.space) + 2)
        self.seed = _check_count("seed", seed, default=0)
        self._sampler: Sampler = _one_of("sampler", sampler, ("pathwise", "rff"))
        prior_weight = float(_one_of("hyperparameters", hyperparameters, ("map", "mle")) == "map")
        self._surrogate = Surrogate(self._kernel_family(kernel, checked), prior_weight)
        self._history = History(self.space)
        self._design = Design(self.space, self.n_contexts, self.n_initial, self.seed)
        self._suggestions: dict[int, Suggestion] = {}
        self._pending: dict[int, Suggestion] = {}
        self._outcomes: dict[int, Observation] = {}
        self._points: dict[int, Array] = {}
        self._next_id = 0
        self._n_asked = 0
        self._cache: tuple[int, Surrogate, GaussianProcess] | None = None
        self._ahead: tuple[GaussianProcess, tuple[int, ...], GaussianProcess] | None = None

    @overload
    def ask(self) -> Suggestion: ...
    @overload
    def ask(self, q: int) -> list[Suggestion]: ...
    def ask(self, q: int | None = None) -> Suggestion | list[Suggestion]:
        """The next evaluation to run, or a list of q of them to run side by side."""
        if q is None:
            return self._ask()
        return [self._ask() for _ in range(_check_count("q", q, default=1))]

    def _ask(self) -> Suggestion:
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self._next_id,)))
        if self._starting():
            u, context = self._design.initial_pair(self._n_asked, rng)
        elif self.method.propose == "uniform":
            u, context = self._design.uniform_pair(rng)
        else:
            u = self._propose(rng)
            context = self._choose_context(u, rng)
        seed = int(rng.integers(2**31))
        suggestion = Suggestion(self._next_id, self.space.from_unit(u), context, seed)
        self.register(suggestion)
        return _copy(suggestion)

    def register(self, suggestion: Suggestion) -> None:
        """Take note of a suggestion that was handed out, e.g. when a run is replayed."""
        u = self.space.to_unit(suggestion.config)
        self._suggestions[suggestion.id] = self._pending[suggestion.id] = _copy(suggestion)
        self._points[suggestion.id] = u
        self._design.take(u, suggestion.context)
        self._next_id = max(self._next_id, suggestion.id + 1)
        self._n_asked += 1

    def _starting(self) -> bool:
        known = len(self._history) + len(self._pending)
        return known < self.n_initial or self._history.n_ok == 0

    @property
    def exhausted(self) -> bool:
        """Whether every (config, context) pair of a small finite space was handed out.

        Asking goes on all the same, with pairs that were evaluated before.
        """
        return self._design.exhausted

    # Algorithm 1

    def _propose(self, rng: np.random.Generator) -> Array:
        """Lines 2 and 3: draw a posterior path and maximize its (robust) mean over configs."""
        gp = self._posterior()
        acquisition: Acquisition
        if self.method.propose == "mean-ei":
            incumbent = float(np.max(gp.means(self._history.config_Z) @ self.reference))
            acquisition = ExpectedImprovement(self._with_pending(gp), self.reference, incumbent)
        else:
            robust = self.method.propose == "robust-draw"
            inner = self.uncertainty if robust else Expectation()
            acquisition = RobustPath(draw_path(gp, rng, self._sampler), inner, self.reference)
        choices = self._design.choices
        if choices is not None:
            best = int(np.argmax(acquisition.values(self.space.features(choices))))
            return np.asarray(choices[best])
        u = self._design.settle(maximize(acquisition, self.space, self._incumbents(gp), rng))
        return u if self._design.is_open(u) else self._neighbor(acquisition, u, rng)

    def _neighbor(self, acquisition: Acquisition, u: Array, rng: np.random.Generator) -> Array:
        """The best other config when every context of u was handed out; u if there is none."""
        others = candidates(self.space, u[None], rng)
        order = np.argsort(-acquisition.values(self.space.features(others)), kind="stable")
        settled = (self._design.settle(others[k]) for k in order)
        return next((v for v in settled if self._design.is_open(v)), u)

    def _choose_context(self, u: Array, rng: np.random.Generator) -> int:
        """Line 4: the context of highest posterior variance, pending evaluations counted in."""
        contexts = self._design.open_contexts(u)
        if self.method.context_rule == "random":
            return int(rng.choice(contexts))
        gp = self._with_pending(self._posterior())
        z = self.space.features(u[None])
        if self.method.context_rule == "variance":
            merit = np.diagonal(gp.covariance(z[0]))
        else:
            best = gp.means(self._history.config_Z).max(axis=0)  # (n,)
            tasks = zip(np.eye(self.n_contexts), best, strict=True)
            merit = np.array([ExpectedImprovement(gp, e, b).values(z)[0] for e, b in tasks])
        return contexts[int(np.argmax(merit[contexts]))]

    def _with_pending(self, gp: GaussianProcess) -> GaussianProcess:
        """The posterior as if each pending score came out at its mean.

        The last one is kept, so that a batch conditions on each of its members once.
        """
        ids = tuple(self._pending)
        base, known, ahead = self._ahead or (gp, (), gp)
        if base is not gp or ids[: len(known)] != known:
            known, ahead = (), gp
        rest = [self._pending[id] for id in ids[len(known) :]]
        if rest:
            z = self.space.features(np.array([self._points[s.id] for s in rest]))
            means = gp.means(z)
            for row, suggestion in enumerate(rest):
                score = float(means[row, suggestion.context])
                ahead = ahead.extended(z[row], suggestion.context, score)
        self._ahead = (gp, ids, ahead)
        return ahead

    def _incumbents(self, gp: GaussianProcess) -> Array:
        """The best few configs so far as snapped points (m, p).

        Only configs that did well in some context are looked at, so that the cost does not
        grow with the square of the data.
        """
        numbers = self._history.best_rows(gp.y, SHORTLIST)
        means = gp.means(self._history.config_Z[numbers])
        values = self._report_values(means, self.method.report)
        order = np.argsort(-values, kind="stable")
        return np.asarray(self._history.U[numbers[order[:INCUMBENTS]]])

    # telling

    def tell(self, id: int, score: object) -> Observation:
        """Lines 5 and 6: record the score of a suggestion.

        A score that is not a finite number is recorded as a failure. Telling the same
        score twice changes nothing; another score for the same id is an error.
        """
        value, reason = read_score(score)
        return self._record(id, value, reason)

    def fail(self, id: int, reason: str) -> Observation:
        """Record that the evaluation of a suggestion failed."""
        return self._record(id, None, str(reason))

    def observe(self, config: Mapping[str, Any], context: int, score: object) -> Observation:
        """Record an evaluation that was not suggested, e.g. from an earlier study."""
        valid = self.space.validate(config)
        if isinstance(context, bool) or not isinstance(context, numbers.Integral):
            raise InvalidInput("A context is a whole number.", context, "Pass a fold index.")
        if not 0 <= context < self.n_contexts:
            raise InvalidInput(
                f"A context lies in 0..{self.n_contexts - 1}.", context, "Count folds from 0."
            )
        value, reason = read_score(score)
        id = self._next_id
        self._points[id] = self.space.to_unit(valid)
        self._suggestions[id] = Suggestion(id, valid, int(context), 0)
        self._next_id += 1
        return self._record(id, value, reason)

    def _record(self, id: int, score: float | None, reason: str | None) -> Observation:
        if not isinstance(id, numbers.Integral) or id not in self._suggestions:
            raise UnknownSuggestion(
                "A result must answer a suggestion of this optimizer.",
                id,
                "Pass the id of an asked suggestion, or use observe(config, context, score).",
            )
        suggestion = self._suggestions[id]
        status: Literal["ok", "failed"] = "failed" if score is None else "ok"
        outcome = Observation(id, suggestion.config, suggestion.context, status, score, reason)
        earlier = self._outcomes.get(id)
        if earlier is not None:
            if (earlier.status, earlier.score) == (status, score):
                return _copy(earlier)
            raise ConflictingResult(
                f"Suggestion {id} already has the result {earlier.score} ({earlier.status}).",
                score if score is not None else reason,
                "Keep the first result; use observe(...) to add a repeated measurement.",
            )
        self._outcomes[id] = outcome
        self._pending.pop(id, None)
        internal = None if score is None else self._sign * score
        self._history.add(suggestion.config, self._points[id], suggestion.context, internal)
        self._design.take(self._points[id], suggestion.context)
        return _copy(outcome)

    @property
    def observations(self) -> list[Observation]:
        """All outcomes, in the order they were told."""
        return [_copy(outcome) for outcome in self._outcomes.values()]

    @property
    def pending(self) -> list[Suggestion]:
        """Suggestions that were handed out and have no outcome yet."""
        return [_copy(suggestion) for suggestion in self._pending.values()]

    def recommend(self, report: Report | None = None) -> Recommendation:
        """The evaluated config with the best posterior value.

        A config with a failed fold is never recommended.

        Args:
            report: rank configs by their "robust" or by their "mean" value; by default as the
                method does.
        """
        if report is not None:
            _one_of("report", report, get_args(Report))
        usable = self._history.usable
        if not len(usable) or not self._history.n_ok:
            raise NothingObserved(
                "A recommendation needs a config with a score and without a failed fold. "
                f"Got {len(self._outcomes)} outcomes, none of such a config. "
                "Tell some scores first, or look at the reasons in `observations`."
            )
        _, gp = self._current()
        means = gp.means(self._history.config_Z[usable])
        best = int(np.argmax(self._report_values(means, report or self.method.report)))
        return self._describe(int(usable[best]), means[best])

    def _report_values(self, means: Array, report: Report) -> Array:
        """Values (m,) that a report rule ranks configs by, from means (m, n)."""
        if report == "mean":
            return means @ self.reference
        return self.uncertainty.solve(means, self.reference)[0]

    def _describe(self, number: int, means: Array) -> Recommendation:
        model, gp = self._current()
        fit = model.last_fit
        assert fit is not None
        robust, weights = self.uncertainty.solve(means[None], self.reference)
        covariance = gp.covariance(self._history.config_Z[number])

        def user(value: float) -> float:
            return float(self._sign * (fit.center + fit.scale * value))

        stds = fit.scale * np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        variance = max(float(weights[0] @ covariance @ weights[0]), 0.0)
        return Recommendation(
            config=dict(self._history.configs[number]),
            robust_value=user(float(robust[0])),
            mean_value=user(float(means @ self.reference)),
            weights=[float(w) for w in weights[0]],
            context_means=[user(float(m)) for m in means],
            context_stds=[float(s) for s in stds],
            std=fit.scale * math.sqrt(variance),
        )

    # the model

    @property
    def last_fit(self) -> Fit | None:
        """The hyperparameters in use; None before the model was first needed."""
        return self._surrogate.last_fit

    @last_fit.setter
    def last_fit(self, fit: Fit | None) -> None:
        self._surrogate = Surrogate(self._surrogate.family, self._surrogate.prior_weight, fit)
        self._cache = None

    def _posterior(self) -> GaussianProcess:
        """The posterior for the next suggestion; a fit it needed is kept."""
        self._surrogate, gp = self._current()
        return gp

    def _current(self) -> tuple[Surrogate, GaussianProcess]:
        """Model and posterior given all scores. Only asking keeps a new fit, so that looking at
        the recommendation never changes what is asked next."""
        size = len(self._history)
        if self._cache is None or self._cache[0] != size:
            model = self._surrogate.copy()
            gp = model.update(self._history.Z, self._history.c, self._history.scores())
            self._cache = (size, model, gp)
        return self._cache[1:]

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


def _copy(record: Record) -> Record:
    """The record with a config of its own, so that changing it changes nothing here."""
    return replace(record, config=dict(record.config))


def _one_of(name: str, value: Any, options: tuple[str, ...]) -> Any:
    if value not in options:
        raise InvalidInput(f"{name} must be one we know.", value, f"Use one of {list(options)}.")
    return value


def _check_count(name: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
        raise InvalidInput(f"{name} is a whole number >= 0.", value, f"Pass e.g. {default}.")
    return int(value)
