"""What to recommend from the posterior, how sure that is, and where good configs lie.

| symbol | meaning                                          | shape  |
|--------|--------------------------------------------------|--------|
| means  | posterior means of configs in every context      | (m, n) |
| seen   | robust value of draws at evaluated configs       | (T, k) |
| top    | largest robust value of draws in the whole space | (T,)   |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from drbqo_ray.core.acquisition import RobustPaths
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.maximize import maximize
from drbqo_ray.core.missing_scores import ScoreDraws
from drbqo_ray.core.paths import draw_paths
from drbqo_ray.core.sets.base import UncertaintySet
from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.optimizer.certainty import Certainty, certainty_of
from drbqo_ray.optimizer.history import History
from drbqo_ray.optimizer.methods import Report
from drbqo_ray.optimizer.model import Model
from drbqo_ray.records import Recommendation
from drbqo_ray.space.space import Space
from drbqo_ray.types import Array, Indices

INCUMBENTS = 8
SHORTLIST = 64
CONTENDING_PAIRS = 320
SCORE_DRAWS = 128
DRAWS, DRAWS_TOGETHER = 64, 16


@cache
def score_normals(n: int) -> Array:
    """Standard normal numbers (128, n), each with its opposite: the chance that rows of scores are
    judged by, always the same."""
    half = np.random.default_rng(0).standard_normal((SCORE_DRAWS // 2, n))
    return np.concatenate([half, -half])


@dataclass(frozen=True, eq=False)
class Recommender:
    """Reads a model; changes nothing that is asked later.

    Attributes:
        model: the posterior.
        history: what has been evaluated.
        space: the search space.
        uncertainty: the set of weights.
        reference: weights of the contexts (n,).
        report: how configs are ranked.
        sign: 1 if larger scores are better, -1 if smaller ones are.
    """

    model: Model
    history: History
    space: Space
    uncertainty: UncertaintySet
    reference: Array
    report: Report
    sign: float

    def recommend(self, report: Report | None = None) -> Recommendation:
        """The evaluated config with the best posterior value, without a failed fold."""
        report = report or self.report
        number, means = self._best(report)
        fit, gp = self.model.current()
        robust, weights = self.uncertainty.solve(means[None], self.reference)
        covariance = gp.covariance(self.history.config_Z[[number]])
        if report == "filled":
            missing = np.isnan(self.history.table(np.array([number]))[0])
            covariance = (covariance + gp.kernel.noise * np.eye(len(means))) * missing
            covariance *= missing[:, None]

        def user(value: float) -> float:
            return float(self.sign * (fit.center + fit.scale * value))

        stds = fit.scale * np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        variance = max(float(weights[0] @ covariance @ weights[0]), 0.0)
        return Recommendation(
            config=dict(self.history.configs[number]),
            robust_value=user(float(robust[0])),
            mean_value=user(float(means @ self.reference)),
            weights=[float(w) for w in weights[0]],
            context_means=[user(float(m)) for m in means],
            context_stds=[float(s) for s in stds],
            std=fit.scale * math.sqrt(variance),
        )

    def _best(self, report: Report) -> tuple[int, Array]:
        """Number and means (n,) of the config to recommend."""
        usable = self.history.usable
        if not len(usable) or not self.history.n_ok:
            raise NothingObserved(
                "A recommendation needs a config with a score and without a failed fold. "
                f"Got {len(self.history)} outcomes, none of such a config. "
                "Tell some scores first, or look at the reasons in `observations`."
            )
        means = self._means(usable, report)
        best = self._undisputed(usable, self._values(means, report), report)
        return int(usable[best]), means[best]

    def _undisputed(self, usable: Indices, values: Array, report: Report) -> int:
        """Place of the config with the best of the values (k,) that other fits do not dispute."""
        fit, _ = self.model.current()
        x = self.history.config_Z[usable]
        scores = (self.history.table(usable) - fit.center) / fit.scale
        if report != "filled":
            scores = np.full(scores.shape, np.nan)

        def rank(gp: GaussianProcess, rows: Indices) -> Array:
            known = np.where(np.isnan(scores[rows]), gp.means(x[rows]), scores[rows])
            return self._values(known, report)

        def expect(gp: GaussianProcess, rows: Indices) -> Array:
            if report == "mean":
                return rank(gp, rows)
            return self.score_draws.robust(gp, x[rows], scores[rows], noise=0.0).mean(axis=1)

        return self.model.committee().best(values, rank, expect, len(self.reference))

    def _means(self, numbers: Indices, report: Report) -> Array:
        """What configs are judged by, (k, n): posterior means, or scores filled up by the model."""
        fit, gp = self.model.current()
        if report != "filled":
            return gp.means(self.history.config_Z[numbers])
        scores = (self.history.table(numbers) - fit.center) / fit.scale
        return self.score_draws.filled(gp, self.history.config_Z[numbers], scores)

    @property
    def score_draws(self) -> ScoreDraws:
        """How rows of scores are judged."""
        return ScoreDraws(self.uncertainty, self.reference, score_normals(len(self.reference)))

    def contenders(self) -> tuple[Indices, Array]:
        """Numbers (k,) of configs that may be the best, and their standardized scores (k, n),
        NaN in folds that are missing."""
        numbers = np.intersect1d(self.history.best_rows(SHORTLIST), self.history.usable)
        most = max(1, CONTENDING_PAIRS // len(self.reference))
        if len(numbers) > most:
            values = self._values(self._means(numbers, "robust"), "robust")
            numbers = numbers[np.argsort(-values, kind="stable")[:most]]
        fit, _ = self.model.current()
        return numbers, (self.history.table(numbers) - fit.center) / fit.scale

    def _values(self, means: Array, report: Report) -> Array:
        """Values (m,) that a report rule ranks configs by, from means (m, n)."""
        if report == "mean":
            return means @ self.reference
        return self.uncertainty.solve(means, self.reference)[0]

    def incumbents(self, gp: GaussianProcess) -> Array:
        """The best few configs so far as snapped points (m, p).

        Only configs that did well in some context are looked at, so that the cost does not
        grow with the square of the data.
        """
        numbers = self.history.best_rows(SHORTLIST)
        values = self._values(gp.means(self.history.config_Z[numbers]), self.report)
        order = np.argsort(-values, kind="stable")
        return np.asarray(self.history.U[numbers[order[:INCUMBENTS]]])

    def certainty(self, rng: np.random.Generator) -> Certainty:
        """How sure the recommendation is, from DRAWS draws of the posterior; robust values are
        compared, whatever the method reports."""
        best, _ = self._best(self.report)
        fit, _ = self.model.current()
        rivals = np.intersect1d(self.history.best_rows(SHORTLIST), self.history.usable)
        numbers = np.array([best, *rivals[rivals != best]])
        draws = [self._robust_draws(numbers, rng) for _ in range(DRAWS // DRAWS_TOGETHER)]
        values = np.concatenate(draws)
        found = certainty_of(values[:, :-1], values[:, -1], 0)
        ends = sorted(self.sign * (fit.center + fit.scale * end) for end in found.interval)
        return Certainty(found.probability, (ends[0], ends[1]), fit.scale * found.loss)

    def _robust_draws(self, numbers: Indices, rng: np.random.Generator) -> Array:
        """Draws of the robust values of k configs, the recommended one first, and of the best
        config of each draw, (T, k + 1).

        Where configs are judged by their scores, those that are there stay, and the missing ones
        are drawn with their noise.
        """
        _, gp = self.model.current()
        paths = draw_paths(gp, [rng] * DRAWS_TOGETHER)
        robust = RobustPaths(paths, self.uncertainty, self.reference)
        U = maximize(robust, self.space, self.incumbents(gp), rng, lean=True)
        new, _ = paths.with_gradient(self.space.features(U), np.arange(len(U)))  # (T, n)
        seen = paths.approximate(self.history.config_Z[numbers])  # (T, k, n)
        rows = np.concatenate([seen, new[:, None]], axis=1)
        if self.report == "filled":
            rows += math.sqrt(gp.kernel.noise) * rng.standard_normal(rows.shape)
            rows[:, :-1] = self._with_scores(rows[:, :-1], numbers)
            rows[:, -1] = self._best_of_draws(rows, numbers, U)
        values = self._values(rows.reshape(-1, len(self.reference)), "robust")
        return values.reshape(rows.shape[:2])

    def _best_of_draws(self, rows: Array, numbers: Indices, U: Array) -> Array:
        """Draws of scores (T, n) of the best config of each draw, at U (T, p), from draws
        (T, k + 1, n) of those of k configs and of it.

        A config that was seen before is the same one here: it has its scores, and among the k the
        same draws of missing ones. A failed fold rules it out, so the recommended one, the first
        of the k, stands in its place.
        """
        usable, best = set(self.history.usable.tolist()), rows[:, -1].copy()
        for t, u in enumerate(U):
            number = self.history.number_of(self.space.to_unit(self.space.from_unit(u)))
            if number is None:
                continue
            place = np.flatnonzero(numbers == number) if number in usable else [0]
            if len(place):
                best[t] = rows[t, place[0]]
            else:
                best[t] = self._with_scores(best[t], np.array([number]))[0]
        return best

    def _with_scores(self, draws: Array, numbers: Indices) -> Array:
        """Draws of scores (..., k, n) of k configs, with the scores that are there in place."""
        fit, _ = self.model.current()
        scores = (self.history.table(numbers) - fit.center) / fit.scale
        return np.where(np.isnan(scores), draws, scores)

    def judged(self, configs: Sequence[Mapping[str, Any]]) -> Array:
        """What m evaluated configs are judged by, on the user's scale, (m, n)."""
        if not self.history.n_ok:
            raise NothingObserved("Configs are judged by scores. Got none. Tell some scores first.")
        fit, _ = self.model.current()
        numbers = [self._number(config) for config in configs]
        rows = self._means(np.array(numbers, dtype=np.int64), self.report)
        return np.asarray(self.sign * (fit.center + fit.scale * rows))

    def _number(self, config: Mapping[str, Any]) -> int:
        number = self.history.number_of(self.space.to_unit(self.space.validate(config)))
        if number is None:
            raise InvalidInput(
                "Only evaluated configs can be judged.", config, "Tell a score of it, or predict."
            )
        return number

    def predict(self, configs: Sequence[Mapping[str, Any]]) -> tuple[Array, Array]:
        """Posterior means and deviations of m configs on the user's scale, (m, n) each."""
        if not self.history.n_ok:
            raise NothingObserved("A prediction needs a score. Got none. Tell some scores first.")
        points = [self.space.to_unit(self.space.validate(config)) for config in configs]
        z = self.space.features(np.reshape(points, (len(points), len(self.space))))
        fit, gp = self.model.current()
        means = self.sign * (fit.center + fit.scale * gp.means(z))
        return means, fit.scale * np.sqrt(gp.variances(z))
