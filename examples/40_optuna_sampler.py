"""`.venv/bin/python examples/40_optuna_sampler.py [TRIALS]` tunes an SVM in a study of Optuna.

A trial trains one fold, which the sampler picks. It runs in this process, without Ray, and prints:

    best values    {…}
    robust score   … with radius 1
    sure           … that no other config seen is better
    trained        … folds of … configs
"""

from __future__ import annotations

import sys

import optuna
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from drbqo_ray.optuna_sampler import FoldSampler, certainty, recommend

X, y = load_breast_cancer(return_X_y=True)
FOLDS = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))


def objective(trial: optuna.Trial) -> float:
    train, test = FOLDS[trial.suggest_int("fold", 0, 4)]
    config = {
        "kernel": trial.suggest_categorical("kernel", ["rbf", "poly"]),
        "C": trial.suggest_float("C", 1e-3, 1e3, log=True),
    }
    if config["kernel"] == "poly":  # branches are fine
        config["degree"] = trial.suggest_int("degree", 1, 4)
    model = make_pipeline(StandardScaler(), SVC(**config)).fit(X[train], y[train])
    return float(model.score(X[test], y[test]))


def main(trials: int = 40) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = FoldSampler(n_folds=5, uncertainty=1.0, seed=0)  # 0 is the plain mean of the folds
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=trials)
    best = recommend(study)
    print(f"best values    {best.config}")
    print(f"robust score   {best.robust_value:.3f} with radius 1")
    print(f"sure           {certainty(study).probability:.0%} that no other config seen is better")
    seen = [{k: v for k, v in trial.params.items() if k != "fold"} for trial in study.trials]
    print(f"trained        {len(seen)} folds of {len({str(each) for each in seen})} configs")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
