"""How far ahead to think: an early suggestion knows less, a late one is waited for."""

from __future__ import annotations

import math


class Lookahead:
    """How many suggestions to have ready: as many as are used up in four thoughts."""

    def __init__(self) -> None:
        self._think = 0.0
        self._interval = math.inf
        self._last: float | None = None

    def thought(self, seconds: float) -> None:
        """A suggestion took this long."""
        self._think = 0.7 * self._think + 0.3 * seconds

    def told(self, count: int, now: float) -> None:
        """So many outcomes came in."""
        if self._last is not None:
            interval = (now - self._last) / count
            old = interval if math.isinf(self._interval) else self._interval
            self._interval = 0.7 * old + 0.3 * interval
        self._last = now

    def ahead(self, slots: int) -> int:
        """Suggestions to prepare; none for one slot, where each has to know every outcome."""
        if slots <= 1:
            return 0
        needed = math.ceil(4 * self._think / max(self._interval, 1e-6)) if self._think else 1
        return max(1, min(slots, needed))
