"""The demo on real Ray: tunes the SVM on sonar and compares the robust with the mean choice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "drbqo_ray.cli.main", "demo", "--evaluations", "8"]


def test_the_demo_ends_with_the_robust_and_the_mean_choice_side_by_side(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    mine = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    shown = subprocess.run(
        DEMO,
        cwd=tmp_path,
        env=kept | mine,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert shown.returncode == 0, shown.stderr
    assert "8/8 done" in shown.stderr
    assert "8 single-fold evaluations, 5 folds" in shown.stdout
    assert "The robust choice is " in shown.stdout
    rows = [
        cells
        for line in shown.stdout.splitlines()
        if len(cells := [cell.strip() for cell in line.strip("│┃ ").split("│")]) == 7
    ]
    assert [row[0] for row in rows] == ["robust", "mean"]
    chosen, average = ([float(cell) for cell in row[1:]] for row in rows)
    for C, gamma, robust, mean, worst, test in (chosen, average):
        assert 1e-3 <= C <= 1e3
        assert 1e-5 <= gamma <= 10
        assert worst <= robust <= mean
        assert 0 < test <= 1
    # Both rows come from the same evaluations, each best by its own measure.
    assert chosen[2] >= average[2] - 0.001
    assert chosen[3] <= average[3] + 0.001
