"""The wheel: what is in it, and that it works in a directory that knows nothing of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_SOURCE = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
RUN = ["--evaluations", "4", "--max-in-flight", "1", "--quiet", "--storage", "runs/x"]
OWN = '''"""A user's module in a folder that happens to be called workers."""

from workers.svm import sonar


def score(config, fold, seed):
    return sonar(config, fold, seed) - 0.5


score.n_folds, score.space = sonar.n_folds, sonar.space
'''


def call(*command: str | Path, folder: Path, timeout: float = 200) -> subprocess.CompletedProcess:
    hidden = ("RAY_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=kept | {"OMP_NUM_THREADS": "1", "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "tree", ignore=NOT_SOURCE)
    built = call(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        folder / "out",
        folder / "tree",
        folder=folder,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = (folder / "out").iterdir()
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> Path:
    """The folder of commands of an environment with the wheel, and with our dependencies.

    A line in a .pth file shows it the packages of this environment, but not the checkout: .pth
    files among those packages, as an editable install leaves, are not followed.
    """
    folder = tmp_path_factory.mktemp("environment")
    made = call(sys.executable, "-m", "venv", "--without-pip", folder / "env", folder=folder)
    assert made.returncode == 0, made.stderr
    commands = folder / "env" / "bin"
    put = call(
        sys.executable,
        "-m",
        "pip",
        "--python",
        commands / "python",
        "install",
        "--no-deps",
        "--no-compile",
        wheel,
        folder=folder,
    )
    assert put.returncode == 0, put.stderr
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return commands


def test_the_wheel_holds_the_package_the_workers_and_their_data_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    of_package = {
        str(path.relative_to(ROOT))
        for folder in ("drbqo_ray", "workers")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".csv", ".html", ".css", ".js") or path.name == "py.typed"
    }
    assert {"workers/datasets/sonar.csv", "workers/datasets/glass.csv"} <= of_package
    assert {"drbqo_ray/py.typed", "drbqo_ray/runtime/run.py"} <= of_package
    assert "workers/__init__.py" not in names
    extra = {name for name in names - of_package if ".dist-info/" not in name}
    assert (of_package - names, extra) == (set(), set())
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_installed_wheel_runs_a_worker_in_an_empty_directory(environment, tmp_path):
    code = "import drbqo_ray, workers.svm; print(drbqo_ray.__file__, workers.svm.__file__)"
    places = call(environment / "python", "-c", code, folder=tmp_path)
    assert places.returncode == 0, places.stderr
    assert all(str(environment.parent) in place for place in places.stdout.split())

    done = call(
        environment / "drbqo", "run", "--objective", "workers.svm:sonar", *RUN, folder=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "robust" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    shown = call(environment / "drbqo", "status", "runs/x", folder=tmp_path)
    assert "4 of 4 done, 0 failed" in shown.stdout


def test_a_package_of_the_user_named_workers_gets_a_clear_message(environment, tmp_path):
    own = tmp_path / "workers"
    own.mkdir()
    (own / "__init__.py").touch()
    done = call(
        environment / "drbqo", "run", "--objective", "workers.svm:sonar", *RUN, folder=tmp_path
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("drbqo: There is no module 'workers.svm' here.")
    assert str(own) in done.stderr
    assert "remove its __init__.py" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_folder_of_the_user_named_workers_lives_beside_ours(environment, tmp_path):
    own = tmp_path / "workers"
    own.mkdir()
    (own / "mine.py").write_text(OWN)
    done = call(
        environment / "drbqo", "run", "--objective", "workers.mine:score", *RUN, folder=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = call(environment / "drbqo", "status", "runs/x", folder=tmp_path)
    assert "4 of 4 done, 0 failed" in shown.stdout
