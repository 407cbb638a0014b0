"""The report of a run that is kept in a journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from drbqo_ray.report.about import About, Timing
from drbqo_ray.report.facts import Facts, gather
from drbqo_ray.runtime.rerun import snippets
from drbqo_ray.storage.format import JournalRecord
from drbqo_ray.storage.journal import read_journal
from drbqo_ray.storage.stored_run import ReplayedRun, replay_alone

SESSION_DETAILS = ("python", "numpy", "max_in_flight", "timeout_seconds", "stop_when")
SETTINGS = (
    "method",
    "mode",
    "seed",
    "n_initial",
    "kernel",
    "context_rule",
    "sampler",
    "hyperparameters",
)


def journal_facts(directory: Path, name: str) -> Facts:
    """What a report of the run in `directory` shows; nothing is locked or changed."""
    records = list(read_journal(directory))
    run = replay_alone(records)
    sessions = [record.data for record in records if record.kind == "session"]
    about = _about(run, sessions[-1] if sessions else {}, name)
    return gather(run.optimizer, about, timings(records, run))


def timings(records: Iterable[JournalRecord], run: ReplayedRun) -> list[Timing]:
    """When the evaluations of a run were asked for and told, in the order told."""
    asked: dict[int, float] = {}
    told: dict[int, float] = {}
    for record in records:
        place = {"ask": asked, "tell": told, "fail": told}.get(record.kind)
        if place is not None and "at" in record.data:
            place[record.data["id"]] = float(record.data["at"])
    return [
        Timing(
            id=outcome.id,
            seconds=outcome.seconds,
            node=outcome.node,
            asked_at=asked.get(outcome.id),
            told_at=told.get(outcome.id),
            attempts=outcome.attempts,
            ok=outcome.score is not None,
            context=run.suggestions[outcome.id].context,
            cause=outcome.cause,
        )
        for outcome in run.outcomes.values()
    ]


def _about(run: ReplayedRun, session: Mapping[str, Any], name: str) -> About:
    problem = run.problem
    settings = problem.settings
    details = [("objective", problem.objective)]
    details += [(key, str(settings[key])) for key in SETTINGS if settings.get(key) is not None]
    if problem.fingerprint is not None:
        details.append(("data fingerprint", problem.fingerprint))
    details += [(key, str(session[key])) for key in SESSION_DETAILS if session.get(key) is not None]
    if run.stop_reason is not None:
        details.append(("stopped", run.stop_reason))
    return About(
        name=name,
        objective=problem.objective,
        method=str(settings.get("method", "drbqo")),
        budget=session.get("n_evaluations"),
        state=run.stopped,
        seconds=run.seconds,
        details=tuple(details),
        reproduce=snippets(
            problem, session.get("n_evaluations", len(run.outcomes)), session.get("stop_when")
        ),
    )
