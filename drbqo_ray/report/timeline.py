"""When each evaluation ran and where, and how busy the workers were."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from drbqo_ray.runtime.tally import utilization


@dataclass(frozen=True)
class Timing:
    """What is known of the time of one evaluation.

    Attributes:
        id: its suggestion.
        seconds: how long it ran.
        node: where it ran, None when unknown.
        asked_at: when it was suggested, seconds into the run; None when unknown.
        told_at: when its outcome was recorded, seconds into the run; None when unknown.
        attempts: how often it was started.
        ok: whether it gave a score.
        context: its fold.
        cause: why it failed, in one word, None when it did not.
    """

    id: int
    seconds: float
    node: str | None = None
    asked_at: float | None = None
    told_at: float | None = None
    attempts: int = 1
    ok: bool = True
    context: int = 0
    cause: str | None = None


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
        utilisation: busy / ((end - start) * number of lanes), see `utilization`.
        untimed: evaluations without a time, which have no bar.
    """

    bars: tuple[Bar, ...]
    lanes: tuple[Lane, ...]
    start: float
    end: float
    busy: float
    utilisation: float
    untimed: int


def draw_up(timings: Iterable[Timing]) -> Timeline | None:
    """The timeline; None when no evaluation has a time."""
    given = list(timings)
    timed = [each for each in given if each.told_at is not None]
    if not timed:
        return None
    lanes, bars = _lay_out(timed)
    start, end = min(bar.start for bar in bars), max(bar.end for bar in bars)
    busy = sum(bar.end - bar.start for bar in bars)
    share = utilization(busy, (end - start) * len(lanes)) or 0.0
    return Timeline(tuple(bars), tuple(lanes), start, end, busy, share, len(given) - len(timed))


def _lay_out(timed: list[Timing]) -> tuple[list[Lane], list[Bar]]:
    """Each evaluation on the first lane of its node that is free when it starts."""
    spans = []
    for each in timed:
        assert each.told_at is not None
        spans.append((max(each.told_at - each.seconds, 0.0), each.told_at, each))
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
        bars.append(Bar(each.id, lane, start, end, each.ok, each.context))
    return lanes, bars
