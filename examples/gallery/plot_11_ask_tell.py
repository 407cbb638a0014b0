"""
A loop of your own
==================

``Optimizer`` needs no runtime: ask it, train wherever you like, tell it the score. Here with one
hyperparameter, so that everything it knows can be drawn.
"""

import matplotlib.pyplot as plt
import numpy as np

import drbqo_ray as dr

PEAKS = [0.25, 0.35, 0.8]  # two folds agree, the third does not


def train(config, fold):
    return 1 - (config["x"] - PEAKS[fold]) ** 2 + 0.02 * np.sin(30 * config["x"] + fold)


optimizer = dr.Optimizer({"x": dr.Float(0, 1)}, contexts=3, uncertainty=1.0, seed=1)
for _ in range(14):
    suggestion = optimizer.ask()
    optimizer.tell(suggestion.id, train(suggestion.config, suggestion.context))
best = optimizer.recommend()
print(best)

# %%
# What the model knows
# --------------------
# One line and band for each fold. A score in one fold says something about the others too, so bands
# are narrow where only another fold was trained. The robust value lies between the mean and the
# worst fold, and its peak is elsewhere than that of the mean.

grid = [{"x": x} for x in np.linspace(0, 1, 101)]
means, spreads = optimizer.predict(grid)
robust = dr.ChiSquareBall(1.0).worst_case(means)[0]
x = [config["x"] for config in grid]
figure, axes = plt.subplots(layout="constrained")
for fold in range(3):
    (line,) = axes.plot(x, means[:, fold], label=f"fold {fold}")
    low, high = (means[:, fold] + side * spreads[:, fold] for side in (-2, 2))
    axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    seen = [one for one in optimizer.observations if one.context == fold]
    axes.scatter([one.config["x"] for one in seen], [one.score for one in seen], s=20)
axes.plot(x, robust, color="black", linewidth=2, label="robust value")
axes.plot(x, means.mean(axis=1), color="black", linestyle=":", label="mean")
axes.axvline(best.config["x"], color="gray", linewidth=0.8)
axes.set(xlabel="x", ylabel="score")
axes.legend()
plt.show()
