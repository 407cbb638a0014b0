"""What an evaluation will cost: a small linear model of log cost over configs and folds.

    log cost(x, i) = a + w' phi(x, i) + e,     w ~ N(0, lam s2 I),   e ~ N(0, s2)
    phi(x, i)      = (t, t^2, one column for each fold),   t = 2 z(x) - 1

Few costs are needed for it: what makes training slow (a width, a number of trees, a kernel) mostly
multiplies, so that logarithms add. lam is the one of a short list with the highest evidence, with
s2 integrated out. lam = 0 is in the list, where costs are noise about one level: unless another
value is far more likely the costs do not vary as far as anyone can tell, and change nothing.

A wrong model must not starve what is good and slow, so `relative` is careful: of a difference from
the usual log cost only what exceeds its standard deviation counts, and no more than a factor CAP.

| symbol | meaning                                            | shape  |
|--------|----------------------------------------------------|--------|
| z      | configs as model inputs                            | (k, d) |
| c      | their context indices                              | (k,)   |
| Phi    | centered columns phi of the evaluations            | (N, D) |
| S, V   | singular values and right vectors, Phi = U S V'    | (r,), (r, D) |
| g      | lam S^2 / (1 + lam S^2): how much of it is learned | (r,)   |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drbqo_ray.types import Array, Indices, Mask

CAP = 5.0
RECENT = 1000
MOST_FOLDS_APART = 100
LIKELIER = 5.0  # log of how much more likely costs that vary must be
LAMBDAS = 10.0 ** np.arange(-2.0, 5.5, 0.5)
USUAL_NOISE = 0.1  # of log costs, counted as one evaluation


@dataclass(frozen=True, eq=False)
class CostModel:
    """The posterior of log costs.

    Attributes:
        n: number of contexts.
        center: mean log cost a.
        columns: means of the columns phi (D,).
        weights: posterior mean of w (D,).
        V, g, lam: see above; lam is 0 where costs do not vary.
        noise: s2.
        size: evaluations it was fitted to, N.
    """

    n: int
    center: float
    columns: Array
    weights: Array
    V: Array
    g: Array
    lam: float
    noise: float
    size: int

    @staticmethod
    def fit(z: Array, c: Indices, costs: Array, n: int) -> CostModel | None:
        """The model of evaluations z (N, d), c (N,) that cost `costs` (N,), NaN where that is not
        known. The latest ones count, at most RECENT; None without any."""
        known = np.flatnonzero(costs > 0)[-RECENT:]
        if not len(known):
            return None
        y, phi = np.log(costs[known]), _columns(z[known], c[known], n)
        center, columns = float(y.mean()), phi.mean(axis=0)
        y = y - center
        U, S, V = np.linalg.svd(phi - columns, full_matrices=False)
        projected = U.T @ y
        freedom = len(y)  # one is spent on the center, the usual noise gives one
        told, usual = float(y @ y), USUAL_NOISE**2
        best, lam, square = -math.inf, 0.0, told
        for one in (0.0, *LAMBDAS):
            g = one * S**2 / (1 + one * S**2)
            rest = max(told - float(g @ projected**2), 0.0)
            evidence = -0.5 * float(np.log1p(one * S**2).sum())
            evidence -= 0.5 * freedom * math.log(usual + rest)
            evidence -= LIKELIER if one else 0.0
            if evidence > best:
                best, lam, square = evidence, float(one), rest
        g = lam * S**2 / (1 + lam * S**2)
        weights = V.T @ (lam * S / (1 + lam * S**2) * projected)
        noise = (usual + square) / freedom
        return CostModel(n, center, columns, weights, V, g, lam, noise, len(y))

    @property
    def varies(self) -> bool:
        """Whether some evaluations are known to cost more than others."""
        return self.lam > 0

    def expected(self, z: Array) -> Array:
        """Expected costs of configs z (k, d) in every context, (k, n)."""
        means, variances = self._log_costs(z)
        return np.exp(means + np.minimum(variances + self.noise, 1.0) / 2)

    def relative(self, z: Array, folds: Mask) -> Array:
        """Costs of configs z (k, d) relative to the usual one, as far as they are sure: the mean
        over `folds` (k, n), of which each config has one at least, (k,)."""
        means, variances = self._log_costs(z)
        off = means - self.center
        sure = np.sign(off) * np.maximum(np.abs(off) - np.sqrt(variances), 0.0)
        factors = np.exp(np.clip(sure, -math.log(CAP), math.log(CAP)))
        return np.asarray((factors * folds).sum(axis=1) / folds.sum(axis=1))

    def _log_costs(self, z: Array) -> tuple[Array, Array]:
        """Means and variances, without noise, of log costs of z (k, d) in all contexts, (k, n)."""
        k, n = len(z), self.n
        every = _columns(np.repeat(z, n, axis=0), np.tile(np.arange(n), k), n)
        phi = every - self.columns  # (k n, D)
        means = self.center + phi @ self.weights
        unknown = (phi**2).sum(axis=1) - (phi @ self.V.T) ** 2 @ self.g
        variances = self.noise * (self.lam * np.maximum(unknown, 0.0) + 1 / self.size)
        return means.reshape(k, n), variances.reshape(k, n)


def _columns(z: Array, c: Indices, n: int) -> Array:
    """phi (k, D) of configs z (k, d) in contexts c (k,)."""
    t = 2.0 * z - 1.0
    folds = np.eye(n)[c] if n <= MOST_FOLDS_APART else np.zeros((len(z), 0))
    return np.concatenate([t, t**2, folds], axis=1)
