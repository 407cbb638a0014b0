"""Whether the limiter around a searcher works in batches, which Tune does not tell the searcher."""

from __future__ import annotations

import sys

from ray.tune.search import Searcher


def limited_in_batches(searcher: Searcher) -> bool:
    """Whether the wrapper that is calling, e.g. a `ConcurrencyLimiter`, has `batch=True`.

    A limiter hands over its number of trials only, so the wrapper is looked up among the callers.
    """
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Searcher) and getattr(caller, "searcher", None) is searcher:
            return bool(getattr(caller, "batch", False))
        frame = frame.f_back  # type: ignore[assignment]
    return False
