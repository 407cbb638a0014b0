"""Which trial scheduler a Tune run uses: some compare trials, and so scores of different folds."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger(__name__)


def scheduler_in_use() -> str | None:
    """Class name of the scheduler of the Tune run that is calling, None if there is none.

    Tune does not tell a searcher about the scheduler, so the argument `scheduler` of `tune.run`
    is looked up among the callers.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "run" and frame.f_globals.get("__name__") == "ray.tune.tune":
            scheduler = frame.f_locals.get("scheduler")
            return None if scheduler is None else type(scheduler).__name__
        frame = frame.f_back  # type: ignore[assignment]
    return None


def warn_of_scheduler() -> bool:
    """Warn if the scheduler compares trials; whether a scheduler was found at all."""
    name = scheduler_in_use()
    if name not in (None, "FIFOScheduler"):
        logger.warning(
            "%s compares trials with each other, but the trials of DRBQOSearch are scored on"
            " different folds, so it would favor easy folds. Use FIFOScheduler, the default of"
            " tune.TuneConfig.",
            name,
        )
    return name is not None
