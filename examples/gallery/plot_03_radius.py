"""
Choose a radius
===============

The radius says how differently the folds may count tomorrow. With 0 the plain mean decides, with
``(n - 1) / 2`` the worst of n folds alone. A search remembers what would have won at every radius,
so you can look before you decide.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold

import drbqo_ray as dr
from drbqo_ray import plots
from drbqo_ray.search_cv import RobustSearchCV

X, y = load_diabetes(return_X_y=True)
search = RobustSearchCV(
    KernelRidge(kernel="rbf"),
    {"alpha": dr.Float(1e-3, 10, log=True), "gamma": dr.Float(1e-2, 30, log=True)},
    cv=KFold(5, shuffle=True, random_state=0),
    n_evaluations=50,
    uncertainty=1.0,
    random_state=0,
).fit(X, y)

# %%
# Who wins at which radius
# ------------------------
# Every line is a config. A line that ends on top is the choice of a cautious user.

plots.radius_path(search)
plt.show()

# %%
# Mean against worst fold
# -----------------------
# The same choice as a trade: nothing is up and to the right of the front.

plots.pareto(search)
plt.show()

# %%
# As numbers
# ----------

for step in search.robustness_path_[::8]:
    values = ", ".join(f"{name}={value:.3g}" for name, value in step["params"].items())
    print(f"radius {step['radius']:.1f}: {values}")
