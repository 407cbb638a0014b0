"""What the model believes about every evaluated config, on the user's scale.

| symbol  | meaning                                              | shape  |
|---------|------------------------------------------------------|--------|
| m, n    | number of distinct configs, of contexts              |        |
| N       | number of evaluations                                |        |
| gains   | standardized posterior means, larger is better       | (m, n) |
| q       | reference weights                                    | (n,)   |
| p       | weights, one row a config                            | (k, n) |

This is the one module of the report that looks inside the optimizer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from drbqo_ray.core import linalg
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.missing_scores import ScoreDraws
from drbqo_ray.core.sets.base import UncertaintySet
from drbqo_ray.core.surrogate import Base, Fit
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.optimizer.scoring import score_normals
from drbqo_ray.records import BAND, Config
from drbqo_ray.report.score_range import ScoreRange, implied_range
from drbqo_ray.space.space import Space
from drbqo_ray.types import Array, Indices, Mask


@dataclass(frozen=True, eq=False)
class Posterior:
    """The model of a run, told everything.

    Attributes:
        configs: the distinct configs, in the order first told; length m.
        numbers: number of the config of each evaluation (N,).
        contexts: context of each evaluation (N,).
        scores: score of each evaluation on the user's scale, NaN where it failed (N,).
        usable: which configs have no failed evaluation (m,).
        sign: 1 when larger scores are better, -1 when smaller ones are.
        reference: q (n,).
        set: the uncertainty set of the run.
        space: the search space.
        fit: hyperparameters and standardization.
        gp: the process, conditioned on all evaluations.
        rows: model inputs of the evaluations (N, d).
        inputs: model inputs of the configs (m, d).
        filled: whether configs are judged by the scores they have where they have some.
        score_range: the range that values on the user's scale are kept to.
    """

    configs: list[Config]
    numbers: Indices
    contexts: Indices
    scores: Array
    usable: Mask
    sign: float
    reference: Array
    set: UncertaintySet
    space: Space
    fit: Fit
    gp: GaussianProcess
    rows: Array
    inputs: Array
    filled: bool
    score_range: ScoreRange

    @cached_property
    def gains(self) -> Array:
        """What the configs are judged by (m, n), standardized, larger is better: posterior means,
        or scores where there are some and what the model fills in elsewhere."""
        if not self.filled:
            return self.predict(self.inputs)
        draws = ScoreDraws(self.set, self.reference, score_normals(len(self.reference)))
        return draws.completed(self.gp, self.inputs, self._table)

    @cached_property
    def _table(self) -> Array:
        """Standardized mean scores (m, n) of the configs, NaN in folds that have none."""
        ok = ~np.isnan(self.scores)
        where = (self.numbers[ok], self.contexts[ok])
        sums, counts = np.zeros((2, len(self.inputs), len(self.reference)))
        np.add.at(sums, where, (self.sign * self.scores[ok] - self.fit.center) / self.fit.scale)
        np.add.at(counts, where, 1.0)
        return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)

    def predict(self, inputs: Array) -> Array:
        """Standardized posterior means (k, n) at model inputs (k, d)."""
        return self.gp.means(inputs)

    def user(self, gains: npt.ArrayLike) -> Array:
        """Standardized values of any shape on the user's scale, kept to the range of scores."""
        return self.score_range.keep(self.estimates(gains))

    def estimates(self, gains: npt.ArrayLike) -> Array:
        """Standardized values of any shape on the user's scale, as the model has them."""
        return self.sign * (self.fit.center + self.fit.scale * np.asarray(gains, dtype=np.float64))

    def bands(self, values: npt.ArrayLike, stds: npt.ArrayLike) -> tuple[Array, Array]:
        """Lower and upper ends of 95 % bands around values, on the user's scale."""
        half = BAND * np.asarray(stds, dtype=np.float64)
        middle = np.asarray(values, dtype=np.float64)
        return self.score_range.keep(middle - half), self.score_range.keep(middle + half)

    def robust(self, gains: Array) -> tuple[Array, Array]:
        """Robust values (k,) and worst-case weights (k, n) of standardized means (k, n)."""
        return self.set.solve(gains, self.reference)

    def stds(self, inputs: Array, p: Array) -> Array:
        """Posterior deviation (k,) on the user's scale of sum_i p_i f(x, i): (k, d), (k, n)."""
        if not len(inputs):
            return np.empty(0)
        kernel = self.gp.kernel
        v, _ = kernel.blend(inputs, self.gp.X, self.gp.c, p)  # (k, N)
        half = linalg.forward(self.gp.L, v.T)  # (N, k)
        prior = np.einsum("ki,ij,kj->k", p, kernel.B, p)
        variance = prior - np.einsum("Nk,Nk->k", half, half)
        return np.asarray(self.fit.scale * np.sqrt(np.maximum(variance, 0.0)))

    def judged_stds(self, numbers: npt.ArrayLike, p: Array) -> Array:
        """Deviation (k,) on the user's scale of what configs (k,) are judged by, averaged with
        weights p (k, n). Scores that are there are known; missing ones have their noise as well."""
        chosen = np.asarray(numbers, dtype=np.int64)
        unknown, noise = self._unknown(chosen, p)
        return np.hypot(self.stds(self.inputs[chosen], unknown), np.sqrt(noise))

    def gap_std(self, one: int, other: int, p: Array) -> float:
        """Deviation, on the user's scale, of the difference of two configs as they are judged, each
        averaged with its own row of weights p (2, n)."""
        covariance = self.gp.covariance(self.inputs[[one, other]])  # (2 n, 2 n)
        unknown, noise = self._unknown(np.array([one, other]), p)
        weights = np.concatenate([unknown[0], -unknown[1]])
        variance = self.fit.scale**2 * (weights @ covariance @ weights) + noise.sum()
        return float(np.sqrt(max(variance, 0.0)))

    def _unknown(self, numbers: Indices, p: Array) -> tuple[Array, Array]:
        """Weights p (k, n) of configs without the folds whose scores are known, and the variance
        (k,) that the noise of the others adds, on the user's scale."""
        if not self.filled:
            return p, np.zeros(len(numbers))
        unknown = p * np.isnan(self._table[numbers])
        return unknown, self.noise_std**2 * (unknown**2).sum(axis=1)

    @property
    def noise_std(self) -> float:
        """Deviation of the noise of one evaluation on the user's scale."""
        return float(self.fit.scale * np.sqrt(self.gp.kernel.noise))

    def after(self, size: int) -> Posterior:
        """The same with only the first `size` evaluations, and the hyperparameters as they are."""
        numbers, scores = self.numbers[:size], self.scores[:size]
        known = int(numbers.max()) + 1
        usable = np.ones(known, dtype=bool)
        usable[numbers[np.isnan(scores)]] = False
        y = (_filled(self.sign * scores) - self.fit.center) / self.fit.scale
        return Posterior(
            self.configs[:known],
            numbers,
            self.contexts[:size],
            scores,
            usable,
            self.sign,
            self.reference,
            self.set,
            self.space,
            self.fit,
            self._cut(y),
            self.rows[:size],
            self.inputs[:known],
            self.filled,
            self.score_range,
        )

    def _cut(self, y: Array) -> GaussianProcess:
        """The process given only the first scores y (k,), standardized."""
        size, gp = len(y), self.gp
        if gp.spread is None:
            L = gp.L[:size, :size]
            return GaussianProcess(gp.kernel, gp.X[:size], gp.c[:size], y, L, gp.jitter)
        return Base.of(gp.kernel, self.rows[:size], self.contexts[:size], y).gp


def read_posterior(optimizer: Optimizer) -> Posterior | None:
    """The posterior of an optimizer, None before it has a score."""
    history = optimizer._history
    if not history.n_ok:
        return None
    fit, gp = optimizer.model.current()
    usable = np.zeros(len(history.configs), dtype=bool)
    usable[history.usable] = True
    scores = optimizer._sign * history._y.rows.astype(np.float64)
    return Posterior(
        configs=[dict(config) for config in history.configs],
        numbers=np.array(history._numbers.rows, dtype=np.int64),
        contexts=np.array(history.c, dtype=np.int64),
        scores=scores,
        usable=usable,
        sign=optimizer._sign,
        reference=optimizer.reference,
        set=optimizer.uncertainty,
        space=optimizer.space,
        fit=fit,
        gp=gp,
        rows=np.array(history.Z),
        inputs=np.array(history.config_Z),
        filled=optimizer.method.report == "completed",
        score_range=implied_range(scores, optimizer._sign),
    )


def minimizes(optimizer: Optimizer) -> bool:
    """Whether smaller scores are better."""
    return optimizer._sign < 0


def _filled(y: Array) -> Array:
    """Scores (N,), larger is better, with the failed ones at the worst of the others."""
    failed = np.isnan(y)
    return np.where(failed, np.nanmin(y) if not failed.all() else 0.0, y)
