"""
Spaces with branches
====================

Some parameters matter only for some values of others. ``when`` says so, and the model then does not
look for a pattern where there is none.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray import plots
from drbqo_ray.search_cv import RobustSearchCV

space = {
    "svc__kernel": dr.Choice(["linear", "rbf", "poly"]),
    "svc__C": dr.Float(1e-3, 1e3, log=True),
    "svc__gamma": dr.Float(1e-4, 10, log=True, when={"svc__kernel": ["rbf", "poly"]}),
    "svc__degree": dr.Int(2, 5, when={"svc__kernel": ["poly"]}),
}
X, y = load_wine(return_X_y=True)
X += np.random.default_rng(0).normal(scale=1.5 * X.std(axis=0), size=X.shape)  # make it harder
model = make_pipeline(StandardScaler(), SVC())
search = RobustSearchCV(model, space, cv=5, n_evaluations=60, random_state=0).fit(X, y)
print(search.best_params_)

# %%
# What each kernel got
# --------------------
# Every branch is tried; the folds go to those that do well.

results = search.cv_results_
figure, axes = plt.subplots(layout="constrained")
for place, kernel in enumerate(["linear", "rbf", "poly"]):
    rows = np.flatnonzero(results["param_svc__kernel"] == kernel)
    values = results["robust_test_score"][rows]
    axes.scatter(np.full(len(rows), place), values, s=20 * results["n_folds_evaluated"][rows])
axes.set_xticks(range(3), ["linear", "rbf", "poly"])
axes.set(xlabel="kernel", ylabel="robust accuracy", title="area: folds trained of a config")
plt.show()

# %%
# Which parameter matters
# -----------------------

plots.importance(search)
plt.show()
