"""One fold on a worker: call the objective, time it, and turn whatever happens into an outcome."""

from __future__ import annotations

import traceback
from dataclasses import replace
from time import monotonic

from drbqo_ray.objective import FoldObjective
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.threads import limit_threads


def evaluate(
    objective: FoldObjective, suggestion: Suggestion, attempt: int, threads: int, node: str | None
) -> Observation:
    """Evaluate one suggestion; an exception of the objective is an outcome, never raised.

    Args:
        objective: the objective.
        suggestion: what to evaluate.
        attempt: how often it was started, this time included.
        threads: threads that numerical libraries may use.
        node: where this is.
    """
    limit_threads(threads)
    bare = replace(suggestion, config={})  # the coordinator has the config; it need not travel
    start = monotonic()
    try:
        returned = objective(suggestion.config, suggestion.context, suggestion.seed)
        seconds = monotonic() - start
        return Observation.of(bare, returned, seconds=seconds, node=node, attempts=attempt)
    except BaseException as error:  # SystemExit too: nothing of the user's ends the worker
        seconds, reason = monotonic() - start, _traceback(error)
        return Observation.failure(
            bare, "error", reason, seconds=seconds, node=node, attempts=attempt
        )


def _traceback(error: BaseException) -> str:
    """The traceback as text, from the objective's own first line on."""
    own = error.__traceback__.tb_next if error.__traceback__ is not None else None
    try:
        return "".join(traceback.format_exception(type(error), error, own)).rstrip()
    except Exception:  # a user's exception may not even be printable
        return f"{type(error).__name__} (its traceback cannot be shown)"
