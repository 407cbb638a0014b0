"""Fits of the model in a thread of their own, so that asking never waits for one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.optimizer.model import Model

SMALL = 64


class BackgroundFit:
    """At most one fit under way; it is put into use by the first `follow` after it is done, unless
    the model made a later one itself meanwhile.

    A run with one slot keeps making its fits at once: what it asks depends on nothing but its
    scores. So does little data, where a fit takes no longer than a suggestion.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._done: Fit | BaseException | None = None

    def follow(self, model: Model, beside: bool) -> None:
        """Put a finished fit into use, and start the one that is due."""
        fit = model.last_fit
        model.fits_in_background = beside and fit is not None and fit.size >= SMALL
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
            self._thread = threading.Thread(target=self._run, args=(job,), name="fit", daemon=True)
            self._thread.start()

    def _run(self, job: Callable[[], Fit]) -> None:
        try:
            self._done = job()
        except BaseException as error:  # raised where the fit is wanted
            self._done = error
