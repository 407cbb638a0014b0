"""The model kept current: scores standardized, hyperparameters refit on a schedule,
the Cholesky factor extended row by row in between (docs/maths.md, section 4).

The posterior is a function of (hyperparameters, size of the data when they were fit, the
data in order). So a run that stores the small state after each fit and replays its data
gets the same posterior back bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbqo_ray.core.condense import condense, evenly
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import Kernel, KernelFamily
from drbqo_ray.core.likelihood import Likelihood, fit
from drbqo_ray.types import Array, Indices

EXACT_LIMIT = 2000
FIT_ROWS = 1000
REFIT_SHARE = 40
LONGEST_WAIT = 256
FRESH_GROWTH = 1.5
SURPRISE = 1.5
MARGIN = 3.0
WARM_ITERATIONS = 15
COLD_ITERATIONS = 30
COLD_BUDGET = 3000
RIVALS = 3
APART = 0.5
SOFTNESS = 64.0


@dataclass(frozen=True)
class Fit:
    """Hyperparameters and the standardization they belong to.

    Attributes:
        parameters: packed kernel parameters (P,).
        size: number of scores they were fit to.
        explored: size at the last fit from several starts.
        value: log posterior of the parameters given the scores, on their own scale.
        center, scale: score = center + scale * standardized score.
        rivals: other parameters that explain the scores, the best ones first.
        weights: how much the parameters and each of the rivals count in a report; empty in fits
            that were made before there were rivals.
    """

    parameters: tuple[float, ...]
    size: int
    explored: int
    value: float
    center: float
    scale: float
    rivals: tuple[tuple[float, ...], ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def due(self) -> int:
        """Size of the data at which the next fit is due."""
        return self.size + min(max(1, self.size // REFIT_SHARE), LONGEST_WAIT)

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form."""
        return {
            "parameters": list(self.parameters),
            "size": self.size,
            "explored": self.explored,
            "value": self.value,
            "center": self.center,
            "scale": self.scale,
            "rivals": [list(rival) for rival in self.rivals],
            "weights": list(self.weights),
        }

    @staticmethod
    def from_dict(plain: dict[str, Any]) -> Fit:
        """The fit with this plain-data form."""
        many = {"rivals": tuple(tuple(rival) for rival in plain.get("rivals", ()))}
        flat = {name: tuple(plain.get(name, ())) for name in ("parameters", "weights")}
        return Fit(**{**plain, **many, **flat})


@dataclass(frozen=True, eq=False)
class Base:
    """The posterior at the size of the last fit: exact for little data, condensed for much.

    Attributes:
        gp: the posterior.
        scores: the scores (N,) it was condensed from, None if it is exact.
    """

    gp: GaussianProcess
    scores: Array | None

    @staticmethod
    def of(kernel: Kernel, X: Array, c: Indices, scores: Array) -> Base:
        """The posterior given scores (N,) of the pairs (X, c)."""
        if len(scores) <= EXACT_LIMIT:
            return Base(GaussianProcess.condition(kernel, X, c, scores), None)
        return Base(condense(kernel, X, c, scores), scores.copy())

    def holds(self, scores: Array) -> bool:
        """Whether it can go on with these scores (N,) of the same pairs."""
        return self.scores is None or np.array_equal(self.scores, scores)


class Surrogate:
    """A Gaussian process that follows a growing list of scores.

    Args:
        family: the kernel up to its parameters.
        prior_weight: 1 for the weak priors, 0 for plain maximum likelihood.
        noisy_prior: whether the prior expects noise.
        last_fit: state to go on from.
    """

    def __init__(
        self,
        family: KernelFamily,
        prior_weight: float = 1.0,
        noisy_prior: bool = False,
        last_fit: Fit | None = None,
    ) -> None:
        self.family = family
        self.prior_weight = prior_weight
        self.noisy_prior = noisy_prior
        self.last_fit = last_fit
        self._base: Base | None = None
        self._gp: GaussianProcess | None = None

    def with_fit(self, fit: Fit | None) -> Surrogate:
        """The same model with other hyperparameters."""
        return Surrogate(self.family, self.prior_weight, self.noisy_prior, fit)

    def copy(self) -> Surrogate:
        """A model in the same state that can go its own way."""
        twin = self.with_fit(self.last_fit)
        twin._base, twin._gp = self._base, self._gp
        return twin

    def update(self, X: Array, c: Indices, y: Array, refit: bool = True) -> GaussianProcess:
        """The posterior given all scores y (N,), N >= 1, of the pairs (X (N, d), c (N,)).

        Rows that were given before must come first and in the same order; scores may change.
        Without `refit` a fit that is due waits, unless there is none yet.
        """
        if self.last_fit is None or (refit and len(y) >= self.last_fit.due):
            self.last_fit = self.fit(X, c, y)
            self._base = None
        scores = (y - self.last_fit.center) / self.last_fit.scale
        size = min(self.last_fit.size, len(y))
        if self._base is None or not self._base.holds(scores[:size]):
            kernel = self.family.unpack(np.array(self.last_fit.parameters))
            self._base = Base.of(kernel, X[:size], c[:size], scores[:size])
            self._gp = self._base.gp
        assert self._gp is not None
        gp, lead = self._gp, len(self._base.gp.y)
        for row in range(size + len(gp.y) - lead, len(y)):
            gp = gp.extended(X[row], int(c[row]))
        lead_scores = scores[:size] if self._base.scores is None else self._base.gp.y
        self._gp = gp.with_scores(np.concatenate([lead_scores, scores[size:]]))
        return self._gp

    def fit(self, X: Array, c: Indices, y: Array) -> Fit:
        """Hyperparameters for the scores y (N,); the model itself stays as it is."""
        center = float(np.mean(y))
        spread = float(np.std(y))
        scale = spread if spread > 1e-12 * max(1e-300, float(np.abs(y).max())) else 1.0
        z = (y - center) / scale
        if len(y) > EXACT_LIMIT:
            rows = evenly(len(y), FIT_ROWS)
            X, c, z = X[rows], c[rows], z[rows]
        likelihood = Likelihood(self.family, X, c, z, self.prior_weight, self.noisy_prior)
        volume = len(z) * math.log(scale)  # what standardizing adds to the log density
        found, value, modes, explored = self._search(likelihood, volume, len(y))
        rivals, weights = _weigh(likelihood, found, modes)
        return Fit(_plain(found), len(y), explored, value, center, scale, rivals, weights)

    def _search(
        self, likelihood: Likelihood, volume: float, size: int
    ) -> tuple[Array, float, list[Array], int]:
        """Parameters, their log posterior, other modes, and the size at the last fit from several
        starts.

        A warm start can slide into a poor basin when a score surprises the model; a log
        posterior that falls faster than noise explains gives the other starts another chance.
        They win only by a clear margin: two basins that are about as likely can recommend very
        different configs, and going to and fro between them helps no one.
        """
        last = self.last_fit
        warm, warm_value, modes = likelihood.prior_mean, -math.inf, []
        if last is not None:
            before = np.array(last.parameters)
            warm, warm_value = fit(likelihood, [before], WARM_ITERATIONS)
            modes = [before, *(np.array(rival) for rival in last.rivals)]
            drop = last.value - (warm_value - volume)
            surprise = size <= EXACT_LIMIT and drop > SURPRISE * (1 + size - last.size)
            if size < FRESH_GROWTH * last.explored and not surprise:
                return warm, warm_value - volume, modes, last.explored
        starts = [likelihood.prior_mean, *_best_starts(likelihood, _spread_starts(likelihood))]
        climbs = [fit(likelihood, [start], COLD_ITERATIONS) for start in starts]
        found, value = max(climbs, key=lambda climb: climb[1])
        modes += [mode for mode, _ in climbs]
        if value < warm_value + MARGIN:
            return warm, warm_value - volume, modes, size
        return found, value - volume, [warm, *modes] if last is not None else modes, size


def _plain(parameters: Array) -> tuple[float, ...]:
    return tuple(float(value) for value in parameters)


def _weigh(
    likelihood: Likelihood, found: Array, modes: list[Array]
) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """The rivals of the parameters found, and the weights of all of them.

    Where the process is not quite what the kernel says, the likelihood can favor parameters by
    many digits that foresee unseen scores badly. So modes are weighed by how well they predict each
    score from the others, and softly: none that is kept is ruled out by the others.
    """
    scores = [likelihood.predictive(mode) for mode in modes]
    kept, marks = [found], [likelihood.predictive(found)]
    for k in np.argsort(scores)[::-1]:
        apart = all(np.abs(modes[k] - other)[:-1].max() > APART for other in kept)
        if len(kept) <= RIVALS and apart and math.isfinite(scores[k]):
            kept.append(modes[k])
            marks.append(scores[k])
    weights = np.exp((np.array(marks) - max(marks)) / SOFTNESS)
    return tuple(map(_plain, kept[1:])), _plain(weights / weights.sum())


def _spread_starts(likelihood: Likelihood) -> list[Array]:
    """Starts with short or long length scales, and little or much noise."""
    d = likelihood.family.d
    starts = []
    for length, noise in ((-1.0, -3.0), (1.0, -3.0), (-1.0, 3.0), (0.5, 3.0)):
        start = likelihood.prior_mean.copy()
        start[:d] += length
        start[-1] += noise
        starts.append(start)
    return starts


def _best_starts(likelihood: Likelihood, starts: list[Array]) -> list[Array]:
    """The most likely starts: all of them for little data, none for much."""

    def quality(start: Array) -> float:
        try:
            return likelihood(np.clip(start, *likelihood.bounds.T))[0]
        except np.linalg.LinAlgError:
            return -math.inf

    keep = min(len(starts), COLD_BUDGET // len(likelihood.y) ** 2)
    return sorted(starts, key=quality, reverse=True)[:keep] if keep else []
