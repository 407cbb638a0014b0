"""One list of settings: whoever takes options of `Optimizer` takes them from it."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import drbqo_ray as dr
from drbqo_ray.problem import DEFAULTS, SETTINGS, Problem, Settings
from drbqo_ray.tune_searcher import DRBQOSearch

ROOT = Path(__file__).parents[2]
SPACE = {"x": dr.Float(0.0, 1.0)}
IN_EVERY_HEADER = ["method", "mode", "n_initial", "kernel", "context_rule", "seed"]


def problem_of(**settings: object) -> Problem:
    return Problem.of(SPACE, 3, settings, object(), "folds:score")


def test_the_list_names_every_keyword_of_the_optimizer() -> None:
    parameters = inspect.signature(dr.Optimizer).parameters.values()
    keywords = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    assert list(SETTINGS) == keywords
    assert set(Settings.__annotations__) == set(keywords)


@pytest.mark.parametrize(
    ("function", "without"),
    [
        (dr.run, set()),
        (dr.run_many, {"method", "uncertainty", "seed"}),
        (DRBQOSearch.__init__, {"cost_aware"}),
    ],
)
def test_the_signature_shows_every_setting(function: object, without: set[str]) -> None:
    shown = inspect.signature(function).parameters  # type: ignore[arg-type]
    assert set(SETTINGS) - without <= set(shown)
    assert "settings" not in shown
    for name in {"kernel", "sampler", "n_initial", "stop_when"}:
        assert shown[name].default == DEFAULTS[name]
    if "method" in shown:
        assert shown["method"].default == "foldwise"


@pytest.mark.parametrize(
    ("call", "wrong", "meant"),
    [
        (lambda **k: dr.run(len, SPACE, 3, **k), "n_evalutions", "n_evaluations"),
        (lambda **k: dr.run(len, SPACE, 3, n_evaluations=3, **k), "uncertanty", "uncertainty"),
        (lambda **k: dr.run_many(len, SPACE, 3, n_evaluations=3, **k), "seed", "seeds"),
        (lambda **k: dr.run_many(len, SPACE, 3, n_evaluations=3, **k), "storge", "storage"),
        (lambda **k: DRBQOSearch(n_folds=3, **k), "kernal", "kernel"),
        (lambda **k: problem_of(**k), "methods", "method"),
    ],
)
def test_a_name_that_is_none_is_refused_with_the_one_that_was_meant(
    call: object, wrong: str, meant: str
) -> None:
    with pytest.raises(dr.InvalidInput, match=f"Got '{wrong}'. Did you mean '{meant}'?"):
        call(**{wrong: 1})  # type: ignore[operator]


def test_a_name_unlike_any_is_answered_with_the_list() -> None:
    with pytest.raises(
        dr.InvalidInput, match=r"Use one of \['at_deadline', 'backend', 'callbacks', 'context_rule'"
    ):
        dr.run(len, SPACE, 3, n_evaluations=3, zzz=1)  # type: ignore[call-arg]


def test_a_header_has_the_first_settings_always_and_later_ones_if_they_are_unusual() -> None:
    plain = problem_of().header()
    assert [name for name in plain if name in SETTINGS] == [
        "uncertainty",
        "reference",
        *IN_EVERY_HEADER,
    ]
    assert problem_of(sampler="pathwise", stop_when="loss < 0.1").header() == plain
    unusual = problem_of(sampler="rff", hyperparameters="mle")
    assert unusual.header() == plain | {"sampler": "rff", "hyperparameters": "mle"}
    again = Problem.from_header(unusual.header())
    assert again.header() == unusual.header()
    assert again.settings["sampler"] == "rff"


TOY = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
import drbqo_ray as dr
from drbqo_ray.cli.main import cli
from drbqo_ray.errors import ProblemChanged
from drbqo_ray.runtime.run_report import journal_facts
from drbqo_ray.tune_searcher import DRBQOSearch

space, how = {"x": dr.Float(0.0, 1.0)}, {"backend": "local", "n_evaluations": 3, "max_in_flight": 1}

def header(directory):
    line = Path(directory, "journal.jsonl").read_text().splitlines()[0]
    return json.loads(line)["data"]["problem"]

assert "toy" not in header(dr.run("toy_folds:score", space, 2, storage="plain", **how).storage)
dr.run("toy_folds:score", space, 2, storage="toyed", toy=3, **how)
assert header("toyed")["toy"] == 3
try:
    dr.run("toy_folds:score", space, 2, storage="toyed", resume=True, toy=4, **how)
except ProblemChanged as error:
    assert "toy: 3 -> 4" in str(error), error
else:
    raise AssertionError("another toy must be refused")
done = CliRunner().invoke(cli, ["resume", "toyed", "--evaluations", "4", "--backend", "local"])
assert done.exit_code == 0, done.output
about = journal_facts(Path("toyed"), "toyed").about
assert [snippet.title for snippet in about.reproduce] == ["Python"], "no command says it"
assert "    toy=3," in about.reproduce[0].text
assert ("toy", "3") in about.details
many = dr.run_many("toy_folds:score", space, 2, seeds=[0], toy=5, storage="many", **how)
assert header(many[0].storage)["toy"] == 5
search = DRBQOSearch(space, n_folds=2, metric="score", mode="max", toy=7)
search.suggest("a")
search.save("state.pkl")
again = DRBQOSearch(n_folds=None)
again.restore("state.pkl")
assert again._ready().ledger.optimizer.toy == 7
"""


def changed(path: Path, old: str, new: str) -> Path:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_an_option_of_the_optimizer_takes_two_files(tmp_path: Path) -> None:
    package = tmp_path / "drbqo_ray"
    shutil.copytree(ROOT / "drbqo_ray", package, ignore=shutil.ignore_patterns("__pycache__"))
    optimizer = package / "optimizer" / "optimizer.py"
    changed(
        optimizer,
        "cost_aware: bool = False,\n    ) -> None:\n",
        "cost_aware: bool = False,\n        toy: int = 0,\n    ) -> None:\n"
        "        self.toy = toy\n",
    )
    changed(
        package / "problem.py", "    sampler: Sampler\n", "    sampler: Sampler\n    toy: int\n"
    )
    (tmp_path / "toy_folds.py").write_text(
        "def score(config, fold, seed):\n    return config['x'] + fold\n", encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-c", TOY], cwd=tmp_path, capture_output=True, text=True, env={}
    )
    assert done.returncode == 0, done.stderr
