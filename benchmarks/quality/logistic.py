"""The paper's logistic problem: rho-regret of the reported config, averaged over seeds.

    python -m benchmarks.quality.logistic [--seeds 10] [--evaluations 100] [--processes 2]

f(x, w) = -log(1 + exp(x'w)) without noise, x in a square of side 4, ten sample vectors w, twelve
initial points. The robust optimum is the center of the square [-2, 2]^2 from radius 0.3 on, so
nothing is seeded there, and the same is shown in a shifted square, where it is no center.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import minimize

import drbqo_ray as dr
from benchmarks.table import Line, add_save_option, publish

W = np.random.RandomState(84).randn(10, 2)
N_INITIAL = 12
CENTERED = (0.0, 0.0)
SHIFTED = (0.6, -0.8)


@dataclass(frozen=True)
class Case:
    """One method at one radius in one square, which is [-2, 2]^2 moved by `shift`."""

    method: str
    radius: float
    shift: tuple[float, float] = CENTERED

    def __str__(self) -> str:
        return f"radius {self.radius:g}, square at ({self.shift[0]:g}, {self.shift[1]:g})"


CASES = [
    *(Case("drbqo", radius) for radius in (0.1, 1.0, 3.0)),
    *(Case("drbqo", radius, SHIFTED) for radius in (0.1, 1.0, 3.0)),
    *(Case("bqo-ts", radius) for radius in (1.0, 3.0)),
]


def scores(x: np.ndarray) -> np.ndarray:
    """f(x, w) in all ten contexts: x (..., 2) -> (..., 10)."""
    return -np.logaddexp(0.0, x @ W.T)


def robust_value(x: np.ndarray, radius: float) -> float:
    return float(dr.ChiSquareBall(radius).worst_case(scores(x))[0])


@cache
def optimum(radius: float) -> float:
    """max over x of the robust value, which is concave in x: the kink at 0, or a smooth peak."""
    starts = np.random.default_rng(0).uniform(-1, 1, (4, 2))
    peaks = [
        minimize(
            lambda x: -robust_value(x, radius),
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 2000},
        ).fun
        for start in starts
    ]
    return max(robust_value(np.zeros(2), radius), -min(peaks))


def initial_points(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Twelve points of the unit square and their contexts, the same for every method."""
    rng = np.random.RandomState(1000 + seed)
    return rng.uniform(0, 1, (N_INITIAL, 2)), rng.randint(0, len(W), N_INITIAL)


def regrets(case: Case, seed: int, reports: tuple[int, ...]) -> dict[int, float]:
    """rho-regret of the reported config after each of the given numbers of evaluations."""
    low = np.array(case.shift) - 2.0
    space = dr.Space({f"x{i}": dr.Float(low[i], low[i] + 4.0) for i in range(2)})
    opt = dr.Optimizer(
        space, W, method=case.method, uncertainty=case.radius, n_initial=N_INITIAL, seed=seed
    )
    points, contexts = initial_points(seed)
    for u, context in zip(points, contexts, strict=True):
        config = space.from_unit(u)
        opt.observe(config, int(context), scores(vector(config))[context])
    found = {}
    for t in range(1, max(reports) + 1):
        suggestion = opt.ask()
        opt.tell(suggestion.id, scores(vector(suggestion.config))[suggestion.context])
        if t in reports:
            reported = vector(opt.recommend().config)
            found[t] = optimum(case.radius) - robust_value(reported, case.radius)
    return found


def vector(config: dict[str, float]) -> np.ndarray:
    return np.array([config["x0"], config["x1"]])


def timed(case: Case, seed: int, reports: tuple[int, ...]) -> tuple[dict[int, float], float]:
    start = time.process_time()
    found = regrets(case, seed, reports)
    return found, time.process_time() - start


def lines(seeds: int, last: int, processes: int) -> Iterator[Line]:
    """The mean over the seeds after a fifth, half and all of the evaluations."""
    reports = tuple(sorted({max(1, last // 5), max(1, last // 2), last}))
    with ProcessPoolExecutor(processes) as pool:
        futures = {
            case: [pool.submit(timed, case, seed, reports) for seed in range(seeds)]
            for case in CASES
        }
        for case, pending in futures.items():
            rows = [future.result() for future in pending]
            step = 1e3 * np.mean([seconds for _, seconds in rows]) / last
            for t in reports:
                found = [regret[t] for regret, _ in rows]
                yield Line(
                    "logistic",
                    f"log10 regret, {case.method}",
                    f"{case}, t = {t}",
                    logarithm(float(np.mean(found))),
                    "",
                    note=f"of the mean of {seeds} seeds; the worst"
                    f" {logarithm(max(found)):.2f}; {step:.0f} ms a step",
                )


def logarithm(value: float) -> float:
    return math.log10(max(value, 1e-16))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    add_save_option(parser)
    args = parser.parse_args()
    return publish(lines(args.seeds, args.evaluations, args.processes), args.save)


if __name__ == "__main__":
    sys.exit(main())
