"""
On Ray
======

The same call on a cluster: leave ``backend`` out. Without an address it starts a small Ray on this
machine and stops it at the end; with ``RAY_ADDRESS`` it joins yours. A lost worker or node costs
the fold it was training, which is trained again.
"""

import matplotlib.pyplot as plt

import drbqo_ray as dr
from drbqo_ray import plots

space = {"C": dr.Float(1e-3, 1e3, log=True), "gamma": dr.Float(1e-5, 10, log=True)}
result = dr.run(
    "workers.svm:sonar",  # by name, so that every node imports it
    space,
    contexts=5,
    n_evaluations=30,
    resources={"CPU": 0.5},  # two folds on a core
    max_in_flight=4,
    progress=False,
)
print(result.recommendation)
print(result.verdict)

# %%
# Who trained when
# ----------------
# A suggestion is made while other folds are still trained, and takes account of them.

plots.timeline(result)
plt.show()
