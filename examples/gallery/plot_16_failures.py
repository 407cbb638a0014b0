"""
Folds that fail
===============

A config may crash, or run out of memory, in some folds only. Such a fold is never averaged away: it
is recorded with its reason, the model learns to stay away, and its config is not recommended.
"""

import matplotlib.pyplot as plt
import numpy as np

import drbqo_ray as dr


def objective(config, fold, seed):
    """The best scores lie next to where the third fold fails."""
    x, y = config["x"], config["y"]
    if fold == 2 and x + y > 1.2:
        raise MemoryError("fold 2 is too large for this config")
    return 1 - (x - 0.8) ** 2 - (y - 0.6) ** 2 - 0.02 * fold


space = {"x": dr.Float(0, 1), "y": dr.Float(0, 1)}
result = dr.run(
    objective, space, 3, n_evaluations=50, backend="inline", progress=False, fixed_seed=True
)
best = result.recommendation.config
table = result.to_dataframe()
print(table["status"].value_counts().to_dict())
print(f"recommended: x = {best['x']:.3f}, y = {best['y']:.3f}, sum {best['x'] + best['y']:.3f}")

# %%
# It comes close, and stays on the safe side
# ------------------------------------------

figure, axes = plt.subplots(figsize=(5.5, 5), layout="constrained")
failed = table["status"] == "failed"
places = table["config.x"], table["config.y"]
dots = axes.scatter(places[0][~failed], places[1][~failed], c=table["score"][~failed], s=25)
axes.scatter(places[0][failed], places[1][failed], marker="x", color="red", label="failed")
axes.scatter(best["x"], best["y"], marker="*", s=220, color="black", label="recommended")
line = np.linspace(0.2, 1, 2)
axes.plot(line, 1.2 - line, color="red", linewidth=0.8)
figure.colorbar(dots, label="score")
axes.set(xlabel="x", ylabel="y", xlim=(0, 1), ylim=(0, 1))
axes.legend(loc="lower left")
plt.show()
