"""
A Bayesian GridSearchCV
=======================

A search that looks for the best mean, as ``GridSearchCV`` does, but trains one fold at a time and
leaves poor configs after one or two. ``uncertainty=0`` says that the plain mean decides.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray.search_cv import RobustSearchCV

X, y = load_breast_cancer(return_X_y=True)
model = make_pipeline(StandardScaler(), SVC())

# %%
# The grid
# --------
# 49 configs on five folds are 245 fits.

grid = {"svc__C": np.logspace(-2, 4, 7), "svc__gamma": np.logspace(-6, 0, 7)}
searched = GridSearchCV(model, grid, cv=5).fit(X, y)
print(f"{searched.best_score_:.4f} for", searched.best_params_)

# %%
# The search
# ----------
# The same ranges, but 60 fits. A fold that was not trained is NaN in ``cv_results_``.

space = {"svc__C": dr.Float(1e-2, 1e4, log=True), "svc__gamma": dr.Float(1e-6, 1, log=True)}
search = RobustSearchCV(model, space, cv=5, n_evaluations=60, uncertainty=0, random_state=0)
search.fit(X, y)
print(f"{search.best_score_:.4f} for", search.best_params_)

# %%
# Where the folds went
# --------------------
# On the left every square cost five fits. On the right the area of a dot says how many folds its
# config was given.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
means = searched.cv_results_["mean_test_score"].reshape(7, 7)
shades = left.pcolormesh(grid["svc__C"], grid["svc__gamma"], means.T, vmin=0.6, vmax=1)
left.set(title="GridSearchCV: 245 folds", xscale="log", yscale="log", xlabel="C", ylabel="gamma")

results = search.cv_results_
folds = results["n_folds_evaluated"]
scores = [
    np.nanmean([results[f"split{fold}_test_score"][row] for fold in range(5)])
    for row in range(len(folds))
]
right.scatter(
    *([config[name] for config in results["params"]] for name in space),
    s=25 * folds,
    c=scores,
    vmin=0.6,
    vmax=1,
)
right.set(title=f"RobustSearchCV: {folds.sum()} folds", xscale="log", yscale="log", xlabel="C")
figure.colorbar(shades, label="accuracy")
plt.show()
