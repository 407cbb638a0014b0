"""
What one fold at a time saves
=============================

The same SVM, tuned in two ways on the same five folds: single folds chosen by the model, and random
configs with all their folds. What counts is the true robust value of the config that each would
name, after so many trainings.
"""

from functools import cache

import matplotlib.pyplot as plt
import numpy as np

import drbqo_ray as dr
from workers.svm import sonar

SEEDS, FOLDS, EVALUATIONS = 5, 5, 60
ball = dr.ChiSquareBall(1.0)


@cache
def score(C, gamma, fold):
    return sonar({"C": C, "gamma": gamma}, fold=fold, seed=0)


def robust_value(config):
    scores = [score(config["C"], config["gamma"], fold) for fold in range(FOLDS)]
    return ball.worst_case(np.array(scores))[0]


# %%
# One fold at a time
# ------------------
# ``ask`` names a config and a fold, ``tell`` takes its score, ``recommend`` says what to use.

space = {"C": dr.Float(1e-3, 1e3, log=True), "gamma": dr.Float(1e-5, 10, log=True)}


def fold_by_fold(seed):
    optimizer = dr.Optimizer(space, FOLDS, uncertainty=ball, seed=seed)
    answers = []
    for _ in range(EVALUATIONS):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, score(*suggestion.config.values(), suggestion.context))
        answers.append(robust_value(optimizer.recommend().config))
    return answers


# %%
# All folds of random configs
# ---------------------------


def config_by_config(seed):
    rng, answers, best = np.random.default_rng(seed), [], -np.inf
    for _ in range(EVALUATIONS // FOLDS):
        config = dr.Space(space).from_unit(rng.random(2))
        best = max(best, robust_value(config))
        answers += [best] * FOLDS
    return answers


# %%
# Answers against folds
# ---------------------
# The lines are means over five seeds, the bands go from the worst to the best of them.

figure, axes = plt.subplots(layout="constrained")
steps = np.arange(1, EVALUATIONS + 1)
for name, search in {"one fold at a time": fold_by_fold, "random search": config_by_config}.items():
    runs = np.array([search(seed) for seed in range(SEEDS)])
    if search is config_by_config:  # there is no answer before the first config has all its folds
        runs[:, : FOLDS - 1] = np.nan
    (line,) = axes.plot(steps, runs.mean(axis=0), label=name)
    axes.fill_between(
        steps, runs.min(axis=0), runs.max(axis=0), color=line.get_color(), alpha=0.15, linewidth=0
    )
    print(f"{name}: {runs[:, -1].mean():.3f} after {EVALUATIONS} folds")
axes.set(xlabel="folds trained", ylabel="robust value of the answer")
axes.legend(loc="lower right")
plt.show()
