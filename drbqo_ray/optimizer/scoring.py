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
from drbqo_ray.core.committee import Committee
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
RIVALS = 5
SEED_PRIOR = 2.0  # repeats that the prior on the noise of the seed is worth
COMMITTEE_SIZE = 500  # of past judgments, of which a report makes many


class ScoringRule(Protocol):
    """What configs are judged by.

    Attributes:
        keeps_scores: whether a score counts as it is as far as it would come again, and a missing
            one is known only up to the noise of its evaluation.
    """

    keeps_scores: bool

    def rows(
        self, gp: GaussianProcess, draws: ScoreDraws, z: Array, scores: Array, firm: Array
    ) -> Array:
        """Rows (k, n) that configs are judged by.

        Args:
            gp: the posterior.
            draws: what is expected of rows with missing scores.
            z: the configs as model inputs (k, d).
            scores: their standardized scores (k, n), NaN in contexts that have none.
            firm: how much of each score would come again (k, n).
        """


class PosteriorMeans:
    """A config is judged by what the model expects of it in every context, scores smoothed."""

    keeps_scores = False

    def rows(
        self, gp: GaussianProcess, draws: ScoreDraws, z: Array, scores: Array, firm: Array
    ) -> Array:
        """Posterior means (k, n)."""
        return gp.means(z)


class CompletedScores:
    """A config is judged by the scores it has, as far as another seed would give them again; where
    one is missing, by what the model expects."""

    keeps_scores = True

    def rows(
        self, gp: GaussianProcess, draws: ScoreDraws, z: Array, scores: Array, firm: Array
    ) -> Array:
        """Expected scores (k, n) over seeds, the missing ones filled in."""
        return draws.completed(gp, z, scores, firm)


RULES: dict[Report, ScoringRule] = {
    "robust": PosteriorMeans(),
    "mean": PosteriorMeans(),
    "completed": CompletedScores(),
}


def fixed_normals(n: int, count: int = SCORE_DRAWS) -> Array:
    """Standard normal numbers (count, n), each with its opposite: the chance that rows of scores
    are judged by, always the same."""
    half = np.random.default_rng(0).standard_normal((count // 2, n))
    return np.concatenate([half, -half])


score_normals = cache(fixed_normals)


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
        fixed_seed: whether training the same fold again is known to give the same score.
    """

    history: History
    fit: Fit
    gp: GaussianProcess
    space: Space
    uncertainty: UncertaintySet
    reference: Array
    report: Report
    sign: float
    fixed_seed: bool

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
        Z, c, y = history.model_data()
        y, known = (y - self.fit.center) / self.fit.scale, len(y)
        if self.gp.spread is not None:  # condensed data cannot be cut
            gp = Base.of(self.gp.kernel, Z, c, y).gp
        else:
            L, X, c = self.gp.L[:known, :known], self.gp.X[:known], self.gp.c[:known]
            gp = GaussianProcess(self.gp.kernel, X, c, y, L, self.gp.jitter)
        fit = self.fit if size <= COMMITTEE_SIZE else replace(self.fit, rivals=(), weights=())
        return replace(self, history=history, gp=gp, fit=fit)

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
        """What configs (k,) are judged by, standardized, larger is better (k, n): by the rule, and
        lowered where other fits dispute it."""
        rows, by = self._rows(numbers), self.disputed[numbers]
        if not self.rule.keeps_scores:
            return rows - by[:, None]
        less = np.flatnonzero(by)  # what is known of them stays
        if len(less):
            loose, values = self.firmness(numbers[less]) < 1, self.values(rows[less])
            rows[less] = self.score_draws.lowered(rows[less], loose, values - by[less])
        return rows

    def _rows(self, numbers: Indices) -> Array:
        z = self.history.config_Z[numbers]
        scores, firm = self.seen_scores(numbers), self.firmness(numbers)
        return self.rule.rows(self.gp, self.score_draws, z, scores, firm)

    def expected_rows(self, numbers: Indices) -> Array:
        """Standardized scores (k, n) that are expected of configs (k,), however they are judged:
        those that are there, and the model's mean for those that are not."""
        z = self.history.config_Z[numbers]
        if not self.rule.keeps_scores:
            return self.gp.means(z)
        scores, firm = self.seen_scores(numbers), self.firmness(numbers)
        return self.score_draws.expected(self.gp, z, scores, firm)

    @cached_property
    def disputed(self) -> Array:
        """How far the rows of all configs are lowered, 0 where no other fit disputes them (m,)."""
        surplus, usable = np.zeros(len(self.history.configs)), self.history.usable
        if not self.fit.rivals or not len(usable):
            return surplus
        z, scores = self.history.config_Z[usable], self.seen_scores(usable)
        firm = self.firmness(usable)

        def expect(gp: GaussianProcess, rows: Indices) -> Array:
            if self.report == "mean":
                return gp.means(z[rows]) @ self.reference
            R = self.score_draws.robust(gp, z[rows], scores[rows], firm[rows], noise=0.0)
            return np.asarray(R.mean(axis=1))

        values = self.values(self._rows(usable))
        surplus[usable] = self._committee().surplus(values, expect, len(self.reference))
        return surplus

    def _committee(self) -> Committee:
        """The posterior, and those of the rivals of its hyperparameters."""
        Z, c, y = self.history.model_data()
        y = (y - self.fit.center) / self.fit.scale
        kernels = [self.gp.kernel.family.unpack(np.array(rival)) for rival in self.fit.rivals]
        rivals = [Base.of(kernel, Z, c, y).gp for kernel in kernels]
        return Committee((self.gp, *rivals), self.fit.weights)

    def seen_scores(self, numbers: Indices) -> Array:
        """Standardized mean scores of configs (k,), NaN in contexts that have none (k, n)."""
        return (self.history.table(numbers) - self.fit.center) / self.fit.scale

    @cached_property
    def seed_share(self) -> float:
        """Share of the noise that another seed would change, 0 where training repeats.

        Without a repeat that differs, training is taken to repeat. A few that differ are shrunk
        towards "all of the noise": that little is what they can tell.
        """
        differing = self.history.n_differing
        if self.fixed_seed or not differing:
            return 0.0
        noise = self.noise_std**2
        repeats = differing + self.history.n_exact
        total = SEED_PRIOR * noise + repeats * self.history.seed_variance
        return float(min(1.0, total / (SEED_PRIOR + repeats) / noise))

    @property
    def equal_by_chance(self) -> float:
        """Chance that a score comes out exactly as before though all of the noise is the seed's:
        next to nothing, but for scores that are counts, such as accuracies on few rows. Among
        those, scores of different pairs are equal too."""
        _, _, y = self.history.model_data()
        known = np.unique(y)
        if len(known) == len(y):
            return 1 / len(y)
        step = float(np.diff(known).min()) if len(known) > 1 else math.inf
        spread = 2 * math.sqrt(math.pi) * self.noise_std
        return 1.0 if step >= spread else step / spread

    def firmness(self, numbers: Indices) -> Array:
        """How much of the scores of configs (k,) would come again, from 0 to 1; 0 in contexts that
        have none, and everywhere if configs are judged by posterior means (k, n)."""
        counts = self.history.counts(numbers)
        if not self.rule.keeps_scores:
            return np.zeros(counts.shape)
        return self.score_draws.firmness(counts)

    @property
    def score_draws(self) -> ScoreDraws:
        """What is expected of rows with missing scores."""
        normals = score_normals(len(self.reference))
        share = self.seed_share if self.rule.keeps_scores else 0.0
        return ScoreDraws(self.uncertainty, self.reference, normals, share, fixed_normals)

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
        numbers = np.array([self.number_of(config) for config in configs], dtype=np.int64)
        return self.estimates(self.rows(numbers))

    @one_thread
    def drawn_values(self, configs: Sequence[Mapping[str, Any]]) -> Array:
        """Draws of the robust values of m evaluated configs, on the user's scale (m, S): they keep
        the scores they have, and the missing ones are drawn."""
        numbers = np.array([self.number_of(config) for config in configs], dtype=np.int64)
        return self.estimates(self.robust_draws(numbers))

    def number_of(self, config: Mapping[str, Any]) -> int:
        """The number of an evaluated config."""
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
        variances, variance = self.judged_variances(np.array([number]), weights[0])
        stds = self.fit.scale * np.sqrt(np.maximum(variances, 0.0))
        return Recommendation(
            config=dict(self.history.configs[number]),
            robust_value=float(self.estimates(robust[0])),
            mean_value=float(self.estimates(row @ self.reference)),
            weights=[float(w) for w in weights[0]],
            context_means=[float(mean) for mean in self.estimates(row)],
            context_stds=[float(std) for std in stds],
            std=self.fit.scale * math.sqrt(max(variance, 0.0)),
        )

    def shortlist(self) -> Indices:
        """Numbers of configs without a failed evaluation that did well in some context."""
        return np.intersect1d(self.history.best_rows(SHORTLIST), self.history.usable)

    @one_thread
    def resolution(self) -> float:
        """Standard error, on the user's scale, of the difference between the best config and a good
        one, as their folds differ: the mean over the next best ones; 0 if there is nothing to tell.

        Training sets of folds overlap, so the mean of n differences varies more than their variance
        over n says: by the variance times 1 / (n - 1) more (Nadeau and Bengio 2003).
        """
        usable, n = self.history.usable, len(self.reference)
        if len(usable) < 2 or n < 2:
            return 0.0
        rows = self.rows(usable)
        order = np.argsort(-self.values(rows), kind="stable")[: 1 + RIVALS]
        gaps = rows[order[:1]] - rows[order[1:]]
        weights = self.reference if self.report == "mean" else self.robust(rows[order[:1]])[1][0]
        variance = gaps.var(axis=1, ddof=1) * (float(weights @ weights) + 1 / (n - 1))
        return float(self.fit.scale * np.sqrt(variance).mean())

    def contenders(self) -> Indices:
        """Numbers (k,) of configs that may be the best."""
        numbers = self.shortlist()
        most = max(1, CONTENDING_PAIRS // len(self.reference))
        if len(numbers) > most:
            values = self.robust(self.predict(self.history.config_Z[numbers]))[0]
            numbers = numbers[np.argsort(-values, kind="stable")[:most]]
        return numbers

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
        z = self.space.encode(configs)
        return self.estimates(self.predict(z)), self.fit.scale * np.sqrt(self.gp.variances(z))

    @one_thread
    def stds(self, z: Array, p: Array) -> Array:
        """Posterior deviation (k,) on the user's scale of sum_i p_i f(x, i): (k, d), (k, n)."""
        if not len(z):
            return np.empty(0)
        kernel = self.gp.kernel
        v, _ = kernel.blend(z, self.gp.X, self.gp.c, p)  # (k, N)
        half = linalg.forward(self.gp.L, v.T)  # (N, k)
        variance = kernel.quadratic(p) - np.einsum("Nk,Nk->k", half, half)
        return np.asarray(self.fit.scale * np.sqrt(np.maximum(variance, 0.0)))

    def judged_stds(self, numbers: npt.ArrayLike, p: Array) -> Array:
        """Deviation (k,) on the user's scale of what configs (k,) are judged by, averaged with
        weights p (k, n). Scores that are there are known; missing ones have their noise as well."""
        chosen = np.asarray(numbers, dtype=np.int64)
        unknown, noise = self._unknown(chosen, p)
        return np.hypot(self.stds(self.history.config_Z[chosen], unknown), np.sqrt(noise))

    @one_thread
    def robust_draws(self, numbers: Indices, count: int = SCORE_DRAWS) -> Array:
        """Draws (k, count), standardized, of the robust values that configs (k,) are judged by."""
        draws = replace(self.score_draws, normals=score_normals(len(self.reference), count))
        noise = None if self.rule.keeps_scores else 0.0
        scores, firm = self.seen_scores(numbers), self.firmness(numbers)
        return draws.robust(self.gp, self.history.config_Z[numbers], scores, firm, noise)

    @property
    def noise_std(self) -> float:
        """Deviation of the noise of one evaluation on the user's scale."""
        return float(self.fit.scale * np.sqrt(self.gp.kernel.noise))

    def _unknown(self, numbers: Indices, p: Array) -> tuple[Array, Array]:
        """Weights p (k, n) of configs as far as their scores are not known, and the variance (k,)
        that noise which would come again adds, on the user's scale."""
        if not self.rule.keeps_scores:
            return p, np.zeros(len(numbers))
        loose = 1.0 - self.firmness(numbers)
        own = (1 - self.seed_share) * self.noise_std**2
        return p * loose, own * (p**2 * loose).sum(axis=1)

    def judged_variances(self, number: Indices, p: Array) -> tuple[Array, float]:
        """Standardized variances (n,) of what one config (1,) is judged by, and the variance of its
        mean with weights p (n,)."""
        z = self.history.config_Z[number]
        if self.gp.kernel.many:
            loose = 1.0 - self.firmness(number)
            own = (1 - self.seed_share) * self.gp.kernel.noise if self.rule.keeps_scores else 0.0
            of_mean = float(self.judged_stds(number, p[None])[0]) / self.fit.scale
            return (self.gp.variances(z) * loose**2 + own * loose)[0], of_mean**2
        if self.rule.keeps_scores:
            C = self.score_draws.covariances(self.gp, z, self.firmness(number))[0]
        else:
            C = self.gp.covariance(z)
        return np.diagonal(C), float(p @ C @ p)


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
