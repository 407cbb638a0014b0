"""Suggestion latency against N beside the peers: one thread, interleaved, CPU time.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.suggestion [--sizes 50 100 200 500 1000]

The job of one step: take in a score, bring the model up to date by the optimizer's own schedule,
and suggest the next (config, fold). Three hyperparameters, ten folds, noisy scores; the same N
random pairs are told to each. Our steps are averaged over 20 or a few more, whole periods of the
refit schedule; SMAC3's over 20. BoTorch and Optuna fit at every step, so few steps are enough.
BoTorch is timed as it comes (a cold fit) and helped (warm-started, 15 L-BFGS steps). The other
yardstick is one N x N Cholesky factorization, for the steps without a refit. A ratio is the
geometric mean over the rounds, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import drbqo_ray as dr
from benchmarks.quality.peers import no_target, one_thread, quiet_optuna, show_no_warnings
from benchmarks.table import Line, add_save_option, publish, ratio

STEPS = 20
SHORT_STEPS = 3
PEERS = ("botorch", "optuna", "smac")
MOST_OF_COLD = 1 / 20
MOST_OF_CHOLESKY = 2.0
D, FOLDS = 3, 10
CEILING = 3.0
NAMES = [f"x{i}" for i in range(D)]
Times = dict[str, list[float]]


def score(x: np.ndarray, fold: int, rng: np.random.Generator) -> float:
    """A smooth function of x (3,) that differs between folds, and a little noise."""
    offset = np.sin(fold) * 0.3
    smooth = np.sin(3 * x[0]) + x[1] ** 2 - abs(x[2] - 0.3) + offset * x[0]
    return float(smooth + 0.05 * rng.standard_normal())


def told(size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Configs (N, 3), folds (N,) and scores (N,) to begin with."""
    rng = np.random.default_rng(seed)
    X, folds = rng.random((size, D)), rng.integers(FOLDS, size=size)
    return X, folds, np.array([score(x, int(f), rng) for x, f in zip(X, folds, strict=True)])


class Ours:
    """Our optimizer."""

    def __init__(self, size: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed + 1)
        space = {name: dr.Float(0, 1) for name in NAMES}
        self.optimizer = dr.Optimizer(space, FOLDS, seed=seed, n_initial=1)
        for x, fold, value in zip(*told(size, seed), strict=True):
            config = dict(zip(NAMES, map(float, x), strict=True))
            self.optimizer.observe(config, int(fold), value)

    def step(self) -> None:
        suggestion = self.optimizer.ask()
        x = np.array(list(suggestion.config.values()))
        self.optimizer.tell(suggestion.id, score(x, suggestion.context, self.rng))


class BoTorch:
    """The same on BoTorch: fit a SingleTaskGP on [x, one-hot fold], draw one pathwise sample,
    maximize its average over the folds. Cold is its default; warm goes on from the last fit with
    15 L-BFGS steps."""

    def __init__(self, size: int, seed: int) -> None:
        import torch

        torch.manual_seed(seed)
        X, folds, y = told(size, seed)
        self.X = torch.tensor(np.concatenate([X, np.eye(FOLDS)[folds]], axis=1))
        self.y = torch.tensor(y, dtype=torch.double)[:, None]
        self.onehot = torch.eye(FOLDS, dtype=torch.double)
        self.state: dict[str, Any] | None = None

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

    def maximize(self, model: Any) -> None:
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


class Optuna:
    """Optuna's GPSampler on the joint space, the fold as a categorical parameter."""

    def __init__(self, size: int, seed: int) -> None:
        import optuna
        from optuna.distributions import CategoricalDistribution, FloatDistribution

        quiet_optuna()
        self.rng = np.random.default_rng(seed + 1)
        sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=1)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        kinds: dict[str, Any] = {name: FloatDistribution(0, 1) for name in NAMES}
        kinds["fold"] = CategoricalDistribution(list(range(FOLDS)))
        for x, fold, value in zip(*told(size, seed), strict=True):
            params = {**dict(zip(NAMES, map(float, x), strict=True)), "fold": int(fold)}
            trial = optuna.trial.create_trial(params=params, distributions=kinds, value=value)
            self.study.add_trial(trial)

    def step(self) -> None:
        trial = self.study.ask()
        x = np.array([trial.suggest_float(name, 0, 1) for name in NAMES])
        fold = trial.suggest_categorical("fold", list(range(FOLDS)))
        self.study.tell(trial, score(x, int(fold), self.rng))


class Smac:
    """SMAC3 with the folds as instances; it trains its forest anew after every 8 configs.

    It is told N / 10 configs on all folds: with N configs on one fold each its next steps would
    only fill in folds and never use the model.
    """

    def __init__(self, size: int, seed: int) -> None:
        from ConfigSpace import Configuration, ConfigurationSpace, Float
        from smac import HyperparameterOptimizationFacade, Scenario
        from smac.runhistory.dataclasses import TrialInfo

        self.rng = np.random.default_rng(seed + 1)
        space = ConfigurationSpace(seed=seed)
        space.add([Float(name, (0.0, 1.0)) for name in NAMES])
        folds = [str(fold) for fold in range(FOLDS)]
        self.directory = tempfile.TemporaryDirectory()
        scenario = Scenario(
            space,
            deterministic=True,
            n_trials=10 * size + 1000,
            seed=seed,
            instances=folds,
            instance_features={fold: [float(fold)] for fold in folds},
            output_directory=Path(self.directory.name),
        )
        facade = HyperparameterOptimizationFacade
        self.smac = facade(
            scenario,
            no_target,
            overwrite=True,
            logging_level=False,
            initial_design=facade.get_initial_design(scenario, n_configs=1),
            intensifier=facade.get_intensifier(scenario, max_config_calls=FOLDS),
        )
        for x in told(size // FOLDS, seed)[0]:
            config = Configuration(space, values=dict(zip(NAMES, map(float, x), strict=True)))
            for fold in range(FOLDS):
                self._tell(TrialInfo(config, str(fold), 0), x)

    def step(self) -> None:
        with one_thread():
            asked = self.smac.ask()
        self._tell(asked, np.array([asked.config[name] for name in NAMES]))

    def _tell(self, trial: Any, x: np.ndarray) -> None:
        from smac.runhistory.dataclasses import TrialValue

        cost = CEILING - score(x, int(trial.instance), self.rng)
        self.smac.tell(trial, TrialValue(cost=cost, time=0.0), save=False)


def cpu_seconds(job: Callable[[], object]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def cholesky_seconds(size: int) -> float:
    K = np.eye(size) + 0.5
    return statistics.median(cpu_seconds(lambda: np.linalg.cholesky(K)) for _ in range(5))


def time_ours(size: int, seed: int, times: Times) -> None:
    """The first ask after N scores, the mean step, and the median step without a new fit.

    At least 20 steps, and as many as make whole periods of the refit schedule: fewer would leave
    out the refit that is due next.
    """
    ours = Ours(size, seed)
    times.setdefault("first", []).append(cpu_seconds(ours.optimizer.ask))
    fit = ours.optimizer.last_fit
    assert fit is not None
    period = fit.due - fit.size
    ours.step()  # its ask comes before its tell, so the last of a period is the first of the next
    all_steps, plain = [], []
    for _ in range(-(-STEPS // period) * period):
        before = ours.optimizer.last_fit
        all_steps.append(cpu_seconds(ours.step))
        if ours.optimizer.last_fit is before:
            plain.append(all_steps[-1])
    times.setdefault("ours", []).append(statistics.mean(all_steps))
    if plain:
        times.setdefault("plain", []).append(statistics.median(plain))
        times.setdefault("cholesky", []).append(cholesky_seconds(size))


def time_peers(size: int, seed: int, times: Times, peers: tuple[str, ...]) -> None:
    if "botorch" in peers:
        botorch = BoTorch(size, seed)
        cold, warm = partial(botorch.step, warm=False), partial(botorch.step, warm=True)
        times.setdefault("BoTorch default", []).append(cpu_seconds(cold))
        steps = [cpu_seconds(warm) for _ in range(SHORT_STEPS)]
        times.setdefault("BoTorch warm", []).append(statistics.mean(steps))
    if "optuna" in peers:
        optuna = Optuna(size, seed)
        steps = [cpu_seconds(optuna.step) for _ in range(SHORT_STEPS)]
        times.setdefault("Optuna GPSampler", []).append(statistics.mean(steps))
    if "smac" in peers:
        smac = Smac(size, seed)
        steps = [cpu_seconds(smac.step) for _ in range(STEPS)]
        times.setdefault("SMAC3", []).append(statistics.mean(steps))
        times.setdefault("SMAC3 retrain", []).append(max(steps))


def most_of(name: str, size: int) -> float | None:
    """The share of a peer's time that we may take."""
    if name == "BoTorch default":
        return MOST_OF_COLD
    if name == "BoTorch warm":
        return 1 / 8 if size <= 200 else 1 / 4
    return None


def lines(size: int, rounds: int, peers: tuple[str, ...]) -> Iterator[Line]:
    times: Times = {}
    for seed in range(rounds):
        time_ours(size, seed, times)
        time_peers(size, seed, times, peers)
    setting = f"N = {size}"
    spread = (
        f"median of {rounds} rounds; the first ask {1e3 * statistics.median(times['first']):.0f} ms"
    )
    yield Line(
        "suggestion",
        "tell, fit by schedule, ask",
        setting,
        1e3 * statistics.median(times["ours"]),
        "ms",
        note=spread,
    )
    for name in ("BoTorch warm", "BoTorch default", "Optuna GPSampler", "SMAC3", "SMAC3 retrain"):
        if name in times:
            yield Line(
                "suggestion",
                f"ours / {name}",
                setting,
                *_ratio(times, "ours", name),
                most=most_of(name, size),
                note=f"{name} {1e3 * statistics.median(times[name]):.0f} ms",
            )
    if "plain" in times and size >= 500:
        note = f"step {1e3 * statistics.median(times['plain']):.1f} ms,"
        note += f" factorization {1e3 * statistics.median(times['cholesky']):.1f} ms"
        yield Line(
            "suggestion",
            "step without refit / Cholesky",
            setting,
            *_ratio(times, "plain", "cholesky"),
            most=MOST_OF_CHOLESKY if size >= 1000 else None,
            note=note,
        )


def _ratio(times: Times, ours: str, theirs: str) -> tuple[float, str, float, float]:
    middle, low, high = ratio(times[ours], times[theirs])
    return middle, "x", low, high


def installed() -> tuple[str, ...]:
    """The peers that can be imported; says which cannot."""
    found = tuple(name for name in PEERS if importlib.util.find_spec(name) is not None)
    for name in set(PEERS) - set(found):
        print(f"{name} is not installed and left out: pip install -e '.[bench]'")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 100, 200, 500, 1000])
    parser.add_argument("--alone", type=int, nargs="*", default=[2000], help="sizes without peers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rounds-above", type=int, default=3, help="rounds from N = 500 on")
    add_save_option(parser)
    args = parser.parse_args()
    show_no_warnings()
    peers, missed = installed(), 0
    time_ours(50, 0, {})  # imports and first calls, not timed
    time_peers(50, 0, {}, peers)
    for size in args.sizes + args.alone:
        rounds = args.rounds if size < 500 else args.rounds_above
        found = lines(size, rounds, peers if size in args.sizes else ())
        missed += publish(found, args.save)
    return missed


if __name__ == "__main__":
    sys.exit(main())
