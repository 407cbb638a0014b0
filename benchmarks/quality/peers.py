"""Thin drivers of other optimizers on one fold problem.

    pip install -c constraints.txt -e '.[bench]'

Every searcher spends fold evaluations through a `Purse`, which counts them, and can name its
recommendations at any time: one for each series, as series that differ in the report only share
their evaluations. Those that tune by whole cross-validation spend k folds on a config and are told
either the mean of the k scores, as is usual, or their robust value, which is what we judge by: the
latter is the hardest peer we know how to make of them.

Peers keep their own defaults but for one: they start with 4 random configs instead of 10, because
ten configs are 50 to 100 fold evaluations and would leave them no budget to think with.
"""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np

import drbqo_ray as dr
from benchmarks.quality.learners import Config, Parameters
from benchmarks.quality.problems import FoldProblem

Target = Literal["mean", "robust"]
STARTS = 4


@dataclass
class Purse:
    """Fold evaluations to spend, and those spent so far; `first` is the first config tried."""

    problem: FoldProblem
    radius: float = 1.0
    spent: int = field(default=0, init=False)
    first: Config | None = field(default=None, init=False)
    _trained: Counter[str] = field(default_factory=Counter, init=False)

    def fold(self, config: Config, fold: int) -> float:
        """The score on one fold, for one evaluation; the same again is trained again."""
        self.spent += 1
        if self.first is None:
            self.first = dict(config)
        key = repr((config, fold))
        self._trained[key] += 1
        return self.problem.score(config, fold, self._trained[key] - 1)

    def folds(self, config: Config) -> list[float]:
        """The scores on all k folds, for k evaluations."""
        return [self.fold(config, i) for i in range(self.problem.n_folds)]

    def worth(self, scores: list[float], target: Target) -> float:
        """The mean or the robust value of some scores."""
        return float(np.mean(scores)) if target == "mean" else self.robust(scores)

    def robust(self, scores: list[float]) -> float:
        """The robust value of some scores."""
        return float(dr.ChiSquareBall(self.radius).worst_case(scores)[0])


class Searcher(Protocol):
    """One optimizer at work on one problem."""

    price: int

    def step(self) -> None:
        """Spend `price` fold evaluations."""

    def recommend(self) -> dict[str, Config]:
        """The config it would settle on now, by name of the series."""


def optuna_sampler(name: str, seed: int) -> Any:
    """Optuna's sampler "tpe" or "gp"."""
    import optuna

    quiet_optuna()
    kinds = {"gp": optuna.samplers.GPSampler, "tpe": optuna.samplers.TPESampler}
    return kinds[name](seed=seed, n_startup_trials=STARTS)


class OptunaCV:
    """An Optuna sampler on whole cross-validations."""

    def __init__(self, purse: Purse, seed: int, sampler: str, target: Target) -> None:
        import optuna

        made = optuna_sampler(sampler, seed)
        self._study = optuna.create_study(direction="maximize", sampler=made)
        self._purse, self._target = purse, target
        self._name = f"optuna-{sampler} {target}"
        self.price = purse.problem.n_folds

    def step(self) -> None:
        trial = self._study.ask()
        config = suggested(trial, self._purse.problem.parameters)
        self._study.tell(trial, self._purse.worth(self._purse.folds(config), self._target))

    def recommend(self) -> dict[str, Config]:
        return {self._name: dict(self._study.best_params)}


class Racing:
    """An Optuna sampler whose configs are trained fold by fold and may be dropped on the way.

    A dropped config is told to the sampler with the worth of the folds it has. A rule is a
    subclass.
    """

    price = 1
    rule: str

    def __init__(self, purse: Purse, seed: int, sampler: str, target: Target) -> None:
        import optuna

        made = optuna_sampler(sampler, seed)
        pruner = optuna.pruners.WilcoxonPruner(p_threshold=0.1)
        self._study = optuna.create_study(direction="maximize", sampler=made, pruner=pruner)
        self._purse, self._target = purse, target
        self._name = f"optuna-{sampler} {self.rule} {target}"
        self._rng = np.random.default_rng(seed)
        self._trial: Any = None
        self._config: Config = {}
        self._left: list[int] = []
        self._scores: list[float] = []

    def step(self) -> None:
        """Train one fold of the config at hand, or of the next one."""
        if not self._left:
            self._trial = self._study.ask()
            self._config = suggested(self._trial, self._purse.problem.parameters)
            self._left, self._scores = self.order(), []
        fold = self._left.pop(0)
        score = self._purse.fold(self._config, fold)
        self._scores.append(score)
        self._trial.report(score, fold)
        if not self._left:
            self._tell()
            self.finished(self._config, self._scores)
        elif self.drops():
            self._left = []
            self._tell()

    def _tell(self) -> None:
        self._study.tell(self._trial, self._purse.worth(self._scores, self._target))

    def order(self) -> list[int]:
        """The folds of the next config in the order of their training."""
        return list(range(self._purse.problem.n_folds))

    def drops(self) -> bool:
        """Whether to drop the config at hand; some of its folds are left."""
        raise NotImplementedError

    def finished(self, config: Config, scores: list[float]) -> None:
        """All folds of a config are trained."""

    def recommend(self) -> dict[str, Config]:
        return {self._name: dict(self._study.best_params)}


class Forgiving(Racing):
    """The forgiving rule of Bergman, Purucker and Hutter (2024), "Don't Waste Your Time": a config
    is dropped once the mean of its folds is no better than the worst fold of the incumbent, the
    best config that was trained on all folds. That one is recommended."""

    rule = "forgiving"
    _best: Config | None = None
    _worth = -np.inf
    _bar = -np.inf

    def drops(self) -> bool:
        return float(np.mean(self._scores)) <= self._bar

    def finished(self, config: Config, scores: list[float]) -> None:
        worth = self._purse.worth(scores, self._target)
        if worth > self._worth:
            self._best, self._worth, self._bar = dict(config), worth, min(scores)

    def recommend(self) -> dict[str, Config]:
        return {self._name: dict(self._best if self._best is not None else self._config)}


class Wilcoxon(Racing):
    """Optuna's WilcoxonPruner as its documentation has it: a threshold of 0.1, folds in an order
    of their own for every config, and a pruned config told with the mean of its folds. With fewer
    than four folds trained its test cannot be sure enough, so with three folds it drops nothing."""

    rule = "wilcoxon"

    def order(self) -> list[int]:
        return [int(fold) for fold in self._rng.permutation(self._purse.problem.n_folds)]

    def drops(self) -> bool:
        return bool(self._trial.should_prune())


def suggested(trial: Any, parameters: Parameters) -> Config:
    """The config that an Optuna trial suggests."""
    config: Config = {}
    for name, item in parameters.items():
        if isinstance(item, dr.Choice):
            config[name] = trial.suggest_categorical(name, item.options)
        else:
            suggest = trial.suggest_int if isinstance(item, dr.Int) else trial.suggest_float
            config[name] = suggest(name, item.low, item.high, log=item.log)
    return config


class BotorchCVaR:
    """BoTorch's risk-averse search: a GP on [x, one-hot fold], noisy expected improvement of the
    conditional value at risk over the folds.

    The mean of the worst third is what the chi-square ball of radius 1 comes to when the scores of
    these folds are far below the others. A config is trained on all folds: with one fold a step
    the search would take minutes of computing for every minute it takes so. Choices are one-hot;
    the search for the next config is run for every combination of them.
    """

    def __init__(self, purse: Purse, seed: int) -> None:
        import torch
        from torch.quasirandom import SobolEngine

        torch.manual_seed(seed)
        self._purse = purse
        self.price = purse.problem.n_folds
        self._space = purse.problem.space
        self._starts = SobolEngine(len(self._space), scramble=True, seed=seed)
        self._u: list[np.ndarray] = []
        self._scores: list[list[float]] = []

    def step(self) -> None:
        import torch

        if len(self._u) < STARTS:
            u = self._starts.draw(1, dtype=torch.double).numpy()[0]
        else:
            u = self._most_promising()
        self._scores.append(self._purse.folds(self._space.from_unit(u)))
        self._u.append(self._space.snap(u[None])[0])

    def _most_promising(self) -> np.ndarray:
        import torch
        from botorch.acquisition import qNoisyExpectedImprovement
        from botorch.acquisition.risk_measures import CVaR
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.models.transforms.input import AppendFeatures
        from botorch.sampling import SobolQMCNormalSampler
        from gpytorch.mlls import ExactMarginalLogLikelihood

        z = torch.tensor(self._space.features(np.array(self._u)))
        folds = torch.eye(self.price, dtype=torch.double)
        X = torch.cat([z.repeat_interleave(self.price, 0), folds.repeat(len(z), 1)], 1)
        y = torch.tensor(self._scores, dtype=torch.double).reshape(-1, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SingleTaskGP(X, y, input_transform=AppendFeatures(folds))
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            acquisition = qNoisyExpectedImprovement(
                model,
                z,
                SobolQMCNormalSampler(torch.Size([64])),
                objective=CVaR(2 / 3, self.price),
                prune_baseline=True,
            )
            return self._maximized(acquisition)

    def _maximized(self, acquisition: Any) -> np.ndarray:
        """The point (p,) of the best config over all combinations of choices."""
        import torch
        from botorch.optim import optimize_acqf

        items, first = list(self._space.parameters.values()), self._space.feature_columns
        is_choice = np.array([isinstance(item, dr.Choice) for item in items])
        bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).repeat(1, self._space.n_features)
        tried = []
        for choices in product(*(_cells(item) for item in items if isinstance(item, dr.Choice))):
            u = np.full(len(items), 0.5)
            u[is_choice] = choices
            row = self._space.features(u[None])[0]
            fixed = {c: row[c] for c in range(len(row)) if c not in first[~is_choice]}
            found, value = optimize_acqf(
                acquisition, bounds, q=1, num_restarts=4, raw_samples=128, fixed_features=fixed
            )
            u[~is_choice] = found[0].numpy()[first[~is_choice]]
            tried.append((float(value), u))
        return max(tried, key=lambda pair: pair[0])[1]

    def recommend(self) -> dict[str, Config]:
        values = [self._purse.robust(scores) for scores in self._scores]
        return {"botorch cvar": self._space.from_unit(self._u[int(np.argmax(values))])}


def _cells(item: dr.Choice) -> np.ndarray:
    """The positions (count,) of all options."""
    return (np.arange(item.count) + 0.5) / item.count


class SmacFolds:
    """SMAC3 with the folds as instances: it chooses the folds itself and minimizes the mean.

    Its algorithm-configuration facade would start at the middle of the space, which is the answer
    of the logistic problem; the facade for hyperparameters starts with Sobol points.
    """

    price = 1

    def __init__(self, purse: Purse, seed: int, n_trials: int) -> None:
        from ConfigSpace import ConfigurationSpace
        from smac import HyperparameterOptimizationFacade, Scenario

        self._purse = purse
        space = ConfigurationSpace(seed=seed)
        space.add(smac_parameters(purse.problem.parameters))
        names = [str(fold) for fold in range(purse.problem.n_folds)]
        self._directory = tempfile.TemporaryDirectory()
        scenario = Scenario(
            space,
            deterministic=True,
            n_trials=n_trials,
            seed=seed,
            instances=names,
            instance_features={name: [float(name)] for name in names},
            output_directory=Path(self._directory.name),
        )
        facade = HyperparameterOptimizationFacade
        self._smac = facade(
            scenario,
            no_target,
            overwrite=True,
            logging_level=False,
            intensifier=facade.get_intensifier(scenario, max_config_calls=purse.problem.n_folds),
        )

    def step(self) -> None:
        from smac.runhistory.dataclasses import TrialValue

        with one_thread():
            asked = self._smac.ask()
        score = self._purse.fold(self._plain(asked.config), int(asked.instance))
        self._smac.tell(
            asked, TrialValue(cost=self._purse.problem.ceiling - score, time=0.0), save=False
        )

    def recommend(self) -> dict[str, Config]:
        return {"smac folds": self._plain(self._smac.intensifier.get_incumbents()[0])}

    def _plain(self, config: Any) -> Config:
        """A config with values as we have them, not numpy's."""
        return self._purse.problem.space.validate(dict(config))

    def close(self) -> None:
        self._directory.cleanup()


def smac_parameters(parameters: Parameters) -> list[Any]:
    """The hyperparameters as SMAC3 takes them."""
    from ConfigSpace import Categorical, Float, Integer

    found: list[Any] = []
    for name, item in parameters.items():
        if isinstance(item, dr.Choice):
            found.append(Categorical(name, list(item.options)))
        else:
            kind = Integer if isinstance(item, dr.Int) else Float
            found.append(kind(name, (item.low, item.high), log=item.log))
    return found


def one_thread() -> AbstractContextManager[Any]:
    """SMAC3's forest starts four threads for each of its calls; one does the same in less time."""
    from joblib import parallel_config

    return cast(AbstractContextManager[Any], parallel_config(backend="sequential"))


def no_target(config: Any, instance: str, seed: int) -> float:
    """SMAC wants a function to call; we ask and tell instead."""
    raise AssertionError("not called")


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
