"""
All pictures of the report
==========================

``result.report("report.html")`` writes one page that works offline. Its pictures are also there as
matplotlib axes, one function each in ``drbqo_ray.plots``.
"""

import matplotlib.pyplot as plt

import drbqo_ray as dr
from drbqo_ray import plots
from workers.svm import sonar

space = {"C": dr.Float(1e-3, 1e3, log=True), "gamma": dr.Float(1e-5, 10, log=True)}
result = dr.run(
    sonar, space, sonar.n_folds, n_evaluations=50, backend="inline", progress=False, fixed_seed=True
)
print(result.verdict)
print(result.to_dataframe().groupby("context")["score"].describe().round(3))

# %%
# Gather what they show once, then draw each where you like.

facts = plots.facts_of(result)
figure, places = plt.subplots(4, 2, figsize=(11, 16), layout="constrained")
names = [
    "ranking",
    "heat_map",
    "fold_weights",
    "radius_path",
    "pareto",
    "incumbent",
    "importance",
    "timeline",
]
for name, axes in zip(names, places.flat, strict=True):
    getattr(plots, name)(facts, ax=axes)
    axes.set_title(name)
plt.show()
