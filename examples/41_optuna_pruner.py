"""`.venv/bin/python examples/41_optuna_pruner.py [TRIALS]` drops configs in the middle of a loop.

A trial loops over the folds, as most studies do. The sampler stays as it is. It runs in this
process, without Ray, and prints:

    best values    {…}
    robust score   … with radius 1
    trained        … of … folds
"""

from __future__ import annotations

import sys

import numpy as np
import optuna
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import KFold

import drbqo_ray as dr
from drbqo_ray.optuna_sampler import FoldPruner, recommend

X, y = load_diabetes(return_X_y=True)
FOLDS = list(KFold(5, shuffle=True, random_state=0).split(X))
BALL = dr.ChiSquareBall(1.0)
PRUNER = FoldPruner(n_folds=5, uncertainty=BALL)


def objective(trial: optuna.Trial) -> float:
    config = {
        "learning_rate": trial.suggest_float("learning_rate", 1e-3, 1.0, log=True),
        "max_depth": trial.suggest_int("max_depth", 1, 6),
        "subsample": trial.suggest_float("subsample", 0.3, 1.0),
    }
    scores = []
    for fold, (train, test) in enumerate(FOLDS):
        model = GradientBoostingRegressor(n_estimators=20, random_state=0, **config)
        scores.append(model.fit(X[train], y[train]).score(X[test], y[test]))
        trial.report(scores[-1], step=fold)
        if trial.should_prune():
            return PRUNER.expected_value(trial)  # or: raise optuna.TrialPruned
    return float(BALL.worst_case(np.array(scores))[0])


def main(trials: int = 30) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=PRUNER)
    study.optimize(objective, n_trials=trials)
    best = recommend(study)
    print(f"best values    {best.config}")
    print(f"robust score   {best.robust_value:.3f} with radius 1")
    trained = sum(len(trial.intermediate_values) for trial in study.trials)
    print(f"trained        {trained} of {5 * trials} folds")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
