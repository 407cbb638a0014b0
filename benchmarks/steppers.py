"""Optimizers with N scores told, to time their next steps: ours and the peers.

The job of one step: take in a score, bring the model up to date by the optimizer's own schedule,
and suggest the next (config, fold). Three hyperparameters, ten folds, noisy scores; the same N
random pairs are told to each.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import drbqo_ray as dr
from benchmarks.peers import no_target, one_thread, quiet_optuna

D, FOLDS = 3, 10
CEILING = 3.0
NAMES = [f"x{i}" for i in range(D)]


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
