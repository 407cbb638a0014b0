"""Which parameters matter, and how the value moves along each of them.

The importance of a parameter is its total effect: the share of the variance of the modeled robust
value over the whole space that is left when all other parameters are known,

    effect_j = E[Var(R | all but u_j)] / Var(R)        R the robust value at u, uniform in the cube

Var(R) is that of 1,024 points of a Latin hypercube. The variance that is left is the mean of those
along lines: through 64 points, each at the same values of u_j, evenly spread. It is a part of
Var(R), so a share is at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from drbqo_ray.records import Config
from drbqo_ray.report.draw import (
    BLUE,
    LINE,
    Scale,
    band,
    bottom_axis,
    dot,
    figure,
    left_axis,
    line,
    overhang,
    path,
    rect,
    text,
    tip,
    word_lines,
)
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.panels.ranking import Ranking
from drbqo_ray.report.posterior import Posterior
from drbqo_ray.report.wording import Decimals, count, name_text, percent, short, value_text
from drbqo_ray.space.parameters import Choice
from drbqo_ray.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

POINTS, LINES = 1024, 64
LEVELS, MOST_LEVELS = 16, 32
FLAT = 1e-18
SLICES = 6
STEPS = 33
OPTIONS = 12
WIDTH, LEFT, RIGHT, ROW = 860.0, 200.0, 760.0, 24.0
MOST = 20
MOST_TICKS = 6
OPTION_LINES = 3
SLICE_WIDTH, SLICE_HEIGHT = 420.0, 240.0


@dataclass(frozen=True)
class SlicePoint:
    """Value of the parameter, its place in [0, 1], and the robust value there with its band."""

    value: Any
    place: float
    robust: float
    low: float
    high: float


@dataclass(frozen=True)
class Slice:
    """The modeled robust value along one parameter, the others as in the recommended config.

    Attributes:
        name: the parameter.
        categorical: whether its values have no order.
        log: whether its scale is logarithmic.
        points: along the range.
        here: place of the recommended config in [0, 1].
        tried: places of the evaluated configs in [0, 1], at most 200.
    """

    name: str
    categorical: bool
    log: bool
    points: tuple[SlicePoint, ...]
    here: float
    tried: tuple[float, ...]


@dataclass(frozen=True)
class Importance:
    """Total effect of every parameter, largest first, and slices along the first few."""

    effects: tuple[tuple[str, float], ...]
    slices: tuple[Slice, ...]
    lines: int


class ParametersPanel(Panel[Importance]):
    """Importance of the parameters as bars, and slices along the first few."""

    key, order, plot_name = "parameters", 70, "importance"
    title, question = "Parameters", "Which parameter matters, and how?"

    def gather(self, source: Source) -> Importance | None:
        """Importance and slices; None without a recommended config."""
        posterior = source.posterior
        if posterior is None:
            return None
        ranking: Ranking = source.part("ranking")
        if ranking.chosen is None:
            return None
        effects = total_effects(posterior, source.optimizer.seed)
        names = list(posterior.space)
        order = np.argsort(-effects, kind="stable")
        here = posterior.space.to_unit(posterior.configs[ranking.chosen])
        active = posterior.space.active(here[None])[0]
        free = [item.count != 1 for item in posterior.space.parameters.values()]
        sliced = [int(j) for j in order if active[j] and free[j]]
        return Importance(
            effects=tuple((names[j], float(effects[j])) for j in order),
            slices=tuple(_slice(posterior, names[j], j, here) for j in sliced[:SLICES]),
            lines=LINES,
        )

    def draw(self, facts: Facts, data: Importance) -> Sequence[Markup]:
        """The bars."""
        shown = data.effects[:MOST]
        scale = Scale(0.0, max([effect for _, effect in shown] + [1e-9]) * 1.02, LEFT, RIGHT)
        marks: list[Markup] = []
        for k, (name, effect) in enumerate(shown):
            y = ROW * k
            words = name_text(name)
            brief = words if len(words) <= 26 else words[:25] + "…"
            marks += [
                text(brief, LEFT - 10, y + 16, "name", "end"),
                rect(
                    LEFT,
                    y + 3,
                    max(scale(effect) - LEFT, 0.75),
                    ROW - 6,
                    "bar robust mark",
                    tip(f"{words}: {percent(effect)}"),
                ),
                text(percent(effect), RIGHT + 10, y + 16, "value"),
            ]
        listed = ", ".join(f"{name_text(name)} {percent(effect)}" for name, effect in shown[:8])
        name = "Importance of the parameters"
        return (figure(WIDTH, ROW * len(shown) + 6, name, f"{listed}.", marks),)

    def draw_small(self, facts: Facts, data: Importance) -> Sequence[Markup]:
        """The slices."""
        return tuple(draw_slice(facts, part) for part in data.slices)

    def reading(self, facts: Facts, data: Importance) -> Sequence[str]:
        """What importance is, how to read a slice, and what is left out."""
        words = (
            "Importance is the share of the variation of the modelled robust score over the whole"
            " space that a parameter has a hand in, alone or with others; shares can sum to more"
            f" than 100 %. It is estimated along {data.lines} random lines for each parameter. In"
            " the slices the other parameters are as in the recommended config, whose place the"
            " upright line marks; short ticks are the values tried."
        )
        hidden = data.effects[MOST:]
        if hidden:
            words += (
                f" {count(len(hidden), 'parameter')} of at most {percent(hidden[0][1])} are left"
                " out."
            )
        return (words,)

    def plot(self, ax: Axes, facts: Facts, data: Importance) -> None:
        """Share of the variance of the robust value that each parameter has a part in."""
        names, effects = zip(*data.effects, strict=True)
        ax.barh(range(len(names)), effects, color=BLUE)
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set(title="Importance of the parameters", xlabel="total effect", ylabel="")


PANEL = ParametersPanel()


def total_effects(posterior: Posterior, seed: int) -> Array:
    """Total effect of each parameter (p,), within [0, 1], all 0 when the model is flat."""
    rng = np.random.default_rng(seed)
    space = posterior.space
    total = float(_values(posterior, space.snap(_hypercube(POINTS, len(space), rng))).var())
    if total <= FLAT:
        return np.zeros(len(space))
    base = _hypercube(LINES, len(space), rng)
    left = np.array([_variance_along(posterior, base, j) for j in range(len(space))])
    return np.minimum(left / total, 1.0)


def _hypercube(size: int, width: int, rng: np.random.Generator) -> Array:
    """Random points (size, width) in the unit cube, one in every slice of each axis."""
    strata = rng.permuted(np.tile(np.arange(size), (width, 1)), axis=1)
    return np.asarray(((strata + rng.random(strata.shape)) / size).T)


def _variance_along(posterior: Posterior, base: Array, column: int) -> float:
    """Mean variance of the robust value along one parameter, on lines through points (B, p)."""
    item = list(posterior.space.parameters.values())[column]
    levels = min(item.count, MOST_LEVELS) if isinstance(item, Choice) else LEVELS
    u = np.repeat(base, levels, axis=0)
    u[:, column] = np.tile((np.arange(levels) + 0.5) / levels, len(base))
    values = _values(posterior, posterior.space.snap(u)).reshape(len(base), levels)
    return float(values.var(axis=1).mean())


def _values(posterior: Posterior, u: Array) -> Array:
    return posterior.robust(posterior.predict(posterior.space.features(u)))[0]


def gain_from(posterior: Posterior, config: Config, name: str, place: float) -> float:
    """What the modeled robust value of a config gains, standardized, by its own value of one
    parameter over the value at `place` in [0, 1]."""
    u = np.tile(posterior.space.to_unit(config), (2, 1))
    u[1, list(posterior.space).index(name)] = place
    own, other = _values(posterior, posterior.space.snap(u))
    return float(own - other)


def _slice(posterior: Posterior, name: str, column: int, here: Array) -> Slice:
    space, item = posterior.space, posterior.space.parameters[name]
    categorical = isinstance(item, Choice)
    places = np.linspace(0.0, 1.0, STEPS)
    if item.count and item.count <= STEPS:
        grid = np.arange(item.count)
        places = (grid + 0.5) / item.count if categorical else item.axis.position(grid)  # type: ignore[union-attr]
    if categorical:
        places = places[:OPTIONS]
    u = np.repeat(here[None], len(places), axis=0)
    u[:, column] = places
    u = space.snap(u)
    inputs = space.features(u)
    gains = posterior.predict(inputs)
    robust, weights = posterior.robust(gains)
    values, stds = posterior.user(robust), posterior.stds(inputs, weights)
    low, high = posterior.bands(values, stds)
    points = tuple(
        SlicePoint(item.from_unit(float(place)), float(place), float(v), float(a), float(b))
        for place, v, a, b in zip(u[:, column], values, low, high, strict=True)
    )
    tried = [item.to_unit(c[name]) for c in posterior.configs[:2000] if name in c]
    step = max(1, len(tried) // 200)
    return Slice(
        name,
        categorical,
        bool(getattr(item, "log", False)),
        points,
        float(here[column]),
        tuple(tried[::step]),
    )


def draw_slice(facts: Facts, part: Slice) -> Markup:
    """The robust value along one parameter with its band; a tick below for every tried value."""
    left, right, top, bottom = 62.0, SLICE_WIDTH - 22, 40.0, SLICE_HEIGHT - 54
    lines = OPTION_LINES if part.categorical else 1
    values = [v for p in part.points for v in (p.low, p.high)]
    x = Scale(0.0, 1.0, left, right)
    y = Scale.around(values, bottom, top, facts.score_range.low, facts.score_range.high)
    digits = Decimals.of(values)
    marks = left_axis(y, left, right, "robust score")
    ticks = _ticks(part)
    marks += bottom_axis(x, bottom, _label(part), ticks, lines)
    marks += [line(x(u), bottom - 6, x(u), bottom, "tried") for u in part.tried]
    marks.append(line(x(part.here), top, x(part.here), bottom, "own"))
    if part.categorical:
        for p in part.points:
            marks.append(line(x(p.place), y(p.low), x(p.place), y(p.high), "whisker"))
    else:
        upper = [(x(p.place), y(p.high)) for p in part.points]
        marks.append(band(upper, [(x(p.place), y(p.low)) for p in part.points]))
        marks.append(path([(x(p.place), y(p.robust)) for p in part.points], "curve robust"))
    for p in part.points:
        tipped = (
            f"{name_text(part.name)} = {value_text(p.value)}: {digits.text(p.robust)}"
            f" ({digits.text(p.low)} to {digits.text(p.high)})"
        )
        size = 4.0 if part.categorical else 2.5
        marks.append(dot(x(p.place), y(p.robust), size, "robust", tipped))
    best = (min if facts.minimize else max)(part.points, key=lambda p: p.robust)
    description = (
        f"The modelled robust score along {name_text(part.name)} is best at"
        f" {value_text(best.value)} with {digits.text(best.robust)}."
    )
    places, words = zip(*ticks, strict=True)
    used = max(row or 0 for row in word_lines([x(place) for place in places], words, lines))
    name, height = f"Slice along {name_text(part.name)}", SLICE_HEIGHT + LINE * used
    return figure(SLICE_WIDTH, height, name, description, marks, overhang(y, left))


def _label(part: Slice) -> str:
    words = name_text(part.name)
    words = words if len(words) <= 40 else words[:39] + "…"
    return f"{words} (log scale)" if part.log else words


def _ticks(part: Slice) -> list[tuple[float, str]]:
    """Places and words of the ticks: every option, or round numbers within the range."""
    points = part.points
    if part.categorical or len(points) <= MOST_TICKS:
        return [(p.place, value_text(p.value, 12)) for p in points]
    values = np.array([float(p.value) for p in points])
    bend = np.log if part.log else np.asarray
    ticks = _decades(values) if part.log else []
    if len(ticks) < 2:
        ticks = Scale(values[0], values[-1], 0.0, 1.0).ticks(MOST_TICKS)
    places = np.interp(bend(ticks), bend(values), [p.place for p in points])
    return [(float(place), short(tick, 4)) for place, tick in zip(places, ticks, strict=True)]


def _decades(values: npt.NDArray[np.float64]) -> list[float]:
    """Powers of ten within the range, at most a few."""
    first, last = math.ceil(math.log10(values[0]) - 1e-9), math.floor(math.log10(values[-1]) + 1e-9)
    step = max(1, -(-(last - first) // (MOST_TICKS - 1)))
    return [10.0**k for k in range(first, last + 1, step)]
