from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from drbqo_ray.cli import main as command_line
from drbqo_ray.cli.main import cli, conclude, limits, main
from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.methods import DEFAULT, METHODS
from drbqo_ray.problem import Problem
from drbqo_ray.records import Observation, Recommendation
from drbqo_ray.runtime.ray_cluster import ClusterRefused, check_token, connect
from drbqo_ray.runtime.result import Result as RunResult
from drbqo_ray.storage.journal import JOURNAL, Journal
from drbqo_ray.storage.stored_run import told_entry

ROOT = Path(__file__).parents[2]
MODULE = """
from pathlib import Path

def good(config, fold, seed):
    Path("trained").touch()
    return 1.0

def narrow(config):
    return 1.0

number = 3

class Folds:
    n_folds = 3
    space = {"C": {"type": "float", "low": 0.1, "high": 1.0}}
    def __call__(self, config, fold, seed):
        return good(config, fold, seed)

folds = Folds()

class BadSpace(Folds):
    space = {"C": {"type": "float", "low": 2.0, "high": 1.0}}

bad_space = BadSpace()
"""
USUAL = {
    "--objective": "own_folds:good",
    "--space": "space.yaml",
    "--folds": "3",
    "--evaluations": "4",
    "--storage": "runs/x",
}


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name in ("own_folds", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    Path("own_folds.py").write_text(MODULE)
    Path("broken.py").write_text("raise RuntimeError('no data \\x1b[2J\\x07\\u202e here')")
    Path("space.yaml").write_text("C: float 0.1 1\n")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="drbqo")


def run_with(**changes: str | None) -> Result:
    options = USUAL | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    given = [part for name, value in options.items() if value is not None for part in (name, value)]
    return invoke("run", *given)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"objective": "nowhere:good"}, "no module 'nowhere'"),
        ({"objective": "own_folds:missing"}, "no attribute 'missing'"),
        ({"objective": "own_folds"}, "module:attribute"),
        ({"objective": "own_folds:narrow"}, "(config, fold, seed)"),
        ({"objective": "own_folds:number"}, "callable"),
        ({"objective": "broken:good"}, "no data"),
        ({"objective": None}, "--objective"),
        ({"space": "missing.yaml"}, "Check the path"),
        ({"space": "own_folds.py"}, "own_folds.py, line"),
        ({"space": None}, "--space FILE"),
        ({"objective": "own_folds:bad_space", "space": None}, "low < high"),
        ({"folds": "1"}, "--folds"),
        ({"folds": "0"}, "--folds"),
        ({"folds": "many"}, "--folds"),
        ({"folds": None}, "--folds N"),
        ({"objective": "own_folds:folds", "folds": "5"}, "3 folds"),
        ({"evaluations": "0"}, "--evaluations"),
        ({"evaluations": None}, "--evaluations"),
        ({"radius": "-1"}, "number >= 0"),
        ({"radius": "nan"}, "number >= 0"),
        ({"radius": "inf"}, "number >= 0"),
        ({"radius": "wide"}, "number >= 0"),
        ({"method": "magic"}, "maximin-bqo-ts"),
        ({"mode": "both"}, "--mode"),
        ({"seed": "-1"}, "--seed"),
        ({"storage": None}, "--storage"),
        ({"storage": "space.yaml"}, "may write"),
        ({"storage": "space.yaml/deeper/x"}, "may write"),
        ({"storage": "/proc/x"}, ""),
        ({"name": "../x"}, "name of a run"),
        ({"cpus": "-1"}, "--cpus"),
        ({"resources": "A100"}, "A100=1"),
        ({"resources": "A100=0"}, "A100=1"),
        ({"timeout": "0"}, "--timeout"),
        ({"max_in_flight": "0"}, "--max-in-flight"),
        ({"max_consecutive_failures": "0"}, "--max-consecutive-failures"),
        ({"max_consecutive_failures": "2.5"}, "whole number >= 1, or never"),
        ({"max_consecutive_failures": "none"}, "whole number >= 1, or never"),
        ({"address": "ray://host:1"}, "host:port"),
        ({"address": "127.0.0.1:1"}, "--insecure"),
    ],
)
def test_bad_usage_ends_with_2_and_a_clear_word_before_any_fold_is_trained(
    changes: dict[str, str | None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    result = run_with(**changes)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.output
    assert not set(result.output) & {"\x1b", "\x07", "\u202e"}
    assert not Path("trained").exists()
    assert not Path("runs").exists()


def test_a_directory_that_holds_a_run_is_not_started_anew(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "x")
    before = (tmp_path / "runs" / "x" / JOURNAL).read_bytes()
    result = run_with()
    assert result.exit_code == 2
    assert "drbqo resume" in result.stderr
    assert (tmp_path / "runs" / "x" / JOURNAL).read_bytes() == before


def test_the_help_of_every_command_names_its_options() -> None:
    for command in ("run", "resume"):
        text = invoke(command, "--help").stdout
        for option in ("--cpus", "--gpus", "--resources", "--timeout", "--address", "--insecure"):
            assert option in text
        assert "--max-consecutive-failures" in text
    assert "0 done, 1 the run failed, 2 bad usage, 130 interrupted" in invoke("--help").stdout


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from drbqo_ray.cli.main import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "heavy = {'ray', 'torch', 'scipy', 'sklearn', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)\n"
    )
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
        )
        seconds.append(time.perf_counter() - start)
        assert done.returncode == 0, done.stderr
    assert min(seconds) < 1


def test_methods_are_listed() -> None:
    lines = invoke("methods").stdout.splitlines()
    assert lines[0].split("  ")[0] == "method"
    assert [line.split()[:4] for line in lines[1:]] == [
        [name, method.config_rule.name, method.context_rule.name, method.report]
        for name, method in METHODS.items()
    ]
    assert [line.split()[0] for line in lines if line.endswith("default")] == [DEFAULT]
    place = lines[0].index("recommends by")
    assert [line[place:].split()[0] for line in lines[1:]] == [m.report for m in METHODS.values()]


def write_run(
    directory: Path, name: str = "C", finish: bool = True, told: int = 4, budget: int | None = 6
) -> Journal:
    space = {name: {"type": "float", "low": 0.1, "high": 1.0}}
    problem = Problem.of(space, 3, {"n_initial": 3}, object(), "own_folds:good")
    journal = Journal.create(directory, problem.header())
    total = {} if budget is None else {"n_evaluations": budget}
    journal.append("session", {"at": 0.0, "resources": {"CPU": 2.0}} | total)
    optimizer = problem.optimizer()
    for id in range(told + 1):
        asked = optimizer.ask()
        config = problem.plain_config(asked.config)
        data = {"id": id, "config": config, "context": asked.context, "seed": asked.seed}
        journal.append("ask", data | {"told": id, "at": float(id)})
        if id == told:
            break
        outcome = Observation.of(asked, 0.5 + 0.1 * id)
        if id == 1:
            reason = "Traceback:\nValueError: \x1b[2J[red]no"
            outcome = Observation.failure(asked, "error", reason)
            optimizer.fail(id, "no")
        else:
            optimizer.tell(id, 0.5 + 0.1 * id)
        journal.append(*told_entry(outcome, float(id)))
    if finish:
        journal.append("finish", {"reason": "interrupted", "at": 65.0})
    return journal


def test_status_shows_counts_folds_and_the_best_config(tmp_path: Path) -> None:
    write_run(tmp_path / "run").close()
    result = invoke("status", "run")
    assert result.exit_code == 0, result.output
    lines = {line[:11].strip(): line[11:] for line in result.stdout.splitlines()}
    assert lines["counts"] == "4 of 6 done, 1 failed, 1 pending"
    assert lines["state"].startswith("interrupted, last record ")
    assert lines["time"] == "1 min 5 s"
    assert sorted(lines["per fold"].split()) == ["1", "1", "2"]
    assert " robust, " in lines["best"]
    assert lines[""].startswith("C = ")
    assert lines["failure"] == r"evaluation 1: ValueError: \x1b[2J[red]no"
    assert lines["folds"].startswith("trained on ")
    assert " of 3 folds, 1 evaluation failed" in lines["folds"]


def test_status_works_while_the_run_is_under_way_and_changes_nothing(tmp_path: Path) -> None:
    journal = write_run(tmp_path / "runs" / "x", finish=False)
    with open(journal.path, "ab") as file:
        file.write(b'{"crc":"00000000","seq":99')
    before = {path: path.read_bytes() for path in (tmp_path / "runs" / "x").iterdir()}
    result = invoke("status", "runs")
    journal.close()
    assert result.exit_code == 0, result.output
    assert "under way or cut off" in result.stdout
    assert before == {path: path.read_bytes() for path in (tmp_path / "runs" / "x").iterdir()}


def test_status_writes_hostile_names_literally(tmp_path: Path) -> None:
    write_run(tmp_path / "run", name="\x1b[2J[red]C\u202e").close()
    output = invoke("status", "run").stdout
    assert r"\x1b[2J[red]C\u202e = " in output
    assert "\x1b" not in output


def test_status_before_any_outcome_has_no_best_config(tmp_path: Path) -> None:
    write_run(tmp_path / "run", told=0).close()
    result = invoke("status", "run")
    assert result.exit_code == 0, result.output
    assert "0 of 6 done, 0 failed, 1 pending" in result.stdout
    assert "best       none" in result.stdout


@pytest.mark.parametrize("command", ["status", "resume"])
def test_a_place_without_a_run_or_with_two_is_refused(tmp_path: Path, command: str) -> None:
    (tmp_path / "empty").mkdir()
    for place in ("missing", "empty", "space.yaml", "nul\0"):
        result = invoke(command, place)
        assert result.exit_code == 2
        assert "Traceback" not in result.output
    for name in ("a", "b"):
        write_run(tmp_path / "two" / name).close()
    result = invoke("resume", "two")
    assert result.exit_code == 2
    assert "['a', 'b']" in result.stderr
    assert invoke("status", "two", "--name", "b").exit_code == 0


def test_status_of_a_folder_lists_its_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / "two" / name).close()
    result = invoke("status", "two")
    assert result.exit_code == 0
    assert sorted(line.split()[0] for line in result.stdout.splitlines()) == ["a", "b", "run"]


@pytest.mark.parametrize("content", [b"", b"junk\n", b'{"crc":"00000000","seq":0}\n', b"\0" * 99])
def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / JOURNAL).write_bytes(content)
    result = invoke("status", "run")
    assert result.exit_code == 2
    assert "header" in result.stderr


def test_resume_refuses_an_objective_that_is_gone(tmp_path: Path) -> None:
    write_run(tmp_path / "run").close()
    Path("own_folds.py").unlink()
    result = invoke("resume", "run")
    assert result.exit_code == 2
    assert "own_folds" in result.stderr


def test_resume_refuses_a_run_that_another_process_works_on(tmp_path: Path) -> None:
    journal = write_run(tmp_path / "run")
    result = invoke("resume", "run", "--quiet")
    journal.close()
    assert result.exit_code == 2
    assert f"process {os.getpid()}" in result.stderr


@pytest.mark.parametrize(("more", "said"), [([], "4 of 4"), (["--evaluations", "2"], "4 of 2")])
def test_resuming_a_run_that_is_over_says_so_at_once_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], said: str
) -> None:
    write_run(tmp_path / "run", budget=4).close()
    before = (tmp_path / "run" / JOURNAL).read_bytes()
    for name in ("runtime.ray_cluster.connect", "runtime.run.run"):
        monkeypatch.setattr(f"drbqo_ray.{name}", lambda *given, **options: pytest.fail("started"))
    Path("own_folds.py").unlink()
    result = invoke("resume", "run", "--address", "127.0.0.1:1", *more)
    assert result.exit_code == 0, result.output
    assert result.stderr == (
        f"drbqo: nothing to do: {said} evaluations are done. To go on, pass --evaluations with a"
        " new total above 4.\n"
    )
    shown = invoke("status", "run").stdout.splitlines()
    assert result.stdout.splitlines()[1:] == shown[6:-1]
    assert (tmp_path / "run" / JOURNAL).read_bytes() == before


def test_resuming_a_run_that_is_over_does_not_even_load_ray(tmp_path: Path) -> None:
    write_run(tmp_path / "run", budget=4).close()
    code = (
        "import sys\n"
        "from drbqo_ray.cli.main import cli\n"
        "try:\n"
        "    cli.main(['resume', 'run'], standalone_mode=False)\n"
        "finally:\n"
        "    assert 'ray' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "nothing to do" in done.stderr


def test_a_run_that_never_said_how_many_evaluations_it_has_asks_for_them(tmp_path: Path) -> None:
    write_run(tmp_path / "run", budget=None).close()
    result = invoke("resume", "run")
    assert result.exit_code == 2
    assert "--evaluations" in result.stderr


def ended(recommended: bool, stopped: str = "finished") -> RunResult:
    found = Recommendation({"C": 2.0}, 0.75, 0.8, [0.5, 0.5], [0.7, 0.9], [0.0, 0.0], 0.0)
    reason = "Traceback (most recent call last):\n  here\nIndexError: no rows \x1b[2J"
    seen = [
        Observation(0, {"C": 1.0}, 0, "ok", 0.5),
        Observation(1, {"C": 1.0}, 1, "failed", None, reason),
        Observation(2, {"C": 1.0}, 2, "failed", None, "another"),
    ]
    best = found if recommended else None
    return RunResult("x", best, seen, Path("runs/x"), stopped, n_folds=3)


@pytest.mark.parametrize(("stopped", "code"), [("finished", 1), ("interrupted", 130)])
def test_a_run_that_can_recommend_nothing_ends_with_1_and_its_first_traceback(
    stopped: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        conclude(ended(False, stopped))
    assert end.value.code == code
    said = capsys.readouterr()
    assert "best       none" in said.out
    assert "folds      trained on 1 of 3 folds, 2 evaluations failed" in said.out
    if stopped == "finished":
        assert said.err == (
            "drbqo: nothing can be recommended: every config has a failed fold. The first failure"
            " was evaluation 1 (fold 1, {'C': 1.0}):\n"
            "Traceback (most recent call last):\n  here\nIndexError: no rows \\x1b[2J\n"
        )


def test_a_run_with_a_recommendation_ends_with_0_and_says_what_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    conclude(ended(True))
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines()[1:3] == [
        "folds      trained on 1 of 3 folds, 2 evaluations failed; no score on fold 1, 2",
        "best       0.75 robust, 0.8 mean",
    ]


def options(**given: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"cpus": None, "gpus": None, "resources": ()}
    nothing |= {
        "max_in_flight": None,
        "timeout": None,
        "time": None,
        "at_deadline": None,
        "max_consecutive_failures": None,
    }
    return nothing | given


def test_only_limits_that_were_given_are_passed_on() -> None:
    assert limits(options()) == {}
    assert limits(options(cpus=0.0)) == {"resources": {"CPU": 0.0}}
    assert limits(options(max_consecutive_failures=4)) == {"max_consecutive_failures": 4}
    assert limits(options(max_consecutive_failures="never")) == {"max_consecutive_failures": None}
    assert limits(options(gpus=1.0, resources=(("A100", 0.5),), timeout=9.0, max_in_flight=2)) == {
        "resources": {"A100": 0.5, "GPU": 1.0},
        "timeout_seconds": 9.0,
        "max_in_flight": 2,
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (click.UsageError("no"), 2),
        (SystemExit(1), 1),
        (SystemExit(0), 0),
    ],
)
def test_the_exit_code_says_what_happened(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(**options: Any) -> None:
        raise error

    monkeypatch.setattr(command_line, "cli", click.Command("drbqo", callback=command))
    monkeypatch.setattr(sys, "argv", ["drbqo"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == code


TOKEN = {"RAY_AUTH_TOKEN": "canary-token"}


@pytest.mark.parametrize(
    ("address", "environment", "good"),
    [
        ("1.2.3.4:6379", {}, False),
        ("1.2.3.4:6379", TOKEN, False),
        ("1.2.3.4:6379", TOKEN | {"RAY_AUTH_MODE": "disabled"}, False),
        ("1.2.3.4:6379", {"RAY_AUTH_MODE": "token"}, False),
        ("1.2.3.4:6379", {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "empty"}, False),
        ("1.2.3.4:6379", {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "missing"}, False),
        ("1.2.3.4:6379", {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "space.yaml"}, True),
        ("1.2.3.4:6379", TOKEN | {"RAY_AUTH_MODE": "Token"}, True),
        ("auto", TOKEN, True),
        ("auto", TOKEN | {"RAY_AUTH_MODE": "disabled"}, False),
        ("auto", {}, False),
    ],
)
def test_a_cluster_is_joined_with_a_token_only(
    address: str, environment: dict[str, str], good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    Path("empty").touch()
    if good:
        check_token(address, environment)
        return
    with pytest.raises(ClusterRefused, match="--insecure") as error:
        check_token(address, environment)
    assert "canary-token" not in str(error.value)


@pytest.mark.parametrize("address", ["ray://host:10001", "", "local", "http://host:8265"])
def test_addresses_that_are_no_head_node_are_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="host:port"):
        connect(address, insecure=True)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the objectives that a resumed run was started with; nothing is evaluated."""
    names: list[str] = []
    monkeypatch.setattr(command_line, "execute", lambda objective, *more: names.append(objective))
    return names


def foreign_owner(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: directory.stat().st_uid + 1)


OPENED = {
    "owner": foreign_owner,
    "directory 0777": lambda directory, _: directory.chmod(0o777),
    "directory 0770": lambda directory, _: directory.chmod(0o770),
    "journal 0666": lambda directory, _: (directory / JOURNAL).chmod(0o666),
}


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
def test_resume_runs_no_code_that_others_can_have_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str], opened: Any
) -> None:
    write_run(tmp_path / "run").close()
    Path("own_folds.py").write_text(f"open('imported', 'w').close()\n{MODULE}")
    opened(tmp_path / "run", monkeypatch)
    result = invoke("resume", "run")
    assert result.exit_code == 2
    assert "--objective own_folds:good, or --trust" in result.stderr
    assert invoke("resume", "run", "--objective", "own_folds:folds").exit_code == 2
    for command in ("status", "report", "export"):
        assert invoke(command, "run").exit_code == 0
    assert not started
    assert not Path("imported").exists()
    assert invoke("resume", "run", "--trust").exit_code == 0
    assert invoke("resume", "run", "--objective", "own_folds:good").exit_code == 0
    assert started == ["own_folds:good"] * 2
    assert Path("imported").exists()


def test_a_directory_of_ones_own_is_resumed_without_a_word(
    tmp_path: Path, started: list[str]
) -> None:
    write_run(tmp_path / "run").close()
    assert invoke("resume", "run").exit_code == 0
    wrong = invoke("resume", "run", "--trust", "--objective", "own_folds:folds")
    assert wrong.exit_code == 2
    assert "own_folds:good" in wrong.stderr
    assert started == ["own_folds:good"]


def test_a_run_from_an_object_store_is_resumed_with_an_objective_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_run(tmp_path / "store" / "run").close()
    refused = invoke("resume", f"file://{tmp_path}/store")
    assert refused.exit_code == 2
    assert "does not say who wrote it" in refused.stderr
    assert not started
    again = invoke("resume", f"file://{tmp_path}/store", "--objective", "own_folds:good")
    assert again.exit_code == 0, again.output
    assert started == ["own_folds:good"]


def test_an_interrupted_run_in_an_object_store_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored = replace(ended(True, "interrupted"), remote="s3://bucket/runs/x")
    with pytest.raises(SystemExit) as end:
        conclude(stored, "own_folds:good")
    assert end.value.code == 130
    said = capsys.readouterr()
    assert "run        s3://bucket/runs/x\n" in said.out
    advice = "`drbqo resume s3://bucket/runs/x --objective own_folds:good`"
    assert said.err == f"drbqo: interrupted; go on with {advice}\n"
