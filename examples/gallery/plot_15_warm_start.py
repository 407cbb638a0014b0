"""
Start from an earlier run
=========================

The best config lies at the edge of the space, so you widen it. A new run may begin with the scores
of the old one: they cost nothing. Data and folds must be the same, for scores to mean the same.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import drbqo_ray as dr
from workers.svm import sonar

folder = tempfile.TemporaryDirectory()
narrow = {"C": dr.Float(1e-3, 1, log=True), "gamma": dr.Float(1e-5, 1e-2, log=True)}
wide = {"C": dr.Float(1e-3, 1e3, log=True), "gamma": dr.Float(1e-5, 10, log=True)}


def train(space, n_evaluations, name, **settings):
    return dr.run(
        sonar,
        space,
        sonar.n_folds,
        n_evaluations=n_evaluations,
        storage=Path(folder.name, name),
        backend="inline",
        progress=False,
        **settings,
    )


# %%
# A space that is too narrow
# --------------------------

first = train(narrow, 30, "narrow")
print(first.recommendation)

# %%
# The same scores in a wider one
# ------------------------------

second = train(wide, 25, "wide", warm_start=Path(folder.name, "narrow"))
print(second.recommendation)
print(len(second.observations), "scores, of which 25 are new")

# %%
# The new folds go where the old run could not: none is spent on what it knew to be poor.

figure, axes = plt.subplots(layout="constrained")
for name, seen in {
    "earlier run": first.observations,
    "new": second.observations[len(first.observations) :],
}.items():
    places = [[one.config[key] for one in seen] for key in ("C", "gamma")]
    axes.scatter(*places, s=22, label=name)
axes.plot([1, 1, 1e-3], [1e-5, 1e-2, 1e-2], color="gray", linewidth=0.8)
axes.set(xscale="log", yscale="log", xlabel="C", ylabel="gamma")
axes.legend()
plt.show()
folder.cleanup()
