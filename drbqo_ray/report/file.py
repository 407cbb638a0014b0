"""Writing a page so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from drbqo_ray.errors import InvalidInput
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.page import render_page


def write_report(facts: Facts, path: str | Path) -> Path:
    """Write the page to `path`, replacing what is there in one step; returns the path.

    The file is readable by its owner alone, like the run itself.
    """
    return write_page(render_page(facts), path)


def write_page(page: str, path: str | Path) -> Path:
    """Write a page to `path` in one step; InvalidInput when that cannot be done."""
    target = Path(os.path.abspath(os.path.expanduser(path)))
    if target.is_dir():
        raise InvalidInput("A report is a file.", str(target), "Add a name such as report.html.")
    try:
        handle, name = tempfile.mkstemp(prefix=".report-", suffix=".html", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(page)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise InvalidInput(
            f"The report must be written to a place that exists and is writable: "
            f"{error.strerror or error}.",
            str(target),
            "Choose another file.",
        ) from None
    return target
