"""`drbqo report`: write the report of a run, or serve it while the run goes on."""

from __future__ import annotations

import time
from pathlib import Path

import click

from drbqo_ray.cli.saved_run import SavedRun
from drbqo_ray.report.file import write_page
from drbqo_ray.report.page import render_page
from drbqo_ray.report.watch import PageServer
from drbqo_ray.runtime.run_report import journal_facts, run_facts
from drbqo_ray.runtime.terminal import printable
from drbqo_ray.storage.journal import JOURNAL

FILE = "report.html"
PAUSE_SECONDS = 1.0


def write(directory: str, name: str | None, out: str | None) -> Path:
    """Write the report of the run in `directory`; returns where it is."""
    saved = SavedRun.read(directory, name)
    place = saved.place
    page = render_page(run_facts(saved.run, place.name))
    return write_page(page, place.directory / FILE if out is None else out)


def watch(directory: str, name: str | None, port: int) -> None:
    """Serve the report on this machine until Ctrl-C."""
    place = SavedRun.read(directory, name).place
    journal = place.directory / JOURNAL

    def version() -> str:
        found = journal.stat()
        return f"{found.st_size}-{found.st_mtime_ns}"

    def page(word: str) -> str:
        return render_page(journal_facts(place.directory, place.name), word)

    server = PageServer(version, page, port)
    click.echo(f"report of {printable(place.directory)} on {server.url} (Ctrl-C ends)")
    try:
        while True:
            time.sleep(PAUSE_SECONDS)
    except KeyboardInterrupt:
        click.echo("drbqo: stopped")
    finally:
        server.close()
