"""One cell of the grid: one trace at one radius with one seed, and its journal.

| record  | data                                                                           |
|---------|--------------------------------------------------------------------------------|
| initial | config, context and score of a pair that every method starts from              |
| start   | reports: label -> number of the config reported before the first step          |
| step    | the suggestion, its score (or the reason why it failed), the fit, the reports  |
| finish  | judged: number -> config, scores in all contexts, test error; the commit run   |

Configs are numbered in the order they were first evaluated. A cell that was cut off goes on
from its last step: the next suggestion depends on the evaluations and the last fit only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drbqo_ray.core.sets import ChiSquareBall
from drbqo_ray.core.surrogate import Fit
from drbqo_ray.errors import NothingObserved
from drbqo_ray.experiments.presets import Preset
from drbqo_ray.experiments.problems import Problem, initial_pairs, open_problem
from drbqo_ray.experiments.provenance import current_commit
from drbqo_ray.experiments.series import Trace, report_label, trace_of
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import Config, Suggestion
from drbqo_ray.storage.journal import Journal, JournalRecord, run_directory
from drbqo_ray.threads import one_thread

FORMAT = 1


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

    def directory(self, storage: Path) -> Path:
        """Where its journal is."""
        root = storage / f"{self.preset.experiment}-{self.preset.name}"
        return run_directory(root, self.name)

    def header(self) -> dict[str, Any]:
        """What the journal is for; a journal with another header is not touched."""
        spec = asdict(self.preset.problem)
        return {
            "format": FORMAT,
            "problem": {**spec, "options": {str(k): v for k, v in self.preset.problem.options}},
            "trace": self.trace.name,
            "radius": self.radius,
            "seed": self.seed,
            "n_initial": self.preset.n_initial,
            "horizon": self.preset.horizon,
            "reports": self.reports,
        }


def cells_of(preset: Preset) -> list[Cell]:
    """All cells of an experiment, seed by seed."""
    traces = dict.fromkeys(trace_of(method) for method in preset.methods)
    return [
        Cell(preset, trace, radius, seed)
        for seed in preset.seeds
        for trace in traces
        for radius in (preset.radii if trace.robust else (None,))
    ]


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


def run_cell(cell: Cell, storage: Path) -> None:
    """Run a cell to its end, from wherever its journal has got to."""
    problem = open_problem(cell.preset.problem, cell.seed)
    with Journal.attach(cell.directory(storage), cell.header()) as journal:
        records = list(journal.records())[1:]
        if records and records[-1].kind == "finish":
            return
        optimizer = Optimizer(
            problem.space,
            problem.contexts,
            method=cell.trace.method,
            context_rule="random" if cell.trace.random_context else None,
            uncertainty=cell.radius if cell.radius is not None else 1.0,
            n_initial=cell.preset.n_initial,
            seed=cell.seed,
        )
        reported = _replay(optimizer, records)
        reported |= _start(cell, problem, optimizer, journal, records)
        done = sum(record.kind == "step" for record in records)
        for _ in range(done, cell.preset.horizon):
            reported |= _step(cell, problem, optimizer, journal)
        if not cell.preset.problem.judge_all:
            reported = set(reports(optimizer, cell.reports).values())
        configs = optimizer.scoring().configs if reported else []
        judged = {str(k): _judged(problem, configs[k]) for k in sorted(reported)}
        journal.append("finish", {"judged": judged, "commit": current_commit()})


def _replay(optimizer: Optimizer, records: list[JournalRecord]) -> set[int]:
    """Tell the optimizer what the journal holds; the numbers of the configs reported so far."""
    reported: set[int] = set()
    fit = None
    for record in records:
        data = record.data
        reported |= set(data.get("reports", {}).values())
        if record.kind == "initial":
            _observe(optimizer, data)
        elif record.kind == "step":
            optimizer.register(
                Suggestion(data["id"], data["config"], data["context"], data["seed"])
            )
            _tell(optimizer, data)
            fit = data["fit"]
    if fit is not None:
        optimizer.last_fit = Fit.from_dict(fit)
    return reported


def _start(
    cell: Cell,
    problem: Problem,
    optimizer: Optimizer,
    journal: Journal,
    records: list[JournalRecord],
) -> set[int]:
    """Evaluate the initial pairs that the journal lacks."""
    if any(record.kind == "start" for record in records):
        return set()
    pairs = initial_pairs(problem, cell.seed, cell.preset.n_initial)
    done = sum(record.kind == "initial" for record in records)
    for turn, (config, context) in enumerate(pairs[done:], start=done):
        seed = 1000 * cell.seed + turn
        data = {"config": config, "context": context, **_score(problem, config, context, seed)}
        journal.append("initial", data)
        _observe(optimizer, data)
    found = reports(optimizer, cell.reports)
    journal.append("start", {"reports": found})
    return set(found.values())


def _step(cell: Cell, problem: Problem, optimizer: Optimizer, journal: Journal) -> set[int]:
    """One iteration of the algorithm, written down before the next begins."""
    suggestion = optimizer.ask()
    fit = optimizer.last_fit
    data = {**asdict(suggestion), "fit": None if fit is None else fit.to_dict()}
    data |= _score(problem, suggestion.config, suggestion.context, suggestion.seed)
    _tell(optimizer, data)
    data["reports"] = reports(optimizer, cell.reports)
    journal.append("step", data)
    return set(data["reports"].values())


def _score(problem: Problem, config: Config, context: int, seed: int) -> dict[str, Any]:
    try:
        return {"score": problem.evaluate(config, context, seed)}
    except ArithmeticError as error:  # training diverged: a result, not a defect
        return {"score": None, "reason": str(error)}


def _observe(optimizer: Optimizer, data: dict[str, Any]) -> None:
    score = float("nan") if data["score"] is None else data["score"]
    optimizer.observe(data["config"], data["context"], score)


def _tell(optimizer: Optimizer, data: dict[str, Any]) -> None:
    if data["score"] is None:
        optimizer.fail(data["id"], data["reason"])
    else:
        optimizer.tell(data["id"], data["score"])


def _judged(problem: Problem, config: Config) -> dict[str, Any]:
    judgment = problem.judge(config)
    contexts = None if judgment.contexts is None else list(judgment.contexts)
    return {"config": config, "contexts": contexts, "test_error": judgment.test_error}
