"""The code of README.md runs, the commands it names exist, its figures are those of the results."""

from __future__ import annotations

import re

import pytest

from drbqo_ray.cli.main import cli
from tests.support.local_ray import ROOT
from tests.support.pages import blocks_of
from tests.support.scripts import run_script

EVALUATIONS = 4
MOST_LINES = 130
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = blocks_of(README)
SCRIPTS = [code for language, code in BLOCKS if language == "python"]
PRINTED = ("{'C': ", "Recommendation(config={'C': ")


@pytest.mark.parametrize(("code", "printed"), [*zip(SCRIPTS, PRINTED, strict=True)], ids=range(2))
def test_python_code_of_the_readme_runs_and_recommends(code, printed, tmp_path):
    small, changed = re.subn(r"n_evaluations=\d+", f"n_evaluations={EVALUATIONS}", code)
    assert changed == 1
    script = tmp_path / "readme.py"
    script.write_text(small, encoding="utf-8")
    assert run_script(script, tmp_path).startswith(printed)


def test_the_readme_shows_python_for_scikit_learn_and_for_a_run():
    assert ["RobustSearchCV(" in code for code in SCRIPTS] == [True, False]
    assert ["dr.run(" in code for code in SCRIPTS] == [False, True]


def test_drbqo_commands_of_the_readme_exist_with_their_options():
    lines = [line for _, block in BLOCKS for line in block.splitlines()]
    commands = [line.split()[1:] for line in lines if line.startswith("drbqo ")]
    assert [words[0] for words in commands] == ["run", "status", "resume"]
    for name, *arguments in commands:
        context = cli.commands[name].make_context(name, arguments)
        assert "runs/x" in context.params.values()
    assert set(re.findall(r"`drbqo (\w+)", README)) <= set(cli.commands)


def test_make_targets_of_the_readme_exist():
    named = re.findall(r"(?:^|`)make ([\w-]+)", README, re.MULTILINE)
    targets = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named
    assert set(named) <= set(targets)


def test_the_readme_is_read_in_a_minute():
    assert len(README.splitlines()) <= MOST_LINES


def test_links_of_the_readme_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_folds_that_peers_need_are_those_of_the_results():
    text = (ROOT / "docs/results/benchmarks/quality.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| needed for what foldwise reaches with 60, (.+) \| (?:held-out|mixed) \| (.+) \|$",
        text,
        re.MULTILINE,
    )
    told_robust = {"optuna-tpe robust", "optuna-gp robust", "botorch cvar"}
    needed = [float(said.split()[0]) for peer, said in rows if peer in told_robust]
    others = {said for peer, said in rows if peer not in told_robust}
    assert len(needed) == 6
    assert f"need {min(needed):.0f} to {max(needed):.0f} folds" in " ".join(README.split())
    assert others == {"100 folds are not enough"}
