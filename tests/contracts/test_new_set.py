"""A new set is one file: nothing but its own class has to say that it is there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.core.sets import UncertaintySet, from_dict
from drbqo_ray.problem import Problem
from drbqo_ray.report.page import render_page
from drbqo_ray.report.panels.radius import has_slider
from drbqo_ray.runtime.run_report import command_line, journal_facts, python_script
from drbqo_ray.storage.journal import read_journal
from drbqo_ray.storage.stored_run import replay_alone
from drbqo_ray.testing.sets import SetContract
from tests.support.report_runs import write_run
from tests.support.toy_set import Contamination, Lowest, SizedContamination

ROOT = Path(__file__).parents[2]
MAKERS = {
    "no parameter": lambda n: Lowest(),
    "one parameter": lambda n: Contamination(0.4),
    "a family": lambda n: SizedContamination(0.4),
}


class TestToySets(SetContract):
    @pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
    def make(self, request):
        return request.param

    @pytest.fixture
    def others(self, make):
        return [*(other(4) for other in MAKERS.values() if other is not make), Contamination(0.3)]


def test_what_it_does_not_say_has_a_default():
    q = np.full(4, 0.25)
    for ball, words, label in (
        (Lowest(), "toy-lowest", "toy-lowest"),
        (Contamination(0.4), "toy-contamination 0.4", "toy-contamination-0.4"),
        (SizedContamination(1 / 3), "contamination of share 0.3333", "toy-sized-0.333333"),
    ):
        assert (ball.describe(), ball.label()) == (words, label)
        assert ball.divergence(q, q) is None
        assert ball.slow is False
    assert Lowest().family(q) is None
    assert Contamination(0.4).family(q) is None
    assert SizedContamination(0.4).family(q).make(0.1) == SizedContamination(0.1)
    home = "from tests.support.toy_set import Contamination"
    assert Contamination(0.4).to_python() == (home, "Contamination(0.4)")


@pytest.mark.parametrize("ball", [Lowest(), Contamination(0.4), SizedContamination(0.4)])
def test_a_journal_keeps_it(tmp_path, ball):
    write_run(tmp_path / "run", evaluations=8, method="random", uncertainty=ball)
    header, *rest = read_journal(tmp_path / "run")
    assert header.data["problem"]["uncertainty"] == ball.to_dict()
    assert from_dict(header.data["problem"]["uncertainty"]) == ball
    assert replay_alone([header, *rest]).optimizer.uncertainty == ball


@pytest.mark.parametrize("ball", [Lowest(), Contamination(0.4)])
def test_the_report_of_a_set_without_a_family_leaves_the_path_out(tmp_path, ball):
    write_run(tmp_path / "run", evaluations=12, method="random", uncertainty=ball)
    facts = journal_facts(tmp_path / "run", "run")
    assert facts.set_words == ball.describe()
    assert facts.radius_path is None
    assert not has_slider(facts)
    assert facts.weights is not None
    assert facts.weights.measure is None
    (radius,) = [check for check in facts.checks if check.key == "radius"]
    assert radius.ok
    assert radius.finding == f"The set: {ball.describe()}; it has no radius."
    page = render_page(facts)
    assert ball.describe() in page
    assert "The set has one size, so the score does not depend on a radius." in page


def test_the_report_draws_the_family_of_a_set_that_has_one(tmp_path):
    ball = SizedContamination(0.4)
    write_run(tmp_path / "run", evaluations=12, method="random", uncertainty=ball)
    facts = journal_facts(tmp_path / "run", "run")
    path = facts.radius_path
    assert path is not None
    assert (path.label, path.own, path.sizes[-1]) == ("share that goes anywhere", 0.4, 1.0)
    assert all(b <= a + 1e-12 for a, b in pairwise(path.best))
    assert not has_slider(facts)
    (radius,) = [check for check in facts.checks if check.key == "radius"]
    assert radius.finding.startswith("The set: contamination of share 0.4; the limit")
    assert "share that goes anywhere" in render_page(facts)


def test_the_script_that_runs_again_imports_it(monkeypatch):
    ball, told = Contamination(0.4), {}
    settings = {"uncertainty": ball}
    space = {"x": dr.Float(0, 1)}
    problem = Problem.of(space, 3, settings, lambda c, f, s: 1.0, "workers.svm:sonar")
    monkeypatch.setattr(dr, "run", lambda *_, **given: told.update(given))
    exec(python_script(problem, 5), {})
    assert told["uncertainty"] == ball
    assert command_line(problem, 5) is None


def test_a_set_that_cannot_be_imported_is_only_named():
    class Local(Lowest):
        kind = "toy-local"

    before, expression = Local().to_python()
    assert before == f"Local = ...  # the set that was called '{__name__}:Local'"
    assert expression == "Local()"


def test_a_kind_that_is_taken_is_refused():
    with pytest.raises(dr.InvalidInput, match="KLBall of drbqo_ray"):

        class Another(UncertaintySet):
            kind = "kl"

    assert type(from_dict({"set": "kl", "radius": 1.0})) is dr.KLBall


def test_one_file_in_the_package_is_all_it_takes(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "drbqo_ray", tmp_path / "drbqo_ray", ignore=ignored)
    shutil.copy(ROOT / "tests/support/toy_set.py", tmp_path / "drbqo_ray/core/sets/toy.py")
    script = (
        "import drbqo_ray as dr\n"
        "from drbqo_ray.core.sets import from_dict\n"
        "ball = from_dict({'set': 'toy-contamination', 'share': 0.5})\n"
        "assert ball == dr.Contamination(0.5)\n"
        "assert ball.to_python() == ('import drbqo_ray as dr', 'dr.Contamination(0.5)')\n"
        "optimizer = dr.Optimizer({'x': dr.Float(0, 1)}, 3, uncertainty=ball)\n"
        "optimizer.observe({'x': 0.5}, 0, 1.0)\n"
        "print(optimizer.recommend().config['x'], dr.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["0.5", str(tmp_path / "drbqo_ray" / "__init__.py")]


def test_names_the_package_does_not_have_are_refused():
    for name in ("Nonsense", "nonsense", "_Nonsense"):
        with pytest.raises(AttributeError, match=f"module 'drbqo_ray' has no attribute '{name}'"):
            getattr(dr, name)
