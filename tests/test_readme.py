"""The code of README.md runs, and the commands it names exist."""

from __future__ import annotations

import re

import numpy as np
import pytest
import yaml

from drbqo_ray.cli.main import cli
from drbqo_ray.space.space import Space
from tests.support.local_ray import ROOT
from tests.support.scripts import run_script

EVALUATIONS = 4
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PYTHON_BLOCKS = [code for language, code in BLOCKS if language == "python"]
SCRIPTS = [code for code in PYTHON_BLOCKS if "drbqo_ray" in code]
OBJECTIVES = [code for code in PYTHON_BLOCKS if "drbqo_ray" not in code]
SIZE_IN_README = re.compile(r"range\(\d+\)|n_evaluations=\d+")


@pytest.mark.parametrize("code", SCRIPTS, ids=range(len(SCRIPTS)))
def test_python_code_of_the_readme_runs_and_recommends(code, tmp_path):
    small, changed = SIZE_IN_README.subn(
        lambda found: re.sub(r"\d+", str(EVALUATIONS), found[0]), code
    )
    assert changed == 1
    script = tmp_path / "readme.py"
    script.write_text(small, encoding="utf-8")
    assert run_script(script, tmp_path).startswith("Recommendation(config={'C': ")


def test_the_readme_shows_python_for_the_optimizer_and_for_a_run():
    assert ["Optimizer(" in code for code in SCRIPTS] == [True, False]
    assert ["dr.run(" in code for code in SCRIPTS] == [False, True]


def test_the_objective_of_the_readme_scores_a_config_of_its_space():
    (code,) = OBJECTIVES
    (space,) = (block for language, block in BLOCKS if language == "yaml")
    found: dict = {}
    exec(code, found)
    config = Space(yaml.safe_load(space)).from_unit(np.array([0.5, 0.5, 0.5]))
    scores = {found["objective"](config, 0, seed) for seed in range(5)}
    assert len(scores) == 1, "the README warns of scores that change with the seed"
    assert 0.5 < scores.pop() <= 1


def test_drbqo_commands_of_the_readme_exist_with_their_options():
    lines = [line for _, block in BLOCKS for line in block.splitlines()]
    commands = [line.split()[1:] for line in lines if line.startswith("drbqo ")]
    assert [words[0] for words in commands] == ["run", "status", "resume"]
    for name, *arguments in commands:
        context = cli.commands[name].make_context(name, arguments)
        assert "runs/x" in context.params.values()
    assert set(re.findall(r"`drbqo (\w+)", README)) <= set(cli.commands)


def test_make_targets_of_the_readme_exist():
    named = re.findall(r"^make ([\w-]+)", README, re.MULTILINE)
    targets = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named
    assert set(named) <= set(targets)
