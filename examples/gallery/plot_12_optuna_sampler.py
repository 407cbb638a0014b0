"""
One fold a trial in Optuna
==========================

``FoldSampler`` picks config and fold of every trial of a study. Everything it knows is in the
study, so storages, ``n_jobs`` and several processes work as ever.
"""

import matplotlib.pyplot as plt
import numpy as np
import optuna

from drbqo_ray.optuna_sampler import FoldSampler, certainty, recommend
from workers.svm import sonar

optuna.logging.set_verbosity(optuna.logging.WARNING)


def objective(trial):
    fold = trial.suggest_int("fold", 0, 4)
    config = {
        "C": trial.suggest_float("C", 1e-3, 1e3, log=True),
        "gamma": trial.suggest_float("gamma", 1e-5, 10, log=True),
    }
    return sonar(config, fold=fold, seed=0)


study = optuna.create_study(direction="maximize", sampler=FoldSampler(n_folds=5, seed=0))
study.optimize(objective, n_trials=60)

# %%
# The answer
# ----------
# ``study.best_params`` would be the config of the luckiest fold.

best = recommend(study)
print(best.config)
print(certainty(study))


def folds_of(config):
    return [sonar(config, fold=fold, seed=0) for fold in range(5)]


lucky = {name: value for name, value in study.best_params.items() if name != "fold"}
for name, config in {"recommended": best.config, "luckiest fold": lucky}.items():
    scores = folds_of(config)
    print(f"{name}: mean {np.mean(scores):.3f}, worst fold {min(scores):.3f}")

# %%
# Trials
# ------
# Folds of the same config are joined by a line: the sampler goes on with those that do well.

figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
rows = {}
for trial in study.trials:
    rows.setdefault(trial.params["C"], []).append(trial)
for trials in rows.values():
    axes.plot([t.number for t in trials], [t.value for t in trials], color="lightgray", zorder=1)
dots = axes.scatter(
    [t.number for t in study.trials],
    [t.value for t in study.trials],
    c=[t.params["fold"] for t in study.trials],
    cmap="tab10",
    vmax=9,
    zorder=2,
)
axes.legend(*dots.legend_elements(), title="fold", ncols=5)
axes.set(xlabel="trial", ylabel="accuracy in its fold")
plt.show()
