"""The pages of the site: their code runs, and what they say of names, commands, errors and results
holds. That the site builds without a warning is for `make docs`."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from importlib import import_module

import numpy as np
import pytest
import yaml

import drbqo_ray
from drbqo_ray import errors, plots
from drbqo_ray.cli.main import cli
from drbqo_ray.report.panels import all_panels
from drbqo_ray.space.space import Space
from tests.support.local_ray import ROOT
from tests.support.pages import blocks_of
from tests.support.scripts import run_script

DOCS = ROOT / "docs"
KINDS = r"clear|practically tied|not settled"
# page -> what its code prints, as one pattern for all of it
SCRIPTS = {
    "index.md": r"\{'C': .*\} 0\.9\d*\n",
    "tutorial.md": rf"Recommendation\(.*verdict +({KINDS}).*60 folds: ({KINDS}).*test score 0\.9.*",
    "compare.md": r"\{'svc__C': .*\}\n\{'svc__C': .*\}\n",
    "guide/folds.md": r"\{'alpha': .*\}\n0\.4\d*\n",
    "guide/radius.md": r" +0  steady 0\.800  moody 0\.836 .*auto for 5 folds: 0\.384\d*\n",
    "guide/answer.md": rf"Recommendation\(.*(clear|tied|open)\n({KINDS}).*4 of 4 folds.*",
    "guide/stopping.md": r"\d\d of 80 folds: sure enough after .*",
    "guide/random-training.md": r"20 different pairs.*\n[2-4] of 40 evaluations were repeats\n",
    "guide/resume.md": r"10 15\n20\n",
    "guide/ask-tell.md": r"Recommendation\(config=\{'C': .*",
}
ADAPTERS = ("search_cv", "tune_searcher", "optuna_sampler")
TRACKERS = ("mlflow.MLflowTracker", "wandb.WandbTracker", "tensorboard.TensorBoardTracker")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_code_of_a_page_runs_from_top_to_bottom(name, tmp_path):
    script = tmp_path / "page.py"
    code = [block for language, block in blocks_of(page(name)) if language == "python"]
    script.write_text("\n\n".join(code), encoding="utf-8")
    assert re.fullmatch(SCRIPTS[name], run_script(script, tmp_path), re.DOTALL)


def test_every_guide_with_python_is_run():
    guides = {f"guide/{path.name}" for path in (DOCS / "guide").glob("*.md")}
    with_code = {name for name in guides if "```python" in page(name)}
    assert with_code - set(SCRIPTS) == {"guide/shell.md"}  # a module and its space, tested below


def test_the_objective_of_the_shell_page_scores_a_config_of_its_space():
    blocks = blocks_of(page("guide/shell.md"))
    (code,) = (block for language, block in blocks if language == "python")
    (space,) = (block for language, block in blocks if language == "yaml")
    found: dict = {}
    exec(code, found)
    config = Space(yaml.safe_load(space)).from_unit(np.array([0.5, 0.5, 0.5]))
    scores = {found["objective"](config, 0, seed) for seed in range(5)}
    assert len(scores) == 1, "the page warns of scores that change with the seed"
    assert 0.5 < scores.pop() <= 1


@pytest.mark.parametrize("name", ["guide/shell.md", "guide/resume.md", "install.md"])
def test_commands_of_a_page_exist_with_their_options(name):
    lines = [line for _, block in blocks_of(page(name)) for line in block.splitlines()]
    commands = [line.split()[1:] for line in lines if line.startswith("drbqo ")]
    assert commands
    for command, *arguments in commands:
        cli.commands[command].make_context(command, arguments)


def test_the_table_of_commands_is_complete():
    assert set(re.findall(r"^\| `drbqo (\w+)`", page("reference/commands.md"), re.M)) == set(
        cli.commands
    )


# the gallery


GALLERY = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))


def test_the_gallery_has_at_least_twelve_pages():
    assert len(GALLERY) >= 12


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_a_page_of_the_gallery_has_a_title_text_and_a_figure(path):
    """That it runs without an error or a warning is for `make docs`, which runs every page."""
    source = path.read_text(encoding="utf-8")
    title, rule, *_ = (ast.get_docstring(ast.parse(source)) or "\n").splitlines()
    assert rule == "=" * len(title)
    assert len(source.splitlines()) < 100
    assert "\n# %%\n" in source
    assert "plt.show()" in source, "the site shows its figures"
    assert 'storage="' not in source, "a page leaves no files behind"


# the reference


@cache
def documented() -> frozenset[str]:
    """Full names of what autodoc is asked for."""
    found = set()
    for path in (DOCS / "reference").glob("*.md"):
        module = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if word := re.fullmatch(r"\.\. (current|auto)module:: (\S+)", line):
                module = word[2]
                if word[1] == "auto":
                    found.add(module)
            elif word := re.fullmatch(r"\.\. auto(?:class|function):: (\S+)", line):
                found.add(word[1] if word[1].startswith("drbqo_ray.") else f"{module}.{word[1]}")
    return frozenset(found)


def public_names() -> list[str]:
    adapters = [import_module(f"drbqo_ray.{room}") for room in ADAPTERS]
    names = [f"drbqo_ray.{name}" for name in drbqo_ray.__all__]
    names += [f"{room.__name__}.{name}" for room in adapters for name in room.__all__]
    names += [f"drbqo_ray.trackers.{name}" for name in TRACKERS]
    return names + [
        f"drbqo_ray.plots.{panel.plot_name}" for panel in all_panels() if panel.plot_name
    ]


@pytest.mark.parametrize("name", public_names())
def test_a_public_name_is_in_the_reference_and_has_a_docstring(name):
    module, _, last = name.rpartition(".")
    thing = getattr(import_module(module), last)
    listed_whole = getattr(thing, "__module__", "") == errors.__name__
    assert name in documented() or (listed_whole and errors.__name__ in documented())
    assert inspect.getdoc(thing)


def test_the_reference_names_nothing_that_is_not_there():
    for name in documented() - {"drbqo_ray.errors", "drbqo_ray.plots", "drbqo_ray.testing"}:
        module, _, last = name.rpartition(".")
        assert hasattr(import_module(module), last), name
    assert callable(plots.facts_of)


# what pages quote


@cache
def messages() -> str:
    """All texts of the package, with … for what is filled in."""
    texts = []
    for path in (ROOT / "drbqo_ray").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (
                    part.value if isinstance(part, ast.Constant) else "…" for part in node.values
                )
                texts.append("".join(str(part) for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


@pytest.mark.parametrize("said", re.findall(r"^### `(.+)`$", page("faq.md"), re.MULTILINE))
def test_an_error_of_the_faq_is_one_that_the_package_raises(said):
    assert re.sub(r" ?… ?", "…", said) in re.sub(r" ?… ?", "…", messages())


def test_the_table_of_ranks_is_that_of_the_results():
    results = page("results/benchmarks/quality.md")
    tables = [part.split("\n\n")[1] for part in results.split("Mean rank, 1 is best:")[1:3]]
    aside, mixed = ({row[0]: row for row in map(cells, table.splitlines()[2:])} for table in tables)
    ours = page("quality.md").split("| searcher |")[1].split("\n\n")[0].splitlines()[2:]
    named = {SAME.get(cells(row)[0], cells(row)[0]): row for row in ours}
    assert set(named) == set(aside) == set(mixed)
    for searcher, row in named.items():
        want = [
            aside[searcher][1:4],
            aside[searcher][4:],
            mixed[searcher][1:4],
            mixed[searcher][4:],
        ]
        assert cells(row)[1:] == [" ".join(three) for three in want], searcher


SAME = {
    "BoTorch CVaR": "botorch cvar",
    "Optuna GP, robust": "optuna-gp robust",
    "Optuna GP, mean": "optuna-gp mean",
    "Optuna TPE, robust": "optuna-tpe robust",
    "Optuna TPE, mean": "optuna-tpe mean",
    "SMAC3, folds as instances": "smac folds",
    "random, robust": "random robust",
    "random, mean": "random mean",
}
"""Searchers of docs/quality.md by their names in the results."""


def cells(row: str) -> list[str]:
    return [cell.strip().strip("`") for cell in row.strip("|").split("|")]


def test_the_version_to_cite_is_that_of_the_package():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == drbqo_ray.__version__
    assert cited["license"] == "Apache-2.0"
