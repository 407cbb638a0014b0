"""
Stop a run and go on
====================

Every score is in the journal of the run before the next fold begins. So a run that was stopped, or
killed, goes on where it was, and the answer can be looked at by anybody who has the folder.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import drbqo_ray as dr
from drbqo_ray import plots
from workers.svm import sonar

space = {"C": dr.Float(1e-3, 1e3, log=True), "gamma": dr.Float(1e-5, 10, log=True)}
folder = tempfile.TemporaryDirectory()
storage = Path(folder.name) / "sonar"


def train(n_evaluations):
    return dr.run(
        sonar,
        space,
        sonar.n_folds,
        n_evaluations=n_evaluations,
        storage=storage,
        resume=True,  # goes on if there is something to go on with
        backend="inline",
        progress=False,
    )


# %%
# Two sessions
# ------------

first = train(20)
print(len(first.observations), "folds:", first.verdict)
second = train(45)
print(len(second.observations), "folds:", second.verdict)
print("the first ones are the same:", second.observations[:20] == first.observations)

# %%
# One run
# -------
# The picture is drawn from the journal alone.

plots.incumbent(storage)
plt.show()

# %%
# Which folds of which configs were trained; what is hatched is the model's.

plots.heat_map(storage)
plt.show()
folder.cleanup()
