"""Random data sets and kernels on (config, context) pairs, shared by the tests of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from drbqo_ray.core.contexts import EmbeddedContexts, FreeFormContexts
from drbqo_ray.core.gp import GaussianProcess
from drbqo_ray.core.kernels import SHAPES, KernelFamily
from drbqo_ray.core.likelihood import Likelihood

CONTEXT_KINDS = ("folds", "samples", "free-form")


def context_model(kind: str, n: int, rng: np.random.Generator) -> Any:
    if kind == "folds":
        return EmbeddedContexts.folds(n)
    if kind == "samples":
        return EmbeddedContexts.samples(rng.standard_normal((n, 3)))
    return FreeFormContexts(n)


def random_likelihood(
    shape: str, kind: str, rng: np.random.Generator, *, N: int = 20, d: int = 3, n: int = 4
) -> tuple[Likelihood, np.ndarray]:
    """Data with a likelihood, and parameters drawn around its prior, noise 1e-4 to 1e-1."""
    family = KernelFamily(SHAPES[shape], context_model(kind, n, rng), d)
    X, c = rng.random((N, d)), rng.integers(0, n, N)
    y = np.sin(5 * X.sum(axis=1)) + 0.3 * rng.standard_normal(n)[c] + 0.1 * rng.standard_normal(N)
    likelihood = Likelihood(family, X, c, (y - y.mean()) / y.std(), weight=0.0)
    spread = 0.5 * likelihood.prior_std * rng.standard_normal(len(likelihood.prior_mean))
    parameters = likelihood.prior_mean + spread
    parameters[-1] = np.log(10 ** rng.uniform(-4, -1))
    return likelihood, parameters


def random_process(
    shape: str, kind: str, rng: np.random.Generator, noise: float | None = None, **sizes: int
) -> GaussianProcess:
    """A process given random data, with the noise replaced if one is given."""
    likelihood, parameters = random_likelihood(shape, kind, rng, **sizes)
    if noise is not None:
        parameters[-1] = np.log(noise)
    kernel = likelihood.family.unpack(parameters)
    return GaussianProcess.condition(kernel, likelihood.X, likelihood.c, likelihood.y)


def joint_posterior(gp: GaussianProcess, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (k n,) and covariance (k n, k n) of configs x (k, d) in all contexts, by the book."""
    n = gp.kernel.family.contexts.n
    rows, contexts = np.repeat(x, n, axis=0), np.tile(np.arange(n), len(x))
    K = gp.kernel.matrix(gp.X, gp.c, gp.X, gp.c) + (gp.kernel.noise + gp.jitter) * np.eye(len(gp.y))
    cross = gp.kernel.matrix(rows, contexts, gp.X, gp.c)
    prior = gp.kernel.matrix(rows, contexts, rows, contexts)
    return cross @ np.linalg.solve(K, gp.y), prior - cross @ np.linalg.solve(K, cross.T)


def slopes(function: Any, x: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Fourth-order central differences of function: (p,) -> array, one row per coordinate."""
    rows = []
    for e in step * np.eye(len(x)):
        near = function(x + e) - function(x - e)
        far = function(x + 2 * e) - function(x - 2 * e)
        rows.append((8 * near - far) / (12 * step))
    return np.array(rows)


def miss(values: np.ndarray, exact: np.ndarray) -> float:
    """Largest distance of the mean of values (S, ...) from exact, in standard errors."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return float((np.abs(values.mean(axis=0) - exact) / error).max())


def moments_miss(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """Largest miss of the first two moments of draws (S, k), in standard errors."""
    centered = draws - mean
    products = centered[:, :, None] * centered[:, None, :]
    return max(miss(draws, mean), miss(products, covariance))
