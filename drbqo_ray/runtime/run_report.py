"""The report of a run that is kept in a journal."""

from __future__ import annotations

from pathlib import Path

from drbqo_ray.report.about import About, Timing
from drbqo_ray.report.facts import Facts, gather
from drbqo_ray.runtime.rerun import snippets
from drbqo_ray.storage.stored_run import ReplayedRun, read_run

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
    return run_facts(read_run(directory), name)


def run_facts(run: ReplayedRun, name: str) -> Facts:
    """What a report of a run shows."""
    return gather(run.optimizer, _about(run, name), timings(run))


def timings(run: ReplayedRun) -> list[Timing]:
    """When the evaluations of a run were asked for and told, in the order told."""
    return [
        Timing(
            id=outcome.id,
            seconds=outcome.seconds,
            node=outcome.node,
            asked_at=run.asked_at.get(outcome.id),
            told_at=run.told_at.get(outcome.id),
            attempts=outcome.attempts,
            ok=outcome.status == "ok",
            context=outcome.context,
            cause=outcome.cause,
        )
        for outcome in run.outcomes.values()
    ]


def _about(run: ReplayedRun, name: str) -> About:
    problem, session = run.problem, run.session
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
