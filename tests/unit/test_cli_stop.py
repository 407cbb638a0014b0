"""Stop rules on the command line: read, kept, changed and shown, without starting Ray."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from drbqo_ray.cli.main import cli, stop_rule
from drbqo_ray.cli.saved_run import SavedRun, resume_arguments
from drbqo_ray.problem import Problem
from drbqo_ray.records import Observation
from drbqo_ray.runtime.coordinator import Coordinator
from drbqo_ray.storage.journal import JOURNAL

RULE = "probability > 0.01"
MODULE = "def score(config, fold, seed):\n    return config['x'] - fold\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that its rule has stopped."""
    directory = tmp_path_factory.mktemp("stopped") / "run"
    space = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
    settings = {
        "method": "drbqo",
        "uncertainty": 1.0,
        "mode": "max",
        "n_initial": 2,
        "kernel": "se",
        "context_rule": None,
        "reference": None,
        "seed": 0,
        "stop_when": RULE,
    }
    problem = Problem.of(space, 2, settings, object(), "ruled_folds:score")
    coordinator = Coordinator(directory, problem, 40, {"n_evaluations": 40, "stop_when": RULE})
    asked = 0
    while found := coordinator.take(asked, 1, 1):
        asked += 1
        [one] = found
        coordinator.tell([Observation.of(one, one.config["x"] - one.context)])
    coordinator.finish("finished")
    return directory


@pytest.fixture
def stopped(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal of a copy of that run, `run` in the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "ruled_folds", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    Path("ruled_folds.py").write_text(MODULE)
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run" / JOURNAL


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="drbqo")


@pytest.mark.parametrize("rule", ["", "soon", "loss > 1", "loss < -1", "probability > 1"])
def test_a_bad_rule_ends_with_2_before_anything_is_made(stopped: Path, rule: str) -> None:
    before = stopped.read_bytes()
    given = ["--objective", "ruled_folds:score", "--evaluations", "9", "--folds", "2"]
    Path("space.yaml").write_text("x: float 0 1\n")
    new = invoke("run", *given, "--space", "space.yaml", "--storage", "new", "--stop-when", rule)
    old = invoke("resume", "run", "--stop-when", rule)
    for result in (new, old):
        assert result.exit_code == 2, result.output
        assert "loss < 0.002" in result.stderr
    assert not Path("new").exists()
    assert stopped.read_bytes() == before


def test_status_says_why_a_run_was_stopped_and_how_sure_it_is(stopped: Path) -> None:
    lines = {line[:11].strip(): line[11:] for line in invoke("status", "run").stdout.splitlines()}
    assert lines["state"].startswith("finished, sure enough after ")
    assert lines["stop when"] == RULE
    assert "best of those seen with probability " in lines["verdict"]
    assert "expected loss of stopping " in lines["verdict"]
    assert lines["value"].startswith("robust value ")
    assert lines["value"].endswith(" (95%)")


@pytest.mark.parametrize(
    "more", [[], ["--stop-when", "probability>0.010"], ["--evaluations", "90"]]
)
def test_a_run_that_is_sure_stays_so_when_it_is_resumed(stopped: Path, more: list[str]) -> None:
    before = stopped.read_bytes()
    result = invoke("resume", "run", "--quiet", *more)
    assert result.exit_code == 0, result.output
    assert "nothing to do: sure enough after " in result.stderr
    assert "another --stop-when" in result.stderr
    shown = invoke("status", "run").stdout.splitlines()
    assert result.stdout.splitlines()[1].startswith("stopped    sure enough after ")
    assert result.stdout.splitlines()[2:] == shown[7:]
    assert stopped.read_bytes() == before


def test_never_takes_a_rule_away() -> None:
    assert stop_rule(" never ") is None
    assert stop_rule(RULE) == RULE


def test_the_rule_is_kept_for_a_resume(stopped: Path) -> None:
    assert resume_arguments(SavedRun.read("run"))["stop_when"] == RULE
