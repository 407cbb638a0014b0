"""What pictures are made of: colors, HTML templates, SVG elements, scales and axes.

The SVG needs neither script nor network. Every attribute and every word of data is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from drbqo_ray.report.wording import name_text, short, value_text
from drbqo_ray.space.parameters import Choice, Parameter
from drbqo_ray.types import Array

# Okabe and Ito's colors: told apart by everyone, and in gray by their lightness
BLUE, ORANGE, GREEN, GRAY = "#0072B2", "#D55E00", "#009E73", "#777777"

TINY = 1e-290
"""Below this a width is none: parts of it would lose their digits."""
CHARACTER, GAP = 7.4, 6.0
"""Width of a character of a tick at most, and least room between two words."""
PAD = 0.06
"""Room around the values of a scale, as a share of their width."""
LINE = 15.0
"""Height of a line of words below an axis."""
STEPS, OPTIONS, MOST_TICKS = 33, 12, 6
"""Places along a parameter; options and ticks of its axis at most."""

Piece = str | Markup | None
ENVIRONMENT = Environment(
    autoescape=True, undefined=StrictUndefined, trim_blocks=False, keep_trailing_newline=True
)


def fill(template: str, **values: object) -> Markup:
    """The template with its values filled in; a name without a value is an error."""
    return Markup(ENVIRONMENT.from_string(template).render(values))


def number(value: float) -> str:
    """A coordinate with two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def element(name: str, *children: Piece | Iterable[Piece], **attributes: object) -> Markup:
    """An element. `cls` stands for class; underscores in names become hyphens; None is left out."""
    parts = [Markup("<"), Markup(name)]
    for key, value in attributes.items():
        if value is None:
            continue
        word = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        text = number(value) if isinstance(value, float) else str(value)
        parts.append(Markup(' {}="{}"').format(Markup(word), text))
    inner = Markup("").join(escape(child) for child in _flat(children))
    if not inner:
        return Markup("").join([*parts, Markup("/>")])
    return Markup("").join([*parts, Markup(">"), inner, Markup(f"</{name}>")])


def _flat(children: Iterable[Piece | Iterable[Piece]]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            yield child
        else:
            yield from (inner for inner in child if inner is not None)


def text(
    words: str, x: float, y: float, cls: str = "", anchor: str = "start", hint: str = ""
) -> Markup:
    """A line of text at (x, y), which says its hint when the pointer rests on it."""
    looks = f"{cls} mark" if hint else cls
    return element(
        "text",
        tip(hint) if hint else None,
        words,
        x=float(x),
        y=float(y),
        cls=looks or None,
        text_anchor=anchor,
    )


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> Markup:
    """A straight line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), cls=cls)


def tip(words: str) -> Markup:
    """What is shown when the pointer rests on the element this is the first child of."""
    return element("title", words)


def path(
    points: Iterable[tuple[float, float]], cls: str, *children: Piece, **more: object
) -> Markup:
    """A line through points."""
    steps = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return element("path", *children, d=f"M{steps}", cls=cls, **more)


def dot(x: float, y: float, r: float, cls: str, words: str) -> Markup:
    """A circle that says something when the pointer rests on it."""
    return element("circle", tip(words), cx=x, cy=y, r=r, cls=f"dot {cls} mark")


def rect(
    x: float, y: float, width: float, height: float, cls: str, *children: Piece, **more: object
) -> Markup:
    """A rectangle with its upper left corner at (x, y)."""
    box = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
    return element("rect", *children, **box, cls=cls, **more)


def band(upper: Iterable[tuple[float, float]], lower: Sequence[tuple[float, float]]) -> Markup:
    """The area between two lines."""
    steps = " ".join(f"{number(x)},{number(y)}" for x, y in [*upper, *reversed(lower)])
    return element("path", d=f"M{steps}Z", cls="band")


def figure(
    width: float,
    height: float,
    label: str,
    description: str,
    children: Iterable[Piece],
    left: float = 0.0,
) -> Markup:
    """A picture with a name and a description for those who cannot see it; what it shows begins at
    -left."""
    return element(
        "svg",
        element("desc", description),
        children,
        viewBox=f"{number(-left)} 0 {number(left + width)} {number(height)}",
        role="img",
        aria_label=f"{label}. {description}",
        cls="figure",
        width=number(left + width),
        height=number(height),
    )


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
    def around(
        values: Sequence[float],
        start: float,
        end: float,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> Scale:
        """A scale with a little room around all finite values, which lie between least and most:
        beyond these ends there is none."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        width, size = high - low, max(abs(low), abs(high))
        room = PAD * width
        if width <= max(1e-12 * size, TINY):
            room = 0.1 * (size if size > TINY else 1.0)
        return Scale(
            max(low - room, min(least, low)), min(high + room, max(most, high)), start, end
        )

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

    def labels(self) -> list[tuple[float, str]]:
        """Its ticks and how they read."""
        places = self.ticks()
        step = nice_step(max(places[1] - places[0], 1e-300)) if len(places) > 1 else 1.0
        return [(tick, tick_text(tick, step)) for tick in places]


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def tick_text(tick: float, step: float) -> str:
    """A tick with as many decimals as its step needs."""
    if abs(tick) < step * 1e-9:
        return "0"
    if abs(tick) >= 1e6 or step < 1e-6:
        return short(tick, max(1, 1 + _power(tick) - _power(step)))
    return f"{tick:,.{max(0, -_power(step))}f}"


def _power(value: float) -> int:
    """The power of ten of the first digit of a number."""
    return math.floor(math.log10(abs(value)) + 1e-9)


def bottom_axis(
    scale: Scale,
    y: float,
    label: str,
    ticks: Sequence[tuple[float, str]] | None = None,
    lines: int = 1,
) -> list[Markup]:
    """A horizontal axis at height y with its ticks and its label below.

    Words that have no room are left out, the first and the last one last of all; with several
    `lines` they move to the next line first.
    """
    named = scale.labels() if ticks is None else ticks
    marks = [line(scale.start, y, scale.end, y, "axis")]
    rows = word_lines([scale(tick) for tick, _ in named], [name for _, name in named], lines)
    for (tick, name), row in zip(named, rows, strict=True):
        down = 0 if row is None else LINE * row
        marks.append(line(scale(tick), y, scale(tick), y + 5 + down, "axis"))
        if row is not None:
            marks.append(text(name, scale(tick), y + 19 + down, "tick", "middle"))
    middle, used = (scale.start + scale.end) / 2, max((row or 0 for row in rows), default=0)
    return [*marks, text(label, middle, y + 39 + LINE * used, "label", "middle")]


def word_lines(places: Sequence[float], words: Sequence[str], lines: int) -> list[int | None]:
    """The line of each word centered at its pixel, such that none touches another; None for a word
    that is left out."""
    order = [0, len(words) - 1, *range(1, len(words) - 1)][: len(words)]
    found: list[int | None] = [None] * len(words)
    spans: list[list[tuple[float, float]]] = [[] for _ in range(lines)]
    for k in order:
        half = (CHARACTER * len(words[k]) + GAP) / 2
        low, high = places[k] - half, places[k] + half
        for row, taken in enumerate(spans):
            if all(high <= a or b <= low for a, b in taken):
                taken.append((low, high))
                found[k] = row
                break
    return found


def left_axis(
    scale: Scale, x: float, right: float, label: str, above: float = 14.0
) -> list[Markup]:
    """A vertical axis at x with light lines to `right`, and its label so far above."""
    marks = []
    for tick, name in scale.labels():
        marks.append(line(x, scale(tick), right, scale(tick), "grid"))
        marks.append(text(name, x - 8, scale(tick) + 4, "tick", "end"))
    return [*marks, text(label, 4, min(scale.start, scale.end) - above, "label")]


def overhang(scale: Scale, x: float) -> float:
    """How far the words of a vertical axis at x reach beyond 0."""
    return max(0.0, 8 + CHARACTER * max(len(name) for _, name in scale.labels()) - x)


def label_of(name: str, log: bool, most: int = 40) -> str:
    """What an axis of a parameter is called."""
    words = name_text(name)
    words = words if len(words) <= most else words[: most - 1] + "…"
    return f"{words} (log scale)" if log else words


def places_along(item: Parameter) -> Array:
    """Places (k,) in [0, 1] along a parameter: each of its values where there are few."""
    if item.count and item.count <= STEPS:
        grid = np.arange(item.count)
        if isinstance(item, Choice):
            return np.asarray((grid + 0.5) / item.count)
        return np.asarray(item.axis.position(grid))
    return np.linspace(0.0, 1.0, STEPS)


def ticks_along(item: Parameter) -> list[tuple[float, str]]:
    """Places and words of the ticks of a parameter: each value, or round numbers in its range."""
    places = places_along(item)
    values = [item.from_unit(float(place)) for place in places]
    if isinstance(item, Choice) or len(places) <= MOST_TICKS:
        words = [value_text(value, 12) for value in values]
        return [(float(u), word) for u, word in zip(places, words, strict=True)][:OPTIONS]
    numbers = np.array(values, dtype=np.float64)
    bend = np.log if item.log else np.asarray
    ticks = _decades(numbers) if item.log else []
    if len(ticks) < 2:
        ticks = Scale(numbers[0], numbers[-1], 0.0, 1.0).ticks(MOST_TICKS)
    found = np.interp(bend(ticks), bend(numbers), places)
    return [(float(place), short(tick, 4)) for place, tick in zip(found, ticks, strict=True)]


def _decades(values: Array) -> list[float]:
    """Powers of ten within the range, at most a few."""
    first, last = math.ceil(math.log10(values[0]) - 1e-9), math.floor(math.log10(values[-1]) + 1e-9)
    step = max(1, -(-(last - first) // (MOST_TICKS - 1)))
    return [10.0**k for k in range(first, last + 1, step)]
