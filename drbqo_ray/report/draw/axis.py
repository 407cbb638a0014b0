"""Scales and axes: where a value goes, and which values get a tick."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from drbqo_ray.report.draw.svg import line, text
from drbqo_ray.report.wording import short

TINY = 1e-290
"""Below this a width is none: parts of it would lose their digits."""


@dataclass(frozen=True)
class Scale:
    """Maps values between `low` and `high` to pixels between `start` and `end`.

    Attributes:
        low, high: ends of the values; high > low.
        start, end: ends of the pixels.
        bend: what is linear in pixels: the value itself unless said.
    """

    low: float
    high: float
    start: float
    end: float
    bend: Callable[[float], float] = float

    @staticmethod
    def around(values: Sequence[float], start: float, end: float, pad: float = 0.06) -> Scale:
        """A scale with a little room around all finite values."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        width, size = high - low, max(abs(low), abs(high))
        if width <= max(1e-12 * size, TINY):
            width = size if size > TINY else 1.0
            return Scale(low - 0.1 * width, high + 0.1 * width, start, end)
        return Scale(low - pad * width, high + pad * width, start, end)

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high = self.bend(self.low), self.bend(self.high)
        share = (self.bend(value) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values within the scale, evenly spread."""
        step = nice_step((self.high - self.low) / max(1, most - 1))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]

    def whole_ticks(self, most: int = 6) -> list[float]:
        """The ticks that are whole numbers."""
        return [tick for tick in self.ticks(most) if tick == round(tick)]


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def tick_text(tick: float, step: float) -> str:
    """A tick with as many decimals as its step needs."""
    if abs(tick) < step * 1e-9:
        return "0"
    if abs(tick) >= 1e6 or step < 1e-6:
        return short(tick, 4)
    return f"{tick:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def bottom_axis(
    scale: Scale, y: float, label: str, ticks: Sequence[float] | None = None,
    words: Sequence[str] | None = None,
) -> list[Markup]:  # fmt: skip
    """A horizontal axis at height y with its ticks and its label below."""
    places = scale.ticks() if ticks is None else list(ticks)
    step = nice_step(max(places[1] - places[0], 1e-300)) if len(places) > 1 else 1.0
    names = words or [tick_text(tick, step) for tick in places]
    marks = [line(scale.start, y, scale.end, y, "axis")]
    for tick, name in zip(places, names, strict=True):
        marks.append(line(scale(tick), y, scale(tick), y + 5, "axis"))
        marks.append(text(name, scale(tick), y + 19, "tick", "middle"))
    middle = (scale.start + scale.end) / 2
    return [*marks, text(label, middle, y + 39, "label", "middle")]


def left_axis(scale: Scale, x: float, right: float, label: str) -> list[Markup]:
    """A vertical axis at x with light lines to `right`, and its label above."""
    places = scale.ticks()
    step = nice_step(max(places[1] - places[0], 1e-300)) if len(places) > 1 else 1.0
    marks = []
    for tick in places:
        marks.append(line(x, scale(tick), right, scale(tick), "grid"))
        marks.append(text(tick_text(tick, step), x - 8, scale(tick) + 4, "tick", "end"))
    return [*marks, text(label, 4, min(scale.start, scale.end) - 14, "label")]
