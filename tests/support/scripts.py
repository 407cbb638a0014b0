"""Python scripts, run as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.local_ray import ROOT


def run_script(path: Path, folder: Path, *arguments: str) -> str:
    """What a script prints when it is run in `folder`, in a process of its own.

    No variable of Ray is set, so it starts a local Ray if it needs one.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    mine = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        cwd=folder,
        env=kept | mine,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
