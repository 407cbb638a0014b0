"""Test functions of a point and a sample, the logistic example and those of appendix C, and their
robust optima, with a bound on how far each may be off.

All are to be maximized, so the classical ones, which are to be minimized, are negated.

| symbol | meaning                               | shape  |
|--------|---------------------------------------|--------|
| x      | points of the search box              | (k, d) |
| W      | the fixed samples of the true law     | (n, d) |
| values | f(x, w) for every point and sample    | (k, n) |

    best = max over x of g(x),   g(x) = min over P in the ball of sum_i P_i f(x, w_i)

Any weights P of the ball give the upper bound  best <= max over x of sum_i P_i f(x, w_i)  (weak
duality). In the logistic example f is concave in x, so that maximum is itself bounded by a
tangent plane: the gap between bound and value proves the optimum. The other functions are not
concave; there the optimum is the best of many local searches, and the gap says how far two
searches from different starts disagree, which is evidence and no proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from drbqo_ray.core.sets import ChiSquareBall
from drbqo_ray.errors import InvalidInput
from drbqo_ray.threads import one_thread
from drbqo_ray.types import Array

N_SAMPLES = 10
SAMPLE_SEED = 84
UNIFORM = np.full(N_SAMPLES, 1 / N_SAMPLES)
STARTS_LOG2 = 15
LOCAL_SEARCHES = 24
POLISH_ROUNDS = 6

_HARTMANN_WEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_HARTMANN_SCALES = {
    3: np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]),
    6: np.array(
        [
            [10, 3, 17, 3.5, 1.7, 8],
            [0.05, 10, 17, 0.1, 8, 14],
            [3, 3.5, 1.7, 10, 17, 8],
            [17, 8, 0.05, 10, 0.1, 14],
        ]
    ),
}
_HARTMANN_CENTERS = {
    3: 1e-4
    * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
    6: 1e-4
    * np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    ),
}


def beale(z: Array) -> Array:
    """Negated Beale function of points (..., 2); its maximum 0 is at (3, 0.5)."""
    a, b = z[..., 0], z[..., 1]
    terms = (1.5 - a + a * b, 2.25 - a + a * b**2, 2.625 - a + a * b**3)
    return -(terms[0] ** 2 + terms[1] ** 2 + terms[2] ** 2)


def eggholder(z: Array) -> Array:
    """Negated Eggholder function of points (..., 2); its maximum is 959.6407 in the usual box."""
    a, b = z[..., 0], z[..., 1] + 47
    waves = b * np.sin(np.sqrt(np.abs(a / 2 + b))) + a * np.sin(np.sqrt(np.abs(a - b)))
    return np.asarray(waves)


def hartmann(z: Array) -> Array:
    """Negated Hartmann function of points (..., 3) or (..., 6); maxima 3.86278 and 3.32237."""
    d = z.shape[-1]
    distances = np.sum(_HARTMANN_SCALES[d] * (z[..., None, :] - _HARTMANN_CENTERS[d]) ** 2, axis=-1)
    return np.exp(-distances) @ _HARTMANN_WEIGHTS


def levy(z: Array) -> Array:
    """Negated Levy function of points (..., d); its maximum 0 is at (1, ..., 1)."""
    v = 1 + (z - 1) / 4
    head = np.sin(np.pi * v[..., 0]) ** 2
    inner = v[..., :-1]
    body = np.sum((inner - 1) ** 2 * (1 + 10 * np.sin(np.pi * inner + 1) ** 2), axis=-1)
    tail = (v[..., -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * v[..., -1]) ** 2)
    return -(head + body + tail)


@dataclass(frozen=True)
class Surface:
    """A test function on its box, with n = 10 fixed samples.

    Attributes:
        name: what it is called.
        low, high: the box, the same for every coordinate.
        d: number of coordinates.
        sample_scale: standard deviation of the samples.
        shifted: the function f of f(x + w), or None for the logistic form f(x . w).
    """

    name: str
    low: float
    high: float
    d: int
    sample_scale: float = 1.0
    shifted: Callable[[Array], Array] | None = None

    @property
    def samples(self) -> Array:
        """The samples W (n, d)."""
        return self.sample_scale * np.random.RandomState(SAMPLE_SEED).randn(N_SAMPLES, self.d)

    def values(self, x: Array) -> Array:
        """f(x, w) at points x (k, d) for every sample, (k, n)."""
        if self.shifted is None:
            return -np.logaddexp(0.0, x @ self.samples.T)
        return self.shifted(x[:, None, :] + self.samples)


SURFACES = {
    surface.name: surface
    for surface in (
        Surface("logistic", -2.0, 2.0, 2),
        Surface("beale", -4.5, 4.5, 2, 1.0, beale),
        Surface("eggholder", -512.0, 512.0, 2, 1.0, eggholder),
        Surface("hartmann3", 0.0, 1.0, 3, 0.1, hartmann),
        Surface("hartmann6", 0.0, 1.0, 6, 0.1, hartmann),
        Surface("levy", -10.0, 10.0, 2, 1.0, levy),
    )
}


def find_surface(name: str) -> Surface:
    """The test function of this name."""
    if name not in SURFACES:
        raise InvalidInput(
            "The test function must be one we know.", name, f"Use one of {list(SURFACES)}."
        )
    return SURFACES[name]


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
