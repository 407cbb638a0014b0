"""The Wasserstein ball over the contexts themselves: greedy transport along lower hulls.

Notation as in `drbqo_ray.core.sets`. Mass of context i that is carried a distance d
should reach the lowest value within that distance on average: the lower convex hull of the
points (d_ij, x_j), j = 1..n. Each edge of a hull lowers the value at a constant rate per unit
of transport, and the rates fall along a hull. So the edges of all contexts are bought in order
of their rate until the radius is spent, the last one in part: an exact optimum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from drbqo_ray.core.sets.base import (
    Family,
    UncertaintySet,
    checked_matrix,
    checked_radius,
    finish,
    unit_rows,
)
from drbqo_ray.errors import InvalidInput
from drbqo_ray.types import Array


@dataclass(frozen=True, eq=False, repr=False)
class WassersteinBall(UncertaintySet):
    """Weights that the reference can be carried to at a mean distance of at most the radius.

    With distance 1 between all contexts it is the total variation ball. Contexts at distance 0
    of each other count as one, so mass moves between them for nothing.

    Args:
        radius: finite, at least 0, in the unit of the distances.
        distances: shape (n, n), symmetric, non-negative, zero on the diagonal.
    """

    radius: float
    distances: Array
    kind: ClassVar[str] = "wasserstein"
    words: ClassVar[str] = "Wasserstein ball of radius"
    slow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the radius and the distances; keep a read-only copy of the latter."""
        cure = "Pass the distance of every pair of contexts, for example |w_i - w_j|."
        distances = checked_matrix(self.distances, "Distances", cure)
        if distances.min() < 0 or np.diagonal(distances).any():
            raise InvalidInput(
                "Distances must not be negative, and must be 0 on the diagonal.", distances, cure
            )
        object.__setattr__(self, "radius", checked_radius(self.radius))
        object.__setattr__(self, "distances", distances)

    def check_contexts(self, n: int) -> None:
        """Raise `InvalidInput` when the distances are not between n contexts."""
        if self.distances.shape[0] != n:
            raise InvalidInput(
                f"Distances must be of shape ({n}, {n}) for {n} contexts.",
                f"shape {self.distances.shape}",
                "Pass one row of distances per context.",
            )

    def _family(self, q: Array) -> Family:
        high = float((self.distances @ q).max())
        return Family(
            "radius of the Wasserstein ball",
            self.kind,
            high,
            self.radius,
            lambda radius: replace(self, radius=radius),
        )

    def _solve_blocks(self, rows: Array, q: Array) -> tuple[Array, Array]:
        step = max(1, self._block_elements // q.size**2)
        parts = [self._solve_rows(rows[i : i + step], q) for i in range(0, rows.shape[0], step)]
        return np.concatenate([v for v, _ in parts]), np.concatenate([p for _, p in parts])

    def _solve_rows(self, values: Array, q: Array) -> tuple[Array, Array]:
        x, shift, scale = unit_rows(values)
        farthest = float(self.distances.max()) or 1.0
        vertices, rates, lengths = _lower_hulls(x, self.distances / farthest)
        bought = _greedy_shares(rates, lengths * q, self.radius / farthest)  # (m, steps, n)
        ends = np.zeros((x.shape[0], 1, q.size))
        mass = q * -np.diff(bought, axis=1, prepend=ends + 1.0, append=ends)  # (m, steps + 1, n)
        target = vertices + q.size * np.arange(x.shape[0])[:, None, None]
        p = np.bincount(target.ravel(), mass.ravel(), x.size).astype(np.float64)
        return finish(x, shift, scale, p.reshape(x.shape))


def _lower_hulls(x: Array, distances: Array) -> tuple[NDArray[np.intp], Array, Array]:
    """Walk down the lower hull of (d_ij, x_j) for every row and every context i at once.

    Args:
        x: unit rows, shape (m, n).
        distances: shape (n, n).

    Returns:
        Vertices j, shape (m, steps + 1, n); the rates of descent of the edges between them,
        never rising along a hull, and their lengths, both (m, steps, n). A hull that ends
        early is continued by edges of rate and length 0.
    """
    m, n = x.shape
    level = x[:, None, :]  # (m, 1, n)
    index = np.argmin(np.where(distances == 0.0, level, np.inf), axis=-1)  # (m, n)
    vertices, rates, lengths = [index], [np.zeros((0, m, n))], [np.zeros((0, m, n))]
    here, height = np.zeros((m, n)), np.take_along_axis(x, index, axis=-1)
    for _ in range(n - 1):
        drop = height[:, :, None] - level  # (m, n, n)
        run = distances - here[:, :, None]
        downhill = (drop > 0.0) & (run > 0.0)
        with np.errstate(over="ignore"):
            slope = np.where(downhill, drop, 0.0) / np.where(downhill, run, 1.0)
        step = np.argmax(slope, axis=-1)
        rate = np.take_along_axis(slope, step[:, :, None], axis=-1)[:, :, 0]
        moving = rate > 0.0
        if not moving.any():
            break
        index = np.where(moving, step, index)
        there = np.where(moving, distances[np.arange(n), index], here)
        vertices.append(index)
        rates.append(rate[None])
        lengths.append((there - here)[None])
        here, height = there, np.take_along_axis(x, index, axis=-1)
    falling = np.minimum.accumulate(np.concatenate(rates)).swapaxes(0, 1)
    return np.stack(vertices, axis=1), falling, np.concatenate(lengths).swapaxes(0, 1)


def _greedy_shares(rates: Array, costs: Array, budget: float) -> Array:
    """Share of each edge that the budget buys, dearest rates first; all of shape (m, steps, n)."""
    m = rates.shape[0]
    if rates.size == 0:
        return np.zeros(rates.shape)
    order = np.argsort(-rates.reshape(m, -1), axis=-1, kind="stable")
    cost = np.take_along_axis(costs.reshape(m, -1), order, axis=-1)
    spent = np.zeros_like(cost)
    np.add.accumulate(cost[:, :-1], axis=-1, out=spent[:, 1:])
    affordable = np.clip(budget - spent, 0.0, cost)
    share = np.divide(affordable, cost, out=np.zeros_like(cost), where=cost > 0.0)
    shares = np.empty_like(share)
    np.put_along_axis(shares, order, share, axis=-1)
    return np.minimum.accumulate(shares.reshape(rates.shape), axis=1)
