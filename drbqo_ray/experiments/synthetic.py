"""Test functions of a point and a sample: the logistic example and those of appendix C.

All are to be maximized, so the classical ones, which are to be minimized, are negated.

| symbol | meaning                               | shape  |
|--------|---------------------------------------|--------|
| x      | points of the search box              | (k, d) |
| W      | the fixed samples of the true law     | (n, d) |
| values | f(x, w) for every point and sample    | (k, n) |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from drbqo_ray.errors import InvalidInput
from drbqo_ray.types import Array

N_SAMPLES = 10
SAMPLE_SEED = 84

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
