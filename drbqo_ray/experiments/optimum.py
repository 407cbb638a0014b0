"""The robust optimum of a test function, with a bound on how far it may be off.

    best = max over x of g(x),   g(x) = min over P in the ball of sum_i P_i f(x, w_i)

Any weights P of the ball give the upper bound  best <= max over x of sum_i P_i f(x, w_i)  (weak
duality). In the logistic example f is concave in x, so that maximum is itself bounded by a
tangent plane: the gap between bound and value proves the optimum. The other functions are not
concave; there the optimum is the best of many local searches, and the gap says how far two
searches from different starts disagree, which is evidence and no proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from drbqo_ray.core.sets import ChiSquareBall
from drbqo_ray.experiments.synthetic import N_SAMPLES, Surface
from drbqo_ray.threads import one_thread
from drbqo_ray.types import Array

UNIFORM = np.full(N_SAMPLES, 1 / N_SAMPLES)
STARTS_LOG2 = 15
LOCAL_SEARCHES = 24
POLISH_ROUNDS = 6


@dataclass(frozen=True)
class RobustOptimum:
    """The best robust value of a test function.

    Attributes:
        radius: of the chi-square ball.
        value: the robust value at `x`.
        x: where it was found, (d,).
        gap: how far the value may be below the true optimum, see `proof`.
        proof: "duality" if the gap is proven, "agreement" if two searches agree to it.
    """

    radius: float
    value: float
    x: tuple[float, ...]
    gap: float
    proof: str


def robust_values(surface: Surface, x: Array, radius: float) -> Array:
    """g at points x (k, d), (k,)."""
    return np.asarray(ChiSquareBall(radius).solve(surface.values(x), UNIFORM)[0])


@one_thread
def find_optimum(surface: Surface, radius: float) -> RobustOptimum:
    """The robust optimum over the box, and its certificate."""
    found = [_search(surface, radius, seed) for seed in (0, 1)]
    values = [float(robust_values(surface, x[None], radius)[0]) for x in found]
    x, value = found[int(np.argmax(values))], max(values)
    if surface.shifted is not None:
        return RobustOptimum(
            radius, value, tuple(map(float, x)), max(values) - min(values), "agreement"
        )
    center = np.zeros(surface.d)
    at_center = float(robust_values(surface, center[None], radius)[0])
    if at_center >= value - 1e-9:
        x, value = center, at_center
    gap = _duality_gap(surface, radius, x, value)
    return RobustOptimum(radius, value, tuple(map(float, x)), gap, "duality")


def _search(surface: Surface, radius: float, seed: int) -> Array:
    """The best of many simplex searches, restarted with ever smaller simplices."""
    cube = qmc.Sobol(surface.d, seed=seed).random_base2(STARTS_LOG2)
    starts = surface.low + (surface.high - surface.low) * cube
    values = robust_values(surface, starts, radius)
    starts = _apart(surface, starts[np.argsort(-values)])
    best = np.array([_climb(surface, radius, x, 1, 1e-7) for x in starts])
    top = best[np.argmax(robust_values(surface, best, radius))]
    return _climb(surface, radius, top, POLISH_ROUNDS, 1e-15)


def _apart(surface: Surface, ordered: Array) -> Array:
    """The first points (m, d) that are not close to an earlier one."""
    kept: list[Array] = []
    wanted = 1 if surface.shifted is None else LOCAL_SEARCHES  # one is enough for a concave one
    least = 0.02 * (surface.high - surface.low)
    for x in ordered:
        if all(np.max(np.abs(x - other)) > least for other in kept):
            kept.append(x)
        if len(kept) == wanted:
            break
    return np.array(kept)


def _climb(surface: Surface, radius: float, x: Array, rounds: int, tolerance: float) -> Array:
    def loss(point: Array) -> float:
        inside = np.clip(point, surface.low, surface.high)
        return -float(robust_values(surface, inside[None], radius)[0])

    width = surface.high - surface.low
    for turn in range(rounds):
        size = 0.01 * width * 0.05**turn
        simplex = np.vstack([x, x + size * np.eye(surface.d)])
        options = {
            "initial_simplex": simplex,
            "xatol": tolerance * width,
            "fatol": tolerance * max(1.0, abs(loss(x))),
            "maxfev": 3000,
        }
        x = np.clip(
            minimize(loss, x, method="Nelder-Mead", options=options).x, surface.low, surface.high
        )
    return x


def _duality_gap(surface: Surface, radius: float, x: Array, value: float) -> float:
    """Least proven gap over two choices of the weights: the worst case at x, and weights that
    make the weighted slope at x vanish (needed where g has a kink)."""
    worst = ChiSquareBall(radius).solve(surface.values(x[None]), UNIFORM)[1][0]
    candidates = [worst]
    balanced = _balancing_weights(_slopes(surface, x))
    if balanced is not None and N_SAMPLES * float(balanced @ balanced) <= 1 + 2 * radius:
        candidates.append(balanced)
    return min(_upper_bound(surface, p, x) for p in candidates) - value


def _slopes(surface: Surface, x: Array) -> Array:
    """Slopes (n, d) of the logistic f(., w_i) at x (d,)."""
    W = surface.samples
    return -W / (1 + np.exp(-(W @ x)))[:, None]


def _balancing_weights(slopes: Array) -> Array | None:
    """The weights (n,) nearest to uniform with sum_i p_i slopes_i = 0; None if there are none."""
    conditions = [
        {"type": "eq", "fun": lambda p: np.sum(p) - 1, "jac": lambda p: np.ones_like(p)},
        {"type": "eq", "fun": lambda p: slopes.T @ p, "jac": lambda p: slopes.T},
    ]
    found = minimize(
        lambda p: float(p @ p),
        UNIFORM,
        jac=lambda p: 2 * p,
        method="SLSQP",
        bounds=[(0, 1)] * len(slopes),
        constraints=conditions,
        options={"ftol": 1e-16, "maxiter": 500},
    )
    p = np.maximum(found.x, 0) / np.sum(np.maximum(found.x, 0))
    return p if np.max(np.abs(slopes.T @ p)) < 1e-8 else None


def _upper_bound(surface: Surface, p: Array, x: Array) -> float:
    """A proven upper bound of max over the box of sum_i p_i f(., w_i), from a tangent plane."""

    def loss(point: Array) -> tuple[float, Array]:
        value = float(surface.values(point[None])[0] @ p)
        return -value, -_slopes(surface, point).T @ p

    bounds = [(surface.low, surface.high)] * surface.d
    top = minimize(
        loss, x, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-16, "gtol": 1e-12}
    ).x
    top = _newton(surface, p, top)
    value, slope = (-part for part in loss(top))
    reach = np.maximum(slope * (surface.high - top), slope * (surface.low - top))
    return float(value + np.sum(reach))


def _newton(surface: Surface, p: Array, x: Array) -> Array:
    """Newton steps on sum_i p_i f(., w_i) while they stay inside the box."""
    W = surface.samples
    for _ in range(3):
        rise = 1 / (1 + np.exp(-(W @ x)))
        curvature = (W.T * (p * rise * (1 - rise))) @ W
        step = x + np.linalg.solve(curvature, _slopes(surface, x).T @ p)
        if np.any(np.abs(step) >= surface.high) or np.max(np.abs(step - x)) > 1e-3:
            break
        x = step
    return x
