"""
A forecast for a hospital that was not there
============================================

Rows from six hospitals. The model will run in a seventh, so each hospital is a fold: models are
judged where they were not trained. ``forecast_`` then says what to expect in a new one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import drbqo_ray as dr
from drbqo_ray import plots
from drbqo_ray.search_cv import RobustSearchCV

# %%
# Hospitals differ
# ----------------
# Made-up patients: what the features say is the same everywhere, but every hospital has shortcuts
# of its own, in features that help there and mislead elsewhere.

rng = np.random.default_rng(4)


def patients(count):
    X = rng.normal(size=(count, 8))
    shortcut = rng.normal(scale=0.5, size=4)
    y = X[:, :4] @ [1.0, -1.0, 0.5, 0.5] + X[:, 4:] @ shortcut + rng.normal(size=count) > 0
    return X, y


names = ["Bergen", "Galway", "Lviv", "Porto", "Tartu", "Turin"]
parts = [patients(120) for _ in names]
X, y = (np.concatenate(side) for side in zip(*parts, strict=True))
hospital = np.repeat(names, 120)

# %%
# The search
# ----------

search = RobustSearchCV(
    make_pipeline(StandardScaler(), LogisticRegression(solver="saga", max_iter=500)),
    {
        "logisticregression__C": dr.Float(1e-4, 1e2, log=True),
        "logisticregression__l1_ratio": dr.Float(0, 1),
    },
    cv=LeaveOneGroupOut(),
    uncertainty=0.3,
    n_evaluations=40,
    random_state=0,
).fit(X, y, groups=hospital)
print(search.best_params_)
print(search.forecast_)

# %%
# Which hospitals hurt
# --------------------

plots.fold_weights(search)
plt.show()

# %%
# Does the forecast hold?
# -----------------------
# Forty more hospitals, each scored by the model trained on the six.

found = [search.score(*patients(120)) for _ in range(40)]
low, high = search.forecast_.interval
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
axes.axvspan(low, high, alpha=0.15, label="95 % interval of the forecast")
axes.axvline(search.forecast_.expected, label="forecast")
axes.scatter(found, rng.uniform(0.2, 0.8, size=40), color="black", s=12, label="new hospitals")
axes.set(xlabel="accuracy", yticks=[], ylim=(0, 1))
axes.legend(loc="upper left", fontsize=8)
plt.show()
inside = np.mean([low <= score <= high for score in found])
print(f"{inside:.0%} of the new hospitals lie in the interval")
