"""The worker timeline: a lane for each evaluation that ran at a time, a bar for each evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from drbqo_ray.report.draw.axis import Scale, bottom_axis
from drbqo_ray.report.draw.svg import element, figure, number, text, tip
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.timeline import Bar, Timeline
from drbqo_ray.report.wording import percent, seconds
from drbqo_ray.runtime.terminal import printable

WIDTH, LEFT, RIGHT, TOP = 860.0, 150.0, 840.0, 8.0
LANES = 48
SINGLE = 400
GAP = 0.4


def draw_gantt(facts: Facts, timeline: Timeline) -> Markup:
    """The lanes; of many bars those that touch are drawn as one."""
    shown = timeline.lanes[:LANES]
    row = 22.0 if len(shown) <= 16 else 10.0
    x = Scale(timeline.start, max(timeline.end, timeline.start + 1e-9), LEFT, RIGHT)
    bottom = TOP + row * len(shown)
    marks: list[Markup] = []
    step = max(1, -(-14 // int(row)))
    for k, lane in enumerate(shown):
        if k % step == 0:
            name = f"{printable(lane.node, 12)} · {lane.number}"
            marks.append(text(name, LEFT - 10, TOP + row * (k + 0.5) + 4, "tick", "end"))
    single = len(timeline.bars) <= SINGLE
    for k in range(len(shown)):
        bars = [bar for bar in timeline.bars if bar.lane == k]
        box = (TOP + row * k + 2, row - 4)
        marks += _bars(facts, bars, x, box) if single else _merged(bars, x, box)
    marks += bottom_axis(x, bottom + 4, "seconds into the run")
    description = (
        f"{len(timeline.bars)} evaluations on {len(timeline.lanes)} lanes; the workers were busy"
        f" {percent(timeline.utilisation)} of {seconds(timeline.end - timeline.start)}."
    )
    return figure(WIDTH, bottom + 52, "Worker timeline", description, marks)


def _bars(facts: Facts, bars: list[Bar], x: Scale, box: tuple[float, float]) -> Iterator[Markup]:
    for bar in bars:
        words = (
            f"evaluation {bar.id}, {facts.fold(bar.context)}: {seconds(bar.end - bar.start)}"
            f"{'' if bar.ok else ', failed'}"
        )
        top, height = _height(box, bar.ok)
        yield element(
            "rect",
            tip(words),
            x=x(bar.start),
            y=top,
            width=max(x(bar.end) - x(bar.start), 0.8),
            height=height,
            cls=f"task mark {'ok' if bar.ok else 'failed'}",
        )


def _height(box: tuple[float, float], ok: bool) -> tuple[float, float]:
    """Top and height of a bar: a failed one is half as high, so that it shows without color."""
    return box if ok else (box[0] + box[1] / 2, box[1] / 2)


def _merged(bars: list[Bar], x: Scale, box: tuple[float, float]) -> Iterator[Markup]:
    for ok in (True, False):
        spans: list[list[float]] = []
        for bar in bars:
            if bar.ok is not ok:
                continue
            start, end = x(bar.start), max(x(bar.end), x(bar.start) + 0.4)
            if spans and start - spans[-1][1] < GAP:
                spans[-1][1] = max(spans[-1][1], end)
            else:
                spans.append([start, end])
        top, height = _height(box, ok)
        steps = "".join(
            f"M{number(a)},{number(top)}H{number(b)}V{number(top + height)}H{number(a)}Z"
            for a, b in spans
        )
        if steps:
            yield element("path", d=steps, cls=f"task {'ok' if ok else 'failed'}")
