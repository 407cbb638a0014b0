"""How the robust value moves along each parameter: what the model says, and what was tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from drbqo_ray.report.draw import (
    BLUE,
    GRAY,
    LINE,
    OPTIONS,
    ORANGE,
    Scale,
    band,
    bottom_axis,
    dot,
    figure,
    label_of,
    left_axis,
    line,
    overhang,
    path,
    places_along,
    ticks_along,
    word_lines,
)
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.panels.ranking import Ranking
from drbqo_ray.report.posterior import Posterior
from drbqo_ray.report.wording import Decimals, config_text, name_text, value_text
from drbqo_ray.space.parameters import Choice
from drbqo_ray.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

SLICES, COLUMNS = 6, 3
TRIED = 100
OPTION_LINES = 3
WIDTH, HEIGHT, LEFT = 420.0, 240.0, 62.0


@dataclass(frozen=True)
class SlicePoint:
    """Value of the parameter, its place in [0, 1], and the robust value there with its band."""

    value: Any
    place: float
    robust: float
    low: float
    high: float


@dataclass(frozen=True)
class Tried:
    """An evaluated config: its number, its place in [0, 1] on the axis, and its robust value."""

    number: int
    place: float
    robust: float


@dataclass(frozen=True)
class Slice:
    """The modeled robust value along one parameter, the others as in the recommended config.

    Attributes:
        name: the parameter.
        categorical: whether its values have no order.
        log: whether its scale is logarithmic.
        points: along the range.
        here: place of the recommended config in [0, 1].
        tried: the best of the evaluated configs that have the parameter, at most 100.
        ticks: places and words of its axis.
    """

    name: str
    categorical: bool
    log: bool
    points: tuple[SlicePoint, ...]
    here: float
    tried: tuple[Tried, ...]
    ticks: tuple[tuple[float, str], ...]


class SlicesPanel(Panel[tuple[Slice, ...]]):
    """A picture for each of the parameters that matter most."""

    key, order, plot_name = "slices", 72, "slices"
    title, question = "Slices", "How does the score move along each parameter?"

    def gather(self, source: Source) -> tuple[Slice, ...] | None:
        """Slices along the first few parameters by importance that the recommended config has and
        that can vary; None without such a config."""
        importance = source.part("parameters")
        if importance is None or source.posterior is None:
            return None
        posterior, ranking = source.posterior, source.part("ranking")
        space, names = posterior.space, list(posterior.space)
        here = space.to_unit(posterior.configs[ranking.chosen])
        active = space.active(here[None])[0]
        sliced = [
            name
            for name, _ in importance.effects
            if active[names.index(name)] and space.parameters[name].count != 1
        ]
        return tuple(_slice(posterior, ranking, name, here) for name in sliced[:SLICES])

    def draw_small(self, facts: Facts, data: tuple[Slice, ...]) -> Sequence[Markup]:
        """The slices, the most important parameter first."""
        return tuple(draw_slice(facts, part) for part in data)

    def reading(self, facts: Facts, data: tuple[Slice, ...]) -> Sequence[str]:
        """What curve, dots and ticks are."""
        if not data:
            return ("No parameter of the recommended config can vary.",)
        return (
            "The curve is the model's, with its 95 % band; the other parameters are as in the"
            " recommended config, whose place the upright line marks. Dots are evaluated configs,"
            " which differ in the other parameters too; those far below the curve are only short"
            " ticks at the bottom.",
        )

    def plot(self, ax: Axes, facts: Facts, data: tuple[Slice, ...]) -> None:
        """The robust value along each of the parameters that matter most: the model with its 95 %
        band, and the evaluated configs."""
        ax.set_axis_off()
        ax.set_title(self.title)
        rows = max(1, math.ceil(len(data) / COLUMNS))
        columns = max(1, min(len(data), COLUMNS))
        for k, part in enumerate(data):
            column, row = k % columns, k // columns
            frame = (column / columns, 1 - (row + 1) / rows, 0.8 / columns, 0.7 / rows)
            _plot_slice(ax.inset_axes((frame[0], frame[1] + 0.2 / rows, *frame[2:])), part)


PANEL = SlicesPanel()


def _slice(posterior: Posterior, ranking: Ranking, name: str, here: Array) -> Slice:
    space, item = posterior.space, posterior.space.parameters[name]
    column = list(space).index(name)
    places = places_along(item)[: OPTIONS if isinstance(item, Choice) else None]
    u = np.repeat(here[None], len(places), axis=0)
    u[:, column] = places
    u = space.snap(u)
    inputs = space.features(u)
    robust, weights = posterior.robust(posterior.predict(inputs))
    values, stds = posterior.user(robust), posterior.stds(inputs, weights)
    low, high = posterior.bands(values, stds)
    points = tuple(
        SlicePoint(item.from_unit(float(place)), float(place), float(v), float(a), float(b))
        for place, v, a, b in zip(u[:, column], values, low, high, strict=True)
    )
    tried = [
        Tried(row.number, item.to_unit(row.config[name]), row.robust)
        for row in ranking.rows
        if name in row.config and row.robust_rank is not None
    ]
    return Slice(
        name,
        isinstance(item, Choice),
        bool(getattr(item, "log", False)),
        points,
        float(here[column]),
        tuple(tried[:TRIED]),
        tuple(ticks_along(item)),
    )


def draw_slice(facts: Facts, part: Slice) -> Markup:
    """The robust value along one parameter with its band; a dot for every tried config in view, and
    a tick below for all of them."""
    right, top, bottom = WIDTH - 22, 40.0, HEIGHT - 54
    lines = OPTION_LINES if part.categorical else 1
    values = [v for p in part.points for v in (p.low, p.high)]
    x = Scale(0.0, 1.0, LEFT, right)
    y = Scale.around(values, bottom, top, facts.score_range.low, facts.score_range.high)
    digits = Decimals.of(values)
    marks = left_axis(y, LEFT, right, "robust score")
    marks += bottom_axis(x, bottom, label_of(part.name, part.log), part.ticks, lines)
    marks += [line(x(t.place), bottom - 6, x(t.place), bottom, "tried") for t in part.tried]
    marks.append(line(x(part.here), top, x(part.here), bottom, "own"))
    if part.categorical:
        for p in part.points:
            marks.append(line(x(p.place), y(p.low), x(p.place), y(p.high), "whisker"))
    else:
        upper = [(x(p.place), y(p.high)) for p in part.points]
        marks.append(band(upper, [(x(p.place), y(p.low)) for p in part.points]))
        marks.append(path([(x(p.place), y(p.robust)) for p in part.points], "curve robust"))
    marks += _curve_dots(part, x, y, digits)
    marks += _tried_dots(facts, part, x, y, digits)
    best = (min if facts.minimize else max)(part.points, key=lambda p: p.robust)
    description = (
        f"The modeled robust score along {name_text(part.name)} is best at"
        f" {value_text(best.value)} with {digits.text(best.robust)}."
    )
    places, words = zip(*part.ticks, strict=True)
    used = max(row or 0 for row in word_lines([x(place) for place in places], words, lines))
    name, height = f"Slice along {name_text(part.name)}", HEIGHT + LINE * used
    return figure(WIDTH, height, name, description, marks, overhang(y, LEFT))


def _curve_dots(part: Slice, x: Scale, y: Scale, digits: Decimals) -> list[Markup]:
    size = 4.0 if part.categorical else 2.0
    marks = []
    for p in part.points:
        words = (
            f"{name_text(part.name)} = {value_text(p.value)}: {digits.text(p.robust)}"
            f" ({digits.text(p.low)} to {digits.text(p.high)})"
        )
        marks.append(dot(x(p.place), y(p.robust), size, "robust", words))
    return marks


def _tried_dots(facts: Facts, part: Slice, x: Scale, y: Scale, digits: Decimals) -> list[Markup]:
    assert facts.ranking is not None
    marks = []
    for tried in reversed(part.tried):
        if y.low <= tried.robust <= y.high:
            words = (
                f"config {tried.number}: {digits.text(tried.robust)};"
                f" {config_text(facts.configs[tried.number])}"
            )
            looks = f"tried-config {facts.ranking.kind(tried.number)}"
            marks.append(dot(x(tried.place), y(tried.robust), 3.5, looks, words))
    return marks


def _plot_slice(ax: Axes, part: Slice) -> None:
    places = [p.place for p in part.points]
    low, high = [p.low for p in part.points], [p.high for p in part.points]
    values = [p.robust for p in part.points]
    if part.categorical:
        ax.vlines(places, low, high, color=BLUE, alpha=0.4)
        ax.plot(places, values, "s", color=BLUE)
    else:
        ax.fill_between(places, low, high, color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(places, values, color=BLUE)
    view = ax.get_ylim()
    ax.plot([t.place for t in part.tried], [t.robust for t in part.tried], ".", color=GRAY)
    ax.set_ylim(view)
    ax.axvline(part.here, color=ORANGE, linestyle="--", linewidth=1)
    ax.set_xticks(*zip(*part.ticks, strict=True), fontsize="small")
    ax.set(xlim=(-0.02, 1.02), xlabel=label_of(part.name, part.log), ylabel="robust value")
