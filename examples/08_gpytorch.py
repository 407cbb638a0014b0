"""`.venv/bin/python examples/08_gpytorch.py [EVALUATIONS]` goes on with the model in gpytorch.

It needs the extra `torch`, and prints:

    recommended   C=…, gamma=…
    fold …        … ± …
    slope         … of the mean score over the range of log C
"""

from __future__ import annotations

import math
import sys

import torch

import drbqo_ray as dr

N_FOLDS = 4
EVALUATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 30


def score(config: dict[str, float], fold: int) -> float:
    """A stand-in for training: best near C = 10, gamma = 0.01, a little elsewhere in each fold."""
    c, gamma = math.log10(config["C"]), math.log10(config["gamma"])
    return 0.9 - 0.02 * (c - 1 + 0.2 * fold) ** 2 - 0.03 * (gamma + 2) ** 2


space = {"C": dr.Float(1e-2, 1e3, log=True), "gamma": dr.Float(1e-6, 1.0, log=True)}
optimizer = dr.Optimizer(space, contexts=N_FOLDS, seed=0)
for _ in range(EVALUATIONS):
    suggestion = optimizer.ask()
    optimizer.tell(suggestion.id, score(suggestion.config, suggestion.context))
best = optimizer.recommend().config
print(f"recommended   C={best['C']:.3g}, gamma={best['gamma']:.3g}")

# An ExactGP with our data, kernel and noise. From here on everything is gpytorch.
model = optimizer.to_gpytorch()
inputs = model.inputs([best] * N_FOLDS, range(N_FOLDS)).requires_grad_()
posterior = model(inputs)
means = model.score_center + model.score_scale * posterior.mean
spreads = abs(model.score_scale) * posterior.stddev
for fold in range(N_FOLDS):
    print(f"fold {fold}        {means[fold].item():.3f} ± {1.96 * spreads[fold].item():.3f}")
(slopes,) = torch.autograd.grad(means.mean(), inputs)
print(f"slope         {slopes[:, 0].sum().item():+.3f} of the mean score over the range of log C")
