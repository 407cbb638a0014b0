"""The report of a run that is kept in a journal, with code that runs its problem again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from drbqo_ray.core.sets import ChiSquareBall, as_uncertainty
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.problem import CHANGEABLE, DEFAULTS, SETTINGS, Problem
from drbqo_ray.report.facts import About, Facts, Snippet, gather
from drbqo_ray.storage.checkpoint import fitted_run
from drbqo_ray.storage.stored_run import ReplayedRun

SESSION_DETAILS = (
    "python",
    "numpy",
    "max_in_flight",
    "timeout_seconds",
    "time_budget",
    "stop_when",
)
STORAGE = "runs/again"
SPACE_FILE = "space.yaml"
SHOWN = tuple(name for name in SETTINGS if name not in ("uncertainty", "reference", *CHANGEABLE))
"""Settings among the details of a run; the page shows uncertainty and reference elsewhere."""
_LOADABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_COMMAND = ("method", "uncertainty", "mode", "seed", *CHANGEABLE)
"""Settings that the command line has words for."""


def journal_facts(directory: Path, name: str) -> Facts:
    """What a report of the run in `directory` shows; nothing is locked or changed."""
    return run_facts(fitted_run(directory)[0], name)


def run_facts(run: ReplayedRun, name: str) -> Facts:
    """What a report of a run shows."""
    return gather(run.optimizer, _about(run, name), list(run.outcomes.values()), run.told_at)


def _about(run: ReplayedRun, name: str) -> About:
    problem, session = run.problem, run.session
    settings = problem.settings
    details = [("objective", problem.objective)]
    details += [(key, str(settings[key])) for key in SHOWN if settings.get(key) is not None]
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
            problem,
            session.get("n_evaluations", len(run.outcomes)),
            session.get("stop_when"),
            session.get("time_budget"),
        ),
    )


def snippets(
    problem: Problem,
    evaluations: int | None,
    stop_when: str | None,
    time_budget: float | None = None,
) -> tuple[Snippet, ...]:
    """Code that runs the problem again with this many evaluations, this stop rule, and this many
    seconds."""
    script = Snippet("Python", python_script(problem, evaluations, stop_when, time_budget))
    command = command_line(problem, evaluations, stop_when, time_budget)
    if command is None:
        return (script,)
    import yaml

    space = yaml.safe_dump(problem.header()["space"], sort_keys=False, allow_unicode=True)
    return (script, Snippet("Command", command), Snippet(SPACE_FILE, space.rstrip()))


def python_script(
    problem: Problem,
    evaluations: int | None,
    stop_when: str | None = None,
    time_budget: float | None = None,
) -> str:
    """A script; where an object cannot be written down it says what belongs there."""
    header = problem.header()
    before, uncertainty = as_uncertainty(
        problem.settings.get("uncertainty", 1.0), problem.n_folds
    ).to_python()
    names = [name for name in SETTINGS if name not in ("uncertainty", *CHANGEABLE)]
    given = {**{name: header.get(name) for name in names}, "stop_when": stop_when}
    given["time_budget"] = time_budget
    lines = [f"    {key}={value!r}," for key, value in given.items() if value is not None]
    space = [f"    {name!r}: {item!r}," for name, item in header["space"].items()]
    return "\n".join(
        [
            *dict.fromkeys(["import drbqo_ray as dr", before]),
            "",
            *_objective(problem),
            "space = {",
            *space,
            "}",
            *(
                ["# Options that are objects are named only: put the objects themselves there."]
                if _has_objects(header["space"])
                else []
            ),
            "result = dr.run(",
            "    objective,",
            "    space,",
            f"    {problem.contexts!r},",
            *([] if evaluations is None else [f"    n_evaluations={evaluations},"]),
            f"    uncertainty={uncertainty},",
            *lines,
            f"    storage={STORAGE!r},",
            ")",
        ]
    )


def _objective(problem: Problem) -> list[str]:
    if _loadable(problem.objective):
        return [f"objective = {problem.objective!r}"]
    return [f"objective = ...  # the function that was called {problem.objective!r}"]


def _loadable(objective: str) -> bool:
    return bool(_LOADABLE.fullmatch(objective)) and not objective.startswith("__main__")


def _has_objects(space: dict[str, dict[str, Any]]) -> bool:
    options = (option for item in space.values() for option in item.get("options", ()))
    return any(isinstance(option, dict) for option in options)


def command_line(
    problem: Problem,
    evaluations: int | None,
    stop_when: str | None = None,
    time_budget: float | None = None,
) -> str | None:
    """The command, None when the command line has no words for some setting."""
    settings, uncertainty = problem.settings, problem.settings.get("uncertainty")
    sayable = _loadable(problem.objective) and not _has_objects(problem.header()["space"])
    if not isinstance(problem.contexts, int) or problem.contexts < 2 or not sayable:
        return None
    usual = DEFAULTS | {"n_initial": Optimizer(problem.space, problem.contexts).n_initial}
    unsaid = [name for name in SETTINGS if name not in _COMMAND]
    if any(settings.get(name) not in (None, usual[name]) for name in unsaid):
        return None
    if not isinstance(uncertainty, ChiSquareBall):
        return None
    words = [
        "drbqo",
        "run",
        "--objective",
        problem.objective,
        "--space",
        SPACE_FILE,
        "--folds",
        str(problem.contexts),
        *([] if evaluations is None else ["--evaluations", str(evaluations)]),
        *([] if time_budget is None else ["--time", f"{time_budget:.10g}"]),
        "--radius",
        repr(uncertainty.radius),
        "--method",
        str(settings.get("method", "drbqo")),
        "--mode",
        str(settings.get("mode", "max")),
        "--seed",
        str(settings.get("seed", 0)),
        "--storage",
        STORAGE,
        *(["--stop-when", stop_when] if stop_when else []),
    ]
    return shlex.join(words)
