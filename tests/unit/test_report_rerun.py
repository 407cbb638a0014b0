"""What the report says about running again is the very problem of the run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import drbqo_ray as dr
from drbqo_ray.cli.main import cli
from drbqo_ray.problem import Problem
from drbqo_ray.runtime.run_report import SPACE_FILE, command_line, journal_facts, python_script
from drbqo_ray.storage.journal import Journal
from tests.support.report_runs import SPACE, write_run

OBJECTIVE = "workers.svm:sonar"
PROBLEMS: dict[str, tuple[bool, dict[str, Any]]] = {
    "plain": (True, {}),
    "another radius": (True, {"uncertainty": 0.1, "mode": "min", "seed": 7, "method": "bqo-ts"}),
    "another set": (False, {"uncertainty": dr.CVaR(0.3)}),
    "a matrix": (False, {"uncertainty": dr.MMDBall(0.3, [[1.0, 0.2], [0.2, 1.0]])}),
    "a reference": (False, {"reference": [0.25, 0.75]}),
    "a kernel": (False, {"kernel": "matern52"}),
    "a start": (False, {"n_initial": 3}),
}


def problem_of(settings: dict[str, Any]) -> Problem:
    space = {**SPACE, "it's": dr.Choice(["a\nb", None, 3.5, "\u202e"])}
    folds = 2
    return Problem.of(space, folds, settings, lambda c, f, s: 1.0, OBJECTIVE)


@pytest.mark.parametrize("case", list(PROBLEMS))
def test_the_script_states_the_same_problem(case, monkeypatch):
    problem = problem_of(PROBLEMS[case][1])
    told: dict[str, Any] = {}

    def run(objective: str, space: Any, contexts: Any, **settings: Any) -> None:
        told.update(objective=objective, space=space, contexts=contexts, **settings)

    monkeypatch.setattr(dr, "run", run)
    exec(python_script(problem, 12, "loss < 0.01"), {})
    assert told.pop("n_evaluations") == 12
    assert told.pop("stop_when") == "loss < 0.01"
    assert told.pop("storage") == "runs/again"
    again = Problem.of(
        told.pop("space"), told.pop("contexts"), told, lambda c, f, s: 1.0, told.pop("objective")
    )
    expected = {key: value for key, value in problem.header().items() if value is not None}
    assert {key: value for key, value in again.header().items() if value is not None} == expected


@pytest.mark.parametrize("case", list(PROBLEMS))
def test_the_command_states_the_same_problem_or_is_not_given(case, monkeypatch, tmp_path):
    sayable, settings = PROBLEMS[case]
    problem = problem_of(settings)
    command = command_line(problem, 12, "loss < 0.01")
    assert (command is not None) is sayable
    if command is None:
        return
    told: dict[str, Any] = {}

    def run(objective: str, space: Any, contexts: Any, **given: Any) -> None:
        told.update(objective=objective, space=space, contexts=contexts, **given)
        raise dr.InvalidInput("Stop here.", 1, "Done.")

    monkeypatch.setattr("drbqo_ray.runtime.run.run", run)
    monkeypatch.chdir(tmp_path)
    import yaml

    Path(SPACE_FILE).write_text(yaml.safe_dump(problem.header()["space"]), encoding="utf-8")
    monkeypatch.setattr("drbqo_ray.objective.check_folds", lambda *_: None)
    CliRunner().invoke(cli, shlex.split(command)[1:])
    assert (told["n_evaluations"], told["stop_when"]) == (12, "loss < 0.01")
    settings = {key: told[key] for key in ("method", "mode", "seed", "uncertainty")}
    again = Problem.of(
        told["space"], told["contexts"], settings, lambda c, f, s: 1.0, told["objective"]
    )
    header = again.header()
    for key in ("space", "contexts", "uncertainty", "method", "mode", "seed", "n_initial"):
        assert header[key] == (problem.header()[key] if key in problem.header() else header[key])


@pytest.mark.parametrize(
    ("uncertainty", "code"),
    [
        (1.0, "dr.ChiSquareBall(1.0)"),
        (dr.CVaR(0.3), "dr.CVaR(0.3)"),
        (dr.WorstCase(), "dr.WorstCase()"),
        (dr.MMDBall(0.3, [[1, 0.5], [0.5, 1]]), "dr.MMDBall(0.3, [[1.0, 0.5], [0.5, 1.0]])"),
    ],
)
def test_the_script_makes_the_set_by_its_public_name(uncertainty, code):
    script = python_script(problem_of({"uncertainty": uncertainty}), 12)
    assert f"    uncertainty={code},\n" in script
    assert script.startswith("import drbqo_ray as dr\n\n")


def test_an_objective_that_cannot_be_loaded_is_only_named(tmp_path):
    write_run(tmp_path / "run", evaluations=3, objective="__main__:<lambda>")
    about = journal_facts(tmp_path / "run", "run").about
    assert [snippet.title for snippet in about.reproduce] == ["Python"]
    assert "objective = ...  # the function that was called '__main__:<lambda>'" in (
        about.reproduce[0].text
    )


def test_objects_among_the_options_are_named(tmp_path):
    space = {"x": dr.Float(0, 1), "scaler": dr.Choice([dict, list])}
    problem = Problem.of(space, 3, {}, lambda c, f, s: 1.0, OBJECTIVE)
    assert command_line(problem, 5) is None
    assert "# Options that are objects are named only" in python_script(problem, 5)


def test_the_report_repeats_the_stop_rule_and_the_budget_of_the_last_session(tmp_path):
    write_run(tmp_path / "run", evaluations=3)
    with Journal.open(tmp_path / "run") as journal:
        for rule, budget in (("probability > 0.9", 40), ("loss < 0.01", 50)):
            journal.append("session", {"at": 9.0, "n_evaluations": budget, "stop_when": rule})
    about = journal_facts(tmp_path / "run", "run").about
    texts = {snippet.title: snippet.text for snippet in about.reproduce}
    assert "    stop_when='loss < 0.01',\n" in texts["Python"]
    assert "    n_evaluations=50,\n" in texts["Python"]
    words = shlex.split(texts["Command"])
    assert words[words.index("--stop-when") + 1] == "loss < 0.01"
    assert words[words.index("--evaluations") + 1] == "50"
