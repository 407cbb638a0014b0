"""The command line: drbqo demo | run | resume | report | experiment | methods; `cli/runs` has those
that look at runs on disk.

Exit codes: 0 done, 1 the run failed, 2 bad usage, 130 interrupted. A run that can recommend
nothing has failed. Everything that can be checked is checked before the first fold is trained.
Heavy modules are imported by the command that needs them, so that help is quick.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from drbqo_ray.cli.options import (
    Duration,
    FailureLimit,
    MethodName,
    NamedValue,
    Radius,
    Resource,
    Seconds,
)
from drbqo_ray.cli.runs import COMMANDS, table
from drbqo_ray.errors import (
    DrbqoError,
    InvalidInput,
    JournalLocked,
    ObjectiveError,
    ProblemChanged,
)
from drbqo_ray.optimizer import DEFAULT
from drbqo_ray.records import fold_text
from drbqo_ray.runtime.terminal import printable, printable_lines

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130


def _time_options() -> list[Any]:
    return [
        click.option(
            "--timeout", type=Seconds(min=0, min_open=True), help="Seconds one fold may take."
        ),
        click.option(
            "--time", type=Duration(), help="Time of the run in all, e.g. 10m; see --at-deadline."
        ),
        click.option(
            "--at-deadline",
            type=click.Choice(["finish", "stop"]),
            help="Folds that run when the time is over are finished (the default) or stopped.",
        ),
    ]


def _shared(command: Any) -> Any:
    """The options that `run` and `resume` share: where and how folds are run."""
    options = [
        click.option("--cpus", type=click.FloatRange(min=0), help="CPUs of one fold (1)."),
        click.option("--gpus", type=click.FloatRange(min=0), help="GPUs of one fold."),
        click.option(
            "--resources",
            type=Resource(),
            multiple=True,
            metavar="NAME=AMOUNT",
            help="Another resource of one fold; may be repeated.",
        ),
        *_time_options(),
        click.option(
            "--max-in-flight",
            type=click.IntRange(min=1),
            help="Most folds at a time; as many as fit by default.",
        ),
        click.option(
            "--max-consecutive-failures",
            type=FailureLimit(),
            metavar="N",
            help='Failures in a row that stop the run (10); with "never" no failures do.',
        ),
        click.option(
            "--backend",
            type=click.Choice(["ray", "local"]),
            default="ray",
            show_default=True,
            help="Where folds are trained: on Ray, or in processes of this machine without it.",
        ),
        click.option(
            "--address",
            envvar="RAY_ADDRESS",
            show_envvar=True,
            help='An existing cluster: "auto" or HOST:PORT. A local one is started by default.',
        ),
        click.option(
            "--insecure", is_flag=True, help="Join a cluster without token authentication, too."
        ),
        click.option("--quiet", "-q", is_flag=True, help="Show no progress."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="drbqo_ray", prog_name="drbqo")
def cli() -> None:
    """Tune hyperparameters under cross-validation so that no fold is left behind.

    Exit codes: 0 done, 1 the run failed, 2 bad usage, 130 interrupted. A run that can recommend
    nothing has failed.
    """


@cli.command()
@click.option("--objective", required=True, metavar="MODULE:ATTR", help="What scores a fold.")
@click.option("--space", metavar="FILE", help="YAML file of the search space.")
@click.option("--folds", type=click.IntRange(min=2), help="Number of folds.")
@click.option(
    "--evaluations", type=click.IntRange(min=1), help="Folds to train; optional with --time."
)
@click.option("--radius", type=Radius(), default="1", show_default=True, help='Or "auto".')
@click.option("--storage", required=True, metavar="DIR", help="Where the journal is kept.")
@click.option("--name", help="Name of the run below DIR; without it DIR is the run itself.")
@click.option("--method", type=MethodName(), default=DEFAULT, show_default=True)
@click.option("--mode", type=click.Choice(["max", "min"]), default="max", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--stop-when", metavar="RULE", help='Stop early, e.g. "loss < 0.002".')
@click.option("--warm-start", metavar="DIR", help="An earlier run whose evaluations are kept.")
@click.option(
    "--warm-default",
    type=NamedValue(),
    multiple=True,
    metavar="NAME=VALUE",
    help="What a new parameter was in the earlier run; may be repeated.",
)
@_shared
def run(
    objective: str,
    space: str | None,
    folds: int | None,
    evaluations: int | None,
    radius: Any,
    storage: str,
    name: str | None,
    method: str,
    mode: str,
    seed: int,
    stop_when: str | None,
    warm_start: str | None,
    warm_default: tuple[tuple[str, Any], ...],
    **how: Any,
) -> None:
    """Start a run: train single folds until EVALUATIONS or TIME are used up, recommend a config.

    The objective is called as (config, fold, seed) and returns one number. --space and --folds may
    be left out when it has the attributes `space` and `n_folds`.
    """
    if evaluations is None and how["time"] is None:
        raise click.UsageError("Say how long to go on: pass --evaluations, --time, or both.")
    with reported(BAD_USAGE):
        check_new_run(storage, name)
        what = load_problem(objective, space, folds)
        what |= {"method": method, "uncertainty": radius, "mode": mode, "seed": seed}
        what |= {"n_evaluations": evaluations, "storage": storage, "name": name}
        what["stop_when"] = None if stop_when is None else stop_rule(stop_when)
        what["warm_start"] = warm(warm_start, dict(warm_default))
    execute(objective, what, how)


@cli.command()
@click.argument("directory", metavar="DIR")
@click.option("--name", help="Name of the run below DIR, if it has one.")
@click.option("--evaluations", type=click.IntRange(min=1), help="New total.")
@click.option("--stop-when", metavar="RULE", help='Another stop rule, or "never".')
@click.option("--objective", metavar="MODULE:ATTR", help="The objective you expect it to have.")
@click.option("--trust", is_flag=True, help="Call the objective it names, whoever wrote DIR.")
@_shared
def resume(
    directory: str,
    name: str | None,
    evaluations: int | None,
    stop_when: str | None,
    objective: str | None,
    trust: bool,
    **how: Any,
) -> None:
    """Go on with the run in DIR from its journal.

    Whatever you do not say stays as it was. The objective that the journal names is imported and
    called: if others can have written DIR, name it with --objective, or pass --trust.
    """
    with reported(BAD_USAGE):
        from drbqo_ray.cli.saved_run import SavedRun, resume_arguments

        saved = SavedRun.read(directory, name)
        what = resume_arguments(saved) | {"resume": True}
        if evaluations is not None:
            what["n_evaluations"] = evaluations
        if stop_when is not None:
            what["stop_when"] = stop_rule(stop_when)
        if how["time"] is not None:
            what |= {"time_budget": how["time"], "cost_aware": True}
        total, seconds = what.get("n_evaluations"), what.get("time_budget")
        if total is None and seconds is None:
            raise InvalidInput(
                "A run needs a number of evaluations, or a time.",
                "none in its journal",
                "Pass --evaluations or --time.",
            )
        over = saved.over(total, what.get("stop_when"), seconds)
        if over is None:
            if not trust or objective is not None:
                saved.check_trusted(objective)
            load(saved.run.problem.objective)
    if over is None:
        execute(saved.run.problem.objective, what, how)
    else:
        click.echo(f"drbqo: nothing to do: {printable(over)}", err=True)
        conclude(saved.uploaded_result())


@cli.command()
@click.argument("directory", metavar="DIR")
@click.option("--name", help="Name of the run below DIR, if it has one.")
@click.option(
    "--out", metavar="FILE", help="Where the page goes; report.html in the run by default."
)
@click.option("--watch", is_flag=True, help="Serve the page on this machine while the run goes on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of --watch; any free one."
)
def report(directory: str, name: str | None, out: str | None, watch: bool, port: int) -> None:
    """Make one offline HTML page of the run in DIR; works while the run is under way."""
    with reported(BAD_USAGE):
        from drbqo_ray.cli.saved_run import SavedRun

        saved = SavedRun.read(directory, name)
        if watch:
            saved.watch_report(port)
        else:
            click.echo(saved.write_report(out))


@cli.command()
def methods() -> None:
    """List the methods that --method takes."""
    from drbqo_ray.optimizer.methods import METHODS

    heads = ("method", "picks configs by", "picks folds by", "recommends by", "")
    rows = [
        (
            name,
            method.config_rule.name,
            method.context_rule.name,
            method.report,
            "default" if name == DEFAULT else "",
        )
        for name, method in METHODS.items()
    ]
    for line in table(heads, rows):
        click.echo(line)


@cli.command()
@click.option("--evaluations", type=click.IntRange(min=1), default=60, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def demo(evaluations: int, seed: int) -> None:
    """See a run on bundled data, and what robustness changes."""
    with reported(FAILED):
        from drbqo_ray.cli.demo import main as show

        sys.exit(show(evaluations, seed))


@cli.command()
@click.argument("name")
@click.option("--preset", type=click.Choice(["paper", "small"]), default="paper", show_default=True)
@click.option("--storage", metavar="DIR", help="Where journals are kept; go on with what is there.")
@click.option("--seeds", type=click.IntRange(min=1), help="Repetitions, instead of the preset's.")
@click.option("--out", metavar="DIR", help="Where CSV files, tables and figures go.")
@click.option("--redraw", is_flag=True, help="Only draw anew from the CSV files; run nothing.")
def experiment(
    name: str, preset: str, storage: str | None, seeds: int | None, out: str | None, redraw: bool
) -> None:
    """Run experiment NAME of the paper: logistic, synthetic, svm, mnist or theory."""
    with reported(BAD_USAGE):
        from drbqo_ray.experiments.command import main as reproduce

        click.echo(f"results in {reproduce(name, preset, storage, seeds, out, redraw)}")


def check_new_run(storage: str, name: str | None) -> None:
    """Raise InvalidInput when there is a run already; nothing is created."""
    from drbqo_ray.storage.journal import JOURNAL
    from drbqo_ray.storage.location import find_location

    place = find_location(storage, name)
    mirror = place.mirror()
    if (place.directory / JOURNAL).exists() or (mirror is not None and mirror.exists()):
        raise InvalidInput(
            "A new run needs a directory or an address without a run.",
            place.address,
            f"Go on with `{place.resume_command}`, or choose another --storage.",
        )


def make_storage(storage: str, name: str | None) -> None:
    """Make the directory of the run; DrbqoError when that fails or it cannot be written to."""
    from drbqo_ray.storage.directory import as_journal_error, make_directory
    from drbqo_ray.storage.location import find_location

    place = find_location(storage, name)
    if place.remote is not None:
        return
    with as_journal_error(f"make {place.directory}", "Choose a --storage you may write to."):
        make_directory(place.directory)
    if not os.access(place.directory, os.W_OK | os.X_OK):
        raise InvalidInput(
            "The storage must be a directory you may write to.",
            str(place.directory),
            "Choose another --storage.",
        )


def load_problem(objective: str, space: str | None, folds: int | None) -> dict[str, Any]:
    """The space and the contexts of a run, from the options or from the objective."""
    from drbqo_ray.space.file import read_space

    given = None if space is None else read_space(space)
    loaded = load(objective)
    found = getattr(loaded, "space", None) if given is None else given
    if found is None:
        raise InvalidInput(
            "A run needs a search space.", f"{objective} without `space`", "Pass --space FILE."
        )
    contexts = getattr(loaded, "n_folds", None) if folds is None else folds
    if contexts is None:
        raise InvalidInput(
            "A run needs a number of folds.", f"{objective} without `n_folds`", "Pass --folds N."
        )
    from drbqo_ray.objective import check_folds
    from drbqo_ray.space.space import as_space

    check_folds(loaded, contexts)
    return {"space": as_space(found), "contexts": contexts}


def load(objective: str) -> Any:
    """The objective that MODULE:ATTR names."""
    from drbqo_ray.objective import load_objective

    return load_objective(objective)


def warm(directory: str | None, defaults: dict[str, Any]) -> Any:
    """The earlier run to start from, None without one; InvalidInput when there is no run."""
    if directory is None:
        if defaults:
            raise InvalidInput(
                "--warm-default goes with --warm-start.", sorted(defaults), "Pass --warm-start DIR."
            )
        return None
    from drbqo_ray.storage.listing import find_run
    from drbqo_ray.storage.warm_start import WarmStart

    return WarmStart(find_run(directory).directory, defaults=defaults)


def stop_rule(text: str) -> str | None:
    """The stop rule if it can be read, None for "never"."""
    from drbqo_ray.optimizer.stopping import StopRule

    if text.strip() == "never":
        return None
    StopRule.parse(text)
    return text


def execute(objective: str, what: dict[str, Any], how: dict[str, Any]) -> None:
    """Run it, print what came out, and end with the exit code."""
    with reported(BAD_USAGE):
        check_address(how["backend"])
        if how["address"] is not None and how["backend"] == "ray":
            from drbqo_ray.runtime.display import waiting
            from drbqo_ray.runtime.executor import notice_lost_hosts

            notice_lost_hosts()
            with waiting(f"joining Ray at {how['address']}", not how["quiet"]):
                from drbqo_ray.runtime.ray_cluster import connect

                connect(how["address"], how["insecure"])
        make_storage(what["storage"], what["name"])
        if not how["quiet"]:
            from drbqo_ray.storage.location import find_location

            again = resume_command(find_location(what["storage"], what["name"]), objective)
            click.echo(f"drbqo: whatever happens, go on with `{printable(again)}`", err=True)
    with reported(FAILED), left_at_once():
        from drbqo_ray.runtime.run import run as start

        result = start(
            objective,
            what.pop("space"),
            what.pop("contexts"),
            progress=not how["quiet"],
            backend=how["backend"],
            **what | limits(how),
        )
    conclude(result, objective)


def check_address(backend: str) -> None:
    """Raise InvalidInput when the user names a cluster that the backend makes no use of."""
    from click.core import ParameterSource

    source = click.get_current_context().get_parameter_source("address")
    if backend != "ray" and source == ParameterSource.COMMANDLINE:
        raise InvalidInput(
            "--address goes with --backend ray.", f"--backend {backend}", "Leave one of them out."
        )


def limits(how: dict[str, Any]) -> dict[str, Any]:
    """The options about folds that were given, as arguments of `run`."""
    needs = dict(how["resources"])
    needs |= {name: how[key] for name, key in (("CPU", "cpus"), ("GPU", "gpus")) if how[key]}
    if how["cpus"] == 0:
        needs["CPU"] = 0.0
    found = {
        "resources": needs or None,
        "max_in_flight": how["max_in_flight"],
        "timeout_seconds": how["timeout"],
        "time_budget": how["time"],
        "at_deadline": how["at_deadline"],
        "max_consecutive_failures": how["max_consecutive_failures"],
    }
    given = {name: value for name, value in found.items() if value is not None}
    return {name: None if value == "never" else value for name, value in given.items()}


def conclude(result: Any, objective: str | None = None) -> None:
    """Print the result, and end with the exit code that says how the run ended.

    Args:
        result: the result of a run.
        objective: its name, for the command that goes on from an object store.
    """
    from drbqo_ray.cli.saved_run import coverage_line, recommendation_lines

    click.echo(f"run        {printable(result.address)}")
    if result.stop_reason is not None:
        click.echo(f"stopped    {printable(result.stop_reason)}")
    click.echo(coverage_line(result.coverage))
    expects = result.forecast if result.context_names else None
    for line in recommendation_lines(result.recommendation, result.certainty, expects):
        click.echo(line)
    if result.not_uploaded is not None:
        click.echo(f"copy       {printable_lines(result.not_uploaded)}")
    again = resume_command(result, objective)
    if result.stopped == "interrupted":
        click.echo(f"drbqo: interrupted; go on with `{printable(again)}`", err=True)
        raise SystemExit(INTERRUPTED)
    if result.recommendation is None:
        click.echo(f"drbqo: {printable_lines(nothing_recommended(result))}", err=True)
        raise SystemExit(FAILED)
    if result.not_uploaded is not None:
        click.echo(
            "drbqo: the run is done, but its copy in the object store is not whole;"
            f" `{printable(again)}` uploads what is missing",
            err=True,
        )
        raise SystemExit(FAILED)


def resume_command(run: Any, objective: str | None) -> str:
    """The command that goes on with a run, given by its location or its result."""
    again = f"drbqo resume {shlex.quote(run.address)}"
    if run.remote is not None and objective is not None:
        again += f" --objective {shlex.quote(objective)}"
    return again


def nothing_recommended(result: Any) -> str:
    """Why a run has no recommendation, with the traceback of its first failure."""
    first = result.first_failure
    why = "nothing can be recommended: every config has a failed fold."
    if first is None:
        return why
    fold = fold_text(first.context, result.context_names)
    where = f"evaluation {first.id} ({fold}, {first.config})"
    return f"{why} The first failure was {where}:\n{first.reason}"


@contextmanager
def reported(code: int) -> Iterator[None]:
    """End with one clear message instead of a traceback; misuse always ends with exit code 2."""
    try:
        yield
    except DrbqoError as error:
        misuse = (InvalidInput, ObjectiveError, ProblemChanged, JournalLocked)
        click.echo(f"drbqo: {printable_lines(error)}", err=True)
        raise SystemExit(BAD_USAGE if isinstance(error, misuse) else code) from None


@contextmanager
def left_at_once() -> Iterator[None]:
    """End the process on a Ctrl-C that the run did not catch, without Ray's long leave-taking."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("drbqo: interrupted", err=True)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(INTERRUPTED)


for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Entry point of the command `drbqo`."""
    try:
        sys.exit(cli.main(prog_name="drbqo", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("drbqo: interrupted", err=True)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
