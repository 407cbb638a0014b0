"""`drbqo list | status | export | compare | dashboard`: runs on disk as tables, files and curves.

What a table shows is safe to print, whatever stands in a journal. With --json the same comes as
JSON on standard output, and nothing else does.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from drbqo_ray.errors import InvalidInput
from drbqo_ray.runtime.terminal import printable, speaks_unicode

if TYPE_CHECKING:
    from drbqo_ray.dashboard.server import Dashboard
    from drbqo_ray.runtime.comparison import ComparedRun, Comparison
    from drbqo_ray.runtime.result import Result
    from drbqo_ray.storage.listing import RunSummary
    from drbqo_ray.storage.location import RunLocation

LONGEST = 48
CURVE_WIDTH = 40
BARS, PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-=+*#@"
PICTURES = (".png", ".svg", ".pdf")


class Place(click.ParamType[Any]):
    """A folder or an address; the shell completes folders."""

    name = "path"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """Leaves it to the shell to name folders."""
        return [CompletionItem(incomplete, type="dir")]


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
run_name = click.option("--name", help="Name of the run below DIR, if it has one.")


@click.command("list")
@click.argument("folder", metavar="[DIR]", type=Place(), default="runs")
@as_json
def list_command(folder: str, as_json: bool) -> None:
    """List the runs in DIR, one line each; `runs` by default.

    DIR may be the address of an object store, such as s3://bucket/runs.
    """
    with _reported():
        show_runs(folder, as_json)


@click.command("status")
@click.argument("directory", metavar="DIR", type=Place())
@run_name
@as_json
def status_command(directory: str, name: str | None, as_json: bool) -> None:
    """Show what the journal in DIR says; works while the run is under way.

    A DIR that holds several runs is listed.
    """
    with _reported():
        show_status(directory, name, as_json)


@click.command("export")
@click.argument("directory", metavar="RUN", type=Place())
@run_name
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet", "json"]),
    default="csv",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--out", metavar="FILE", type=click.Path(), help="Where it goes; printed by default.")
def export_command(
    directory: str, name: str | None, form: str, as_json: bool, out: str | None
) -> None:
    """Write the evaluations of RUN as a table, one row each.

    JSON holds the recommendation and how sure it is as well.
    """
    with _reported():
        from drbqo_ray.runtime.result import load

        export(load(directory, name), "json" if as_json else form, out)


@click.command("compare")
@click.argument("storages", metavar="RUN...", type=Place(), nargs=-1, required=True)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(),
    help="Write the curves to FILE, by its ending: png, svg, pdf or csv.",
)
@as_json
def compare_command(storages: tuple[str, ...], out: str | None, as_json: bool) -> None:
    """Put runs beside each other: answers, differences, equal seeds, curves.

    A RUN that is a folder of runs stands for all of them.
    """
    with _reported():
        compare(storages, out, as_json)


@click.command("dashboard")
@click.argument("folder", metavar="[DIR]", type=Place(), default="runs")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen; any other machine that can reach it needs the token that is printed.",
)
def dashboard_command(folder: str, port: int, host: str) -> None:
    """Serve a page that lists the runs in DIR and follows them, until Ctrl-C."""
    with _reported():
        from drbqo_ray.dashboard.server import Dashboard

        serve(Dashboard(folder, host, port), folder)


COMMANDS = (list_command, status_command, export_command, compare_command, dashboard_command)


def _reported() -> AbstractContextManager[None]:
    from drbqo_ray.cli.main import BAD_USAGE, reported

    return reported(BAD_USAGE)


def show_runs(storage: str, as_json: bool) -> None:
    """Print one line for every run of a folder."""
    from drbqo_ray.storage.listing import list_runs

    runs = list_runs(storage)
    if as_json:
        echo_json([run.to_dict() for run in runs])
        return
    for line in list_lines(runs):
        click.echo(line)
    if not runs:
        click.echo(f"drbqo: no runs in {printable(storage)}", err=True)


def show_status(directory: str, name: str | None, as_json: bool) -> None:
    """Print the status of a run, or of all runs of a folder."""
    from drbqo_ray.cli.saved_run import SavedRun
    from drbqo_ray.storage.listing import HeldLocks, holds_several, summarize

    if name is None and holds_several(directory):
        show_runs(directory, as_json)
        return
    saved = SavedRun.read(directory, name)
    if as_json:
        summary = summarize(saved.place, saved.place.name, HeldLocks())
        echo_json(status_dict(saved.result(), summary))
        return
    for line in saved.lines():
        click.echo(line)


def serve(dashboard: Dashboard, folder: str) -> None:
    """Say where the dashboard is, and wait for Ctrl-C."""
    click.echo(f"runs of {printable(folder)} on {dashboard.url} (Ctrl-C ends)")
    trouble = dashboard.shelf.listing()["trouble"]
    if trouble is not None:
        click.echo(f"drbqo: {printable(trouble)}", err=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        click.echo("drbqo: stopped")
    finally:
        dashboard.close()


def list_lines(runs: Sequence[RunSummary]) -> Iterator[str]:
    """The table of runs, line by line."""
    heads = ("run", "state", "done", "failed", "best", "age", "method", "objective")
    rows = [
        (
            run.name,
            run.state,
            str(run.n_done) + ("" if run.n_evaluations is None else f"/{run.n_evaluations}"),
            str(run.n_failed) if run.n_failed else "",
            short(run.best),
            age(run.age_seconds),
            run.method or "",
            (run.objective or "") if run.note is None else run.note,
        )
        for run in runs
    ]
    return table(heads, rows, right=(2, 3, 4, 5)) if rows else iter(())


def status_dict(result: Result, summary: RunSummary) -> dict[str, Any]:
    """The status of one run as plain data."""
    best = result.recommendation
    found = {"best": best and best.robust_value, "best_config": best and best.config}
    where = {"path": result.address, "coverage": str(result.coverage)}
    return {**summary.to_dict(), **found, **_answer(result), **where}


def export(result: Result, form: str, out: str | None) -> None:
    """Write the evaluations of a run as CSV, Parquet or JSON, to a file or to standard output."""
    if form == "parquet":
        if out is None:
            raise InvalidInput(
                "Parquet is no text, so it goes to a file.", "no --out", "Pass --out FILE."
            )
        write_file(out, parquet_bytes(result))
    elif form == "csv":
        _write_text(result.to_dataframe().to_csv(index=False), out)
    else:
        observations = [asdict(seen) for seen in result.observations]
        plain: dict[str, Any] = {
            "name": result.name,
            "storage": result.address,
            "stopped": result.stopped,
        }
        plain |= {"n_folds": result.n_folds, **_answer(result), "observations": observations}
        _write_text(json.dumps(plain, default=str, indent=1) + "\n", out)


def parquet_bytes(result: Result) -> bytes:
    """The evaluations as a Parquet file; parameters of several kinds are columns of JSON."""
    import io

    frame = result.to_dataframe()
    for name in frame.columns:
        kinds = {type(value) for value in frame[name] if not _is_missing(value)}
        if name.startswith("config.") and len(kinds) > 1 and not kinds <= {int, float}:
            frame[name] = [None if _is_missing(v) else json.dumps(v) for v in frame[name]]
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _answer(result: Result) -> dict[str, Any]:
    best, sure = result.recommendation, result.certainty
    return {
        "recommendation": None if best is None else asdict(best),
        "certainty": None if sure is None else asdict(sure),
        "forecast": None if result.forecast is None else asdict(result.forecast),
        "stop_reason": result.stop_reason,
    }


def compare(storages: Sequence[str], out: str | None, as_json: bool) -> None:
    """Print runs beside each other, or write their curves to a file."""
    from drbqo_ray.runtime.comparison import compare as put_together
    from drbqo_ray.storage.listing import find_run, holds_several, places

    found: list[tuple[str, RunLocation]] = []
    for storage in storages:
        if holds_several(storage):
            found += readable(places(storage))
        else:
            found.append((storage.rstrip("/"), find_run(storage)))
    ends = [name.rpartition("/")[2] for name, _ in found]
    if len(set(ends)) == len(ends):
        found = [(end, place) for end, (_, place) in zip(ends, found, strict=True)]
    comparison = put_together(found)
    if out is not None:
        write_curves(comparison, Path(out))
    if as_json:
        echo_json(comparison.to_dict())
        return
    for line in compare_lines(comparison):
        click.echo(line)


def readable(found: Iterable[tuple[str, RunLocation]]) -> Iterator[tuple[str, RunLocation]]:
    """Those that are runs and can be read; the others are named on standard error."""
    from drbqo_ray.storage.listing import HeldLocks, summarize

    locks = HeldLocks()
    for name, place in found:
        run = summarize(place, name, locks)
        if run.kind == "run" and run.note is None:
            yield name, place
        else:
            why = run.note or "it is the cell of an experiment"
            click.echo(f"drbqo: left out {printable(name)}: {printable(why)}", err=True)


def compare_lines(found: Comparison) -> Iterator[str]:
    """The comparison as text: table, differences, pairs of settings, curves."""
    heads = ("run", "state", "done", "robust", "±", "mean", "sure", "seed", "config")
    best = found.best
    rows = [
        (
            ("* " if run is best else "  ") + run.name,
            run.state,
            str(run.n_done) + ("" if run.n_evaluations is None else f"/{run.n_evaluations}"),
            short(run.robust_value),
            short(None if run.std is None else 1.96 * run.std, 2),
            short(run.mean_value),
            "" if run.probability is None else f"{run.probability:.2f}",
            str(run.seed),
            _config_text(run),
        )
        for run in found.runs
    ]
    yield from table(heads, rows, right=(2, 3, 4, 5, 6, 7))
    if not found.comparable:
        yield ""
        yield "The robust values do not mean the same: the runs are about different problems."
    if found.differences:
        yield ""
        yield f"differences from {printable(found.runs[0].name, LONGEST)}"
        for name, lines in found.differences.items():
            yield f"  {printable(name, LONGEST)}: {printable('; '.join(lines), 400)}"
    if found.pairs:
        yield ""
        yield "the same seeds, robust values"
        yield from (f"  {line}" for line in pair_lines(found))
    yield ""
    yield "curves: robust value of the recommendation, from the first evaluation to the last"
    yield from curve_lines(found.runs)


def pair_lines(found: Comparison) -> Iterator[str]:
    """Settings against each other, seed by seed."""
    for pair in found.pairs:
        names = f"{printable(pair.one or 'first', 80)} minus {printable(pair.other or 'first', 80)}"
        text = f"{names}: {short(pair.difference)}"
        if pair.interval is not None:
            text += f" ({short(pair.interval[0])} to {short(pair.interval[1])}, 95 %)"
        seeds = "1 seed" if len(pair.seeds) == 1 else f"{len(pair.seeds)} seeds"
        yield f"{text}, {seeds}, better in {pair.wins} and worse in {pair.losses}"


def curve_lines(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """One line of bars for each run, all on the same scale."""
    values = [value for run in runs for _, value in run.curve]
    if not values:
        yield "  no run has a recommendation"
        return
    low, high = min(values), max(values)
    longest = max(size for run in runs for size, _ in run.curve)
    bars = BARS if speaks_unicode(sys.stdout) else PLAIN_BARS
    width = max(len(printable(run.name, LONGEST)) for run in runs)
    for run in runs:
        line = ""
        for column in range(CURVE_WIDTH):
            upto = longest * (column + 1) / CURVE_WIDTH
            known = [value for size, value in run.curve if size <= upto]
            gone = run.curve and run.curve[-1][0] <= longest * column / CURVE_WIDTH
            share = (known[-1] - low) / (high - low) if known and high > low else 1.0
            line += " " if not known or gone else bars[round(share * (len(bars) - 1))]
        ends = f"{short(run.curve[0][1])} to {short(run.curve[-1][1])}" if run.curve else "none"
        yield f"  {printable(run.name, LONGEST):<{width}}  {line}  {ends}"


def write_curves(found: Comparison, path: Path) -> None:
    """Write the curves to a picture or a CSV file, by the ending of its name."""
    if path.suffix == ".csv":
        lines = ["run,evaluations,robust_value"]
        for run in found.runs:
            name = '"' + run.name.replace('"', '""') + '"'
            lines += [f"{name},{size},{value!r}" for size, value in run.curve]
        write_file(str(path), ("\n".join(lines) + "\n").encode("utf-8"))
        return
    if path.suffix not in PICTURES:
        raise InvalidInput(
            "Curves go to a picture or a table.",
            str(path),
            f"Let the name end in one of {[*PICTURES, '.csv']}.",
        )
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for run in found.runs:
        label = printable(run.name, LONGEST).replace("$", r"\$")
        axes.plot([x for x, _ in run.curve], [y for _, y in run.curve], label=label)
    axes.set(xlabel="evaluations", ylabel="robust value of the recommendation")
    axes.legend()
    try:
        figure.savefig(path)
    except OSError as error:
        raise cannot_write(path, error) from None


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()
) -> Iterator[str]:
    """A table as lines: a head, then the rows; the last column takes what it needs."""
    last = len(heads) - 1
    clean = [
        [printable(cell, 120 if k == last else LONGEST) for k, cell in enumerate(row)]
        for row in (heads, *rows)
    ]
    widths = [max(len(row[k]) for row in clean) for k in range(len(heads))]
    for row in clean:
        cells = [
            f"{cell:>{widths[k]}}" if k in right else f"{cell:<{widths[k]}}"
            for k, cell in enumerate(row)
        ]
        yield "  ".join(cells).rstrip()


def short(value: float | None, digits: int = 5) -> str:
    """A number with a few digits; nothing for none."""
    return "" if value is None else f"{value:.{digits}g}"


def age(seconds: float) -> str:
    """How long ago, in the largest unit that fits: 41 s, 3 min, 2 h, 5 d."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _config_text(run: ComparedRun) -> str:
    if run.config is None:
        return "none"
    values = (
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in run.config.items()
    )
    return ", ".join(values)


def echo_json(plain: object) -> None:
    """Print plain data as JSON; what is no plain data is written as its text."""
    click.echo(json.dumps(plain, default=str, indent=1))


def _write_text(text: str, out: str | None) -> None:
    if out is None:
        click.echo(text, nl=False)
    else:
        write_file(out, text.encode("utf-8", "backslashreplace"))


def write_file(out: str, content: bytes) -> None:
    """Write a file; InvalidInput when that cannot be done."""
    try:
        Path(out).write_bytes(content)
    except OSError as error:
        raise cannot_write(Path(out), error) from None


def cannot_write(path: Path, error: OSError) -> InvalidInput:
    """The error about a file that cannot be written."""
    rule = f"The file must be one that can be written: {error.strerror or error}."
    return InvalidInput(rule, str(path), "Choose another --out.")
