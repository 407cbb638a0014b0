"""The weights the adversary gives to the folds of the recommended config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from drbqo_ray.records import BAND
from drbqo_ray.report.draw import BLUE, Scale, bottom_axis, element, figure, line, rect, text, tip
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.panels.ranking import Ranking
from drbqo_ray.report.wording import Decimals, count, short, with_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

WIDTH, LEFT, RIGHT, TOP, ROW = 860.0, 120.0, 600.0, 30.0, 28.0
MOST = 40


@dataclass(frozen=True)
class FoldWeights:
    """Worst-case weights of one config.

    Attributes:
        config: its number.
        weights: weight of every fold (n,), non-negative, summing to 1.
        reference: reference weight of every fold (n,).
        fold_means: value in every fold (n,), user's scale.
        fold_stds: its deviation (n,).
        measure: name of the distance between weights and reference, None when it has no simple one.
        distance: that distance.
        limit: the largest distance the set allows.
    """

    config: int
    weights: tuple[float, ...]
    reference: tuple[float, ...]
    fold_means: tuple[float, ...]
    fold_stds: tuple[float, ...]
    measure: str | None
    distance: float | None
    limit: float | None


class WeightsPanel(Panel[FoldWeights]):
    """Worst-case weights as bars, with the reference weights."""

    key, order, plot_name = "weights", 30, "fold_weights"
    title, question = "Worst-case weights", "Which folds does the adversary pick?"

    def gather(self, source: Source) -> FoldWeights | None:
        """The weights of the recommended config."""
        posterior = source.posterior
        if posterior is None:
            return None
        ranking: Ranking = source.part("ranking")
        row = ranking.row(ranking.chosen)
        if row is None:
            return None
        p, q = np.array(row.weights), posterior.reference
        n = len(q)
        stds = posterior.judged_stds(np.full(n, row.number), np.eye(n))
        measure, distance, limit = posterior.uncertainty.divergence(p, q) or (None, None, None)
        return FoldWeights(
            config=row.number,
            weights=row.weights,
            reference=tuple(float(w) for w in q),
            fold_means=row.fold_means,
            fold_stds=tuple(float(s) for s in stds),
            measure=measure,
            distance=distance,
            limit=limit,
        )

    def draw(self, facts: Facts, data: FoldWeights) -> Sequence[Markup]:
        """The bars."""
        folds = shown_folds(data)
        digits = Decimals.of([*data.fold_means, *data.fold_stds])
        top = max(max(data.weights), max(data.reference))
        scale = Scale(0.0, max(top * 1.05, 1e-9), LEFT, RIGHT)
        bottom = TOP + ROW * len(folds)
        marks: list[Markup] = [
            text("weight", RIGHT + 70, TOP - 12, "head", "end"),
            text("score ± 95 %", RIGHT + 220, TOP - 12, "head", "end"),
        ]
        for k, fold in enumerate(folds):
            y = TOP + ROW * k
            weight, reference = data.weights[fold], data.reference[fold]
            mean = digits.text(data.fold_means[fold])
            score = with_band(mean, BAND * data.fold_stds[fold])
            words = (
                f"{facts.fold(fold)}: weight {weight:.4f}, reference {reference:.4f}, score {mean}"
            )
            marks += [
                text(facts.fold(fold)[:16], LEFT - 10, y + 18, "name", "end"),
                element(
                    "g",
                    tip(words),
                    rect(LEFT, y + 4, max(scale(weight) - LEFT, 0.75), ROW - 8, "bar robust"),
                    line(scale(reference), y, scale(reference), y + ROW, "reference"),
                    cls="mark",
                ),
                text(f"{weight:.4f}", RIGHT + 70, y + 18, "value", "end"),
                text(score, RIGHT + 220, y + 18, "value", "end"),
            ]
        unit = "weight of the fold; the upright line is its reference"
        marks += bottom_axis(scale, bottom + 4, unit)
        heaviest = int(np.argmax(data.weights))
        description = (
            f"Worst-case weights of config {data.config} in {len(data.weights)} folds. Most"
            f" weight, {data.weights[heaviest]:.4f}, lies on {facts.fold(heaviest)}."
        )
        return (figure(WIDTH, bottom + 52, "Worst-case weights of the folds", description, marks),)

    def reading(self, facts: Facts, data: FoldWeights) -> Sequence[str]:
        """What the weights do, how far from the reference they are, and what is left out."""
        words = (
            f"Weighted like this the folds of config {data.config} give its robust score: no other"
            f" weights in the set ({facts.set_words}) give a worse one."
        )
        if data.measure is not None and data.distance is not None and data.limit is not None:
            words += (
                f" Their {data.measure} is {short(data.distance, 4)}; the set allows"
                f" {short(data.limit, 4)}."
            )
        left = len(data.weights) - len(shown_folds(data))
        return (
            (words, f"{count(left, 'fold')} with less weight are left out.") if left else (words,)
        )

    def plot(self, ax: Axes, facts: Facts, data: FoldWeights) -> None:
        """Worst-case weight of every fold of the recommended config, beside the reference
        weights."""
        places = np.arange(len(data.weights))
        ax.bar(places, data.weights, color=BLUE, label="worst case")
        ax.plot(places, data.reference, "_", color="black", markersize=18, label="reference")
        ax.set_xticks(places, [facts.fold(int(fold)) for fold in places], rotation=90)
        ax.legend()
        ax.set(title=f"Worst-case weights of config {data.config}", xlabel="", ylabel="weight")


PANEL = WeightsPanel()


def shown_folds(weights: FoldWeights) -> list[int]:
    """The folds that are drawn: all, or those with most weight when there are many."""
    order = np.argsort(-np.array(weights.weights), kind="stable")[:MOST]
    return sorted(int(fold) for fold in order)
