"""Hyperparameters by maximum likelihood or maximum posterior (docs/maths.md, eq. 10-12).

| symbol | meaning                                             | shape  |
|--------|-----------------------------------------------------|--------|
| X, c, y | observed inputs, context indices, centered scores  | (N, d), (N,), (N,) |
| K      | covariance of the data, noise included              | (N, N) |
| a      | K^-1 y                                              | (N,)   |
| W      | derivative of the log likelihood by K: (aa' - K^-1)/2 | (N, N) |
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from drbqo_ray.core import linalg
from drbqo_ray.core.contexts import EmbeddedContexts
from drbqo_ray.core.kernels import KernelFamily
from drbqo_ray.types import Array, Indices

NOISE_FLOOR = 1e-9
NOISE_MEDIAN, NOISY_PRIOR_MEDIAN = 1e-3, 0.1
LOG_2PI = math.log(2 * math.pi)
BAD = 1e25
RESOLUTION = 0.02


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log marginal likelihood of standardized data, with its closed-form gradient.

    Attributes:
        family: the kernel up to its parameters.
        X, c, y: the data.
        weight: 1 adds the weak log-normal priors, 0 is plain maximum likelihood.
        noisy_prior: whether the prior expects noise, so that few scores which jump about are taken
            for noisy and not for a process of short length scale.
    """

    family: KernelFamily
    X: Array
    c: Indices
    y: Array
    weight: float = 1.0
    noisy_prior: bool = False

    @cached_property
    def prior_mean(self) -> Array:
        """Prior mean of the parameter vector."""
        theta = np.full(self.family.d, math.log(0.6) + 0.5 * math.log(max(self.family.d, 1)))
        s2 = [] if self.family.contexts.free_form else [0.0]
        log_noise = math.log(NOISY_PRIOR_MEDIAN if self.noisy_prior else NOISE_MEDIAN)
        return np.concatenate([theta, self.family.contexts.prior_mean, s2, [log_noise]])

    @cached_property
    def prior_std(self) -> Array:
        """Prior standard deviation of the parameter vector."""
        s2 = [] if self.family.contexts.free_form else [1.5]
        theta = np.ones(self.family.d)
        return np.concatenate([theta, self.family.contexts.prior_std, s2, [3.0]])

    @cached_property
    def bounds(self) -> Array:
        """Interval of each parameter, (P, 2)."""
        theta = [(math.log(0.01), math.log(100.0))] * self.family.d
        between = [self.family.contexts.bounds] * len(self.family.contexts.prior_mean)
        s2 = [] if self.family.contexts.free_form else [(math.log(1e-4), math.log(1e5))]
        return np.array([*theta, *between, *s2, (math.log(NOISE_FLOOR), math.log(10.0))])

    @cached_property
    def _groups(self) -> Array:
        """Inputs, one-hot contexts unless these are many, and a column of ones, (N, d + n + 1)."""
        ones = np.ones((len(self.y), 1))
        contexts = self.family.contexts
        if contexts.many:
            return np.concatenate([self.X, ones], axis=1)
        return np.concatenate([self.X, np.eye(contexts.n)[self.c], ones], axis=1)

    @cached_property
    def _half(self) -> Array:
        """1 below the diagonal and 1/2 on it: half of a symmetric sum, (N, N)."""
        N = len(self.y)
        return np.tril(np.ones((N, N)), -1) + 0.5 * np.eye(N)

    def log_prior(self, parameters: Array) -> tuple[float, Array]:
        """Log prior density up to a constant, and its gradient (P,)."""
        z = (parameters - self.prior_mean) / self.prior_std
        return -0.5 * self.weight * float(z @ z), -self.weight * z / self.prior_std

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """Log likelihood plus log prior, and the gradient (P,); raises LinAlgError."""
        family, d = self.family, self.family.d
        free = family.contexts.free_form
        shared = parameters[d : -1 if free else -2]
        noise = math.exp(parameters[-1])
        scaled = self.X * np.exp(-parameters[:d])
        D2 = cdist(scaled, scaled, "sqeuclidean")
        between = self._between(shared)
        if not free:
            D2 += between
        g, slope = family.shape.value_and_slope(D2)
        factor = between if free else math.exp(parameters[-2])
        signal = factor * g
        value, W, trace = self._evidence(signal, noise)
        P = W * signal if slope is g else W * (factor * slope)
        moments = P @ self._groups  # (N, d + n + 1)
        by_theta = self._by_theta(parameters[:d], P, moments)
        by_shared = self._by_shared(shared, P, moments, W, g)
        by_s2 = [] if free else [float(np.vdot(W, signal))]
        prior, prior_gradient = self.log_prior(parameters)
        gradient = np.concatenate([by_theta, by_shared, by_s2, [noise * trace]])
        return value + prior, gradient + prior_gradient

    def predictive(self, parameters: Array) -> float:
        """Log density of every score given all others, summed (docs/maths.md, eq. 20).

        Each prediction is blurred by RESOLUTION: how well scores that nearly repeat are told
        apart to the last digit says nothing about how well a config elsewhere is foreseen.
        """
        kernel = self.family.unpack(parameters)
        K = np.array(kernel.matrix(self.X, self.c, self.X, self.c), order="F")
        K.flat[:: len(K) + 1] += kernel.noise
        L, info = lapack.dpotrf(K, lower=1, clean=1, overwrite_a=1)
        if info:
            return -math.inf
        a = linalg.solve(L, self.y)
        inverse, _ = lapack.dpotri(L, lower=1, overwrite_c=1)
        variance = 1.0 / np.diagonal(inverse)
        error, blurred = a * variance, variance + RESOLUTION**2
        return float(-0.5 * np.sum(LOG_2PI + np.log(blurred) + error**2 / blurred))

    def _between(self, shared: Array) -> Array:
        """D2 or B between the contexts of every two rows, (N, N)."""
        if self.family.contexts.many:
            return self.family.contexts.entries(shared, self.c, self.c)
        return self.family.contexts.matrix(shared)[self.c][:, self.c]

    def _by_shared(self, shared: Array, P: Array, moments: Array, W: Array, g: Array) -> Array:
        """Derivative by the parameters of the contexts."""
        contexts = self.family.contexts
        if isinstance(contexts, EmbeddedContexts) and contexts.many:
            return contexts.pull_back_rows(shared, self.c, P)
        onehot = self._groups[:, self.family.d : -1]
        if contexts.free_form:
            return contexts.pull_back(shared, onehot.T @ ((W * g) @ onehot))
        return contexts.pull_back(shared, -(onehot.T @ moments[:, self.family.d : -1]))

    def _by_theta(self, log_theta: Array, P: Array, moments: Array) -> Array:
        """sum_ij P_ij (x_i - x_j)^2 times 2 / theta^2, input by input, (d,)."""
        d = len(log_theta)
        ends = moments[:, -1] + P.sum(axis=0)
        products = np.einsum("Nd,Nd->d", self.X, moments[:, :d])
        return 2 * np.exp(-2 * log_theta) * (ends @ self.X**2 - 2 * products)

    def _evidence(self, signal: Array, noise: float) -> tuple[float, Array, float]:
        """Log likelihood, W folded onto its lower triangle, and the trace of W."""
        K = np.array(signal, order="F")
        K.flat[:: len(K) + 1] += noise
        L, info = lapack.dpotrf(K, lower=1, clean=1, overwrite_a=1)
        if info:
            raise np.linalg.LinAlgError("covariance of the data is not positive definite")
        a = linalg.solve(L, self.y)
        value = -0.5 * float(self.y @ a) - float(np.log(np.diagonal(L)).sum())
        inverse, _ = lapack.dpotri(L, lower=1, overwrite_c=1)
        W = np.outer(a, a)
        W -= inverse
        trace = 0.5 * float(np.trace(W))
        W *= self._half
        return value - 0.5 * len(self.y) * LOG_2PI, W, trace


def fit(
    likelihood: Likelihood, starts: Iterable[Array], max_iterations: int
) -> tuple[Array, float]:
    """The best parameters (P,) that L-BFGS-B finds from any of the starts, and their value."""

    def loss(parameters: Array) -> tuple[float, Array]:
        try:
            value, gradient = likelihood(parameters)
        except np.linalg.LinAlgError:
            return BAD, np.zeros_like(parameters)
        return (-value, -gradient) if math.isfinite(value) else (BAD, np.zeros_like(parameters))

    low, high = likelihood.bounds.T
    best, best_loss = likelihood.prior_mean, math.inf
    for start in starts:
        found = minimize(
            loss,
            np.clip(start, low, high),
            jac=True,
            method="L-BFGS-B",
            bounds=likelihood.bounds,
            options={"maxiter": max_iterations, "ftol": 1e-6, "gtol": 1e-4, "maxcor": 12},
        )
        if found.fun < best_loss:
            best, best_loss = found.x, float(found.fun)
    return np.asarray(best), -best_loss
