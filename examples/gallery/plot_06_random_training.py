"""
Training that is random
=======================

A network scores a little differently with every seed. The default method trains some folds of its
best config again, learns how large this noise is, and then judges configs by what they score on
average over seeds.
"""

import matplotlib.pyplot as plt
import numpy as np

import drbqo_ray as dr

SPREAD = 0.03
CURVES = [0.2, 0.5, 0.6]  # where each fold likes x


def expected(x, fold):
    return 0.9 - 0.5 * (x - CURVES[fold]) ** 2


def objective(config, fold, seed):
    noise = np.random.default_rng(seed).normal(scale=SPREAD)
    return expected(config["x"], fold) + noise


# %%
# A run
# -----

result = dr.run(
    objective, {"x": dr.Float(0, 1)}, 3, n_evaluations=60, backend="inline", progress=False
)
table = result.to_dataframe()
repeated = table.duplicated(["config.x", "context"])
print(f"{repeated.sum()} of {len(table)} evaluations were repeats")
print(f"recommended x = {result.recommendation.config['x']:.3f}")

# %%
# What it saw, and what is true
# -----------------------------
# Lines are the truth, dots the scores; rings mark folds that were trained again. The luckiest score
# is far above its line: taking it at its word would flatter its config.

figure, axes = plt.subplots(layout="constrained")
x = np.linspace(0, 1, 200)
for fold in range(3):
    (line,) = axes.plot(x, expected(x, fold), label=f"fold {fold}")
    seen = table[table["context"] == fold]
    axes.scatter(seen["config.x"], seen["score"], s=14, color=line.get_color())
axes.scatter(
    table["config.x"][repeated],
    table["score"][repeated],
    s=90,
    facecolors="none",
    edgecolors="black",
)
axes.axvline(result.recommendation.config["x"], linestyle=":", color="gray", label="recommended")
axes.set(xlabel="x", ylabel="score")
axes.legend()
plt.show()
