"""Rules that say what to evaluate next: one small class for each way to pick x and to pick w.

| rule for the config x  | maximizes                                     | paper, Algorithm 1 |
|------------------------|-----------------------------------------------|--------------------|
| RobustDraw             | robust value of a posterior draw              | lines 2 and 3      |
| MeanDraw               | plain mean of a posterior draw                | baseline BQO-TS    |
| MeanImprovement        | expected improvement of the plain mean        | baseline BQO-EI    |
| GainPerFold            | expected gain for each fold to be trained     | ours, foldwise     |
| Uniform, InitialDesign | nothing: drawn uniformly, or spread evenly    | baseline, start    |

| rule for the context w | picks, among those that x was not trained in  | paper, Algorithm 1 |
|------------------------|-----------------------------------------------|--------------------|
| HighestVariance        | where the posterior variance is highest       | line 4             |
| TaskImprovement        | where the score itself may improve most       | baseline MTBO      |
| RandomContext          | any                                           | RandW variants     |

To add a rule, write a class like these and name it in the table of `drbqo_ray.optimizer.methods`.

| symbol | meaning                                     | shape  |
|--------|---------------------------------------------|--------|
| T      | suggestions made together                   |        |
| U      | configs as snapped points                   | (T, p) |
| z      | configs as model inputs                     | (T, d) |
| rngs   | one source of chance for each suggestion    | T      |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drbqo_ray.core.acquisition import Acquisition, ExpectedImprovement, RobustPaths
from drbqo_ray.core.costs import CostModel
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.maximize import candidates, maximize
from drbqo_ray.core.missing_scores import pick
from drbqo_ray.core.paths import Sampler, draw_paths
from drbqo_ray.core.sets import Expectation, UncertaintySet
from drbqo_ray.errors import NothingObserved
from drbqo_ray.optimizer.design import Design
from drbqo_ray.optimizer.evaluations import Evaluations
from drbqo_ray.optimizer.history import History
from drbqo_ray.optimizer.model import Model
from drbqo_ray.optimizer.scoring import Report, Scoring
from drbqo_ray.space.space import Space
from drbqo_ray.types import Array

Rngs = Sequence[np.random.Generator]
Pair = tuple[Array, int]

BATCH_PAIRS = 512
REPEAT_SHARE, ENOUGH_DIFFERING, ENOUGH_EXACT = 10, 12, 3
FLUKE = 0.1
NEGLIGIBLE = 1e-4  # noise, of the variance of all scores, that nothing hangs on
FAST_ABOVE = 800


@dataclass(frozen=True, eq=False)
class Search:
    """What a rule may look at: the problem, and all that is known so far.

    Attributes:
        space: the search space.
        uncertainty: the set of weights.
        reference: weights of the contexts (n,).
        sampler: how posterior paths are drawn.
        design: which pairs were handed out.
        history: what has been evaluated.
        evaluations: suggestions, the pending ones among them.
        model: the posterior.
        report: how the method judges configs.
        sign: 1 if larger scores are better, -1 if smaller ones are.
        fixed_seed: whether training the same fold again is known to give the same score.
    """

    space: Space
    uncertainty: UncertaintySet
    reference: Array
    sampler: Sampler
    design: Design
    history: History
    evaluations: Evaluations
    model: Model
    report: Report
    sign: float
    fixed_seed: bool

    def scoring(self, report: Report | None = None) -> Scoring:
        """How good the configs are, as the method judges them if not told otherwise."""
        if not self.history.n_ok:
            raise NothingObserved(
                f"Configs are judged by scores. Got {len(self.history)} outcomes without any. "
                "Tell some scores first, or look at the reasons in `observations`."
            )
        return Scoring(
            self.history,
            *self.model.current(),
            self.space,
            self.uncertainty,
            self.reference,
            report or self.report,
            self.sign,
            self.fixed_seed,
        )

    def cost_model(self) -> CostModel | None:
        """What evaluations cost, None before any cost was told."""
        history = self.history
        return CostModel.fit(history.Z, history.c, history.costs, len(self.reference))

    def with_pending(self, z: Array) -> GaussianProcess:
        """The posterior for a decision about the configs z (k, d), pending evaluations counted
        in."""
        pending, points = self.evaluations.pending, self.evaluations.points
        return self.model.with_pending(self.model.posterior(), pending, points, z)


class ContextRule(ABC):
    """How the context of a config is picked.

    Attributes:
        name: what users call it.
    """

    name: ClassVar[str]

    @abstractmethod
    def pairs(self, search: Search, U: Array, rngs: Rngs) -> Iterator[Pair]:
        """Configs (T, p), each with its context, at least the first of them.

        Each pair is handed out before the next one is asked for, so that contexts are not given
        away twice.
        """


class ConfigRule(ABC):
    """How the next configs are picked.

    Attributes:
        name: what users call it.
    """

    name: ClassVar[str]

    def batch_limit(self, search: Search) -> int:
        """Suggestions that can be made together."""
        return 1

    @abstractmethod
    def pairs(self, search: Search, context_rule: ContextRule, rngs: Rngs) -> Iterator[Pair]:
        """At least one and at most T pairs (config (p,), context) to evaluate next."""


# rules for x


class InitialDesign(ConfigRule):
    """Evenly spread pairs, before there is a model."""

    name = "initial"

    def pairs(self, search: Search, context_rule: ContextRule, rngs: Rngs) -> Iterator[Pair]:
        """The next pair of the design."""
        yield search.design.initial_pair(search.evaluations.n_asked, rngs[0])


class Uniform(ConfigRule):
    """Pairs drawn uniformly; the context comes with the config."""

    name = "uniform"

    def pairs(self, search: Search, context_rule: ContextRule, rngs: Rngs) -> Iterator[Pair]:
        """One pair."""
        yield search.design.uniform_pair(rngs[0])


class Maximizer(ConfigRule):
    """A rule that maximizes a function of the posterior over configs; the context comes next."""

    @abstractmethod
    def acquisition(self, search: Search, gp: GaussianProcess, rngs: Rngs) -> Acquisition:
        """The T functions to maximize."""

    def prefer(self, search: Search, U: Array) -> Array:
        """The configs to take instead of the maximizers U (T, p): these, unless a rule knows
        better."""
        return U

    def pairs(self, search: Search, context_rule: ContextRule, rngs: Rngs) -> Iterator[Pair]:
        """The maximizers, with contexts by the other rule."""
        return context_rule.pairs(search, self.configs(search, rngs), rngs)

    def configs(self, search: Search, rngs: Rngs) -> Array:
        """The config (p,) that maximizes each function and has a context to train in, (T, p)."""
        gp = search.model.posterior()
        acquisition = self.acquisition(search, gp, rngs)
        choices = search.design.choices
        if choices is not None:
            values = acquisition.values(search.space.features(choices))
            return self.prefer(search, search.design.spread(choices, values))
        fast, incumbents = len(rngs) * len(gp.y) > FAST_ABOVE, search.scoring().incumbents()
        U = maximize(acquisition, search.space, incumbents, rngs[0], fast)
        return _avoid_exhausted(search, acquisition, self.prefer(search, U), rngs)


class RobustDraw(Maximizer):
    """Lines 2 and 3: draw a posterior path and maximize its robust mean over contexts."""

    name = "robust-draw"

    def batch_limit(self, search: Search) -> int:
        """Draws do not build on each other."""
        return max(1, BATCH_PAIRS // len(search.reference))

    def acquisition(self, search: Search, gp: GaussianProcess, rngs: Rngs) -> Acquisition:
        """One draw for each source of chance."""
        paths = draw_paths(gp, rngs, search.sampler)
        return RobustPaths(paths, self.adversary(search), search.reference)

    def adversary(self, search: Search) -> UncertaintySet:
        """The weights that may be put on the contexts of a draw."""
        return search.uncertainty


class MeanDraw(RobustDraw):
    """The same with the plain mean over contexts."""

    name = "mean-draw"

    def adversary(self, search: Search) -> UncertaintySet:
        """Nobody: the reference weights alone."""
        return Expectation()


class MeanImprovement(Maximizer):
    """Expected improvement of the plain mean over the best one so far."""

    name = "mean-ei"

    def acquisition(self, search: Search, gp: GaussianProcess, rngs: Rngs) -> Acquisition:
        """The logarithm of the expected improvement."""
        values = gp.means(search.history.config_Z) @ search.reference
        ahead = search.with_pending(search.history.config_Z[[np.argmax(values)]])
        return ExpectedImprovement(ahead, search.reference, float(values.max()))


class GainPerFold(RobustDraw):
    """The robust draw's config, unless training another fold of a seen one gains more for each
    fold that will be trained (`drbqo_ray.core.missing_scores`), or for each second that this will
    take where costs are known to vary (`drbqo_ray.core.costs`)."""

    name = "gain-per-fold"

    def batch_limit(self, search: Search) -> int:
        """In a small finite space each suggestion builds on those before it."""
        return super().batch_limit(search) if search.design.choices is None else 1

    def pairs(self, search: Search, context_rule: ContextRule, rngs: Rngs) -> Iterator[Pair]:
        """A repeat where one is due; else as other rules."""
        repeat = due_repeat(search)
        return super().pairs(search, context_rule, rngs) if repeat is None else iter([repeat])

    def prefer(self, search: Search, U: Array) -> Array:
        """The new configs U (T, p), but where another fold of a seen one is worth more."""
        scoring = search.scoring()
        numbers = scoring.contenders()
        if not len(numbers):
            return U
        seen, n = search.history.U[numbers], len(search.reference)
        z = np.concatenate([search.history.config_Z[numbers], search.space.features(U)])
        rows = np.concatenate([scoring.seen_scores(numbers), np.full((len(U), n), np.nan)])
        firm = np.concatenate([scoring.firmness(numbers), np.zeros((len(U), n))])
        R = scoring.score_draws.robust(scoring.gp, z, rows, firm)
        best = float(R[: len(seen)].mean(axis=1).max())
        left = np.array([search.design.left(u) for u in seen])
        picks = pick(R, best, left, n, self._costs(search, z, seen))
        return np.where((picks < 0)[:, None], U, seen[picks])

    @staticmethod
    def _costs(search: Search, z: Array, seen: Array) -> Array | None:
        """What a fold that is left costs of each config z (k + T, d), the first of which are those
        seen (k, p); None unless that is known to vary."""
        model = search.cost_model()
        if model is None or not model.varies:
            return None
        folds = np.ones((len(z), len(search.reference)), dtype=bool)
        for k, u in enumerate(seen):
            folds[k] = np.isin(np.arange(folds.shape[1]), search.design.open_contexts(u))
        return model.relative(z, folds)


def due_repeat(search: Search) -> Pair | None:
    """A fold of a seen config to train again with another seed, None where there is no need.

    A repeat tells whether training repeats, and by how much it does not. The next one comes when
    they are less than a tenth of all evaluations. None comes where the model sees no noise, once
    chance alone would hardly have given so many equal scores, or once there are enough of them. The
    best config is trained again, where more is worth knowing anyway. If that was an equal score, a
    middling one comes next: good scores can be equal because they cannot get better. In a small
    finite space repeats come by themselves, once every pair was trained.
    """
    history, pending = search.history, search.evaluations.pending
    if search.fixed_seed or search.design.choices is not None or not len(history.usable):
        return None
    waiting = sum(
        history.n_scores(search.evaluations.points[s.id], s.context) > 0 for s in pending.values()
    )
    repeats = history.n_exact + history.n_differing + waiting
    known = len(history) + len(pending)
    enough = ENOUGH_DIFFERING if history.n_differing else ENOUGH_EXACT
    if REPEAT_SHARE * (repeats + 1) > known or repeats >= enough:
        return None
    scoring = search.scoring()
    if scoring.gp.kernel.noise < NEGLIGIBLE:
        return None
    if not history.n_differing and scoring.equal_by_chance**repeats < FLUKE:
        return None
    if repeats and not history.n_differing:
        row = history.middling_row()
        return history.U[history.numbers[row]], int(history.c[row])
    number = scoring.best()
    counts = history.counts(np.array([number]))[0]
    counts[counts == 0] = np.inf
    return history.U[number], int(np.argmin(counts))


def _avoid_exhausted(search: Search, acquisition: Acquisition, U: Array, rngs: Rngs) -> Array:
    """The configs U (T, p), but where every context of one was handed out the best other config
    nearby; the config itself if there is none."""
    design, reserved = search.design, Counter[bytes]()
    for t, rng in enumerate(rngs):
        u = U[t] = design.settle(U[t])
        if not design.is_open(u, reserved[u.tobytes()]):
            near = candidates(search.space, u[None], rng)
            values, _ = acquisition(search.space.features(near), np.full(len(near), t))
            order = np.argsort(-values, kind="stable")
            options = (design.settle(near[k]) for k in order)
            is_open = (v for v in options if design.is_open(v, reserved[v.tobytes()]))
            found = next(is_open, None)
            U[t] = design.other(u, rng) if found is None else found
        reserved[U[t].tobytes()] += 1
    return U


# rules for w


class HighestVariance(ContextRule):
    """Line 4: the context of highest posterior variance, pending evaluations and the pairs before
    it counted in."""

    name = "variance"

    def pairs(self, search: Search, U: Array, rngs: Rngs) -> Iterator[Pair]:
        """All configs, each with its context."""
        n, z = len(search.reference), search.space.features(U)
        gp = search.with_pending(z)
        beliefs = gp.beliefs(z)
        variance = beliefs.variances  # (T n,)
        learned = np.zeros((len(U), len(variance)))
        for t, u in enumerate(U):
            start = t * n
            context = search.design.best_open(u, variance[start : start + n])
            column = beliefs.column(start + context) - learned[:, start + context] @ learned
            learned[t] = column / math.sqrt(max(column[start + context], 0.0) + gp.kernel.noise)
            variance -= learned[t] ** 2
            yield u, context


class TaskImprovement(ContextRule):
    """The context in which the score of the config may improve most on the best one there."""

    name = "task-ei"

    def pairs(self, search: Search, U: Array, rngs: Rngs) -> Iterator[Pair]:
        """The first config with its context."""
        z = search.space.features(U)
        gp = search.with_pending(z)
        best = gp.means(search.history.config_Z).max(axis=0)  # (n,)
        tasks = zip(np.eye(len(best)), best, strict=True)
        merit = [ExpectedImprovement(gp, e, b).values(z)[0, 0] for e, b in tasks]
        yield U[0], search.design.best_open(U[0], np.array(merit))


class RandomContext(ContextRule):
    """Any context that the config was not trained in."""

    name = "random"

    def pairs(self, search: Search, U: Array, rngs: Rngs) -> Iterator[Pair]:
        """All configs, each with its context."""
        for u, rng in zip(U, rngs, strict=True):
            yield u, int(rng.choice(search.design.open_contexts(u)))
