"""How sure a recommendation is, from draws of what configs are judged by, and what to expect of it
in a context that is not among those seen.

| symbol | meaning                                                       | shape  |
|--------|---------------------------------------------------------------|--------|
| seen   | value of each draw at the best evaluated configs              | (T, k) |
| top    | largest value of each draw over the whole space               | (T,)   |
| row    | expected scores of the recommended config                     | (n,)   |
| C      | covariance of those that were not trained                     | (n, n) |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from drbqo_ray.core.acquisition import RobustPaths
from drbqo_ray.core.maximize import maximize
from drbqo_ray.core.paths import draw_paths
from drbqo_ray.core.sets import Expectation
from drbqo_ray.optimizer.scoring import Scoring
from drbqo_ray.types import Array, Indices

COVERAGE = 0.95
DRAWS, DRAWS_TOGETHER = 64, 16
INTERVAL_DRAWS = 512
WIDENING = np.array([2.5, 2.0])
"""How much further than the model says an interval reaches below and above its middle, larger is
better. A config is recommended because it looks good, and the model is one of many that explain the
scores: it is too sure of what it has not seen, and mostly too high (docs/decisions/0012)."""
MOST_LEFT_OUT = 20
"""Parts that contexts are left out in, so that the cost does not grow with their square."""
SETTLED = 0.15
"""Of the resolution: a smaller loss is not worth more folds."""
CLEAR = 0.9

Kind = Literal["clear", "tied", "open"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to make of a recommendation.

    Attributes:
        kind: "clear", "tied" (another config is as good for all that these folds can tell) or
            "open" (not settled: train more).
        text: the same in words.
    """

    kind: Kind
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Certainty:
    """What the model holds of its recommendation. Values have the user's scale and sign.

    Attributes:
        probability: of the config being the best of those seen, by what the method reports by.
        interval: the robust value of the config lies in here with probability 0.95.
        loss: value expected to be missed by stopping now: that of the best config of the whole
            space minus that of the recommended one, at least 0.
        resolution: what differences between good configs cannot be told apart with these folds:
            the standard error of such a difference, corrected for training sets that overlap.
        rival: number of the seen config, counted from 0 in the order first told, that may be
            better by most; None without another one.
    """

    probability: float
    interval: tuple[float, float]
    loss: float
    resolution: float = 0.0
    rival: int | None = None

    @property
    def settled(self) -> bool:
        """Whether what may be missed is small beside what the folds can tell apart."""
        return self.loss <= SETTLED * self.resolution

    @property
    def verdict(self) -> Verdict:
        """The one wording of how sure the answer is, for terminal, report and notebook."""
        odds = f"best of those seen with probability {self.probability:.2f}"
        missed = f"expected loss of stopping {self.loss:.1g}"
        if not self.settled and self.probability >= CLEAR:
            return Verdict("open", f"not settled: {odds}, but {missed}, so train more")
        if not self.settled:
            return Verdict("open", f"not settled: train more ({odds}, {missed})")
        if self.probability >= CLEAR or self.rival is None:
            return Verdict("clear", f"clear ({odds}, {missed})")
        return Verdict("tied", f"practically tied with config {self.rival} ({odds}, {missed})")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What to expect of the recommended config in a context that is not among those seen but of
    the same kind. Values have the user's scale and sign.

    Attributes:
        expected: the score expected there, corrected for the choice: the config was recommended
            because it looked good in the contexts seen.
        interval: the score there lies in here with probability `level`.
        level: that probability.
        n: number of contexts that this rests on.
    """

    expected: float
    interval: tuple[float, float]
    level: float
    n: int

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"expect {self.expected:.4g} in a new environment like these {self.n},"
            f" {low:.4g} to {high:.4g} ({100 * self.level:g} %)"
        )


def certainty_of(seen: Array, top: Array, best: int) -> tuple[float, float, int | None]:
    """Probability, loss and strongest rival of recommending evaluated config number `best` among
    those seen (T, k), on the scale of the draws."""
    own = seen[:, best]
    missed = np.maximum(np.maximum(top, seen.max(axis=1)) - own, 0.0)
    threat = np.maximum(seen - own[:, None], 0.0).mean(axis=0)
    threat[best] = -1.0
    rival = int(np.argmax(threat)) if len(threat) > 1 else None
    leads = seen == seen.max(axis=1, keepdims=True)  # equals share a draw
    probability = float(np.mean(leads[:, best] / leads.sum(axis=1)))
    return probability, float(missed.mean()), rival


def draw_certainty(scoring: Scoring, rng: np.random.Generator) -> Certainty:
    """How sure the recommendation is, on the user's scale. Configs are compared by what the method
    reports by, robust or mean value; the interval is that of the robust value."""
    best, rivals = scoring.best(), scoring.shortlist()
    numbers = np.array([best, *rivals[rivals != best]])
    draws = [value_draws(scoring, numbers, rng) for _ in range(DRAWS // DRAWS_TOGETHER)]
    values = np.concatenate(draws)
    probability, missed, rival = certainty_of(values[:, :-1], values[:, -1], 0)
    return Certainty(
        probability,
        likely_interval(scoring, best),
        scoring.fit.scale * missed,
        scoring.resolution(),
        None if rival is None else int(numbers[rival]),
    )


def likely_interval(scoring: Scoring, number: int) -> tuple[float, float]:
    """Where the robust value of an evaluated config lies with probability 0.95."""
    R = scoring.robust_draws(np.array([number]), INTERVAL_DRAWS)[0]
    low, middle, high = np.quantile(R, [(1 - COVERAGE) / 2, 0.5, (1 + COVERAGE) / 2])
    ends = middle + WIDENING * (np.array([low, high]) - middle)
    first, second = scoring.estimates(ends)
    return float(min(first, second)), float(max(first, second))


def forecast_of(scoring: Scoring, level: float, number: int) -> Forecast:
    """The score of an evaluated config in a new context, if contexts are exchangeable.

    The expected variance s2 of its scores between contexts, known or not, is that of the expected
    row and what the unknown ones add to it. The score of a new context has s2 around a mean that is
    known up to s2 / n, as n contexts were drawn, and the variance of what was not trained.
    """
    n, one = len(scoring.reference), np.array([number])
    row = scoring.expected_rows(one)[0]
    variances, of_mean = scoring.judged_variances(one, np.full(n, 1 / n))
    s2 = float(row.var(ddof=1)) + (float(variances.sum()) - n * of_mean) / (n - 1)
    own = 0.0 if scoring.rule.keeps_scores else scoring.gp.kernel.noise  # a score has noise, f none
    middle = float(row.mean()) - optimism(scoring, row)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * math.sqrt(s2 * (1 + 1 / n) + own + of_mean)
    low, high = sorted(float(end) for end in scoring.estimates([middle - half, middle + half]))
    return Forecast(float(scoring.estimates(middle)), (low, high), level, n)


def optimism(scoring: Scoring, row: Array) -> float:
    """How much better a row (n,) of expected scores is in the contexts that configs are chosen by
    than a config chosen without them is there, standardized and at least 0.

    Contexts are left out one by one, or a few at a time where there are many. For the choice
    without them each config has there what it has on average elsewhere.
    """
    usable, n = scoring.history.usable, len(scoring.reference)
    if not len(usable):
        return 0.0
    judged, expected, missed = scoring.rows(usable), scoring.expected_rows(usable), 0.0
    for out in np.array_split(np.arange(n), min(n, MOST_LEFT_OUT)):
        rows = judged.copy()
        rows[:, out] = np.delete(judged, out, axis=1).mean(axis=1, keepdims=True)
        other = int(np.argmax(scoring.values(rows)))
        missed += float((row[out] - expected[other, out]).sum())
    return max(missed / n, 0.0)


def value_draws(scoring: Scoring, numbers: Indices, rng: np.random.Generator) -> Array:
    """Draws of the values of k configs, the recommended one first, and of the best config
    of each draw, (T, k + 1).

    Where configs are judged by their scores, those that are there stay, and the missing ones are
    drawn with their noise.
    """
    gp, space = scoring.gp, scoring.space
    paths = draw_paths(gp, [rng] * DRAWS_TOGETHER)
    adversary = Expectation() if scoring.report == "mean" else scoring.uncertainty
    target = RobustPaths(paths, adversary, scoring.reference)
    U = maximize(target, space, scoring.incumbents(), rng, fast=True)
    new, _ = paths.with_gradient(space.features(U), np.arange(len(U)))  # (T, n)
    seen = paths.approximate(scoring.history.config_Z[numbers])  # (T, k, n)
    rows = np.concatenate([seen, new[:, None]], axis=1)
    if scoring.rule.keeps_scores:
        chance = rng.standard_normal(rows.shape)
        rows[:, :-1] = _with_scores(scoring, rows[:, :-1], chance[:, :-1], numbers)
        drawn = rows[:, -1].copy()
        own = (1 - scoring.seed_share) * gp.kernel.noise
        rows[:, -1] += math.sqrt(own) * chance[:, -1]
        rows[:, -1] = _best_of_draws(scoring, rows, numbers, U, drawn, chance[:, -1])
    values = scoring.values(rows.reshape(-1, rows.shape[-1]))
    return values.reshape(rows.shape[:2])


def _best_of_draws(
    scoring: Scoring, rows: Array, numbers: Indices, U: Array, drawn: Array, chance: Array
) -> Array:
    """Draws of scores (T, n) of the best config of each draw, at U (T, p), from draws
    (T, k + 1, n) of those of k configs and of it; `drawn` (T, n) is the process there, `chance`
    (T, n) standard normal numbers.

    A config that was seen before is the same one here: it has its scores, and among the k the
    same draws of missing ones. A failed fold rules it out, so the recommended one, the first
    of the k, stands in its place.
    """
    space, best = scoring.space, rows[:, -1].copy()
    for t, u in enumerate(U):
        number = scoring.history.number_of(space.to_unit(space.from_unit(u)))
        if number is None:
            continue
        place = np.flatnonzero(numbers == number) if scoring.usable[number] else [0]
        if len(place):
            best[t] = rows[t, place[0]]
        else:
            alone = np.array([number])
            best[t] = _with_scores(scoring, drawn[t, None], chance[t, None], alone)[0]
    return best


def _with_scores(scoring: Scoring, drawn: Array, chance: Array, numbers: Indices) -> Array:
    """Draws of expected scores (..., k, n) of k configs from draws of the process, with the scores
    that are there in place as far as they would come again."""
    firm = scoring.firmness(numbers)
    scores = np.where(firm > 0, scoring.seen_scores(numbers), 0.0)
    own = (1 - scoring.seed_share) * scoring.gp.kernel.noise
    loose = drawn + firm * (scores - drawn) + np.sqrt(own * (1 - firm)) * chance
    return np.where(firm == 1, scores, loose)
