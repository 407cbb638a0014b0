"""Every example runs and prints what its first lines promise; so does the code of README.md."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from drbqo_ray.cli import cli
from drbqo_ray.space import Space
from tests.local_ray import ROOT, two_cpus  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
EVALUATIONS = 4
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PYTHON_BLOCKS = [code for language, code in BLOCKS if language == "python"]
SCRIPTS = [code for code in PYTHON_BLOCKS if "drbqo_ray" in code]
OBJECTIVES = [code for code in PYTHON_BLOCKS if "drbqo_ray" not in code]
SIZE_IN_README = re.compile(r"range\(\d+\)|n_evaluations=\d+")
by_name = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)


def run_script(path: Path, folder: Path, address: str, *arguments: str) -> str:
    """What a script prints when it is run in `folder`, on the Ray that is there."""
    mine = {"RAY_ADDRESS": address, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        cwd=folder, env=os.environ | mine, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def docstring_of(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def promised_lines(path: Path) -> list[str]:
    """The indented lines that end the docstring, after "prints:"."""
    _, found, promise = docstring_of(path).partition("prints:\n\n")
    assert found, f"{path.name} does not say what it prints"
    lines = promise.splitlines()
    assert all(line.startswith("    ") for line in lines)
    return [line.removeprefix("    ") for line in lines]


def opening(line: str) -> str:
    """The words of a line before its first number, which depends on the size of the run."""
    return re.split(r"-?\d", line, maxsplit=1)[0].strip()


def test_there_are_examples_of_everything():
    numbers = [path.name.split("_")[0] for path in EXAMPLES]
    assert numbers[:7] == ["01", "02", "03", "04", "05", "06", "07"]
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\d\d_\w+\.py)`", table))
    assert listed == {path.name for path in EXAMPLES}


@by_name
def test_an_example_is_short_and_opens_with_its_command(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60
    assert docstring_of(path).startswith(f"`.venv/bin/python examples/{path.name}")
    assert all(opening(line) for line in promised_lines(path))


@by_name
def test_an_example_prints_what_it_promises(path, tmp_path, two_cpus):  # noqa: F811
    printed = run_script(path, tmp_path, two_cpus, str(EVALUATIONS)).splitlines()
    openings = iter([opening(line) for line in printed])  # Ray Tune may print lines in between
    missing = [line for line in promised_lines(path) if opening(line) not in openings]
    assert missing == [], printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", SCRIPTS, ids=range(len(SCRIPTS)))
def test_python_code_of_the_readme_runs_and_recommends(code, tmp_path, two_cpus):  # noqa: F811
    small, changed = SIZE_IN_README.subn(
        lambda found: re.sub(r"\d+", str(EVALUATIONS), found[0]), code
    )
    assert changed == 1
    script = tmp_path / "readme.py"
    script.write_text(small, encoding="utf-8")
    assert run_script(script, tmp_path, two_cpus).startswith("Recommendation(config={'C': ")


def test_the_readme_shows_python_for_the_optimizer_and_for_a_run():
    assert ["Optimizer(" in code for code in SCRIPTS] == [True, False]
    assert ["dr.run(" in code for code in SCRIPTS] == [False, True]


def test_the_objective_of_the_readme_scores_a_config_of_its_space():
    (code,) = OBJECTIVES
    (space,) = (block for language, block in BLOCKS if language == "yaml")
    found: dict = {}
    exec(code, found)
    config = Space(yaml.safe_load(space)).from_unit(np.array([0.5, 0.5, 0.5]))
    assert 0.5 < found["objective"](config, 0, 0) <= 1


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
