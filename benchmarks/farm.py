"""A discrete-event model of a run: W slots, the driver that fills them, the thread that thinks.

It follows `drbqo_ray.runtime`. The driver (`loop`, `session`) goes in turns: a turn takes a fixed
time and a little more for every evaluation it starts, and an evaluation begins a moment after it
was started. The thinking thread (`coordinator`) takes in the
outcomes that have come, then makes the suggestions that are missing on the shelf: one for every
free slot, and as many more as `Lookahead` wants to have ready. Each thought ends with a flush of
the journal. Outcomes are taken in between two thoughts, never during one.

Nothing here sleeps: the clock jumps from event to event, and a mind says how long it took.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from drbqo_ray.runtime.lookahead import Lookahead


@dataclass(frozen=True, slots=True)
class Job:
    """One evaluation: its number, how long it runs, and whatever the mind wants to know of it."""

    number: int
    seconds: float
    content: Any = None


class Mind(Protocol):
    """What thinks: all times are seconds of the one thread that does it."""

    def tell(self, jobs: Sequence[Job]) -> float:
        """Take in the outcomes of jobs; how long that took."""

    def ask(self, count: int, now: float) -> tuple[list[Job], float]:
        """At least one and at most `count` jobs, and how long it took to make them; it is `now`."""


@dataclass
class Log:
    """What happened, by number of the evaluation.

    Attributes:
        slots: number of slots.
        starts: when each evaluation began (n,).
        seconds: how long each ran (n,).
        thinking: seconds the thread was at work.
    """

    slots: int
    starts: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    thinking: float = 0.0

    @property
    def utilisation(self) -> float:
        """Share of the slots' time spent in folds while there was work to hand out: from the
        first start to the last one."""
        return utilisation(self.starts, self.seconds, self.slots)

    @property
    def utilisation_to_the_end(self) -> float:
        """The same up to the last outcome, when slots run empty for want of work."""
        end = max(np.add(self.starts, self.seconds))
        return float(sum(self.seconds) / (self.slots * (end - min(self.starts))))

    @property
    def duration(self) -> float:
        """From the first start to the last outcome."""
        return float(max(np.add(self.starts, self.seconds)) - min(self.starts))

    @property
    def load(self) -> float:
        """Share of the time that the thinking thread was at work."""
        return self.thinking / self.duration


def utilisation(starts: Sequence[float], seconds: Sequence[float], slots: int) -> float:
    """Time in folds over slots x time, from the first start to the last.

    Args:
        starts: when each evaluation began (n,).
        seconds: how long each ran (n,).
        slots: number of slots.
    """
    begin, close = min(starts), max(starts)
    ends = np.minimum(np.add(starts, seconds), close)
    if close == begin:
        return 1.0
    return float(np.sum(ends - np.array(starts)) / (slots * (close - begin)))


class Farm:
    """Runs `total` evaluations on `slots` slots.

    Args:
        slots: number of slots W.
        total: evaluations in all.
        mind: makes the suggestions.
        per_start: seconds the driver spends on each evaluation.
        per_turn: seconds of each turn of the driver.
        per_flush: seconds of each flush of the journal.
        latency: seconds from the driver's start of an evaluation to its beginning.
    """

    def __init__(
        self,
        slots: int,
        total: int,
        mind: Mind,
        per_start: float = 0.0,
        per_turn: float = 0.0,
        per_flush: float = 0.0,
        latency: float = 0.0,
    ) -> None:
        self._slots, self._total, self._mind = slots, total, mind
        self._per_start, self._per_turn, self._per_flush = per_start, per_turn, per_flush
        self._latency = latency
        self._pace = Lookahead()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._now = 0.0
        self._free = slots
        self._shelf: deque[Job] = deque()
        self._inbox: list[Job] = []
        self._made = self._taken = 0
        self._driving = self._thinking = False
        self.log = Log(slots)

    def run(self) -> Log:
        """Run all evaluations to their end."""
        self._think()
        while self._events:
            self._now, _, happen = heapq.heappop(self._events)
            happen()
        assert len(self.log.starts) == self._total
        return self.log

    def _at(self, when: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), happen))

    def _drive(self) -> None:
        """A turn of the driver: start what is on the shelf in the slots that are free."""
        count = min(self._free, len(self._shelf))
        if self._driving or not count:
            return
        self._driving = True
        when = self._now + self._per_turn
        for _ in range(count):
            job = self._shelf.popleft()
            self._free -= 1
            self._taken += 1
            when += self._per_start
            self._start(job, when + self._latency)
        self._at(when, self._turn_ended)
        self._think()

    def _turn_ended(self) -> None:
        self._driving = False
        self._drive()

    def _start(self, job: Job, when: float) -> None:
        self.log.starts.append(when)
        self.log.seconds.append(job.seconds)
        self._at(when + job.seconds, lambda: self._ended(job))

    def _ended(self, job: Job) -> None:
        self._free += 1
        self._inbox.append(job)
        self._pace.told(1, self._now)
        self._drive()
        self._think()

    def _think(self) -> None:
        """One thought of the keeper, as `Coordinator._work` has it."""
        missing = self._missing()
        if self._thinking or not (self._inbox or missing):
            return
        self._thinking = True
        inbox, self._inbox = self._inbox, []
        took = self._mind.tell(inbox) if inbox else 0.0
        made: list[Job] = []
        if missing:
            made, asking = self._mind.ask(missing, self._now + took)
            asking += self._per_flush
            self._pace.thought(asking / len(made))
            took += asking
        self.log.thinking += took
        self._at(self._now + took, lambda: self._thought(made))

    def _thought(self, made: list[Job]) -> None:
        self._thinking = False
        self._shelf.extend(made)
        self._made += len(made)
        self._drive()
        self._think()

    def _missing(self) -> int:
        wanted = self._taken + self._free + self._pace.ahead(self._slots)
        return max(0, min(wanted, self._total) - self._made)
