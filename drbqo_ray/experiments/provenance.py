"""Where a result comes from: command, commit, date and versions."""

from __future__ import annotations

import functools
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import drbqo_ray


def provenance(command: str) -> dict[str, Any]:
    """The command, the commit, the date and the versions behind a result."""
    return {
        "command": command,
        "commit": current_commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "version": drbqo_ray.__version__,
        "python": platform.python_version(),
    }


@functools.cache
def current_commit() -> str:
    """The commit of the checkout this code is in, marked if it has other changes."""
    here = Path(drbqo_ray.__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", str(here))
        return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "not a git checkout"
