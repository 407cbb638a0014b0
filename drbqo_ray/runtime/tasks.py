"""One fold on a worker: call the objective, time it, and turn whatever happens into an outcome."""

from __future__ import annotations

import traceback
from time import monotonic
from typing import Any

import ray

from drbqo_ray.objective import FoldObjective
from drbqo_ray.records import Suggestion, read_score
from drbqo_ray.storage.outcome import Outcome
from drbqo_ray.threads import limit_threads


def evaluate_fold(
    objective: FoldObjective, suggestion: Suggestion, attempt: int, threads: int, watcher: Any
) -> Outcome:
    """Evaluate one suggestion; an exception of the objective is an outcome, never raised.

    Args:
        objective: the objective, read from the object store.
        suggestion: what to evaluate.
        attempt: how often it was started, this time included.
        threads: threads that numerical libraries may use.
        watcher: the run's actor when there is a time limit: it is told that the clock runs.
    """
    if watcher is not None:
        watcher.started.remote(suggestion.id, attempt)
    limit_threads(threads)
    start = monotonic()
    try:
        value = objective(suggestion.config, suggestion.context, suggestion.seed)
        score, reason = read_score(value)
        cause = None if reason is None else "value"
    except BaseException as error:  # SystemExit too: nothing of the user's ends the worker
        score, cause, reason = None, "error", _traceback(error)
    return Outcome(
        id=suggestion.id,
        score=score,
        cause=cause,
        reason=reason,
        seconds=monotonic() - start,
        node=ray.get_runtime_context().get_node_id()[:12],
        attempts=attempt,
    )


def _traceback(error: BaseException) -> str:
    """The traceback as text, from the objective's own first line on."""
    own = error.__traceback__.tb_next if error.__traceback__ is not None else None
    try:
        return "".join(traceback.format_exception(type(error), error, own)).rstrip()
    except Exception:  # a user's exception may not even be printable
        return f"{type(error).__name__} (its traceback cannot be shown)"
