"""
Leave the loop over the folds early
===================================

Most studies train all folds in every trial. With ``FoldPruner`` a config that can hardly become the
best one is dropped in the middle of the loop. Sampler and objective stay as they are.
"""

import matplotlib.pyplot as plt
import numpy as np
import optuna

import drbqo_ray as dr
from drbqo_ray.optuna_sampler import FoldPruner, recommend
from workers.svm import glass

optuna.logging.set_verbosity(optuna.logging.WARNING)
ball = dr.ChiSquareBall(1.0)


def objective(trial):
    config = {
        "C": trial.suggest_float("C", 1e-3, 1e3, log=True),
        "gamma": trial.suggest_float("gamma", 1e-5, 10, log=True),
    }
    scores = []
    for fold in range(5):
        scores.append(glass(config, fold=fold, seed=0))
        trial.report(scores[-1], step=fold)
        if trial.should_prune():
            return trial.study.pruner.expected_value(trial)
    return ball.worst_case(np.array(scores))[0]


pruner = FoldPruner(n_folds=5, uncertainty=ball)
sampler = optuna.samplers.TPESampler(seed=0)
study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
study.optimize(objective, n_trials=50)
print(recommend(study).config)

# %%
# How many folds a trial was given
# --------------------------------
# The first trials train all their folds, so that there is something to beat. Later ones are dropped
# as soon as the model gives them little chance.

folds = [len(trial.intermediate_values) for trial in study.trials]
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
axes.bar(range(50), folds, color=["C0" if count == 5 else "C1" for count in folds])
axes.set(xlabel="trial", ylabel="folds trained", title=f"{sum(folds)} of 250 folds")
plt.show()

# %%
# What dropped trials returned
# ----------------------------
# ``expected_value`` says what the model expects of a dropped config, so the sampler learns from it.

true = [
    ball.worst_case(np.array([glass(trial.params, fold=fold, seed=0) for fold in range(5)]))[0]
    for trial in study.trials
]
figure, axes = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
axes.scatter(true, study.trials_dataframe()["value"], c=folds, cmap="viridis_r")
axes.axline((0.5, 0.5), slope=1, color="gray", linewidth=0.8)
axes.set(xlabel="robust value, had all folds been trained", ylabel="value of the trial")
plt.show()
