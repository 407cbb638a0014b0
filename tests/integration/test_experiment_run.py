"""An experiment on a real Ray whose driver is killed: finished cells are kept, the rest goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from drbqo_ray.experiments.cell import cells_of, is_finished, run_cell
from drbqo_ray.experiments.command import run_experiment
from drbqo_ray.experiments.grid import run_grid
from drbqo_ray.experiments.presets import find_preset
from drbqo_ray.storage.journal import JOURNAL
from tests.support.local_ray import ROOT, two_cpus  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

PRESET = replace(
    find_preset("logistic", "small"),
    n_initial=5,
    horizon=6,
    n_seeds=2,
    radii=(1.0,),
    methods=("drbqo", "bqo-ts", "maximin-bqo-ts"),
)
DRIVER = """
import sys
from pathlib import Path
from drbqo_ray.experiments.cell import cells_of
from drbqo_ray.experiments.grid import run_grid
from tests.integration.test_experiment_run import PRESET
run_grid(cells_of(PRESET), Path(sys.argv[1]))
"""


def finished(storage: Path) -> dict[str, tuple[bytes, int]]:
    found = {}
    for cell in cells_of(PRESET):
        if is_finished(cell, storage):
            path = cell.directory(storage) / JOURNAL
            found[cell.name] = path.read_bytes(), path.stat().st_mtime_ns
    return found


def test_a_killed_experiment_goes_on_and_ends_with_the_csv_of_an_uncut_one(tmp_path, two_cpus):  # noqa: F811
    storage = tmp_path / "killed"
    environment = {**os.environ, "RAY_ADDRESS": two_cpus, "PYTHONPATH": str(ROOT)}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(storage)], env=environment)
    try:
        deadline = time.monotonic() + 120
        while not finished(storage) and driver.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    before = finished(storage)
    assert before
    run_experiment(PRESET, storage, tmp_path / "out", "drbqo experiment logistic")
    after = finished(storage)
    assert len(after) == len(cells_of(PRESET))
    assert all(after[name] == before[name] for name in before)

    for cell in cells_of(PRESET):
        run_cell(cell, tmp_path / "uncut")
    run_experiment(PRESET, tmp_path / "uncut", tmp_path / "expected", "another command")
    assert (tmp_path / "out/results.csv.gz").read_bytes() == (
        tmp_path / "expected/results.csv.gz"
    ).read_bytes()


def test_one_damaged_cell_does_not_stop_the_others(tmp_path, two_cpus):  # noqa: F811
    cells = cells_of(replace(PRESET, methods=("bqo-ts",), horizon=2))
    run_cell(cells[0], tmp_path)
    path = cells[0].directory(tmp_path) / JOURNAL
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(Exception, match=f"1 of 2 cells(.|\n)*{cells[0].name}"):
        run_grid(cells, tmp_path)
    assert all(is_finished(cell, tmp_path) for cell in cells[1:])
    assert path.read_bytes() == bytes(data)
