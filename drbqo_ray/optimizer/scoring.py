"""The one place where configs are judged: by which scores, how they rank, what is recommended.

| symbol | meaning                                                          | shape  |
|--------|------------------------------------------------------------------|--------|
| m, n   | number of distinct configs, of contexts                          |        |
| N      | number of evaluations                                            |        |
| gains  | what configs are judged by, standardized, larger is better       | (m, n) |
| q      | reference weights                                                | (n,)   |
| p      | weights, one row a config                                        | (k, n) |

| report    | judged by         | ranked by                                   |
|-----------|-------------------|---------------------------------------------|
| robust    | `PosteriorMeans`  | lowest mean over the set of weights         |
| mean      | `PosteriorMeans`  | mean under the reference weights            |
| completed | `CompletedScores` | lowest mean over the set of weights         |

How sure a recommendation is, is told by draws around the same judgment: see `certainty`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from drbqo_ray.core import linalg
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.missing_scores import ScoreDraws
from drbqo_ray.core.sets import UncertaintySet
from drbqo_ray.core.surrogate import Base, Fit
from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.optimizer.history import History
from drbqo_ray.records import Config, Recommendation
from drbqo_ray.space.space import Space
from drbqo_ray.threads import one_thread
from drbqo_ray.types import Array, Indices, Mask

Report = Literal["robust", "mean", "completed"]

INCUMBENTS = 8
SHORTLIST = 64
CONTENDING_PAIRS = 320
SCORE_DRAWS = 128


class ScoringRule(Protocol):
    """What configs are judged by.

    Attributes:
        keeps_scores: whether a score that is there is known for good, and a missing one is known
            only up to the noise of its evaluation.
    """

    keeps_scores: bool

    def rows(self, gp: GaussianProcess, draws: ScoreDraws, z: Array, scores: Array) -> Array:
        """Rows (k, n) that configs are judged by.

        Args:
            gp: the posterior.
            draws: what is expected of rows with missing scores.
            z: the configs as model inputs (k, d).
            scores: their standardized scores (k, n), NaN in contexts that have none.
        """


class PosteriorMeans:
    """A config is judged by what the model expects of it in every context, scores smoothed."""

    keeps_scores = False

    def rows(self, gp: GaussianProcess, draws: ScoreDraws, z: Array, scores: Array) -> Array:
        """Posterior means (k, n)."""
        return gp.means(z)


class CompletedScores:
    """A config is judged by the scores it has; where one is missing, by what the model expects."""

    keeps_scores = True

    def rows(self, gp: GaussianProcess, draws: ScoreDraws, z: Array, scores: Array) -> Array:
        """Scores (k, n), the missing ones filled in."""
        return draws.completed(gp, z, scores)


RULES: dict[Report, ScoringRule] = {
    "robust": PosteriorMeans(),
    "mean": PosteriorMeans(),
    "completed": CompletedScores(),
}


@cache
def score_normals(n: int) -> Array:
    """Standard normal numbers (128, n), each with its opposite: the chance that rows of scores are
    judged by, always the same."""
    half = np.random.default_rng(0).standard_normal((SCORE_DRAWS // 2, n))
    return np.concatenate([half, -half])


@dataclass(frozen=True, eq=False)
class Scoring:
    """The judgment of all evaluated configs at one moment. Reading it changes nothing.

    Attributes:
        history: what has been evaluated, at least one score.
        fit: hyperparameters and standardization.
        gp: the posterior.
        space: the search space.
        uncertainty: the set of weights.
        reference: q (n,).
        report: how configs are judged and ranked.
        sign: 1 if larger scores are better, -1 if smaller ones are.
    """

    history: History
    fit: Fit
    gp: GaussianProcess
    space: Space
    uncertainty: UncertaintySet
    reference: Array
    report: Report
    sign: float

    # what was evaluated

    @cached_property
    def configs(self) -> list[Config]:
        """The distinct configs, in the order first told; length m."""
        return [dict(config) for config in self.history.configs]

    @property
    def numbers(self) -> Indices:
        """Number of the config of each evaluation (N,)."""
        return self.history.numbers

    @property
    def contexts(self) -> Indices:
        """Context of each evaluation (N,)."""
        return self.history.c

    @cached_property
    def scores(self) -> Array:
        """Score of each evaluation on the user's scale, NaN where it failed (N,)."""
        return self.sign * self.history.y

    @cached_property
    def usable(self) -> Mask:
        """Which configs have no failed evaluation (m,)."""
        usable = np.zeros(len(self.history.configs), dtype=bool)
        usable[self.history.usable] = True
        return usable

    @one_thread
    def after(self, size: int) -> Self:
        """The judgment after the first `size` evaluations, at least one of them with a score, by
        the hyperparameters of now."""
        history = self.history.first(size)
        y = (history.scores() - self.fit.center) / self.fit.scale
        if self.gp.spread is not None:  # condensed data cannot be cut
            gp = Base.of(self.gp.kernel, history.Z, history.c, y).gp
        else:
            L, X, c = self.gp.L[:size, :size], self.gp.X[:size], self.gp.c[:size]
            gp = GaussianProcess(self.gp.kernel, X, c, y, L, self.gp.jitter)
        return replace(self, history=history, gp=gp)

    # the table

    @property
    def rule(self) -> ScoringRule:
        """What configs are judged by."""
        return RULES[self.report]

    @cached_property
    def gains(self) -> Array:
        """What all configs are judged by, standardized, larger is better (m, n)."""
        return self.rows(np.arange(len(self.history.configs)))

    @one_thread
    def rows(self, numbers: Indices) -> Array:
        """What configs (k,) are judged by, standardized, larger is better (k, n)."""
        z = self.history.config_Z[numbers]
        return self.rule.rows(self.gp, self.score_draws, z, self.seen_scores(numbers))

    def seen_scores(self, numbers: Indices) -> Array:
        """Standardized mean scores of configs (k,), NaN in contexts that have none (k, n)."""
        return (self.history.table(numbers) - self.fit.center) / self.fit.scale

    @property
    def score_draws(self) -> ScoreDraws:
        """What is expected of rows with missing scores."""
        return ScoreDraws(self.uncertainty, self.reference, score_normals(len(self.reference)))

    def robust(self, gains: Array) -> tuple[Array, Array]:
        """Robust values (k,) and worst-case weights (k, n) of standardized rows (k, n)."""
        return self.uncertainty.solve(gains, self.reference)

    def values(self, gains: Array) -> Array:
        """Values (k,) that configs are ranked by, from standardized rows (k, n)."""
        return gains @ self.reference if self.report == "mean" else self.robust(gains)[0]

    def estimates(self, gains: npt.ArrayLike) -> Array:
        """Standardized values of any shape on the user's scale."""
        return self.sign * (self.fit.center + self.fit.scale * np.asarray(gains, dtype=np.float64))

    def completed_scores(self, configs: Sequence[Mapping[str, Any]]) -> Array:
        """What m evaluated configs are judged by, on the user's scale (m, n)."""
        numbers = np.array([self._number(config) for config in configs], dtype=np.int64)
        return self.estimates(self.rows(numbers))

    def _number(self, config: Mapping[str, Any]) -> int:
        number = self.history.number_of(self.space.to_unit(self.space.validate(config)))
        if number is None:
            raise InvalidInput(
                "Only evaluated configs can be judged.", config, "Tell a score of it, or predict."
            )
        return number

    def judge(
        self, configs: Sequence[Mapping[str, Any]], scores: Array, trained: Mask
    ) -> JudgedRows:
        """Configs judged by given scores (m, n), larger is better, in the contexts they were
        `trained` in (m, n), whatever else was told of them, and elsewhere as ever."""
        rows = np.where(trained, scores, self.completed_scores(configs))
        return JudgedRows(rows, self.uncertainty, self.reference, self.report == "mean")

    # what to recommend, and what to look at next

    def best(self) -> int:
        """Number of the config to recommend: the best one without a failed evaluation."""
        return self._best_row()[0]

    def _best_row(self) -> tuple[int, Array]:
        usable = self.history.usable
        if not len(usable):
            raise NothingObserved(
                "A recommendation needs a config with a score and without a failed fold. "
                f"Got {len(self.history)} outcomes, none of such a config. "
                "Tell some scores first, or look at the reasons in `observations`."
            )
        rows = self.rows(usable)
        best = int(np.argmax(self.values(rows)))
        return int(usable[best]), rows[best]

    @one_thread
    def recommend(self) -> Recommendation:
        """The best config, with what it is judged by on the user's scale."""
        number, row = self._best_row()
        robust, weights = self.robust(row[None])
        covariance = self._judged_covariance(np.array([number]))
        stds = self.fit.scale * np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        variance = max(float(weights[0] @ covariance @ weights[0]), 0.0)
        return Recommendation(
            config=dict(self.history.configs[number]),
            robust_value=float(self.estimates(robust[0])),
            mean_value=float(self.estimates(row @ self.reference)),
            weights=[float(w) for w in weights[0]],
            context_means=[float(mean) for mean in self.estimates(row)],
            context_stds=[float(std) for std in stds],
            std=self.fit.scale * math.sqrt(variance),
        )

    def shortlist(self) -> Indices:
        """Numbers of configs without a failed evaluation that did well in some context."""
        return np.intersect1d(self.history.best_rows(SHORTLIST), self.history.usable)

    def contenders(self) -> tuple[Indices, Array]:
        """Numbers (k,) of configs that may be the best, and their standardized scores (k, n),
        NaN in contexts that have none."""
        numbers = self.shortlist()
        most = max(1, CONTENDING_PAIRS // len(self.reference))
        if len(numbers) > most:
            values = self.robust(self.predict(self.history.config_Z[numbers]))[0]
            numbers = numbers[np.argsort(-values, kind="stable")[:most]]
        return numbers, self.seen_scores(numbers)

    def incumbents(self) -> Array:
        """The few configs that the model holds for the best as snapped points (m, p).

        Only configs that did well in some context are looked at, so that the cost does not
        grow with the square of the data.
        """
        numbers = self.history.best_rows(SHORTLIST)
        values = self.values(self.predict(self.history.config_Z[numbers]))
        order = np.argsort(-values, kind="stable")
        return np.asarray(self.history.U[numbers[order[:INCUMBENTS]]])

    # what the model says of any config, and how unsure all of this is

    @one_thread
    def predict(self, z: Array) -> Array:
        """Standardized posterior means (k, n) at model inputs (k, d)."""
        return self.gp.means(z)

    @one_thread
    def predictions(self, configs: Sequence[Mapping[str, Any]]) -> tuple[Array, Array]:
        """Posterior means and deviations of m configs on the user's scale, (m, n) each."""
        points = [self.space.to_unit(self.space.validate(config)) for config in configs]
        z = self.space.features(np.reshape(points, (len(points), len(self.space))))
        return self.estimates(self.predict(z)), self.fit.scale * np.sqrt(self.gp.variances(z))

    @one_thread
    def stds(self, z: Array, p: Array) -> Array:
        """Posterior deviation (k,) on the user's scale of sum_i p_i f(x, i): (k, d), (k, n)."""
        if not len(z):
            return np.empty(0)
        kernel = self.gp.kernel
        v, _ = kernel.blend(z, self.gp.X, self.gp.c, p)  # (k, N)
        half = linalg.forward(self.gp.L, v.T)  # (N, k)
        prior = np.einsum("ki,ij,kj->k", p, kernel.B, p)
        variance = prior - np.einsum("Nk,Nk->k", half, half)
        return np.asarray(self.fit.scale * np.sqrt(np.maximum(variance, 0.0)))

    def judged_stds(self, numbers: npt.ArrayLike, p: Array) -> Array:
        """Deviation (k,) on the user's scale of what configs (k,) are judged by, averaged with
        weights p (k, n). Scores that are there are known; missing ones have their noise as well."""
        chosen = np.asarray(numbers, dtype=np.int64)
        unknown, noise = self._unknown(chosen, p)
        return np.hypot(self.stds(self.history.config_Z[chosen], unknown), np.sqrt(noise))

    @one_thread
    def gap_std(self, one: int, other: int, p: Array) -> float:
        """Deviation, on the user's scale, of the difference of two configs as they are judged, each
        averaged with its own row of weights p (2, n)."""
        covariance = self.gp.covariance(self.history.config_Z[[one, other]])  # (2 n, 2 n)
        unknown, noise = self._unknown(np.array([one, other]), p)
        weights = np.concatenate([unknown[0], -unknown[1]])
        variance = self.fit.scale**2 * (weights @ covariance @ weights) + noise.sum()
        return float(np.sqrt(max(variance, 0.0)))

    @property
    def noise_std(self) -> float:
        """Deviation of the noise of one evaluation on the user's scale."""
        return float(self.fit.scale * np.sqrt(self.gp.kernel.noise))

    def _unknown(self, numbers: Indices, p: Array) -> tuple[Array, Array]:
        """Weights p (k, n) of configs without the contexts whose scores are known, and the variance
        (k,) that the noise of the others adds, on the user's scale."""
        if not self.rule.keeps_scores:
            return p, np.zeros(len(numbers))
        unknown = p * np.isnan(self.seen_scores(numbers))
        return unknown, self.noise_std**2 * (unknown**2).sum(axis=1)

    def _judged_covariance(self, number: Indices) -> Array:
        """Covariance (n, n), standardized, of what one config (1,) is judged by."""
        covariance = self.gp.covariance(self.history.config_Z[number])
        if not self.rule.keeps_scores:
            return covariance
        missing = np.isnan(self.seen_scores(number)[0])
        covariance = (covariance + self.gp.kernel.noise * np.eye(len(missing))) * missing
        return np.asarray(covariance * missing[:, None])


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """Complete rows of scores, judged as a full cross-validation judges them.

    Means are computed as numpy's average, so that they are the `mean_test_score` of scikit-learn
    to the last bit and ties are the same.

    Attributes:
        rows: scores (m, n), larger is better; a row with a NaN cannot win.
        uncertainty: the set of weights.
        reference: weights of the contexts (n,).
        by_mean: whether configs rank by their mean, not by their robust value.
    """

    rows: Array
    uncertainty: UncertaintySet
    reference: Array
    by_mean: bool

    def robust(self, uncertainty: UncertaintySet | None = None) -> tuple[Array, Array]:
        """Robust values (m,) and worst-case weights (m, n), by another set than the search's own
        if one is given; NaN for configs that cannot win."""
        usable = np.isfinite(self.rows).all(axis=1)
        values, weights = np.full(len(self.rows), np.nan), np.full(self.rows.shape, np.nan)
        if usable.any():
            found = (uncertainty or self.uncertainty).solve(self.rows[usable], self.reference)
            values[usable], weights[usable] = found
        flat = usable & (weights == weights[:, :1]).all(axis=1)
        return np.where(flat, self.means, values), weights

    @property
    def means(self) -> Array:
        """Mean over all contexts (m,)."""
        return np.asarray(np.average(self.rows, axis=1))

    @cached_property
    def values(self) -> Array:
        """What configs are ranked by (m,), NaN for one that cannot win."""
        return self.means if self.by_mean else self.robust()[0]

    @property
    def decided(self) -> bool:
        """Whether there is a config that can win."""
        return bool(np.isfinite(self.values).any())
