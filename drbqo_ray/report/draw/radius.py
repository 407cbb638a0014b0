"""Robust value against the size of the set, with the sizes at which the winner changes."""

from __future__ import annotations

import math

from markupsafe import Markup

from drbqo_ray.report.draw.axis import Scale, bottom_axis, left_axis, overhang, tick_text
from drbqo_ray.report.draw.svg import element, figure, line, path, text, tip
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.radius_path import RadiusPath
from drbqo_ray.report.wording import Decimals, short

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860.0, 340.0, 70.0, 650.0, 48.0, 276.0
LABEL, NOTE = 34.0, 13.0


def draw_radius(facts: Facts, found: RadiusPath) -> Markup:
    """The best value, and the curves of the recommended config and of the mean choice."""
    assert facts.ranking is not None
    x = Scale(0.0, found.sizes[-1], LEFT, RIGHT, math.sqrt)
    special = _special(facts, found)
    values = [*found.best, *(v for _, number in special for v in found.curves[number])]
    y = Scale.around(values, BOTTOM, TOP, facts.score_range.low, facts.score_range.high)
    digits = Decimals.of(values)
    marks = left_axis(y, LEFT, RIGHT, _unit(facts), LABEL)
    marks += _ground(x, found)
    for kind, number in special:
        points = [(x(s), y(v)) for s, v in zip(found.sizes, found.curves[number], strict=True)]
        words = f"config {number}"
        marks.append(path(points, f"curve {kind}", tip(words)))
    marks.append(
        path([(x(s), y(v)) for s, v in zip(found.sizes, found.best, strict=True)], "curve best")
    )
    marks += _dots(found, x, y, digits)
    ends = [(y(found.curves[number][-1]), (kind, number)) for kind, number in special]
    marks += _names([*ends, (y(found.best[-1]), ("best", -1))])
    return figure(
        WIDTH,
        HEIGHT,
        "Robust score against the size of the set",
        _description(found, digits),
        marks,
        overhang(y, LEFT),
    )


def draw_shortfall(facts: Facts, found: RadiusPath) -> Markup:
    """How far the recommended config and the mean choice are behind the best one at each size."""
    x = Scale(0.0, found.sizes[-1], LEFT, RIGHT, math.sqrt)
    behind = {
        (kind, number): [
            abs(best - value) for best, value in zip(found.best, found.curves[number], strict=True)
        ]
        for kind, number in _special(facts, found)
    }
    gaps = [gap for curve in behind.values() for gap in curve]
    least = 1e-9 * max(abs(value) for value in found.best) or 1.0
    y = Scale(0.0, max(*gaps, least) * 1.08, TOP, BOTTOM)
    digits = Decimals.of(gaps)
    marks = left_axis(y, LEFT, RIGHT, "behind the best config at that size (0 is best)", LABEL)
    marks += _ground(x, found)
    for (kind, number), curve in behind.items():
        points = [(x(size), y(gap)) for size, gap in zip(found.sizes, curve, strict=True)]
        marks.append(path(points, f"curve {kind}", tip(f"config {number}")))
        for (px, py), size, gap in zip(points, found.sizes, curve, strict=True):
            words = f"config {number} at {short(size, 4)}: {digits.text(gap)} behind the best"
            marks.append(element("circle", tip(words), cx=px, cy=py, r=2.5, cls=f"dot {kind} mark"))
    marks += _names([(y(curve[-1]), pair) for pair, curve in behind.items()])
    worst = "; ".join(
        f"config {number} ({kind} choice) at most {digits.text(max(curve))}"
        for (kind, number), curve in behind.items()
    )
    name = "How far behind the best config"
    return figure(WIDTH, HEIGHT, name, f"{worst}.", marks, overhang(y, LEFT))


def _ground(x: Scale, found: RadiusPath) -> list[Markup]:
    """The axis below, the changes of the winner, and the size of this run."""
    return [
        *_bottom(x, found),
        *_changes(found, x),
        line(x(found.own), TOP, x(found.own), BOTTOM, "own"),
        text(f"this run: {short(found.own, 4)}", x(found.own), TOP - NOTE, "note", "middle"),
    ]


def _special(facts: Facts, found: RadiusPath) -> list[tuple[str, int]]:
    ranking = facts.ranking
    assert ranking is not None
    pairs = [("robust", ranking.robust_choice), ("mean", ranking.mean_choice)]
    if ranking.robust_choice == ranking.mean_choice:
        pairs = pairs[:1]
    return [(kind, number) for kind, number in pairs if number in found.curves]


def _unit(facts: Facts) -> str:
    better = "smaller" if facts.minimize else "larger"
    return f"robust score ({better} is better)"


def _bottom(x: Scale, found: RadiusPath) -> list[Markup]:
    places = [tick for tick in x.ticks(7) if 0 < tick < x.high]
    step = places[0] if places else 1.0
    small = [places[0] * share for share in (0.05, 0.25)] if places else []
    places = [0.0, *small, *places, x.high]
    words = [
        "0 (mean)" if tick == 0 else short(tick, 3) if tick < step else tick_text(tick, step)
        for tick in places[:-1]
    ]
    return bottom_axis(x, BOTTOM, found.label, places, [*words, f"{short(x.high, 3)} (worst fold)"])


def _changes(found: RadiusPath, x: Scale) -> list[Markup]:
    marks = []
    for change in found.changes:
        words = f"at {short(change.size, 4)} config {change.after} overtakes config {change.before}"
        marks.append(
            element(
                "g",
                tip(words),
                line(x(change.size), TOP, x(change.size), BOTTOM, "change"),
                cls="mark",
            )
        )
    return marks


def _dots(found: RadiusPath, x: Scale, y: Scale, digits: Decimals) -> list[Markup]:
    return [
        element(
            "circle",
            tip(f"{found.label} {short(size, 4)}: {digits.text(value)}, config {winner} is best"),
            cx=x(size),
            cy=y(value),
            r=3.0,
            cls="dot best mark",
        )
        for size, value, winner in zip(found.sizes, found.best, found.winners, strict=True)
    ]


def _names(ends: list[tuple[float, tuple[str, int]]]) -> list[Markup]:
    """Names at the right ends of curves, moved apart where they would overlap, none below the
    axis."""
    marks = []
    ordered = sorted(ends)
    places = [place for place, _ in ordered]
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + 15)
    lowest = BOTTOM
    for k in reversed(range(len(places))):
        places[k] = min(places[k], lowest)
        lowest = places[k] - 15
    for place, (_, (kind, number)) in zip(places, ordered, strict=True):
        words = "best at each size" if kind == "best" else f"config {number} ({kind} choice)"
        marks.append(text(words, RIGHT + 8, place + 4, f"name {kind}"))
    return marks


def _description(found: RadiusPath, digits: Decimals) -> str:
    changes = "; ".join(
        f"at {short(change.size, 4)} from config {change.before} to config {change.after}"
        for change in found.changes[:12]
    )
    return (
        f"The best value goes from {digits.text(found.best[0])} at size 0 to"
        f" {digits.text(found.best[-1])} at {short(found.sizes[-1], 4)}. The winner changes "
        + (f"{changes}." if changes else "nowhere.")
    )
