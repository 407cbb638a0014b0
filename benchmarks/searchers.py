"""All searchers of the quality benchmark by name, and what our own traces report."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.peers import BotorchCVaR, OptunaCV, Ours, Purse, RandomCV, Searcher, SmacFolds
from benchmarks.radii import AutoSearch, MeanSearch
from drbqo_ray.optimizer.scoring import Report

MATERN = "foldwise with Matern 5/2"
SMOOTHED = "foldwise, reported by posterior means"

# trace -> its series and their report rules
OWN: dict[str, dict[str, Report | None]] = {
    "foldwise": {"foldwise": None, SMOOTHED: "robust"},
    "drbqo": {"drbqo": None, "emp-drbqo": "mean", "drbqo filled": "completed"},
    "bqo-ts": {"bqo-ts": None, "maximin-bqo-ts": "robust"},
    "bqo-ei": {"bqo-ei": None, "maximin-bqo-ei": "robust"},
    "mtbo": {"mtbo": None},
}


def _ours(method: str) -> Callable[[Purse, int, int], Searcher]:
    return lambda purse, seed, most: Ours(purse, seed, method, OWN[method])


SEARCHERS: dict[str, Callable[[Purse, int, int], Searcher]] = {
    **{method: _ours(method) for method in OWN},
    "random": lambda purse, seed, most: RandomCV(purse, seed),
    "optuna-tpe mean": lambda purse, seed, most: OptunaCV(purse, seed, "tpe", "mean"),
    "optuna-tpe robust": lambda purse, seed, most: OptunaCV(purse, seed, "tpe", "robust"),
    "optuna-gp mean": lambda purse, seed, most: OptunaCV(purse, seed, "gp", "mean"),
    "optuna-gp robust": lambda purse, seed, most: OptunaCV(purse, seed, "gp", "robust"),
    "botorch cvar": lambda purse, seed, most: BotorchCVaR(purse, seed),
    "smac folds": lambda purse, seed, most: SmacFolds(purse, seed, most),
    "radius 0": lambda purse, seed, most: MeanSearch(purse, seed),
    "radius auto": lambda purse, seed, most: AutoSearch(purse, seed),
    "matern": lambda purse, seed, most: Ours(
        purse, seed, "foldwise", {MATERN: None}, kernel="matern52"
    ),
}
