"""The weights the adversary gives to the folds of the recommended config."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from drbqo_ray.records import BAND
from drbqo_ray.report.draw.axis import Scale, bottom_axis
from drbqo_ray.report.draw.svg import element, figure, line, text, tip
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.fold_weights import FoldWeights
from drbqo_ray.report.wording import Decimals, with_band

WIDTH, LEFT, RIGHT, TOP, ROW = 860.0, 120.0, 600.0, 30.0, 28.0
MOST = 40


def shown_folds(weights: FoldWeights) -> list[int]:
    """The folds that are drawn: all, or those with most weight when there are many."""
    order = np.argsort(-np.array(weights.weights), kind="stable")[:MOST]
    return sorted(int(fold) for fold in order)


def draw_weights(facts: Facts, weights: FoldWeights) -> Markup:
    """The bars, with the reference weight as a line across each."""
    folds = shown_folds(weights)
    digits = Decimals.of([*weights.fold_means, *weights.fold_stds])
    top = max(max(weights.weights), max(weights.reference))
    scale = Scale(0.0, max(top * 1.05, 1e-9), LEFT, RIGHT)
    bottom = TOP + ROW * len(folds)
    marks: list[Markup] = [
        text("weight", RIGHT + 70, TOP - 12, "head", "end"),
        text("score ± 95 %", RIGHT + 220, TOP - 12, "head", "end"),
    ]
    for k, fold in enumerate(folds):
        y = TOP + ROW * k
        weight, reference = weights.weights[fold], weights.reference[fold]
        mean = digits.text(weights.fold_means[fold])
        score = with_band(mean, BAND * weights.fold_stds[fold])
        words = f"{facts.fold(fold)}: weight {weight:.4f}, reference {reference:.4f}, score {mean}"
        marks += [
            text(facts.fold(fold)[:16], LEFT - 10, y + 18, "name", "end"),
            element(
                "g",
                tip(words),
                element(
                    "rect",
                    x=LEFT,
                    y=y + 4,
                    width=max(scale(weight) - LEFT, 0.75),
                    height=ROW - 8,
                    cls="bar robust",
                ),
                line(scale(reference), y, scale(reference), y + ROW, "reference"),
                cls="mark",
            ),
            text(f"{weight:.4f}", RIGHT + 70, y + 18, "value", "end"),
            text(score, RIGHT + 220, y + 18, "value", "end"),
        ]
    marks += bottom_axis(scale, bottom + 4, "weight of the fold; the upright line is its reference")
    heaviest = int(np.argmax(weights.weights))
    description = (
        f"Worst-case weights of config {weights.config} in {len(weights.weights)} folds. Most"
        f" weight, {weights.weights[heaviest]:.4f}, lies on {facts.fold(heaviest)}."
    )
    return figure(WIDTH, bottom + 52, "Worst-case weights of the folds", description, marks)
