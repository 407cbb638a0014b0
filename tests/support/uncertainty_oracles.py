"""Independent answers to the worst-case problem: none of them sorts, all are slow.

The one-dimensional duals are solved by bisection in extended precision; linear sets also as
linear programs, and the MMD ball by a general convex solver and by a bound from weak duality.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize

BISECTIONS = 140
LD = np.longdouble


def unit(values: Any) -> Any:
    """Values in extended precision, shifted and scaled to [0, 1]; constant rows become 0."""
    wide = np.asarray(values, dtype=LD)
    wide = wide - wide.min()
    top = wide.max()
    return wide / top if top > 0 else wide


def chi_square_value(x: Any, q: Any, rho: Any) -> Any:
    """Bisection on the level tau of p = q (tau - x)_+ / lam, whose divergence falls in tau."""
    x, q = x[q > 0], q[q > 0].astype(LD)
    q = q / q.sum()
    x = x - x.min()
    if x.max() == 0:
        return x[0]

    def weights(tau: Any) -> Any:
        p = q * np.maximum(tau - x, 0)
        return p / p.sum()

    def excess(tau: Any) -> Any:
        return np.sum(q * np.square(weights(tau) / q - 1)) - 2 * LD(rho)

    mass = q[x == 0].sum()
    if 2 * LD(rho) * mass >= 1 - mass:
        return LD(0)
    if rho == 0:
        return np.sum(q * x)
    low, high = LD(0), LD(2)
    while excess(high) > 0:
        low, high = high, high * 8
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if excess(middle) > 0:
            low = middle
        else:
            high = middle
    return np.sum(weights(high) * x)


def kl_value(x: Any, q: Any, rho: Any) -> Any:
    """Bisection on the strength of the exponential tilt."""
    x, q = x[q > 0], q[q > 0].astype(LD)
    q = q / q.sum()
    x = x - x.min()
    if x.max() == 0 or rho == 0:
        return np.sum(q * x)
    if rho >= -np.log(q[x == 0].sum()):
        return LD(0)

    def weights(log_beta: Any) -> Any:
        p = q * np.exp(-np.exp(log_beta) * x)
        return p / p.sum()

    def divergence(p: Any) -> Any:
        held = p > 0
        return np.sum(p[held] * np.log(p[held] / q[held]))

    low, high = LD(-40), LD(60)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if divergence(weights(middle)) < rho:
            low = middle
        else:
            high = middle
    return np.sum(weights(low) * x)


def cvar_value(x: Any, q: Any, alpha: Any) -> Any:
    """The dual max_t t - E (t - x)_+ / alpha has its optimum at one of the values."""
    x, q = x[q > 0], q[q > 0].astype(LD)
    return max(t - np.sum(q * np.maximum(t - x, 0)) / (q.sum() * LD(alpha)) for t in x)


def total_variation_value(x: Any, q: Any, rho: Any) -> Any:
    """The dual max_lam E min(x, min x + lam) - lam rho has its optimum at a breakpoint."""
    q = q.astype(LD) / q.astype(LD).sum()
    return max(np.sum(q * np.minimum(x, lam)) - lam * LD(rho) for lam in x)


def wasserstein_value(x: Any, q: Any, rho: Any, distances: Any) -> Any:
    """Bisection on the slope of the concave dual; any lam gives a lower bound."""
    q = q.astype(LD) / q.astype(LD).sum()
    d = np.asarray(distances, dtype=LD)

    def dual(lam: Any) -> Any:
        cost = x + lam * d  # (i, j)
        best = np.argmin(cost, axis=1)
        rows = np.arange(len(x))
        return np.sum(q * cost[rows, best]) - lam * LD(rho), np.sum(q * d[rows, best])

    low, high = LD(0), LD(1)
    bound = dual(low)[0]
    for _ in range(60):
        value, spent = dual(high)
        bound = max(bound, value)
        if spent <= rho:
            break
        low, high = high, high * 4
    for _ in range(90):
        middle = (low + high) / 2
        value, spent = dual(middle)
        bound = max(bound, value)
        if spent > rho:
            low = middle
        else:
            high = middle
    return bound


def total_variation_program(x: Any, q: Any, rho: Any) -> Any:
    """Primal linear program in p and the mass that leaves each context."""
    n = len(x)
    cost = np.concatenate([x, np.zeros(n)])
    leaves = np.hstack([-np.eye(n), -np.eye(n)])  # q - p <= leaving
    total = np.concatenate([np.zeros(n), np.ones(n)])[None]
    answer = linprog(
        cost,
        A_ub=np.vstack([leaves, total]),
        b_ub=np.append(-q, rho),
        A_eq=np.concatenate([np.ones(n), np.zeros(n)])[None],
        b_eq=[1.0],
    )
    return answer.fun


def cvar_program(x: Any, q: Any, alpha: Any) -> Any:
    """Primal linear program with p <= q / alpha."""
    bounds = [(0.0, float(b)) for b in q / alpha]
    return linprog(x, A_eq=np.ones((1, len(x))), b_eq=[1.0], bounds=bounds).fun


def wasserstein_program(x: Any, q: Any, rho: Any, distances: Any) -> Any:
    """Primal linear program over transport plans (i, j)."""
    n = len(x)
    leaving = np.kron(np.eye(n), np.ones(n))
    answer = linprog(np.tile(x, n), A_ub=[np.ravel(distances)], b_ub=[rho], A_eq=leaving, b_eq=q)
    return answer.fun


def transport_distance(p: Any, q: Any, distances: Any) -> Any:
    """Least mean distance at which q can be carried to p."""
    n = len(p)
    both = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    return linprog(np.ravel(distances), A_eq=both, b_eq=np.concatenate([q, p])).fun


def mmd_bound(x: Any, q: Any, rho: Any, gram: Any, p: Any) -> Any:
    """Lower bound of the value from weak duality at p, the best over the ball's multiplier.

    For any multiplier mu >= 0 the Lagrangian is convex in p, so on the simplex it is at least
    its linearization at p, which is least at a corner.
    """
    pull = gram @ (p - q)
    outside = (p - q) @ pull - rho**2

    def bound(mu: Any) -> Any:
        slope = x + np.multiply.outer(mu, pull)
        return p @ x + 0.5 * mu * outside + slope.min(axis=-1) - slope @ p

    low, high = -40.0, 40.0
    best = float(bound(np.zeros(1))[0])
    for _ in range(9):
        grid = np.linspace(low, high, 100)
        bounds = bound(np.exp(grid))
        center = grid[bounds.argmax()]
        best = max(best, float(bounds.max()))
        width = (high - low) / 40
        low, high = center - width, center + width
    return best


def mmd_program(x: Any, q: Any, rho: Any, gram: Any) -> Any:
    """A general convex solver, from the reference, to its own tolerance."""
    answer = minimize(
        lambda p: p @ x,
        q,
        jac=lambda p: x,
        bounds=[(0.0, 1.0)] * len(x),
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1.0, "jac": lambda p: np.ones_like(p)},
            {
                "type": "ineq",
                "fun": lambda p: rho**2 - (p - q) @ gram @ (p - q),
                "jac": lambda p: -2.0 * gram @ (p - q),
            },
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return float(answer.fun)


def line_distances(points: Any) -> Any:
    """Distances |w_i - w_j| of contexts on a line."""
    return np.abs(np.subtract.outer(points, points))


def line_transport(p: Any, q: Any, points: Any) -> Any:
    """Transport distance on a line: the area between the two distribution functions."""
    order = np.argsort(points)
    return np.abs(np.cumsum((p - q)[order])[:-1]) @ np.diff(points[order])


def random_case(rng: Any, n_most: Any = 50) -> tuple[np.ndarray, np.ndarray, float]:
    """Values, reference and a radius in [0, n]: ties, offsets, scales, zeros, edges."""
    n = int(rng.integers(1, n_most + 1))
    values = rng.normal(size=n) if rng.random() < 0.7 else rng.random(n) ** 8
    if rng.random() < 0.3:
        values = np.round(values * rng.integers(1, 4))
    values = values * 10.0 ** rng.uniform(-12, 12)
    if rng.random() < 0.3:
        values = values + np.abs(values).max() * 10.0 ** rng.uniform(0, 9)
    if rng.random() < 0.03:
        values = np.full(n, values[0])
    q = np.full(n, 1.0 / n)
    if rng.random() < 0.5:
        q = rng.dirichlet(np.full(n, rng.choice([0.3, 1.0, 10.0])))
    if rng.random() < 0.2 and n > 2:
        q = np.where(np.arange(n) < n // 2, q, 0.0)
        q = q / q.sum()
    edges = [0.0, 1e-18, 10.0 ** rng.uniform(-12, 0), (n - 1) / 2, rng.uniform(0, (n - 1) / 2)]
    radius = rng.uniform(0, n) if rng.random() < 0.4 else edges[rng.integers(len(edges))]
    return values, q, float(radius)


def random_cases(
    count: Any, seed: int, n_most: Any = 50
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """`count` cases of `random_case` from one seed."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield random_case(rng, n_most)
