"""
Seconds instead of folds
========================

With ``time_budget`` a run ends by the clock. Where some configs train longer than others it goes by
gain for each second, so cheap configs are tried more often.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import drbqo_ray as dr


def objective(config, fold, seed):
    """More trees are a little better and take longer, as in boosting."""
    time.sleep(config["trees"] / 10_000)
    return 0.9 - 0.3 / config["trees"] ** 0.5 - (config["depth"] - 4 + 0.5 * fold) ** 2 / 100


space = {"trees": dr.Int(10, 2000, log=True), "depth": dr.Int(1, 10)}

# %%
# Five seconds
# ------------
# ``drbqo run --time 10m`` is the same from the shell.

result = dr.run(objective, space, 3, time_budget=5, backend="inline", progress=False)
print(f"{len(result.observations)} folds: {result.stop_reason}")
print(result.recommendation.config)

# %%
# Where the seconds went
# ----------------------
# The model of costs learns from the seconds of the folds before, and no fold is begun that is
# expected to end too late.

table = result.to_dataframe()
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
dots = left.scatter(table["config.trees"], table["config.depth"], c=table["score"], s=25)
left.set(xscale="log", xlabel="trees", ylabel="depth", title="what was trained")
figure.colorbar(dots, ax=left, label="score")
right.plot(np.cumsum(table["seconds"]), table["score"].cummax())
right.set(xlabel="seconds of training", ylabel="best score of a fold", title="what it brought")
plt.show()
