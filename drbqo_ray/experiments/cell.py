"""One cell of the grid: one trace at one radius with one seed, kept as a run.

A *trace* is a sequence of evaluations; a *series* is what one method reports along it. Methods that
choose their evaluations alike share a trace. The names of series are those of the methods, with
"-randw" for a random choice of w.

A cell is a run with one slot whose first suggestions, the pairs that every method starts from, are
written into its journal before it begins. When it has finished, one record more says what came of
it, with configs numbered in the order they were first evaluated:

| record | data                                                                               |
|--------|------------------------------------------------------------------------------------|
| judged | reports: label -> number of the config reported after 0, 1, ... steps, None before |
|        | there is one; configs: number -> config, scores in all contexts, test error; the   |
|        | commit of the code                                                                 |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drbqo_ray.core.sets import ChiSquareBall
from drbqo_ray.errors import InvalidInput, JournalError, NothingObserved, RunFailed
from drbqo_ray.experiments.presets import Preset
from drbqo_ray.experiments.problems import Judgment, Opened, initial_pairs, open_problem
from drbqo_ray.experiments.provenance import current_commit
from drbqo_ray.optimizer.methods import METHODS, Method, find_method
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.optimizer.proposals import RobustDraw
from drbqo_ray.problem import Limits, Problem
from drbqo_ray.records import Config, Scored
from drbqo_ray.runtime.callbacks import Callbacks
from drbqo_ray.runtime.coordinator import Plan
from drbqo_ray.runtime.executor import EvaluationFailed
from drbqo_ray.runtime.run import drive
from drbqo_ray.storage.journal import (
    JOURNAL,
    Journal,
    JournalRecord,
    read_journal,
    refuse_changes,
    run_directory,
)
from drbqo_ray.storage.location import RunLocation
from drbqo_ray.storage.stored_run import ReplayedRun, read_run, replay
from drbqo_ray.threads import one_thread

RANDW = "-randw"


@dataclass(frozen=True)
class Trace:
    """A way to choose evaluations.

    Attributes:
        method: name of the first method that chooses them so.
        random_context: whether w is chosen at random.
        robust: whether the choice depends on the radius.
    """

    method: str
    random_context: bool
    robust: bool

    @property
    def name(self) -> str:
        """A name fit for a directory."""
        return self.method + (RANDW if self.random_context else "")


def recipe(series: str) -> Method:
    """The recipe of a series."""
    base = series.removesuffix(RANDW)
    if base not in METHODS:
        raise InvalidInput(
            "A series is named after a method.", series, f"Use one of {list(METHODS)}, or + -randw."
        )
    return find_method(base, "random" if series.endswith(RANDW) else None)


def trace_of(series: str) -> Trace:
    """The trace that a series is read from."""
    wanted = recipe(series)
    randw = series.endswith(RANDW)
    for name in METHODS:
        if _choice(find_method(name, "random" if randw else None)) == _choice(wanted):
            return Trace(name, randw, wanted.config_rule.name == RobustDraw.name)
    raise AssertionError("every method is its own trace")


def _choice(method: Method) -> tuple[str, str, bool]:
    """What the evaluations of a method depend on."""
    return method.config_rule.name, method.context_rule.name, method.free_form


def report_label(series: str, radius: float) -> str:
    """The report of its trace that a series shows at a radius: "mean" or "robust-R"."""
    return "mean" if recipe(series).report == "mean" else f"robust-{radius:g}"


@dataclass(frozen=True)
class Cell:
    """A trace at a radius with a seed.

    Attributes:
        preset: the experiment it belongs to.
        trace: how evaluations are chosen.
        radius: the radius the choice depends on, None if it does not.
        seed: repetition.
    """

    preset: Preset
    trace: Trace
    radius: float | None
    seed: int

    @property
    def name(self) -> str:
        """Name of its directory."""
        radius = "" if self.radius is None else f"_radius-{self.radius:g}"
        return f"{self.trace.name}{radius}_seed-{self.seed:03d}"

    @property
    def reports(self) -> list[str]:
        """Labels of the reports that the methods on this trace need."""
        radii = self.preset.radii if self.radius is None else (self.radius,)
        methods = [m for m in self.preset.methods if trace_of(m) == self.trace]
        return sorted({report_label(method, radius) for method in methods for radius in radii})

    @property
    def fingerprint(self) -> str:
        """What makes it this cell besides the settings of its optimizer, in words."""
        spec, horizon = self.preset.problem, self.preset.horizon
        return f"horizon {horizon}, reports {self.reports}, {json.dumps(asdict(spec))}"

    def directory(self, storage: Path) -> Path:
        """Where its journal is."""
        root = storage / f"{self.preset.experiment}-{self.preset.name}"
        return run_directory(root, self.name)


@dataclass(frozen=True)
class FinishedCell:
    """A cell that was run to its end.

    Attributes:
        reports: by label, the number of the reported config at t = 0 .. horizon.
        judgments: what the reported configs are worth, by number.
        configs: the reported configs, by number.
        commit: the code that finished it.
    """

    reports: dict[str, list[int]]
    judgments: dict[int, Judgment]
    configs: dict[int, Config]
    commit: str


def cells_of(preset: Preset) -> list[Cell]:
    """All cells of an experiment, seed by seed."""
    traces = dict.fromkeys(trace_of(method) for method in preset.methods)
    return [
        Cell(preset, trace, radius, seed)
        for seed in preset.seeds
        for trace in traces
        for radius in (preset.radii if trace.robust else (None,))
    ]


class Evaluating:
    """The objective of a cell: training that diverged has no score, which is a result; whatever
    else goes wrong is a defect."""

    def __init__(self, cell: Cell) -> None:
        self.problem = open_problem(cell.preset.problem, cell.seed)
        self.fingerprint = cell.fingerprint

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> Any:
        """The score of a config in one context."""
        try:
            return self.problem.evaluate(dict(config), fold, seed)
        except ArithmeticError as error:
            return Scored(float("nan"), {"diverged": str(error)})


def plan_of(cell: Cell, objective: Evaluating, storage: Path) -> Plan:
    """The cell as a run."""
    preset, problem = cell.preset, objective.problem
    settings = {
        "method": cell.trace.method,
        "context_rule": "random" if cell.trace.random_context else None,
        "uncertainty": cell.radius if cell.radius is not None else 1.0,
        "mode": "max",
        "n_initial": preset.n_initial,
        "seed": cell.seed,
    }
    name = f"{preset.problem.kind} {preset.problem.name}"
    return Plan(
        Problem.of(problem.space, problem.contexts, settings, objective, name),
        RunLocation(cell.directory(storage), cell.name),
        Limits(
            preset.n_initial + preset.horizon,
            max_in_flight=1,
            max_consecutive_failures=None,
        ),
        resume=True,
        raise_failures=True,
        answered=False,
    )


def run_cell(cell: Cell, storage: Path) -> None:
    """Run a cell to its end, from wherever its journal has got to."""
    if is_finished(cell, storage):
        return
    objective = Evaluating(cell)
    plan = plan_of(cell, objective, storage)
    _begin(cell, plan, objective.problem)
    try:
        (result,) = drive([plan], objective, cell.name, Callbacks(()), False, 1, backend="inline")
    except EvaluationFailed as failed:
        raise RunFailed(f"An evaluation of {cell.name} failed: {failed}") from failed
    if result.stopped == "interrupted":
        raise KeyboardInterrupt
    judged = _judged(cell, objective.problem, read_run(plan.place.directory))
    with Journal.attach(plan.place.directory, plan.problem.header()) as journal:
        journal.append("judged", judged)


def _begin(cell: Cell, plan: Plan, problem: Opened) -> None:
    """Write the initial pairs that the journal lacks."""
    pairs = initial_pairs(problem, cell.seed, cell.preset.n_initial)
    with Journal.attach(plan.place.directory, plan.problem.header()) as journal:
        known = len(replay(journal.records(), plan.problem).suggestions)
        asks = [
            ("ask", {"id": id, "config": config, "context": i, "seed": 1000 * cell.seed + id})
            for id, (config, i) in enumerate(pairs)
        ]
        journal.append_many(asks[known:])


def _judged(cell: Cell, problem: Opened, run: ReplayedRun) -> dict[str, Any]:
    """What came of a run: the reports along it, and what the reported configs are worth."""
    along = [
        reports(optimizer, cell.reports)
        for known, optimizer in enumerate(_states(run), start=1)
        if known >= cell.preset.n_initial
    ]
    shown = along if cell.preset.problem.judge_all else along[-1:]
    numbers = sorted({number for found in shown for number in found.values()})
    configs = run.optimizer.scoring().configs if numbers else []
    return {
        "reports": {label: [found.get(label) for found in along] for label in cell.reports},
        "configs": {
            str(number): {"config": configs[number], **_worth(problem.judge(configs[number]))}
            for number in numbers
        },
        "commit": current_commit(),
    }


def _states(run: ReplayedRun) -> Iterator[Optimizer]:
    """The optimizer as it was after each outcome of a run with one slot."""
    optimizer = run.problem.optimizer()
    for known, outcome in enumerate(run.outcomes.values(), start=1):
        optimizer.register(run.suggestions[outcome.id])
        optimizer.record(outcome)
        if known in run.fits:
            optimizer.last_fit = run.fits[known]
        yield optimizer


@one_thread
def reports(optimizer: Optimizer, labels: Iterable[str]) -> dict[str, int]:
    """Number of the config that each report rule picks from the same posterior, by label; no later
    ask is changed."""
    try:
        scoring = optimizer.scoring("robust")
    except NothingObserved:
        return {}
    usable = np.flatnonzero(scoring.usable)
    if not len(usable):
        return {}
    means = scoring.rows(usable)  # (m, n)
    picked = {}
    for label in labels:
        values = means @ optimizer.reference
        if label != "mean":
            radius = float(label.removeprefix("robust-"))
            values = ChiSquareBall(radius).solve(means, optimizer.reference)[0]
        picked[label] = int(usable[np.argmax(values)])
    return picked


def is_finished(cell: Cell, storage: Path) -> bool:
    """Whether the journal of a cell has its last record."""
    return _is_judged(_records(cell, storage))


def read_cell(cell: Cell, storage: Path) -> FinishedCell:
    """What came of a finished cell.

    Raises:
        JournalError: the cell is not finished, or its journal is damaged.
    """
    records = _records(cell, storage)
    if not _is_judged(records):
        raise JournalError(
            f"The cell {cell.name} is not finished. Give the command that runs the experiment"
            " again; it goes on where it stopped."
        )
    found = records[-1].data
    configs = {int(k): data for k, data in found["configs"].items()}
    return FinishedCell(
        reports=found["reports"],
        judgments={k: _judgment(data) for k, data in configs.items()},
        configs={k: data["config"] for k, data in configs.items()},
        commit=found["commit"],
    )


def _worth(judgment: Judgment) -> dict[str, Any]:
    contexts = None if judgment.contexts is None else list(judgment.contexts)
    return {"contexts": contexts, "test_error": judgment.test_error}


def _judgment(data: dict[str, Any]) -> Judgment:
    contexts = data["contexts"]
    return Judgment(None if contexts is None else tuple(contexts), data["test_error"])


def _is_judged(records: list[JournalRecord]) -> bool:
    return bool(records) and records[-1].kind == "judged"


def _records(cell: Cell, storage: Path) -> list[JournalRecord]:
    """The records of a cell, none if it was never begun."""
    path = cell.directory(storage) / JOURNAL
    if not path.exists() or path.stat().st_size == 0:
        return []
    records = list(read_journal(path))
    wanted = plan_of(cell, Evaluating(cell), storage).problem.header()
    refuse_changes(records[0].data["problem"], wanted, str(path.parent))
    return records
