"""How to run a problem again: as Python code, and as a command where that says all."""

from __future__ import annotations

import re
import shlex
from typing import Any

from drbqo_ray.core.sets import ChiSquareBall, as_uncertainty
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.problem import RunProblem
from drbqo_ray.report.about import Snippet

STORAGE = "runs/again"
SPACE_FILE = "space.yaml"
_LOADABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_KEYWORDS = ("method", "mode", "seed", "n_initial", "kernel", "context_rule", "reference")


def snippets(problem: RunProblem, evaluations: int, stop_when: str | None) -> tuple[Snippet, ...]:
    """Code that runs the problem again with this many evaluations and this stop rule."""
    script = Snippet("Python", python_script(problem, evaluations, stop_when))
    command = command_line(problem, evaluations, stop_when)
    if command is None:
        return (script,)
    import yaml

    space = yaml.safe_dump(problem.header()["space"], sort_keys=False, allow_unicode=True)
    return (script, Snippet("Command", command), Snippet(SPACE_FILE, space.rstrip()))


def python_script(problem: RunProblem, evaluations: int, stop_when: str | None = None) -> str:
    """A script; where an object cannot be written down it says what belongs there."""
    header = problem.header()
    before, uncertainty = as_uncertainty(
        problem.settings.get("uncertainty", 1.0), problem.n_folds
    ).to_python()
    given = {**{key: header.get(key) for key in _KEYWORDS}, "stop_when": stop_when}
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
            f"    n_evaluations={evaluations},",
            f"    uncertainty={uncertainty},",
            *lines,
            f"    storage={STORAGE!r},",
            ")",
        ]
    )


def _objective(problem: RunProblem) -> list[str]:
    if _loadable(problem.objective):
        return [f"objective = {problem.objective!r}"]
    return [f"objective = ...  # the function that was called {problem.objective!r}"]


def _loadable(objective: str) -> bool:
    return bool(_LOADABLE.fullmatch(objective)) and not objective.startswith("__main__")


def _has_objects(space: dict[str, dict[str, Any]]) -> bool:
    options = (option for item in space.values() for option in item.get("options", ()))
    return any(isinstance(option, dict) for option in options)


def command_line(problem: RunProblem, evaluations: int, stop_when: str | None = None) -> str | None:
    """The command, None when the command line has no words for some setting."""
    settings, uncertainty = problem.settings, problem.settings.get("uncertainty")
    plain = isinstance(problem.contexts, int) and problem.contexts >= 2
    default = Optimizer(problem.space, problem.contexts).n_initial if plain else None
    sayable = (
        plain
        and _loadable(problem.objective)
        and isinstance(uncertainty, ChiSquareBall)
        and settings.get("n_initial") in (None, default)
        and settings.get("kernel", "se") == "se"
        and all(settings.get(key) is None for key in ("context_rule", "reference"))
        and settings.get("sampler", "pathwise") == "pathwise"
        and settings.get("hyperparameters", "map") == "map"
        and not _has_objects(problem.header()["space"])
    )
    if not sayable:
        return None
    assert isinstance(uncertainty, ChiSquareBall)
    words = [
        "drbqo",
        "run",
        "--objective",
        problem.objective,
        "--space",
        SPACE_FILE,
        "--folds",
        str(problem.contexts),
        "--evaluations",
        str(evaluations),
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
