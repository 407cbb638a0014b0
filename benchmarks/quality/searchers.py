"""All searchers of the quality benchmark by name: our own, random search, and the peers.

Does a radius above 0 give better test scores? It matters twice: for what is evaluated, and for what
is recommended. One search looks for the best mean (radius 0) and recommends by several radii;
another works with the radius "auto", from 95 % confidence, all along. The third, radius 1 all
along, is "foldwise" itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import drbqo_ray as dr
from benchmarks.quality.irace import IraceFolds
from benchmarks.quality.learners import Config
from benchmarks.quality.peers import (
    BotorchCVaR,
    Forgiving,
    OptunaCV,
    Purse,
    Searcher,
    SmacFolds,
    Target,
    Wilcoxon,
)
from drbqo_ray.core.sets import as_uncertainty
from drbqo_ray.optimizer.scoring import Report

METHOD = "foldwise"
MATERN = "foldwise with Matern 5/2"
SMOOTHED = "foldwise, reported by posterior means"
AT_ONCE = "foldwise, 8 workers"
PLAIN = "searched by 0, reported by 0"
OTHERS = [
    *(f"searched by 0, reported by {name}" for name in ("auto", "1", "spread")),
    "searched and reported by auto",
    METHOD,
]
WORKERS = 8
SIGMA = 0.5

# trace -> its series and their report rules
OWN: dict[str, dict[str, Report | None]] = {
    "foldwise": {"foldwise": None, SMOOTHED: "robust"},
    "drbqo": {"drbqo": None, "emp-drbqo": "mean", "drbqo filled": "completed"},
    "bqo-ts": {"bqo-ts": None, "maximin-bqo-ts": "robust"},
    "bqo-ei": {"bqo-ei": None, "maximin-bqo-ei": "robust"},
    "mtbo": {"mtbo": None},
}


class Ours:
    """drbqo_ray, one fold at a time; `reports` are its series and their report rules."""

    price = 1

    def __init__(
        self,
        purse: Purse,
        seed: int,
        method: str,
        reports: Mapping[str, Report | None],
        **options: Any,
    ) -> None:
        problem = purse.problem
        contexts = problem.n_folds if problem.contexts is None else problem.contexts
        self._purse, self._reports = purse, reports
        options = {"uncertainty": purse.radius, **options}
        self.optimizer = dr.Optimizer(problem.space, contexts, method=method, seed=seed, **options)

    def step(self) -> None:
        s = self.optimizer.ask()
        self.optimizer.tell(s.id, self._purse.fold(s.config, s.context))

    def recommend(self) -> dict[str, Config]:
        return {
            name: self.optimizer.recommend(report).config for name, report in self._reports.items()
        }


class Asynchronous(Ours):
    """The same with eight workers, each busy for a random time: an answer knows all folds that
    are done and none of the seven under way."""

    def __init__(self, purse: Purse, seed: int) -> None:
        super().__init__(purse, seed, METHOD, {AT_ONCE: None})
        self._rng = np.random.default_rng(seed)
        self._now = 0.0
        self._ends: dict[int, float] = {}

    def step(self) -> None:
        while len(self._ends) < WORKERS:
            seconds = float(np.exp(SIGMA * self._rng.standard_normal()))
            self._ends[self.optimizer.ask().id] = self._now + seconds
        done = min(self._ends, key=self._ends.__getitem__)
        self._now = self._ends.pop(done)
        s = next(s for s in self.optimizer.pending if s.id == done)
        self.optimizer.tell(done, self._purse.fold(s.config, s.context))


class MeanSearch(Ours):
    """A search with radius 0; recommendations by radius 0, "auto", 1, and one from the spread."""

    def __init__(self, purse: Purse, seed: int) -> None:
        super().__init__(purse, seed, METHOD, {}, uncertainty=0.0)

    def recommend(self) -> dict[str, Config]:
        n = self.optimizer.n_contexts
        radii = {"0": 0.0, "auto": "auto", "1": 1.0, "spread": self._spread_radius()}
        scoring = self.optimizer.scoring()
        return {
            f"searched by 0, reported by {name}": replace(
                scoring, uncertainty=as_uncertainty(radius, n)
            )
            .recommend()
            .config
            for name, radius in radii.items()
        }

    def _spread_radius(self) -> float:
        """The largest radius that matters, times the share of the spread between folds that the
        uncertainty of their means does not explain."""
        best = self.optimizer.recommend()
        between = float(np.var(best.context_means, ddof=1))
        unsure = float(np.mean(np.square(best.context_stds)))
        share = between / (between + unsure) if between > 0 else 0.0
        return share * (self.optimizer.n_contexts - 1) / 2


class AutoSearch(Ours):
    """A search with the radius from 95 % confidence."""

    def __init__(self, purse: Purse, seed: int) -> None:
        reports = {"searched and reported by auto": None}
        super().__init__(purse, seed, METHOD, reports, uncertainty="auto")


class RandomCV:
    """Random configs, whole cross-validations; the best mean and the best robust value."""

    def __init__(self, purse: Purse, seed: int) -> None:
        self._purse, self._rng = purse, np.random.default_rng(seed)
        self.price = purse.problem.n_folds
        self._found: list[tuple[Config, float, float]] = []

    def step(self) -> None:
        space = self._purse.problem.space
        config = space.from_unit(self._rng.random(len(space)))
        scores = self._purse.folds(config)
        self._found.append((config, float(np.mean(scores)), self._purse.robust(scores)))

    def recommend(self) -> dict[str, Config]:
        return {
            "random mean": max(self._found, key=lambda entry: entry[1])[0],
            "random robust": max(self._found, key=lambda entry: entry[2])[0],
        }


@dataclass(frozen=True)
class Entry:
    """How a searcher is made and measured.

    Attributes:
        make: purse, seed, budget -> the searcher at work.
        needs: the module or program it cannot do without; None if nothing.
        slow: whether it is run on small budgets only.
        planned: whether it plans by its budget, so that every budget is a run of its own.
        peer: whether it is somebody else's.
    """

    make: Callable[[Purse, int, int], Searcher]
    needs: str | None = None
    slow: bool = False
    planned: bool = False
    peer: bool = True

    @property
    def is_here(self) -> bool:
        """Whether what it needs is installed."""
        if self.needs is None:
            return True
        if self.needs == "irace":
            return shutil.which("Rscript") is not None and IraceFolds.is_installed()
        return find_spec(self.needs) is not None


def _ours(make: Callable[[Purse, int], Searcher]) -> Entry:
    return Entry(lambda purse, seed, most: make(purse, seed), peer=False)


def _method(method: str) -> Entry:
    return _ours(lambda purse, seed: Ours(purse, seed, method, OWN[method]))


def _optuna(kind: Callable[..., Searcher], sampler: str, target: Target) -> Entry:
    return Entry(lambda purse, seed, most: kind(purse, seed, sampler, target), needs="optuna")


# peers from the quick to the slow
SEARCHERS: dict[str, Entry] = {
    **{method: _method(method) for method in OWN},
    "foldwise-8": _ours(Asynchronous),
    "radius 0": _ours(MeanSearch),
    "radius auto": _ours(AutoSearch),
    "matern": _ours(partial(Ours, method=METHOD, reports={MATERN: None}, kernel="matern52")),
    "random": Entry(lambda purse, seed, most: RandomCV(purse, seed)),
    "optuna-tpe mean": _optuna(OptunaCV, "tpe", "mean"),
    "optuna-tpe robust": _optuna(OptunaCV, "tpe", "robust"),
    "optuna-tpe forgiving mean": _optuna(Forgiving, "tpe", "mean"),
    "optuna-tpe forgiving robust": _optuna(Forgiving, "tpe", "robust"),
    "optuna-tpe wilcoxon mean": _optuna(Wilcoxon, "tpe", "mean"),
    "irace": Entry(IraceFolds, needs="irace", planned=True),
    "optuna-gp mean": _optuna(OptunaCV, "gp", "mean"),
    "optuna-gp robust": _optuna(OptunaCV, "gp", "robust"),
    "optuna-gp forgiving mean": _optuna(Forgiving, "gp", "mean"),
    "optuna-gp forgiving robust": _optuna(Forgiving, "gp", "robust"),
    "smac folds": Entry(SmacFolds, needs="smac", slow=True, planned=True),
    "botorch cvar": Entry(
        lambda purse, seed, most: BotorchCVaR(purse, seed), needs="botorch", slow=True
    ),
}


def answers(
    searcher: Searcher,
    purse: Purse,
    budgets: Sequence[int],
    watch: Callable[[int], None] | None = None,
) -> dict[int, dict[str, Config]]:
    """What the series of a searcher recommend after each budget, none of them overspent; `watch`
    hears how much is spent after every step."""
    found = {}
    for budget in sorted(budgets):
        while purse.spent + searcher.price <= budget:
            searcher.step()
            if watch is not None:
                watch(purse.spent)
        found[budget] = searcher.recommend()
    return found
