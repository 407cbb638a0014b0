"""The command line on real Ray, on a user's own objective file."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
OBJECTIVE = '''"""Accuracy of a curve that peaks elsewhere on every fold."""

import atexit
import math
import os
import time
from pathlib import Path

PEAKS = [0.2, 0.3, 0.4]


def score(config, fold, seed):
    miss = math.log10(config["C"]) - PEAKS[fold]
    return 1 - miss**2 - 0.1 * (config["kernel"] == "poly")


def slow(config, fold, seed):
    time.sleep(0.2)
    return score(config, fold, seed)


def stuck(config, fold, seed):
    Path("stuck").touch()
    time.sleep(600)


def nothing(config, fold, seed):
    return None if fold else "good"


atexit.register(lambda: Path(f"taken-leave-{os.getpid()}").touch())
'''
SPACE = "C: float 1e-2 1e2 log\nkernel: [rbf, poly]\n"
CANARY = "canary-2f9c1b"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "my_objective.py").write_text(OBJECTIVE)
    (tmp_path / "space.yaml").write_text(SPACE)
    return tmp_path


def environment(project: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    mine = {"HOME": str(project), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return kept | mine | {"MY_SECRET": CANARY} | more


def drbqo(project: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drbqo_ray.cli.main", *arguments],
        cwd=project,
        env=environment(project, **more),
        capture_output=True,
        text=True,
        timeout=120,
    )


def run_options(objective: str = "score", evaluations: int = 8) -> list[str]:
    return [
        "run",
        "--objective",
        f"my_objective:{objective}",
        "--space",
        "space.yaml",
        "--folds",
        "3",
        "--evaluations",
        str(evaluations),
        "--radius",
        "0.5",
        "--storage",
        "runs/x",
        "--max-in-flight",
        "2",
    ]


def test_a_users_own_file_is_run_interrupted_shown_and_resumed(project: Path) -> None:
    code, out, err = interrupted(project, "slow", after=6)
    assert code == 130
    assert "robust" in out
    first, rest = err.split("\n", 1)
    assert first == f"drbqo: whatever happens, go on with `drbqo resume {project / 'runs' / 'x'}`"
    assert rest.startswith("starting Ray\nx: 1000 evaluations, ")
    assert "drbqo resume" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert "\x1b" not in out + err

    shown = drbqo(project, "status", "runs/x")
    assert shown.returncode == 0, shown.stderr
    assert "state      interrupted" in shown.stdout
    assert out.splitlines()[1:] == shown.stdout.splitlines()[6:]

    # More than the suggestions that were on their way, so that none of them is left.
    total = int(shown.stdout.split("counts     ")[1].split()[0]) + 6
    more = drbqo(project, "resume", "runs/x", "--evaluations", str(total), "--quiet")
    assert more.returncode == 0, more.stderr
    assert more.stderr == ""
    shown = drbqo(project, "status", "runs/x")
    assert f"{total} of {total} done, 0 failed, 0 pending" in shown.stdout
    assert more.stdout.splitlines()[1:] == shown.stdout.splitlines()[6:]
    check_privacy(project)


def interrupted(project: Path, objective: str, after: int) -> tuple[int, str, str]:
    """Exit code and output of a run that gets Ctrl-C after some evaluations."""
    process = subprocess.Popen(
        [sys.executable, "-m", "drbqo_ray.cli.main", *run_options(objective, 1000)],
        cwd=project,
        env=environment(project),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for_journal(project / "runs" / "x" / "journal.jsonl", b'"kind":"tell"', after)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


def test_two_interrupts_end_the_command_at_once_and_its_ray_with_it(project: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "drbqo_ray.cli.main", *run_options("stuck", 9)],
        cwd=project,
        env=environment(project),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for(lambda: (project / "stuck").exists())
        processes = psutil.Process(process.pid).children(recursive=True)
        agents = [child for child in processes if child.name().endswith("Agent")]
        names = [child.name() for child in processes]
        assert {"raylet", "gcs_server"} <= set(names), names
        assert any("evaluate_fold" in name for name in names), names
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while "Stopping" not in process.stderr.readline():
            assert process.poll() is None
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert time.monotonic() - start < 2.0
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "drbqo: interrupted"
    assert "Traceback" not in err
    assert not (project / f"taken-leave-{process.pid}").exists()
    # Ray's two agents notice the end of their node by themselves, but only after a minute.
    _, alive = psutil.wait_procs([p for p in processes if p not in agents], timeout=30)
    assert not alive
    shown = drbqo(project, "status", "runs/x")
    assert "0 of 9 done, 0 failed" in shown.stdout


def check_privacy(project: Path) -> None:
    """Only we may read the files, and nothing of the environment or the token is in them."""
    token = project / ".ray" / "auth_token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    for path in (project / "runs" / "x").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        content = path.read_bytes()
        assert CANARY.encode() not in content
        assert token.read_bytes() not in content


def test_an_objective_that_returns_no_number_ends_with_1_and_a_clear_word(project: Path) -> None:
    done = drbqo(project, *run_options("nothing", 100), "--quiet")
    assert done.returncode == 1
    assert "must be one number, got" in done.stderr
    assert "drbqo_ray/cli.py" not in done.stderr


def wait_for_journal(path: Path, words: bytes, count: int) -> None:
    wait_for(lambda: path.exists() and path.read_bytes().count(words) >= count)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


SCRIPT = """
import drbqo_ray as dr
space = {"C": dr.Float(1e-2, 1e2, log=True), "kernel": dr.Choice(["rbf", "poly"])}
result = dr.run("my_objective:score", space, 3, n_evaluations=4, storage="runs/y", progress=False)
print(result.stopped, len(result.observations))
"""


def script(project: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A user's script, which leaves it to `run` to connect to Ray."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=project,
        env=environment(project, **more),
        capture_output=True,
        text=True,
        timeout=120,
    )


@contextmanager
def head_node(project: Path, port: int, **more: str) -> Iterator[str]:
    """A head node of its own, ended with the block."""
    address = f"127.0.0.1:{port}"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            "--head",
            "--block",
            "--node-ip-address=127.0.0.1",
            f"--port={port}",
            "--num-cpus=1",
            "--include-dashboard=false",
            "--object-store-memory=100000000",
            "--disable-usage-stats",
        ],
        cwd=project,
        env=environment(project, **more),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        check = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
        for _ in range(30):
            healthy = subprocess.run(check, env=environment(project, **more), capture_output=True)
            if healthy.returncode == 0:
                break
        else:
            raise AssertionError("the head node does not come up")
        yield address
    finally:
        process.terminate()
        process.wait(30)


def test_a_cluster_with_a_token_is_joined_by_who_holds_it(project: Path) -> None:
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": f"{CANARY}-token-of-the-cluster"}
    with head_node(project, 26411, **secret) as address:
        stranger = drbqo(project, *run_options(), "--address", address)
        assert stranger.returncode == 2
        assert "RAY_AUTH_MODE=token" in stranger.stderr
        assert not (project / "runs").exists()

        wrong = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "wrong-token-wrong-token"}
        mistaken = drbqo(project, *run_options(), "--address", address, **wrong)
        assert mistaken.returncode == 2
        assert "the token is missing or wrong" in mistaken.stderr

        rule = "probability > 0.01"
        given = [*run_options(evaluations=60), "--stop-when", rule, "--address", address]
        member = drbqo(project, *given, **secret)
        assert member.returncode == 0, member.stderr
        [reason] = re.findall("^stopped    (sure enough after .*)$", member.stdout, re.MULTILINE)
        shown = drbqo(project, "status", "runs/x").stdout
        assert f"state      finished, {reason}, last record" in shown
        assert f"stop when  {rule}" in shown
        [verdict] = re.findall("^verdict    .*$", member.stdout, re.MULTILINE)
        assert verdict in shown

        written = script(project, **secret, RAY_ADDRESS=address)
        assert written.returncode == 0, written.stderr
        assert written.stdout == "finished 4\n"
        for text in (member.stdout, member.stderr, stranger.stderr, shown, written.stderr):
            assert CANARY not in text
        for path in (project / "runs").glob("*/*"):
            assert CANARY.encode() not in path.read_bytes()
        for process in psutil.process_iter(["cmdline"]):
            assert CANARY not in " ".join(process.info["cmdline"] or [])


def test_a_cluster_without_a_token_is_refused(project: Path) -> None:
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": f"{CANARY}-token-of-mine"}
    with head_node(project, 26412, RAY_AUTH_MODE="disabled") as address:
        careful = drbqo(project, *run_options(), RAY_ADDRESS=address, **secret)
        assert not (project / "runs").exists()
        written = script(project, RAY_ADDRESS=address, **secret)
        assert not (project / "runs").exists()
    assert careful.returncode == 2
    assert "answers callers without a token" in careful.stderr
    assert written.returncode == 1
    assert "ClusterRefused: The cluster at" in written.stderr
    assert "answers callers without a token" in written.stderr


@pytest.mark.faults
def test_a_cluster_without_a_token_is_joined_by_who_insists(project: Path) -> None:
    disabled = {"RAY_AUTH_MODE": "disabled"}
    with head_node(project, 26413, **disabled) as address:
        done = drbqo(project, *run_options(), "--address", address, "--insecure", **disabled)
    assert done.returncode == 0, done.stderr


def test_more_folds_than_there_are_end_with_1_and_the_first_traceback(project: Path) -> None:
    given = run_options(evaluations=60)
    given[given.index("--folds") + 1] = "6"
    done = drbqo(project, *given, "--quiet")
    assert done.returncode == 1, done.stdout
    assert done.stdout == ""
    assert re.search(r"drbqo: Fold [345] of 6, counted from 0, failed \d times", done.stderr)
    assert "miss = math.log10" in done.stderr
    assert "IndexError: list index out of range" in done.stderr
    shown = drbqo(project, "status", "runs/x").stdout
    assert re.search(r"^folds      trained on 3 of 6 folds, \d+ evaluations failed", shown, re.M)
    assert "state      failed" in shown
