"""Suggestion latency beside BoTorch, one thread, interleaved, CPU time.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.bench_suggestion --sizes 50 100 200 --rounds 5

The job: tell a score, fit by the schedule, ask. BoTorch's version of it: fit a SingleTaskGP on
[x, one-hot fold], draw one pathwise sample, maximize its average over the folds. It is timed
both as it comes (a cold fit) and helped (warm-started, 15 L-BFGS steps). The other yardstick
is one N x N Cholesky factorization.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

import drbqo_ray as dr

D, FOLDS = 3, 10


def score(x: np.ndarray, fold: int, rng: np.random.Generator) -> float:
    offset = np.sin(fold) * 0.3
    smooth = np.sin(3 * x[0]) + x[1] ** 2 - abs(x[2] - 0.3) + offset * x[0]
    return float(smooth + 0.05 * rng.standard_normal())


def cpu_seconds(job: Callable[[], object]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


class Ours:
    """Our optimizer with N scores told."""

    def __init__(self, size: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        space = {f"x{i}": dr.Float(0, 1) for i in range(D)}
        self.optimizer = dr.Optimizer(space, FOLDS, seed=seed, n_initial=1)
        for _ in range(size):
            x = self.rng.random(D)
            fold = int(self.rng.integers(FOLDS))
            config = {f"x{i}": x[i] for i in range(D)}
            self.optimizer.observe(config, fold, score(x, fold, self.rng))

    def step(self) -> None:
        suggestion = self.optimizer.ask()
        x = np.array(list(suggestion.config.values()))
        self.optimizer.tell(suggestion.id, score(x, suggestion.context, self.rng))


class BoTorch:
    """The same job on BoTorch."""

    def __init__(self, size: int, seed: int) -> None:
        import torch

        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        folds = rng.integers(FOLDS, size=size)
        X = rng.random((size, D))
        y = [score(x, int(f), rng) for x, f in zip(X, folds, strict=True)]
        onehot = np.eye(FOLDS)
        self.X = torch.tensor(np.concatenate([X, onehot[folds]], axis=1))
        self.y = torch.tensor(y, dtype=torch.double)[:, None]
        self.onehot = torch.tensor(onehot)
        self.state: dict | None = None

    def step(self, warm: bool) -> None:
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        model = SingleTaskGP(self.X, self.y)
        mll = ExactMarginalLogLikelihood(model.likelihood, model)
        if warm and self.state is not None:
            model.load_state_dict(self.state)
            fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 15}}, max_attempts=1)
        else:
            fit_gpytorch_mll(mll)
        self.state = model.state_dict()
        self.maximize(model)

    def maximize(self, model: object) -> None:
        import torch
        from botorch.acquisition import AcquisitionFunction
        from botorch.optim import optimize_acqf
        from botorch.sampling.pathwise import draw_matheron_paths

        path = draw_matheron_paths(model, sample_shape=torch.Size([1]))
        onehot = self.onehot

        class FoldMean(AcquisitionFunction):
            def forward(self, x: torch.Tensor) -> torch.Tensor:  # (b, 1, d)
                joint = torch.cat([x.expand(-1, FOLDS, -1), onehot.expand(len(x), -1, -1)], dim=-1)
                return path(joint).squeeze(0).mean(dim=-1)

        bounds = torch.tensor([[0.0] * D, [1.0] * D], dtype=torch.double)
        optimize_acqf(FoldMean(model), bounds, q=1, num_restarts=6, raw_samples=256)


def cholesky_seconds(size: int) -> float:
    K = np.eye(size) + 0.5
    return cpu_seconds(lambda: np.linalg.cholesky(K))


def measure(size: int, rounds: int, steps: int) -> dict[str, float]:
    """Medians over rounds; our steps are averaged over `steps` tells, refits included."""
    names = ("ours", "first", "plain", "warm", "cold", "chol")
    times: dict[str, list[float]] = {name: [] for name in names}
    for seed in range(rounds):
        ours, peer = Ours(size, seed), BoTorch(size, seed)
        times["first"].append(cpu_seconds(ours.optimizer.ask))
        single = [cpu_seconds(ours.step) for _ in range(steps)]
        times["ours"].append(statistics.mean(single))
        times["plain"].append(min(single))
        times["chol"].append(statistics.median(cholesky_seconds(size) for _ in range(5)))
        times["cold"].append(cpu_seconds(partial(peer.step, warm=False)))
        times["warm"].append(cpu_seconds(partial(peer.step, warm=True)))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    Ours(8, 0).optimizer.ask()  # imports, not timed
    BoTorch(8, 0).step(warm=False)
    print("CPU ms: ours = tell, fit by schedule, ask, averaged over the steps; first = cold fit")
    print(
        "and ask; plain = fastest step (no refit); warm, cold = BoTorch; chol = one N x N Cholesky"
    )
    print("    N |  ours first plain |   warm    cold |   chol | ours/warm first/warm plain/chol")
    for size in arguments.sizes:
        t = measure(size, arguments.rounds, arguments.steps)
        print(
            f"{size:5d} | {1e3 * t['ours']:5.1f} {1e3 * t['first']:5.1f} {1e3 * t['plain']:5.1f} | "
            f"{1e3 * t['warm']:6.1f} {1e3 * t['cold']:7.1f} | {1e3 * t['chol']:6.2f} | "
            f"{t['ours'] / t['warm']:9.3f} {t['first'] / t['warm']:10.3f} "
            f"{t['plain'] / t['chol']:10.2f}"
        )


if __name__ == "__main__":
    main()
