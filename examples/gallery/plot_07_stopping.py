"""
Stop when it is sure enough
===========================

After every fold the search can say how much robust value it expects to miss if it stops now. With
``stop_when`` it stops by itself.
"""

import matplotlib.pyplot as plt

import drbqo_ray as dr
from workers.svm import glass

space = {"C": dr.Float(1e-3, 1e3, log=True), "gamma": dr.Float(1e-5, 10, log=True)}

# %%
# How sure it is, fold by fold
# ----------------------------
# ``certainty`` can be asked at any time and costs no training. Here many good configs score
# alike: the chance that the one in front is the best falls, while there is less and less to lose.

optimizer = dr.Optimizer(space, glass.n_folds, seed=0, fixed_seed=True)
losses, chances = [], []
for _ in range(70):
    suggestion = optimizer.ask()
    score = glass(suggestion.config, fold=suggestion.context, seed=0)
    optimizer.tell(suggestion.id, score)
    now = optimizer.certainty()
    losses.append(now.loss)
    chances.append(now.probability)

figure, (above, below) = plt.subplots(2, 1, sharex=True, layout="constrained")
above.plot(range(1, 71), losses)
above.axhline(0.01, linestyle=":", color="gray")
above.set(ylabel="expected loss", yscale="log")
below.plot(range(1, 71), chances)
below.set(xlabel="folds trained", ylabel="chance to be the best seen", ylim=(0, 1))
plt.show()

# %%
# A run that stops
# ----------------
# The rule has to hold twice in a row.

result = dr.run(
    glass,
    space,
    glass.n_folds,
    n_evaluations=120,
    stop_when="loss < 0.01",
    backend="inline",
    progress=False,
)
print(f"{len(result.observations)} of 120 folds: {result.stop_reason}")
print(result.verdict)
