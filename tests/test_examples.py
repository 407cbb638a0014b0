"""Every example runs and prints what its first lines promise; tests/test_tune_examples.py has
those for Ray Tune."""

from __future__ import annotations

import re

import pytest

from tests.example_files import (
    EVALUATIONS,
    EXAMPLES,
    FROM_THE_SHELL,
    ON_OUR_CONNECTION,
    assert_promised,
    docstring_of,
    opening,
    promised_lines,
    run_as_main,
)
from tests.local_ray import ROOT, two_cpus  # noqa: F401
from tests.scripts import run_script

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def by_name(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.name)


def test_there_are_examples_of_everything():
    numbers = [path.name.split("_")[0] for path in EXAMPLES]
    assert numbers[:7] == ["01", "02", "03", "04", "05", "06", "07"]
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\d\d_\w+\.py)`", table))
    assert listed == {path.name for path in EXAMPLES}


@by_name(EXAMPLES)
def test_an_example_is_short_and_opens_with_its_command(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60
    assert docstring_of(path).startswith(f"`.venv/bin/python examples/{path.name}")
    assert all(opening(line) for line in promised_lines(path))


@by_name(FROM_THE_SHELL)
def test_an_example_run_from_the_shell_prints_what_it_promises(path, tmp_path):
    """Without Ray, or with a local Ray that it starts."""
    assert_promised(path, run_script(path, tmp_path, EVALUATIONS))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("two_cpus")
@by_name(ON_OUR_CONNECTION)
def test_an_example_run_on_our_connection_prints_what_it_promises(
    path, tmp_path, monkeypatch, capsys
):
    run_as_main(path, tmp_path, monkeypatch)
    assert_promised(path, capsys.readouterr().out)
    assert list(tmp_path.iterdir()) == []
