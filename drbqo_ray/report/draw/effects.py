"""Importance of the parameters as bars, and slices along the first few."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from drbqo_ray.report.draw.axis import LINE, Scale, bottom_axis, left_axis, overhang, word_lines
from drbqo_ray.report.draw.svg import element, figure, line, number, path, text, tip
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.importance import Importance, Slice
from drbqo_ray.report.wording import Decimals, name_text, percent, short, value_text

WIDTH, LEFT, RIGHT, ROW = 860.0, 200.0, 760.0, 24.0
MOST = 20
MOST_TICKS = 6
OPTION_LINES = 3
SLICE_WIDTH, SLICE_HEIGHT = 420.0, 240.0


def draw_importance(importance: Importance) -> Markup:
    """A bar a parameter, the largest first."""
    shown = importance.effects[:MOST]
    scale = Scale(0.0, max([effect for _, effect in shown] + [1e-9]) * 1.02, LEFT, RIGHT)
    marks: list[Markup] = []
    for k, (name, effect) in enumerate(shown):
        y = ROW * k
        words = name_text(name)
        marks += [
            text(words if len(words) <= 26 else words[:25] + "…", LEFT - 10, y + 16, "name", "end"),
            element(
                "rect",
                tip(f"{words}: {percent(effect)}"),
                x=LEFT,
                y=y + 3,
                width=max(scale(effect) - LEFT, 0.75),
                height=ROW - 6,
                cls="bar robust mark",
            ),
            text(percent(effect), RIGHT + 10, y + 16, "value"),
        ]
    listed = ", ".join(f"{name_text(name)} {percent(effect)}" for name, effect in shown[:8])
    return figure(WIDTH, ROW * len(shown) + 6, "Importance of the parameters", f"{listed}.", marks)


def draw_slice(facts: Facts, part: Slice) -> Markup:
    """The robust value along one parameter with its band; a tick below for every tried value."""
    left, right, top, bottom = 62.0, SLICE_WIDTH - 22, 40.0, SLICE_HEIGHT - 54
    lines = OPTION_LINES if part.categorical else 1
    values = [v for p in part.points for v in (p.low, p.high)]
    x = Scale(0.0, 1.0, left, right)
    y = Scale.around(values, bottom, top, facts.score_range.low, facts.score_range.high)
    digits = Decimals.of(values)
    marks = left_axis(y, left, right, "robust score")
    places, words = _ticks(part)
    marks += bottom_axis(x, bottom, _label(part), places, words, lines)
    marks += [line(x(u), bottom - 6, x(u), bottom, "tried") for u in part.tried]
    marks.append(line(x(part.here), top, x(part.here), bottom, "own"))
    if part.categorical:
        for p in part.points:
            marks.append(line(x(p.place), y(p.low), x(p.place), y(p.high), "whisker"))
    else:
        upper = [(x(p.place), y(p.high)) for p in part.points]
        lower = [(x(p.place), y(p.low)) for p in reversed(part.points)]
        steps = " ".join(f"{number(a)},{number(b)}" for a, b in [*upper, *lower])
        marks.append(element("path", d=f"M{steps}Z", cls="band"))
        marks.append(path([(x(p.place), y(p.robust)) for p in part.points], "curve robust"))
    for p in part.points:
        tipped = (
            f"{name_text(part.name)} = {value_text(p.value)}: {digits.text(p.robust)}"
            f" ({digits.text(p.low)} to {digits.text(p.high)})"
        )
        marks.append(
            element(
                "circle",
                tip(tipped),
                cx=x(p.place),
                cy=y(p.robust),
                r=4.0 if part.categorical else 2.5,
                cls="dot robust mark",
            )
        )
    best = (min if facts.minimize else max)(part.points, key=lambda p: p.robust)
    description = (
        f"The modelled robust score along {name_text(part.name)} is best at"
        f" {value_text(best.value)} with {digits.text(best.robust)}."
    )
    used = max(row or 0 for row in word_lines([x(place) for place in places], words, lines))
    name, height = f"Slice along {name_text(part.name)}", SLICE_HEIGHT + LINE * used
    return figure(SLICE_WIDTH, height, name, description, marks, overhang(y, left))


def _label(part: Slice) -> str:
    words = name_text(part.name)
    words = words if len(words) <= 40 else words[:39] + "…"
    return f"{words} (log scale)" if part.log else words


def _ticks(part: Slice) -> tuple[list[float], list[str]]:
    """Places and words of the ticks: every option, or round numbers within the range."""
    points = part.points
    if part.categorical or len(points) <= MOST_TICKS:
        return [p.place for p in points], [value_text(p.value, 12) for p in points]
    values = np.array([float(p.value) for p in points])
    bend = np.log if part.log else np.asarray
    ticks = _decades(values) if part.log else []
    if len(ticks) < 2:
        ticks = Scale(values[0], values[-1], 0.0, 1.0).ticks(MOST_TICKS)
    places = np.interp(bend(ticks), bend(values), [p.place for p in points])
    return [float(place) for place in places], [short(tick, 4) for tick in ticks]


def _decades(values: npt.NDArray[np.float64]) -> list[float]:
    """Powers of ten within the range, at most a few."""
    first, last = math.ceil(math.log10(values[0]) - 1e-9), math.floor(math.log10(values[-1]) + 1e-9)
    step = max(1, -(-(last - first) // (MOST_TICKS - 1)))
    return [10.0**k for k in range(first, last + 1, step)]
