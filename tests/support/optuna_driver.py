"""`python -m tests.support.optuna_driver STORAGE TRIALS SEED` works on the study "shared".

STORAGE is the URL of a database or the path of a journal. Every process of a test runs this. The
space is small, so that processes that do not mind each other would soon ask the same pair.
"""

from __future__ import annotations

import sys

import optuna
from optuna.storages.journal import JournalFileBackend

from drbqo_ray.optuna_sampler import FoldSampler

N_FOLDS = 3


def score(c: int, kernel: str, fold: int) -> float:
    return -abs(c - 4) - (kernel == "poly") - 0.1 * fold * (c % 2)


def objective(trial: optuna.Trial) -> float:
    c = trial.suggest_int("C", 1, 8)
    fold = trial.suggest_int("fold", 0, N_FOLDS - 1)
    return score(c, trial.suggest_categorical("kernel", ["rbf", "poly"]), fold)


def storage_of(place: str) -> str | optuna.storages.BaseStorage:
    if "://" in place:
        return place
    backend = JournalFileBackend(place)
    return optuna.storages.JournalStorage(backend)


def main(place: str, trials: str, seed: str) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(
        study_name="shared",
        storage=storage_of(place),
        sampler=FoldSampler(N_FOLDS, seed=int(seed), n_initial=8),
    )
    study.optimize(objective, n_trials=int(trials))


if __name__ == "__main__":
    main(*sys.argv[1:])
