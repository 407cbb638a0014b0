"""How the recommendation settled: its robust value and 95 % band as evaluations came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from drbqo_ray.report.draw import (
    BLUE,
    Scale,
    band,
    bottom_axis,
    dot,
    element,
    figure,
    left_axis,
    line,
    overhang,
    path,
    rect,
    tip,
)
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.posterior import Posterior
from drbqo_ray.report.wording import Decimals, count, seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

CHECKPOINTS = 40
LONG, LONG_CHECKPOINTS = 2000, 16
FLATTEST = 8.0
"""The later half has at least this part of the height, and a third where it has a width."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860.0, 300.0, 70.0, 840.0, 44.0, 240.0


@dataclass(frozen=True)
class Checkpoint:
    """The recommendation after some evaluations.

    Attributes:
        evaluations: how many were known.
        seconds: when the last of them was recorded, None when unknown.
        config: number of the config that would have been recommended.
        value: its robust value, user's scale.
        low, high: its 95 % band.
    """

    evaluations: int
    seconds: float | None
    config: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Incumbent:
    """The path of the recommendation, by the model with its final hyperparameters.

    Attributes:
        checkpoints: in order; none before the first config could be recommended.
        last_change: evaluations known when the recommendation last changed, among checkpoints.
    """

    checkpoints: tuple[Checkpoint, ...]
    last_change: int

    @property
    def timed(self) -> bool:
        """Whether the time of every checkpoint is known."""
        return all(point.seconds is not None for point in self.checkpoints)


class IncumbentPanel(Panel[Incumbent]):
    """The recommendation over evaluations and over seconds."""

    key, order, plot_name = "incumbent", 60, "incumbent"
    title, question = "The recommendation over time", "Has it converged?"

    def gather(self, source: Source) -> Incumbent | None:
        """The path of the recommendation."""
        posterior = source.posterior
        if posterior is None:
            return None
        told_at = [source.told_at.get(seen.id) for seen in source.observations]
        total = len(posterior.scores)
        most = CHECKPOINTS if total <= LONG else LONG_CHECKPOINTS
        sizes = np.unique(np.linspace(1, total, min(most, total)).round().astype(np.int64))
        found = [_checkpoint(posterior, int(size), source.report, told_at) for size in sizes]
        path = tuple(each for each in found if each is not None)
        if not path:
            return None
        changes = [b.evaluations for a, b in pairwise(path) if a.config != b.config]
        return Incumbent(path, changes[-1] if changes else path[0].evaluations)

    def draw(self, facts: Facts, data: Incumbent) -> Sequence[Markup]:
        """The curve over evaluations, and over seconds where they are known."""
        kinds = (False, True) if data.timed else (False,)
        return tuple(draw_progress(facts, data, by_seconds) for by_seconds in kinds)

    def reading(self, facts: Facts, data: Incumbent) -> Sequence[str]:
        """When the recommendation last changed, and what the band is."""
        words = (
            f"The recommendation last changed at {count(data.last_change, 'evaluation')}. The"
            " band holds 95 % of the model's belief. All points use the final parameters of the"
            " model, so early ones can differ from what was shown while the run went on."
        )
        beyond = _beyond(data.checkpoints)
        if beyond:
            words += (
                f" The axis shows the later half at a readable size: {count(beyond, 'early point')}"
                " beyond it are arrows at the edge."
            )
        if not data.timed:
            words += " No times were recorded, so there is no curve over seconds."
        return (words,)

    def plot(self, ax: Axes, facts: Facts, data: Incumbent) -> None:
        """Robust value of the recommendation as evaluations came in, with its 95 % band."""
        steps = [point.evaluations for point in data.checkpoints]
        low, high = ([getattr(point, end) for point in data.checkpoints] for end in ("low", "high"))
        ax.fill_between(steps, low, high, color=BLUE, alpha=0.2, linewidth=0, label="95 %")
        ax.plot(steps, [point.value for point in data.checkpoints], color=BLUE)
        ax.legend()
        ax.set(title=self.title, xlabel="evaluations", ylabel="robust value")
        if _beyond(data.checkpoints):
            view = Scale.around(limits(data.checkpoints), 0.0, 1.0)
            ax.set_ylim(view.low, view.high)


PANEL = IncumbentPanel()


def _checkpoint(
    posterior: Posterior, size: int, report: str, told_at: list[float | None]
) -> Checkpoint | None:
    scores = posterior.scores[:size]
    if np.isnan(scores).all():
        return None
    past = posterior.after(size)
    usable = np.flatnonzero(past.usable)
    if not len(usable):
        return None
    gains = past.gains[usable]
    robust, weights = past.robust(gains)
    values = robust if report == "robust" else gains @ past.reference
    best = int(np.argmax(values))
    value = float(past.user(robust[best]))
    std = float(past.judged_stds(usable[[best]], weights[[best]])[0])
    low, high = past.bands(value, std)
    return Checkpoint(
        evaluations=size,
        seconds=told_at[size - 1],
        config=int(usable[best]),
        value=value,
        low=float(low),
        high=float(high),
    )


def draw_progress(facts: Facts, incumbent: Incumbent, by_seconds: bool) -> Markup:
    """The curve over evaluations, or over seconds when all checkpoints have them."""
    points = incumbent.checkpoints
    places = [_place(point, by_seconds) for point in points]
    first = min(places) if by_seconds and len(places) > 1 else 0.0
    x = Scale(first, max(*places, first + 1e-9), LEFT, RIGHT)
    y = Scale.around(limits(points), BOTTOM, TOP, facts.score_range.low, facts.score_range.high)
    digits = Decimals.of([p.value for p in points])
    unit = "seconds into the run" if by_seconds else "evaluations"
    marks = left_axis(y, LEFT, RIGHT, f"robust score of the recommendation ({facts.better})")
    marks += bottom_axis(x, BOTTOM, unit)
    area = rect(LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, "")
    clip = f"incumbent-area-{int(by_seconds)}"
    marks.append(element("defs", element("clipPath", area, id=clip)))
    marks.append(_band(points, places, x, y))
    if len(points) > 1:
        curve = [(x(s), y(p.value)) for s, p in zip(places, points, strict=True)]
        marks.append(element("g", path(curve, "curve robust"), clip_path=f"url(#{clip})"))
    marks += _dots(facts, points, places, x, y, digits)
    last = points[-1]
    description = (
        f"After {last.evaluations} evaluations config {last.config} has {digits.text(last.value)},"
        f" band {digits.text(last.low)} to {digits.text(last.high)}. The recommendation last"
        f" changed at {incumbent.last_change} evaluations."
    )
    name = f"Recommendation over {unit}"
    return figure(WIDTH, HEIGHT, name, description, marks, overhang(y, LEFT))


def _place(point: Checkpoint, by_seconds: bool) -> float:
    return (point.seconds or 0.0) if by_seconds else float(point.evaluations)


def limits(points: Sequence[Checkpoint]) -> tuple[float, float]:
    """Ends of what is in view: the later half with its bands, and of the earlier values those that
    leave it at least a third of the height; a first value far off would flatten all others."""
    later = points[len(points) // 2 :]
    values = [p.value for p in points]
    core = [v for p in later for v in (p.value, p.low, p.high)]
    low, high = min(core), max(core)
    least, most = min(*values, low), max(*values, high)
    room = max(high - low, (most - least) / FLATTEST)
    return max(least, low - room), min(most, high + room)


def _beyond(points: Sequence[Checkpoint]) -> int:
    """Number of values that are out of view."""
    low, high = limits(points)
    return sum(not low <= p.value <= high for p in points)


def _band(points: Sequence[Checkpoint], places: list[float], x: Scale, y: Scale) -> Markup:
    if len(points) == 1:
        own = points[0]
        return line(x(places[0]), _kept(y, own.low), x(places[0]), _kept(y, own.high), "axis")
    upper = [(x(s), _kept(y, p.high)) for s, p in zip(places, points, strict=True)]
    lower = [(x(s), _kept(y, p.low)) for s, p in zip(places, points, strict=True)]
    return band(upper, lower)


def _kept(y: Scale, value: float) -> float:
    """The pixel of a value; that of an end for a value out of view."""
    return min(max(y(value), min(y.start, y.end)), max(y.start, y.end))


def _dots(
    facts: Facts,
    points: Sequence[Checkpoint],
    places: list[float],
    x: Scale,
    y: Scale,
    digits: Decimals,
) -> list[Markup]:
    """A dot a checkpoint; an arrow at the edge for one out of view."""
    marks = []
    for place, point in zip(places, points, strict=True):
        when = f", {seconds(point.seconds)}" if point.seconds is not None else ""
        words = (
            f"{point.evaluations} evaluations{when}: {digits.text(point.value)}"
            f" ({digits.text(point.low)} to {digits.text(point.high)});"
            f" {facts.config(point.config)}"
        )
        here, height = x(place), _kept(y, point.value)
        if y.low <= point.value <= y.high:
            marks.append(dot(here, height, 3.0, "robust", words))
        else:
            back = -9 if height > y(y.high) else 9
            corners = [(here - 6, height + back), (here + 6, height + back), (here, height)]
            marks.append(path([*corners, corners[0]], "dot robust mark arrow", tip(words)))
    return marks
