"""What data add to a prior path: sums of kernel functions centered at the data, several at once.

    update_t(x, i) = sum_j k((x, i), (X_j, c_j)) v_tj

| symbol | meaning                                          | shape  |
|--------|--------------------------------------------------|--------|
| X, c   | pairs that carry the update                      | (N, d), (N,) |
| v      | weights of T updates                             | (T, N) |
| x      | configs                                          | (k, d) |
| spans  | rows of x that belong to each update, in order   |        |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from drbqo_ray.core.contexts import ContextWeights
from drbqo_ray.core.kernels import Kernel
from drbqo_ray.types import Array, Indices

MOST_NUMBERS = 2**23  # that are held together
Span = tuple[int, slice]


def spans_of(owner: Indices) -> list[Span]:
    """(t, rows) of each t that occurs in `owner` (k,), which is sorted."""
    if not len(owner):
        return []
    cuts = np.flatnonzero(np.diff(owner)) + 1
    ends = [0, *cuts.tolist(), len(owner)]
    return [(int(owner[a]), slice(a, b)) for a, b in pairwise(ends)]


@dataclass(frozen=True, eq=False)
class Updates:
    """T updates on the same pairs."""

    kernel: Kernel
    X: Array
    c: Indices
    v: Array

    @cached_property
    def _pairs(self) -> list[ContextWeights]:
        """Weights of the configs' correlations in each context, of separable kernels."""
        return [self.kernel.weights(self.c, v) for v in self.v]

    def __call__(self, x: Array) -> Array:
        """All updates at all configs, (T, k, n)."""
        if self.kernel.family.separable:
            g = self.kernel.family.shape.value_and_slope(self.kernel.distances(x, self.X))[0]
            return np.stack([pairs.spread(g) for pairs in self._pairs])
        together = max(1, MOST_NUMBERS // (self.kernel.n * len(self.X)))
        if self.kernel.many and len(x) > together:
            blocks = [self(x[k : k + together]) for k in range(0, len(x), together)]
            return np.concatenate(blocks, axis=1)
        cross = self.kernel.cross(x, self.X, self.c)  # (k, n, N)
        return np.stack([cross @ v for v in self.v])

    def with_gradient(
        self, x: Array, spans: Sequence[Span]
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Each config's own update (k, n), and a function from weights p (k, n) to the gradient
        (k, d) of p'update by x."""
        kernel, n = self.kernel, self.kernel.n
        D2 = kernel.distances(x, self.X)
        out = np.empty((len(x), n))
        if kernel.family.separable:
            value, slope = kernel.family.shape.value_and_slope(D2)
            for t, rows in spans:
                out[rows] = self._pairs[t].spread(value[rows])

            def gradient(p: Array) -> Array:
                weights = np.empty_like(slope)
                for t, rows in spans:
                    weights[rows] = self._pairs[t].gather(p[rows])
                return kernel.pull_back(x, self.X, slope * weights)

            return out, gradient
        value, slope = kernel.family.shape.value_and_slope(D2[:, None, :] + kernel.everyone(self.c))
        for t, rows in spans:
            out[rows] = kernel.s2 * (value[rows] @ self.v[t])

        def joint_gradient(p: Array) -> Array:
            weights = kernel.s2 * (p[:, None, :] @ slope)[:, 0]
            for t, rows in spans:
                weights[rows] *= self.v[t]
            return kernel.pull_back(x, self.X, weights)

        return out, joint_gradient
