"""What a coordinator does ahead of time: suggestions that will soon be asked for, and fits of the
model in a thread of their own, so that asking never waits for one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.optimizer.model import Model

Job = Callable[[], None]
SMALL = 64


class Working(Protocol):
    """A job under way, such as a thread."""

    def is_alive(self) -> bool:
        """Whether it still goes on."""


class Lookahead:
    """How many suggestions to have ready: as many as are used up in four thoughts.

    An early suggestion knows less, a late one is waited for.
    """

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


class BackgroundFit:
    """At most one fit under way; it is put into use by the first `follow` after it is done, unless
    the model made a later one itself meanwhile.

    A run with one slot keeps making its fits at once: what it asks depends on nothing but its
    scores. So does little data, where a fit takes no longer than a suggestion.

    Args:
        begin: starts a thread that does a job, or what stands for one in a simulation.
    """

    def __init__(self, begin: Callable[[Job], Working] | None = None) -> None:
        self._begin = begin or _begin_thread
        self._thread: Any = None  # a `Working`
        self._done: Fit | BaseException | None = None

    def follow(self, model: Model, in_background: bool) -> None:
        """Put a finished fit into use, and start the one that is due."""
        fit = model.last_fit
        model.fits_in_background = in_background and fit is not None and fit.size >= SMALL
        if fit is None or not model.fits_in_background:
            return
        if self._thread is not None:
            if self._thread.is_alive():
                return
            self._thread = None
            if isinstance(self._done, BaseException):
                raise self._done
            if self._done is not None and self._done.size > fit.size:
                model.last_fit = self._done
        job = model.fit_job()
        if job is not None:
            self._thread = self._begin(partial(self._run, job))

    def _run(self, job: Callable[[], Fit]) -> None:
        try:
            self._done = job()
        except BaseException as error:  # raised where the fit is wanted
            self._done = error


def _begin_thread(job: Job) -> threading.Thread:
    thread = threading.Thread(target=job, name="fit", daemon=True)
    thread.start()
    return thread
