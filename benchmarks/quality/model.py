"""Which model foretells scores it was not told? Variants beside the model of `foldwise`.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.model [--seeds 20] [--group development]

Configs are random. Few scores are those of a search that has just begun: some configs on one fold
each. Of many, some configs are told on all folds. The model is asked for the folds that are
missing, and for configs it has never seen. Better is the higher log density of these scores.
Differences are paired by seed. A variant by fold takes the hyperparameters of `foldwise` and fits
its own on top of them, with log-normal priors around a start.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import norm

import drbqo_ray as dr
from benchmarks.quality.cells import settle
from benchmarks.quality.learners import Config
from benchmarks.quality.problems import GROUPS, PROBLEMS, FoldProblem, open_problem
from benchmarks.table import Line, add_save_option, mean_interval, publish

Array = np.ndarray
BAD = 1e25
EDGE = 0.005  # accuracies are kept this far from 0 and 1 where their logarithms are taken
MEAN_MEDIAN = 0.1
STRAY = 0.01
SIZES = ("few", "many")
FEW, WHOLE, SINGLE, FRESH = 12, 6, 30, 16
ACCURACY = [name for name, task in PROBLEMS.items() if task.data not in ("diabetes", "logistic")]


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores of configs on all folds, and which of them the model is told.

    Attributes:
        problem: what they belong to.
        configs: the configs (m).
        scores: their scores (m, n).
        told: whether the model is told, (m, n).
    """

    problem: FoldProblem
    configs: list[Config]
    scores: Array
    told: Array

    def optimizer(self, method: str = "foldwise", **options: Any) -> dr.Optimizer:
        """Our optimizer, told what it may know."""
        contexts = self.problem.n_folds if self.problem.contexts is None else self.problem.contexts
        optimizer = dr.Optimizer(self.problem.space, contexts, method=method, **options)
        for k, i in zip(*np.nonzero(self.told), strict=True):
            optimizer.observe(self.configs[k], int(i), float(self.scores[k, i]))
        return optimizer

    def inputs(self, space: dr.Space) -> Array:
        """The configs as model inputs (m, d)."""
        return space.features(np.array([space.to_unit(config) for config in self.configs]))

    def log_density(self, means: Array, variances: Array) -> Array:
        """Log densities (u,) of the scores that were not told, given normal predictions (m, n).

        A small share of the scores may be anything, so that one score which a model thought
        impossible does not decide alone.
        """
        hidden, scores = ~self.told, self.scores[~self.told]
        foretold = norm.logpdf(scores, means[hidden], np.sqrt(variances[hidden]))
        anything = norm.logpdf(scores, self.scores.mean(), max(float(self.scores.std()), 1e-9))
        return np.logaddexp(math.log(1 - STRAY) + foretold, math.log(STRAY) + anything)


def plain(sample: Sample, **options: Any) -> Array:
    """The model of `foldwise`, or of an optimizer with other options."""
    optimizer = sample.optimizer(**options)
    means, stds = optimizer.predict(sample.configs)
    fit, gp = optimizer.model.current()
    return sample.log_density(means, stds**2 + fit.scale**2 * gp.kernel.noise)


def warped(sample: Sample) -> Array:
    """The model of `foldwise` on the scale log(y / (1 - y)) of accuracies y."""
    inner = np.clip(sample.scores, EDGE, 1 - EDGE)
    logits = Sample(sample.problem, sample.configs, np.log(inner / (1 - inner)), sample.told)
    return plain(logits) - np.log(inner * (1 - inner))[~sample.told]


@dataclass(frozen=True)
class ByFold:
    """What a variant adds to the model.

    Attributes:
        start: noise of the model, n -> parameters (P,) to begin with.
        offset: parameters -> variance of an offset that all scores of a fold share.
        noise: parameters, n -> noise of each fold (n,).
    """

    start: Callable[[float, int], Array]
    offset: Callable[[Array], float]
    noise: Callable[[Array, int], Array]

    def __call__(self, sample: Sample) -> Array:
        """Log densities (u,) of the scores that were not told."""
        optimizer = sample.optimizer()
        fit, gp = optimizer.model.current()
        m, n = sample.told.shape
        signal = gp.kernel.matrix(gp.X, gp.c, gp.X, gp.c)
        same = gp.c[:, None] == gp.c
        middle = self.start(gp.kernel.noise, n)

        def covariance(parameters: Array) -> Array:
            return (
                signal + self.offset(parameters) * same + np.diag(self.noise(parameters, n)[gp.c])
            )

        best = minimize(partial(_loss, covariance, gp.y, middle), middle, method="L-BFGS-B").x
        folds = np.tile(np.arange(n), m)
        offset, noise = self.offset(best), self.noise(best, n)
        cross = gp.kernel.cross(sample.inputs(optimizer.space), gp.X, gp.c).reshape(m * n, -1)
        cross = cross + offset * (folds[:, None] == gp.c)  # (m n, N)
        factor = cho_factor(covariance(best))
        learned = np.einsum("kN,Nk->k", cross, cho_solve(factor, cross.T))
        means = fit.center + fit.scale * (cross @ cho_solve(factor, gp.y))
        variances = np.diagonal(gp.kernel.B)[folds] + offset + noise[folds] - learned
        return sample.log_density(
            means.reshape(m, n), fit.scale**2 * np.maximum(variances, 1e-12).reshape(m, n)
        )


def _loss(
    covariance: Callable[[Array], Array], y: Array, middle: Array, parameters: Array
) -> float:
    """Negative log likelihood, and a log-normal prior of deviation 1 around the start."""
    try:
        L, lower = cho_factor(covariance(parameters))
    except np.linalg.LinAlgError:
        return BAD
    fitted = 0.5 * float(y @ cho_solve((L, lower), y)) + float(np.log(np.diagonal(L)).sum())
    return fitted + 0.5 * float(np.square(parameters - middle).sum())


VARIANTS: dict[str, Callable[[Sample], Array]] = {
    "little noise expected, as drbqo": partial(plain, method="drbqo"),
    "no priors": partial(plain, hyperparameters="mle"),
    "Matern 5/2": partial(plain, kernel="matern52"),
    "Matern 3/2": partial(plain, kernel="matern32"),
    "noise by fold": ByFold(
        start=lambda noise, n: np.full(n, math.log(noise)),
        offset=lambda parameters: 0.0,
        noise=lambda parameters, n: np.exp(parameters),
    ),
    "mean by fold": ByFold(
        start=lambda noise, n: np.log([MEAN_MEDIAN, noise]),
        offset=lambda parameters: math.exp(parameters[0]),
        noise=lambda parameters, n: np.full(n, math.exp(parameters[1])),
    ),
    "logit of accuracies": warped,
}
BOUNDED = "logit of accuracies"


def samples(name: str, seed: int) -> dict[str, Sample]:
    """Random configs of a problem with few and with many scores told."""
    problem, rng = open_problem(name, seed), np.random.default_rng(seed)
    points = rng.random((WHOLE + SINGLE + FRESH, len(problem.space)))
    configs = [problem.space.from_unit(u) for u in points]
    scores = np.array([[problem.score(c, i, 0) for i in range(problem.n_folds)] for c in configs])
    one = np.arange(problem.n_folds) == rng.integers(problem.n_folds, size=(len(configs), 1))
    place = np.arange(len(configs))[:, None]
    many = (place < WHOLE) | (one & (place < WHOLE + SINGLE))
    told = {"few": one & (place < FEW), "many": many}
    return {size: Sample(problem, configs, scores, known) for size, known in told.items()}


def gains(name: str, seed: int) -> dict[tuple[str, str], float]:
    """What each variant gains in mean log density over the model of `foldwise`, by size."""
    found = {}
    for size, sample in samples(name, seed).items():
        usual = plain(sample)
        for variant, density in VARIANTS.items():
            if variant != BOUNDED or name in ACCURACY:
                found[variant, size] = float(np.mean(density(sample) - usual))
    return found


def lines(problems: list[str], seeds: int, processes: int) -> Iterator[Line]:
    """The gain of each variant on each problem, and the mean over the problems of a group."""
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=settle
    ) as pool:
        running = {name: pool.map(partial(gains, name), range(seeds)) for name in problems}
        found = {name: list(results) for name, results in running.items()}
    for key, (group, members) in product(product(VARIANTS, SIZES), GROUPS.items()):
        by_problem = {
            name: [gain[key] for gain in found[name]]
            for name in members
            if name in found and key in found[name][0]
        }
        for name, values in by_problem.items():
            yield _line(*key, name, values, f"{len(values)} seeds")
        if len(by_problem) > 1:
            means = [float(np.mean(values)) for values in by_problem.values()]
            yield _line(*key, group, means, f"{len(means)} problems")


def _line(variant: str, size: str, where: str, values: list[float], note: str) -> Line:
    mean, low, high = mean_interval(values)
    setting = f"{where}, {size} scores"
    return Line("model", f"log density, {variant}", setting, mean, "", low, high, note=note)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--group", choices=GROUPS, help="only these problems")
    parser.add_argument("--problems", nargs="+", default=None, choices=PROBLEMS)
    parser.add_argument("--processes", type=int, default=2)
    add_save_option(parser)
    args = parser.parse_args()
    problems = args.problems or list(GROUPS.get(args.group, PROBLEMS))
    return publish(lines(problems, args.seeds, args.processes), args.save)


if __name__ == "__main__":
    sys.exit(main())
