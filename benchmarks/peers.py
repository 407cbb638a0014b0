"""Thin drivers of other optimizers, and of ours, on one fold problem.

    pip install -c constraints.txt -e '.[bench]'

Every searcher spends fold evaluations through a `Purse`, which counts them, and can name its
recommendation at any time. Those that tune by whole cross-validation spend k folds on a config and
are told either the mean of the k scores, as is usual, or their robust value, which is what we judge
by: the latter is the hardest peer we know how to make of them.

Peers keep their own defaults but for one: they start with 4 random configs instead of 10, because
ten configs are 50 to 100 fold evaluations and would leave them no budget to think with.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

import drbqo_ray as dr

Config = dict[str, float]
Target = Literal["mean", "robust"]
STARTS = 4


@dataclass(frozen=True)
class FoldProblem:
    """Something to tune by cross-validation; larger scores are better.

    Attributes:
        bounds: low, high and whether on a log scale, by name.
        n_folds: number of folds k.
        score: score of a config on one fold.
        ceiling: no score is higher; for peers that want costs of at least 0.
        contexts: what our optimizer is told of the folds: k, or sample vectors (k, m).
    """

    bounds: Mapping[str, tuple[float, float, bool]]
    n_folds: int
    score: Callable[[Config, int], float]
    ceiling: float
    contexts: Any = None

    @property
    def space(self) -> dr.Space:
        """The space as our optimizer takes it."""
        items = self.bounds.items()
        return dr.Space({name: dr.Float(low, high, log=log) for name, (low, high, log) in items})


@dataclass
class Purse:
    """Fold evaluations to spend, and those spent so far."""

    problem: FoldProblem
    radius: float = 1.0
    spent: int = field(default=0, init=False)

    def fold(self, config: Config, fold: int) -> float:
        """The score on one fold, for one evaluation."""
        self.spent += 1
        return self.problem.score(config, fold)

    def cross_validate(self, config: Config, target: Target) -> float:
        """The mean or the robust value of all k scores, for k evaluations."""
        scores = [self.fold(config, i) for i in range(self.problem.n_folds)]
        if target == "mean":
            return float(np.mean(scores))
        return float(dr.ChiSquareBall(self.radius).worst_case(scores)[0])


class Searcher(Protocol):
    """One optimizer at work on one problem."""

    price: int

    def step(self) -> None:
        """Spend `price` fold evaluations."""

    def recommend(self) -> Config:
        """The config it would settle on now."""


class Ours:
    """drbqo_ray, one fold at a time."""

    price = 1

    def __init__(self, purse: Purse, seed: int, method: str) -> None:
        problem = purse.problem
        contexts = problem.n_folds if problem.contexts is None else problem.contexts
        self._purse = purse
        self._optimizer = dr.Optimizer(
            problem.space, contexts, method=method, uncertainty=purse.radius, seed=seed
        )

    def step(self) -> None:
        s = self._optimizer.ask()
        self._optimizer.tell(s.id, self._purse.fold(s.config, s.context))

    def recommend(self) -> Config:
        return self._optimizer.recommend().config


class OptunaCV:
    """An Optuna sampler on whole cross-validations."""

    def __init__(self, purse: Purse, seed: int, sampler: str, target: Target) -> None:
        import optuna

        quiet_optuna()
        made: optuna.samplers.BaseSampler
        if sampler == "gp":
            made = optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTS)
        else:
            made = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTS)
        self._study = optuna.create_study(direction="maximize", sampler=made)
        self._purse, self._target = purse, target
        self.price = purse.problem.n_folds

    def step(self) -> None:
        trial = self._study.ask()
        bounds = self._purse.problem.bounds
        config = {k: trial.suggest_float(k, a, b, log=log) for k, (a, b, log) in bounds.items()}
        self._study.tell(trial, self._purse.cross_validate(config, self._target))

    def recommend(self) -> Config:
        return dict(self._study.best_params)


class BotorchCV:
    """A GP with log expected improvement of BoTorch on whole cross-validations."""

    def __init__(self, purse: Purse, seed: int, target: Target) -> None:
        import torch
        from torch.quasirandom import SobolEngine

        torch.manual_seed(seed)
        self._purse, self._target = purse, target
        self.price = purse.problem.n_folds
        self._starts = SobolEngine(len(purse.problem.bounds), scramble=True, seed=seed)
        self._u: list[np.ndarray] = []
        self._values: list[float] = []

    def step(self) -> None:
        import torch

        if len(self._u) < STARTS:
            u = self._starts.draw(1, dtype=torch.double).numpy()[0]
        else:
            u = self._most_promising()
        config = self._purse.problem.space.from_unit(u)
        self._values.append(self._purse.cross_validate(config, self._target))
        self._u.append(u)

    def _most_promising(self) -> np.ndarray:
        import torch
        from botorch.acquisition import LogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        X = torch.tensor(np.array(self._u))
        y = torch.tensor(self._values, dtype=torch.double)[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SingleTaskGP(X, y)
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            acquisition = LogExpectedImprovement(model, best_f=y.max())
            bounds = torch.stack([torch.zeros(X.shape[1]), torch.ones(X.shape[1])]).double()
            found, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=6, raw_samples=256)
        return found[0].numpy()

    def recommend(self) -> Config:
        return self._purse.problem.space.from_unit(self._u[int(np.argmax(self._values))])


class SmacFolds:
    """SMAC3 with the folds as instances: it chooses the folds itself and minimizes the mean.

    Its algorithm-configuration facade would start at the middle of the space, which is the answer
    of the logistic problem; the facade for hyperparameters starts with Sobol points.
    """

    price = 1

    def __init__(self, purse: Purse, seed: int, n_trials: int) -> None:
        from ConfigSpace import ConfigurationSpace, Float
        from smac import HyperparameterOptimizationFacade, Scenario

        self._purse = purse
        space = ConfigurationSpace(seed=seed)
        items = purse.problem.bounds.items()
        space.add([Float(name, (low, high), log=log) for name, (low, high, log) in items])
        names = [str(fold) for fold in range(purse.problem.n_folds)]
        self._directory = tempfile.TemporaryDirectory()
        scenario = Scenario(
            space, deterministic=True, n_trials=n_trials, seed=seed, instances=names,
            instance_features={name: [float(name)] for name in names},
            output_directory=Path(self._directory.name),
        )  # fmt: skip
        facade = HyperparameterOptimizationFacade
        self._smac = facade(
            scenario, no_target, overwrite=True, logging_level=False,
            intensifier=facade.get_intensifier(
                scenario, max_config_calls=purse.problem.n_folds
            ),
        )  # fmt: skip

    def step(self) -> None:
        from smac.runhistory.dataclasses import TrialValue

        asked = self._smac.ask()
        score = self._purse.fold(dict(asked.config), int(asked.instance))
        self._smac.tell(
            asked, TrialValue(cost=self._purse.problem.ceiling - score, time=0.0), save=False
        )

    def recommend(self) -> Config:
        return dict(self._smac.intensifier.get_incumbents()[0])

    def close(self) -> None:
        self._directory.cleanup()


def no_target(config: Any, instance: str, seed: int) -> float:
    """SMAC wants a function to call; we ask and tell instead."""
    raise AssertionError("not called")


OWN = ("drbqo", "foldwise")
SEARCHERS: dict[str, Callable[[Purse, int, int], Searcher]] = {
    "drbqo": lambda purse, seed, most: Ours(purse, seed, "drbqo"),
    "foldwise": lambda purse, seed, most: Ours(purse, seed, "foldwise"),
    "optuna-tpe mean": lambda purse, seed, most: OptunaCV(purse, seed, "tpe", "mean"),
    "optuna-tpe robust": lambda purse, seed, most: OptunaCV(purse, seed, "tpe", "robust"),
    "optuna-gp mean": lambda purse, seed, most: OptunaCV(purse, seed, "gp", "mean"),
    "optuna-gp robust": lambda purse, seed, most: OptunaCV(purse, seed, "gp", "robust"),
    "botorch mean": lambda purse, seed, most: BotorchCV(purse, seed, "mean"),
    "botorch robust": lambda purse, seed, most: BotorchCV(purse, seed, "robust"),
    "smac folds": lambda purse, seed, most: SmacFolds(purse, seed, most),
}


def answers(searcher: Searcher, purse: Purse, budgets: list[int]) -> dict[int, Config]:
    """What a searcher recommends after each of the budgets, none of them overspent."""
    found = {}
    for budget in sorted(budgets):
        while purse.spent + searcher.price <= budget:
            searcher.step()
        found[budget] = searcher.recommend()
    return found


def show_no_warnings() -> None:
    """Print no warnings of peers. Filters would not hold: scikit-learn, in SMAC3's threads, resets
    them."""
    warnings.simplefilter("ignore")
    warnings.showwarning = lambda *args, **kwargs: None


def quiet_optuna() -> None:
    """Only errors of Optuna, and no warnings that a feature is new."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
