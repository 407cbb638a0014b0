"""The recommendation as evaluations came in: its robust value and 95 % band."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from drbqo_ray.report.draw.axis import Scale, bottom_axis, left_axis, overhang
from drbqo_ray.report.draw.svg import element, figure, line, number, path, tip
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.incumbent import Checkpoint, Incumbent
from drbqo_ray.report.wording import Decimals, seconds

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860.0, 300.0, 70.0, 840.0, 44.0, 240.0


def draw_progress(facts: Facts, incumbent: Incumbent, by_seconds: bool) -> Markup:
    """The curve over evaluations, or over seconds when all checkpoints have them."""
    points = incumbent.checkpoints
    places = [_place(point, by_seconds) for point in points]
    first = min(places) if by_seconds and len(places) > 1 else 0.0
    x = Scale(first, max(*places, first + 1e-9), LEFT, RIGHT)
    y = Scale.around(_limits(points), BOTTOM, TOP, facts.score_range.low, facts.score_range.high)
    digits = Decimals.of([p.value for p in points])
    better = "smaller" if facts.minimize else "larger"
    unit = "seconds into the run" if by_seconds else "evaluations"
    marks = left_axis(y, LEFT, RIGHT, f"robust score of the recommendation ({better} is better)")
    marks += bottom_axis(x, BOTTOM, unit)
    marks.append(_band(points, places, x, y))
    if len(points) > 1:
        marks.append(
            path([(x(s), y(p.value)) for s, p in zip(places, points, strict=True)], "curve robust")
        )
    marks += _dots(points, places, x, y, digits)
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


def _limits(points: Sequence[Checkpoint]) -> list[float]:
    """Values that must be in view: all values, and the bands of the later half."""
    later = points[len(points) // 2 :]
    return [*(p.value for p in points), *(v for p in later for v in (p.low, p.high))]


def _band(points: Sequence[Checkpoint], places: list[float], x: Scale, y: Scale) -> Markup:
    top, bottom = min(y.start, y.end), max(y.start, y.end)

    def place(value: float) -> float:
        return min(max(y(value), top), bottom)

    if len(points) == 1:
        return line(x(places[0]), place(points[0].low), x(places[0]), place(points[0].high), "axis")
    upper = [(x(s), place(p.high)) for s, p in zip(places, points, strict=True)]
    lower = [(x(s), place(p.low)) for s, p in zip(places, points, strict=True)]
    steps = " ".join(f"{number(a)},{number(b)}" for a, b in [*upper, *reversed(lower)])
    return element("path", d=f"M{steps}Z", cls="band")


def _dots(
    points: Sequence[Checkpoint], places: list[float], x: Scale, y: Scale, digits: Decimals
) -> list[Markup]:
    marks = []
    for place, point in zip(places, points, strict=True):
        when = f", {seconds(point.seconds)}" if point.seconds is not None else ""
        words = (
            f"{point.evaluations} evaluations{when}: {digits.text(point.value)}"
            f" ({digits.text(point.low)} to {digits.text(point.high)}), config {point.config}"
        )
        marks.append(
            element(
                "circle", tip(words), cx=x(place), cy=y(point.value), r=3.0, cls="dot robust mark"
            )
        )
    return marks
