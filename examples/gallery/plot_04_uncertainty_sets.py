"""
What the adversary may do
=========================

A robust value is a weighted mean of the scores of the folds, with the worst weights that a set
allows. The sets differ in which weights these are.
"""

import matplotlib.pyplot as plt
import numpy as np

import drbqo_ray as dr

scores = np.array([0.91, 0.90, 0.87, 0.84, 0.70])
sets = {
    "mean": dr.Expectation(),
    "chi-square 0.2": dr.ChiSquareBall(0.2),
    "chi-square 1": dr.ChiSquareBall(1.0),
    "KL 0.2": dr.KLBall(0.2),
    "total variation 0.2": dr.TotalVariationBall(0.2),
    "CVaR 0.4": dr.CVaR(0.4),
    "worst fold": dr.WorstCase(),
}

# %%
# The worst weights of five folds
# -------------------------------
# Folds are sorted from the best to the worst. Chi-square and KL move a little weight from all good
# folds; total variation moves it from the best one only; CVaR drops the best ones.

figure, panels = plt.subplots(1, len(sets), figsize=(11, 2.8), sharey=True, layout="constrained")
for axes, (name, chosen) in zip(panels, sets.items(), strict=True):
    value, weights = chosen.worst_case(scores)
    axes.bar(range(len(scores)), weights)
    axes.set_title(f"{name}\n{value:.3f}", fontsize=9)
    axes.set_xlabel("fold", fontsize=8)
panels[0].set_ylabel("weight")
plt.show()

# %%
# From the mean to the worst fold
# -------------------------------
# The value falls with the radius until the worst fold has all the weight.

radii = np.linspace(0, 2.2, 60)
figure, axes = plt.subplots(layout="constrained")
axes.plot(radii, [dr.ChiSquareBall(radius).worst_case(scores)[0] for radius in radii])
axes.axhline(scores.mean(), linestyle=":", color="gray")
axes.axhline(scores.min(), linestyle=":", color="gray")
axes.set(xlabel="chi-square radius", ylabel="robust value")
plt.show()
