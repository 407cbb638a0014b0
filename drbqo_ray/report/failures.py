"""What broke: the failed evaluations, and the first of each kind in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drbqo_ray.records import Config, Observation
from drbqo_ray.report.timeline import Timing
from drbqo_ray.runtime.terminal import error_line, printable_lines

SHOWN = 100
WHOLE_TEXT = 4000


@dataclass(frozen=True)
class Failure:
    """One failed evaluation.

    Attributes:
        id, config, fold: what was evaluated.
        cause: in one word, None when it was not recorded.
        summary: the line that says what went wrong.
        text: the whole reason, shortened.
    """

    id: int
    config: Config
    fold: int
    cause: str | None
    summary: str
    text: str


@dataclass(frozen=True)
class Failures:
    """The failed evaluations.

    Attributes:
        shown: the first ones.
        total: number of failed evaluations.
        evaluations: number of all evaluations.
        per_fold: failures of every fold (n,).
    """

    shown: tuple[Failure, ...]
    total: int
    evaluations: int
    per_fold: tuple[int, ...]


def list_failures(
    observations: Sequence[Observation], timings: dict[int, Timing], n: int
) -> Failures:
    """The failures among the outcomes of a run with n folds."""
    failed = [seen for seen in observations if seen.status == "failed"]
    counts = [0] * n
    for seen in failed:
        counts[seen.context] += 1
    return Failures(
        shown=tuple(_failure(seen, timings.get(seen.id)) for seen in failed[:SHOWN]),
        total=len(failed),
        evaluations=len(observations),
        per_fold=tuple(counts),
    )


def _failure(seen: Observation, timing: Timing | None) -> Failure:
    reason = seen.reason or "no reason given"
    return Failure(
        id=seen.id,
        config=dict(seen.config),
        fold=seen.context,
        cause=timing.cause if timing is not None else None,
        summary=error_line(reason),
        text=printable_lines(reason, WHOLE_TEXT),
    )
