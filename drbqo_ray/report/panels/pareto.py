"""The trade-off between the mean over the folds and the spread between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from drbqo_ray.report.draw import (
    BLUE,
    GRAY,
    LINE,
    ORANGE,
    Scale,
    bottom_axis,
    dot,
    element,
    figure,
    left_axis,
    overhang,
    path,
    text,
    tip,
)
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.panels.ranking import spread
from drbqo_ray.report.wording import Decimals, config_text, count
from drbqo_ray.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

POINTS = 1200
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860.0, 350.0, 70.0, 840.0, 44.0, 286.0
LABEL = 24.0
CLIP = "pareto-area"
FEW = 12


@dataclass(frozen=True)
class ParetoPoint:
    """A ranked config: its mean and the spread of its folds, on the user's scale."""

    number: int
    mean: float
    spread: float
    on_front: bool


@dataclass(frozen=True)
class Pareto:
    """All ranked configs, or those with the best means when there are many.

    Attributes:
        points: the configs; the front is complete.
        left_out: number of configs not shown, all of them dominated.
    """

    points: tuple[ParetoPoint, ...]
    left_out: int


class ParetoPanel(Panel[Pareto]):
    """Mean against spread, with the configs that no other beats in both."""

    key, order, plot_name = "pareto", 50, "pareto"
    title = "Mean and spread"
    question = "What is the trade-off between a good mean and steady folds?"

    def gather(self, source: Source) -> Pareto | None:
        """The trade-off of the ranked configs."""
        posterior = source.posterior
        if posterior is None:
            return None
        numbers = np.flatnonzero(posterior.usable)
        if not len(numbers):
            return None
        mean = posterior.gains[numbers] @ posterior.reference
        width = spread(posterior, numbers)
        front = front_of(mean, width)
        order = np.argsort(-mean, kind="stable")
        shown = sorted({*order[:POINTS].tolist(), *np.flatnonzero(front).tolist()})
        points = tuple(
            ParetoPoint(
                int(numbers[k]), float(posterior.user(mean[k])), float(width[k]), bool(front[k])
            )
            for k in shown
        )
        return Pareto(points, len(numbers) - len(points))

    def draw(self, facts: Facts, data: Pareto) -> Sequence[Markup]:
        """The points and the front."""
        points = in_view(data, facts.minimize)
        ends = (facts.score_range.low, facts.score_range.high)
        x = Scale.around([point.spread for point in points], LEFT, RIGHT, 0.0)
        y = Scale.around([point.mean for point in points], BOTTOM, TOP, *ends)
        digits = Decimals.of([v for p in points for v in (p.mean, p.spread)])
        area = element("rect", x=LEFT, y=TOP, width=RIGHT - LEFT, height=BOTTOM - TOP)
        marks = [element("defs", element("clipPath", area, id=CLIP))]
        marks += left_axis(y, LEFT, RIGHT, f"mean score ({facts.better})", LABEL)
        marks += bottom_axis(x, BOTTOM, "spread between folds (smaller is steadier)")
        front = sorted((p for p in points if p.on_front), key=lambda p: p.spread)
        marks.append(path([(x(p.spread), y(p.mean)) for p in front], "front"))
        marks += _equal_robust(facts, data, x, y)
        for point in sorted(points, key=lambda p: _kind(facts, p) != "other"):
            words = (
                f"config {point.number}: mean {digits.text(point.mean)}, spread"
                f" {digits.text(point.spread)}{', on the front' if point.on_front else ''};"
                f" {config_text(facts.configs[point.number])}"
            )
            kind = _kind(facts, point)
            looks = f"on-front {kind}" if point.on_front else kind
            size = 6.0 if kind != "other" else 3.5
            marks.append(dot(x(point.spread), y(point.mean), size, looks, words))
        marks += _names(facts, points, x, y)
        description = (
            f"{len(points)} configs; {len(front)} of them are on the front, where a better mean"
            " is had only with more spread."
        )
        name = "Mean score against spread"
        return (figure(WIDTH, HEIGHT, name, description, marks, overhang(y, LEFT)),)

    def reading(self, facts: Facts, data: Pareto) -> Sequence[str]:
        """What the front is, and what is left out."""
        front = sum(point.on_front for point in data.points)
        words = (
            f"{count(front, 'config')} on the front{', joined by a line' if front > 1 else ''}:"
            " no other has a better mean and less spread."
        )
        if facts.radius_path is not None and facts.radius_path.mean_minus_spread:
            words += (
                " The dashed line joins points of equal robust score, as long as every fold keeps"
                " some weight."
            )
        hidden = data.left_out + len(data.points) - len(in_view(data, facts.minimize))
        if hidden:
            words += f" {count(hidden, 'config')} with worse means are left out of the picture."
        return (words,)

    def plot(self, ax: Axes, facts: Facts, data: Pareto) -> None:
        """Mean over the folds against their spread, with the configs that no other one
        dominates."""
        front = sorted((p for p in data.points if p.on_front), key=lambda p: p.spread)
        ax.plot([p.spread for p in data.points], [p.mean for p in data.points], ".", color=GRAY)
        ax.plot([p.spread for p in front], [p.mean for p in front], "o-", color=BLUE, label="front")
        chosen = facts.ranking.chosen if facts.ranking else None
        own = [p for p in data.points if p.number == chosen]
        ax.plot(
            [p.spread for p in own],
            [p.mean for p in own],
            "*",
            color=ORANGE,
            markersize=14,
            label="recommended",
        )
        ax.legend()
        ax.set(title="Mean against spread", xlabel="spread between folds", ylabel="mean score")


PANEL = ParetoPanel()


def front_of(gain: Array, width: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which points (m,) no other point beats in one of both without losing in the other."""
    front = np.zeros(len(gain), dtype=bool)
    least = np.inf
    last = (np.nan, np.nan)
    for k in np.lexsort((width, -gain)):
        if width[k] < least or (gain[k], width[k]) == last:
            front[k] = True
            least = float(width[k])
            last = (float(gain[k]), float(width[k]))
    return front


def in_view(pareto: Pareto, minimize: bool) -> list[ParetoPoint]:
    """The points that are drawn: the better half by mean when there are many."""
    ordered = sorted(pareto.points, key=lambda p: p.mean if minimize else -p.mean)
    return ordered[: max(len(ordered) // 2, min(len(ordered), FEW))]


def _kind(facts: Facts, point: ParetoPoint) -> str:
    assert facts.ranking is not None
    return facts.ranking.kind(point.number)


def _equal_robust(facts: Facts, pareto: Pareto, x: Scale, y: Scale) -> list[Markup]:
    """mean - sqrt(2 radius) spread is the robust score of the chi-square ball while every weight
    is positive; configs on the line share it."""
    found = facts.radius_path
    chosen = next((p for p in pareto.points if _kind(facts, p) == "robust"), None)
    if found is None or not found.mean_minus_spread or chosen is None:
        return []
    slope = math.sqrt(2 * found.own) * (-1 if facts.minimize else 1)
    ends = [(s, chosen.mean + slope * (s - chosen.spread)) for s in (x.low, x.high)]
    drawn = path([(x(s), y(m)) for s, m in ends], "equal", tip("equal robust score"))
    return [element("g", drawn, clip_path=f"url(#{CLIP})")]


def _names(facts: Facts, points: list[ParetoPoint], x: Scale, y: Scale) -> list[Markup]:
    marks: list[Markup] = []
    taken: list[float] = []
    for point in points:
        kind = _kind(facts, point)
        if kind == "other":
            continue
        here = (x(point.spread), y(point.mean))
        left = here[0] > RIGHT - 190
        offsets = (20.0, -10.0, -26.0) if facts.minimize else (-10.0, 20.0, 36.0)
        free = (
            here[1] + offset
            for offset in offsets
            if here[1] + offset < BOTTOM - 2  # where the words of the axis begin
            and all(abs(here[1] + offset - other) >= LINE for other in taken)
        )
        height = next(free, here[1] - 10)
        taken.append(height)
        marks.append(
            text(
                f"config {point.number} ({kind} choice)",
                here[0] + (-10 if left else 10),
                height,
                f"name {kind}",
                "end" if left else "start",
                facts.config(point.number),
            )
        )
    return marks
