"""Every example runs and prints what its first lines promise; tests/test_tune_examples.py has
those for Ray Tune."""

from __future__ import annotations

import re
import runpy

import pytest

from tests.support.example_files import (
    EVALUATIONS,
    EXAMPLES,
    FROM_THE_SHELL,
    ON_OUR_CONNECTION,
    assert_promised,
    broken_promises,
    docstring_of,
    promised_lines,
    run_as_main,
)
from tests.support.local_ray import ROOT, two_cpus  # noqa: F401
from tests.support.scripts import run_script

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
    assert all(re.match(r"\w", line) for line in promised_lines(path))


def test_a_promise_is_kept_word_for_word_and_in_order():
    promised = ["trained    … folds of … configs", "at radius 0    C=… wins"]
    kept = "trained 40 folds of 22 configs\nother words\nat radius 0 C=1.3 wins\n"
    assert broken_promises(promised, kept) == []
    assert broken_promises(promised, kept.replace("of 22", "from 22")) == promised
    assert broken_promises(promised, kept.replace("C=1.3", "C=")) == promised[1:]
    assert broken_promises(promised[::-1], kept) == promised[:1]
    assert broken_promises(["test accuracy  … on 42 rows"], "test accuracy  0.881 on 41 rows") != []


def test_a_worker_of_an_example_scores_the_same_when_it_trains_again():
    """The README warns of scores that change with the seed."""
    found = runpy.run_path(str(ROOT / "examples" / "03_your_own_worker.py"))
    worker = found["ForestFolds"]()
    config = {"max_depth": 3, "max_features": 0.5, "criterion": "gini"}
    assert len({worker(config, fold=1, seed=seed) for seed in range(5)}) == 1


@by_name(FROM_THE_SHELL)
def test_an_example_run_from_the_shell_prints_what_it_promises(path, tmp_path):
    """Without Ray, or with a local Ray that it starts."""
    if "optuna" in path.name:
        pytest.importorskip("optuna", reason="needs the extra: pip install 'drbqo_ray[optuna]'")
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
