"""The examples and what their first lines promise."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.support.local_ray import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FOR_TUNE = [path for path in EXAMPLES if path.name.startswith("2")]
FROM_THE_SHELL = [path for path in EXAMPLES if path.name.startswith(("01", "02", "08", "30", "4"))]
ON_OUR_CONNECTION = [path for path in EXAMPLES if path not in FOR_TUNE + FROM_THE_SHELL]
EVALUATIONS = "4"


def docstring_of(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def promised_lines(path: Path) -> list[str]:
    """The indented lines that end the docstring, after "prints:"."""
    _, found, promise = docstring_of(path).partition("prints:\n\n")
    assert found, f"{path.name} does not say what it prints"
    lines = promise.splitlines()
    assert all(line.startswith("    ") for line in lines)
    return [line.removeprefix("    ") for line in lines]


def pattern(promised: str) -> re.Pattern[str]:
    """What a promised line says: word for word, but for "…", which stands for something."""
    parts = [re.escape(part) for part in " ".join(promised.split()).split("…")]
    return re.compile(".+".join(parts))


def broken_promises(promised: list[str], printed: str) -> list[str]:
    """The promised lines that are not among the printed ones in order; others may lie between."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    return [each for each in promised if not any(pattern(each).fullmatch(line) for line in lines)]


def assert_promised(path: Path, printed: str) -> None:
    """What the first lines of an example promise is printed."""
    assert broken_promises(promised_lines(path), printed) == [], printed


def run_as_main(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, size: str = EVALUATIONS
) -> None:
    """Run an example in `folder` as `__main__` of this process, which saves starting another."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(path), size])
    runpy.run_path(str(path), run_name="__main__")
