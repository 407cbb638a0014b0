"""When each evaluation ran and where, and how busy the workers were."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from drbqo_ray.records import Observation
from drbqo_ray.report.draw import (
    BLUE,
    ORANGE,
    Scale,
    bottom_axis,
    element,
    figure,
    number,
    rect,
    text,
    tip,
)
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.wording import count, percent, seconds
from drbqo_ray.runtime.status import utilization
from drbqo_ray.runtime.terminal import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

WIDTH, LEFT, RIGHT, TOP = 860.0, 150.0, 840.0, 8.0
LANES = 48
SINGLE = 400
GAP = 0.4


@dataclass(frozen=True)
class Bar:
    """One evaluation on one lane, in seconds into the run."""

    id: int
    lane: int
    start: float
    end: float
    ok: bool
    context: int


@dataclass(frozen=True)
class Lane:
    """A place for one evaluation at a time on a node."""

    node: str
    number: int


@dataclass(frozen=True)
class Timeline:
    """Evaluations as bars on lanes.

    A bar ends when its outcome was recorded and is as long as the evaluation ran.

    Attributes:
        bars: in the order of their start.
        lanes: one for each evaluation that ran at the same time on a node.
        start, end: of the first and of the last bar, seconds into the run.
        busy: sum of the lengths of all bars, in seconds.
        utilization: busy / ((end - start) * number of lanes).
        untimed: evaluations without a time, which have no bar.
    """

    bars: tuple[Bar, ...]
    lanes: tuple[Lane, ...]
    start: float
    end: float
    busy: float
    utilization: float
    untimed: int


class TimelinePanel(Panel[Timeline]):
    """A lane for each evaluation that ran at a time, a bar for each evaluation."""

    key, order, plot_name = "timeline", 80, "timeline"
    title, question = "Worker timeline", "Were the workers idle?"

    def gather(self, source: Source) -> Timeline | None:
        """The timeline; None when no evaluation has a time."""
        return draw_up(source.observations, source.told_at)

    def missing(self, facts: Facts) -> str:
        """There are no times."""
        return "No times were recorded for this run, so there is no timeline."

    def draw(self, facts: Facts, data: Timeline) -> Sequence[Markup]:
        """The lanes."""
        shown = data.lanes[:LANES]
        row = 22.0 if len(shown) <= 16 else 10.0
        x = Scale(data.start, max(data.end, data.start + 1e-9), LEFT, RIGHT)
        bottom = TOP + row * len(shown)
        marks: list[Markup] = []
        step = max(1, -(-14 // int(row)))
        for k, lane in enumerate(shown):
            if k % step == 0:
                name = f"{printable(lane.node, 12)} · {lane.number}"
                marks.append(text(name, LEFT - 10, TOP + row * (k + 0.5) + 4, "tick", "end"))
        single = len(data.bars) <= SINGLE
        for k in range(len(shown)):
            bars = [bar for bar in data.bars if bar.lane == k]
            box = (TOP + row * k + 2, row - 4)
            marks += _bars(facts, bars, x, box) if single else _merged(bars, x, box)
        marks += bottom_axis(x, bottom + 4, "seconds into the run")
        description = (
            f"{len(data.bars)} evaluations on {len(data.lanes)} lanes; the workers were busy"
            f" {percent(data.utilization)} of {seconds(data.end - data.start)}."
        )
        return (figure(WIDTH, bottom + 52, "Worker timeline", description, marks),)

    def reading(self, facts: Facts, data: Timeline) -> Sequence[str]:
        """How busy the workers were, what a bar is, and what is left out."""
        words = (
            f"The workers were busy {percent(data.utilization)} of the time:"
            f" {seconds(data.busy)} of evaluations in {seconds(data.end - data.start)} on"
            f" {count(len(data.lanes), 'lane')}, the most that ran at a time. The journal has no"
            " start times: a bar ends when its outcome was recorded and is as long as the"
            " evaluation ran."
        )
        if not all(bar.ok for bar in data.bars):
            words += " Bars of half the height failed."
        if data.untimed:
            words += f" {count(data.untimed, 'evaluation')} without a time have no bar."
        if len(data.lanes) > LANES:
            words += f" The first {LANES} lanes are shown."
        return (words,)

    def plot(self, ax: Axes, facts: Facts, data: Timeline) -> None:
        """When each fold ran, worker by worker, and the share of time that workers were busy."""
        for bar in data.bars:
            ax.barh(
                bar.lane,
                bar.end - bar.start,
                left=bar.start,
                height=0.8,
                edgecolor="white",
                color=BLUE if bar.ok else ORANGE,
                hatch=None if bar.ok else "xxx",
            )
        ax.set_yticks(range(len(data.lanes)), [f"worker {k}" for k in range(len(data.lanes))])
        title = f"Workers were busy {100 * data.utilization:.1f} % of the time"
        ax.set(title=title, xlabel="seconds into the run", ylabel="")


PANEL = TimelinePanel()


def draw_up(observations: Sequence[Observation], told_at: Mapping[int, float]) -> Timeline | None:
    """The timeline; None when no evaluation has a time."""
    spans = [
        (max(told_at[each.id] - each.seconds, 0.0), told_at[each.id], each)
        for each in observations
        if each.id in told_at
    ]
    if not spans:
        return None
    lanes, bars = _lay_out(spans)
    start, end = min(bar.start for bar in bars), max(bar.end for bar in bars)
    busy = sum(bar.end - bar.start for bar in bars)
    share = utilization(busy, (end - start) * len(lanes)) or 0.0
    untimed = len(observations) - len(spans)
    return Timeline(tuple(bars), tuple(lanes), start, end, busy, share, untimed)


def _lay_out(spans: list[tuple[float, float, Observation]]) -> tuple[list[Lane], list[Bar]]:
    """Each evaluation, with its start and end, on the first lane of its node that is free then."""
    spans.sort(key=lambda span: (span[0], span[2].id))
    lanes: list[Lane] = []
    free: dict[str, list[int]] = {}
    running: list[tuple[float, str, int]] = []
    bars: list[Bar] = []
    for start, end, each in spans:
        while running and running[0][0] <= start:
            _, node, lane = heapq.heappop(running)
            heapq.heappush(free.setdefault(node, []), lane)
        node = each.node or "unknown node"
        if free.get(node):
            lane = heapq.heappop(free[node])
        else:
            lane = len(lanes)
            lanes.append(Lane(node, sum(other.node == node for other in lanes)))
        heapq.heappush(running, (end, node, lane))
        bars.append(Bar(each.id, lane, start, end, each.status == "ok", each.context))
    return lanes, bars


def _bars(facts: Facts, bars: list[Bar], x: Scale, box: tuple[float, float]) -> Iterator[Markup]:
    for bar in bars:
        words = (
            f"evaluation {bar.id}, {facts.fold(bar.context)}: {seconds(bar.end - bar.start)}"
            f"{'' if bar.ok else ', failed'}"
        )
        top, height = _height(box, bar.ok)
        width = max(x(bar.end) - x(bar.start), 0.8)
        looks = f"task mark {'ok' if bar.ok else 'failed'}"
        yield rect(x(bar.start), top, width, height, looks, tip(words))


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
