"""One fold: call the objective, time it, and turn whatever happens into an outcome.

This is all that a worker has to load of us, so it imports little.
"""

from __future__ import annotations

import traceback
from dataclasses import replace
from time import monotonic
from typing import Any

from drbqo_ray.objective import FoldObjective
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.threads import limit_threads


def evaluate(
    objective: FoldObjective,
    suggestion: Suggestion,
    attempt: int,
    threads: int | None,
    node: str | None,
) -> Observation:
    """Evaluate one suggestion; an exception of the objective is an outcome, not raised.

    Args:
        objective: the objective.
        suggestion: what to evaluate.
        attempt: how often it was started, this time included.
        threads: threads that numerical libraries may use. None in a process that is the user's
            own: it keeps its threads, and what wants to end it, such as Ctrl-C, is raised.
        node: where this is.
    """
    if threads is not None:
        limit_threads(threads)
    bare = replace(suggestion, config={})  # the coordinator has the config; it need not travel
    start = monotonic()
    try:
        returned = objective(suggestion.config, suggestion.context, suggestion.seed)
        seconds = monotonic() - start
        return Observation.of(bare, returned, seconds=seconds, node=node, attempts=attempt)
    except BaseException as error:  # SystemExit too: nothing of the user's ends the worker
        if threads is None and not isinstance(error, Exception):
            raise
        seconds, reason = monotonic() - start, _traceback(error)
        return Observation.failure(
            bare, "error", reason, seconds=seconds, node=node, attempts=attempt
        )


def evaluate_fold(
    objective: FoldObjective, suggestion: Suggestion, attempt: int, threads: int, watcher: Any
) -> Observation:
    """The same as a task of Ray; `watcher` is the actor to tell that the clock runs, or None."""
    import ray

    if watcher is not None:
        watcher.started.remote(suggestion.id, attempt)
    node = ray.get_runtime_context().get_node_id()[:12]
    return evaluate(objective, suggestion, attempt, threads, node)


def _traceback(error: BaseException) -> str:
    """The traceback as text, from the objective's own first line on."""
    own = error.__traceback__.tb_next if error.__traceback__ is not None else None
    try:
        return "".join(traceback.format_exception(type(error), error, own)).rstrip()
    except Exception:  # a user's exception may not even be printable
        return f"{type(error).__name__} (its traceback cannot be shown)"
