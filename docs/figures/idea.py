"""Draw docs/figures/idea.png: why the robust choice differs from the mean's.

    .venv/bin/python docs/figures/idea.py

The paper's logistic example, score = -log(1 + exp(x.w)), with the ten samples w drawn by
numpy.random.RandomState(84), cut along the line through the best x of the plain mean. Nothing
else is random.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import drbqo_ray as dr

RADIUS = 1.0
GREY, BLUE, ORANGE = "#a8a8a8", "#0072b2", "#d55e00"
W = np.random.RandomState(84).randn(10, 2)


def main() -> None:
    """Compute, draw and print."""
    along = np.linspace(-1.2, 2.0, 641)
    scores = -np.logaddexp(0, np.outer(along, W @ np.array([0.989, 0.428])))  # (641, 10)
    mean = scores.mean(axis=1)
    robust, _ = dr.ChiSquareBall(RADIUS).worst_case(scores)
    picks = {"mean": int(np.argmax(mean)), "robust": int(np.argmax(robust))}
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.6, 3.7), width_ratios=(1.7, 1), layout="constrained"
    )
    left.plot(along, scores, color=GREY, lw=0.8)
    left.plot([], [], color=GREY, lw=0.8, label="single folds")
    left.plot(along, mean, "--", color=BLUE, lw=2.2, label="mean of the folds")
    left.plot(along, robust, color=ORANGE, lw=2.2, label="worst re-weighting of the folds")
    left.plot(along[picks["mean"]], mean[picks["mean"]], "s", color=BLUE, ms=9)
    left.plot(along[picks["robust"]], robust[picks["robust"]], "o", color=ORANGE, ms=9)
    left.set(xlabel="hyperparameter", ylabel="score", ylim=(-2.2, 0))
    left.legend(frameon=False, fontsize=9, loc="lower left")
    folds = np.arange(1, 11)
    right.bar(
        folds - 0.2, scores[picks["mean"]], 0.4, color=BLUE, hatch="//", label="mean's choice"
    )
    right.bar(folds + 0.2, scores[picks["robust"]], 0.4, color=ORANGE, label="robust choice")
    right.set(xlabel="fold", ylabel="score", title="the two choices, fold by fold", xticks=folds)
    right.legend(frameon=False, fontsize=9, loc="lower left")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=140)
    for name, k in picks.items():
        print(
            f"{name}: at {along[k]:.3f}, mean {mean[k]:.4f}, robust {robust[k]:.4f}, "
            f"worst fold {scores[k].min():.4f}"
        )


if __name__ == "__main__":
    main()
