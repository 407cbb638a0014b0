"""Cells of the quality benchmark: one searcher on one problem with one seed, kept as JSON lines."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import drbqo_ray as dr
from benchmarks.quality.learners import Config
from benchmarks.quality.peers import Purse, show_no_warnings
from benchmarks.quality.problems import FoldProblem, open_problem
from benchmarks.quality.searchers import SEARCHERS, Ours, answers
from drbqo_ray.experiments.provenance import provenance

RADIUS = 1.0
LOOK_EVERY = 5
LOOKING = ("foldwise",)
FIRST_FILE = "cells.jsonl"

Key = tuple[str, str, int]
Items = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Answer:
    """What a series recommended after some fold evaluations, and what that is worth.

    Attributes:
        series: which searcher and report.
        budget: fold evaluations that could be spent.
        config: the recommendation.
        robust: robust value of its scores on all folds.
        mean: their plain mean.
        test: score on the test set; None if there is none.
    """

    series: str
    budget: int
    config: Config
    robust: float
    mean: float
    test: float | None


@dataclass(frozen=True)
class Look:
    """How sure a searcher was of its recommendation after some evaluations.

    Attributes:
        spent: fold evaluations.
        loss: expected loss of stopping.
        probability: that the recommendation is the best of those seen.
        robust: robust value of the recommendation, from its scores on all folds.
        low, high: where it was said to lie with probability 0.95; None in older cells.
        missing: how many of its folds were not trained; None in older cells.
        test: its score on the test set; None in older cells.
    """

    spent: int
    loss: float
    probability: float
    robust: float
    low: float | None = None
    high: float | None = None
    missing: int | None = None
    test: float | None = None


@dataclass(frozen=True)
class Cell:
    """One searcher on one problem with one seed.

    Attributes:
        answers: what its series recommended.
        looks: how sure it was on the way.
        cpu_seconds: of the search and of training its folds, not of judging.
        commit: of the code that was run.
        baseline: test scores of the "default" config and of the "first" one tried; older cells
            have none.
    """

    problem: str
    searcher: str
    seed: int
    answers: list[Answer]
    looks: list[Look]
    cpu_seconds: float
    commit: str
    baseline: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.problem, self.searcher, self.seed

    @property
    def budgets(self) -> set[int]:
        """The budgets it has answers for."""
        return {answer.budget for answer in self.answers}

    @staticmethod
    def parse(text: str) -> Cell:
        """The cell of one JSON line; ValueError if the line was cut off."""
        found = json.loads(text)
        found["answers"] = [Answer(**entry) for entry in found["answers"]]
        found["looks"] = [Look(**entry) for entry in found["looks"]]
        return Cell(**found)


class Judge:
    """The worth of configs of one problem, each computed once."""

    def __init__(self, problem: FoldProblem) -> None:
        self._problem = problem
        self.robust = cache(self._robust)
        self.scores = cache(self._scores)
        self.test = cache(self._test)

    def _scores(self, config: Items) -> list[float]:
        if self._problem.expected is not None:
            return [self._problem.expected(dict(config), i) for i in range(self._problem.n_folds)]
        return [self._problem.score(dict(config), i, 0) for i in range(self._problem.n_folds)]

    def _robust(self, config: Items) -> float:
        return float(dr.ChiSquareBall(RADIUS).worst_case(self.scores(config))[0])

    def _test(self, config: Items) -> float | None:
        return None if self._problem.test is None else self._problem.test(dict(config))

    def answer(self, series: str, budget: int, config: Config) -> Answer:
        """A recommendation with its worth."""
        key = tuple(config.items())
        mean = float(np.mean(self.scores(key)))
        return Answer(series, budget, config, self.robust(key), mean, self.test(key))

    def baseline(self, first: Config | None) -> dict[str, float]:
        """Test scores of the default config and of the first one tried, where there are any."""
        known = {"default": self._problem.default, "first": first}
        scores = {name: self.test(tuple(c.items())) for name, c in known.items() if c is not None}
        return {name: score for name, score in scores.items() if score is not None}


def run_cell(budgets: Sequence[int], name: str, searcher: str, seed: int) -> Cell:
    """One searcher on one problem with one seed; one that plans by its budget runs once for
    each."""
    problem, entry = open_problem(name, seed), SEARCHERS[searcher]
    judge = Judge(problem)
    looks: list[Look] = []
    found: dict[int, dict[str, Config]] = {}
    seconds = 0.0
    for part in [[b] for b in budgets] if entry.planned else [budgets]:
        purse, start = Purse(problem, RADIUS), time.process_time()
        made = entry.make(purse, seed, max(part))
        watch = _watcher(made, judge, looks) if searcher in LOOKING else None
        found |= answers(made, purse, part, watch)
        seconds += time.process_time() - start
        if hasattr(made, "close"):
            made.close()
    judged = [
        judge.answer(series, budget, config)
        for budget, by_series in found.items()
        for series, config in by_series.items()
    ]
    commit = provenance("")["commit"]
    baseline = judge.baseline(purse.first)
    return Cell(name, searcher, seed, judged, looks, round(seconds, 3), commit, baseline)


def _watcher(searcher: object, judge: Judge, looks: list[Look]) -> Callable[[int], None]:
    """Looks at the certainty of our optimizer now and then."""
    assert isinstance(searcher, Ours)
    optimizer = searcher.optimizer
    first = optimizer.n_initial + 2 * optimizer.n_contexts

    def watch(spent: int) -> None:
        if spent >= first and spent % LOOK_EVERY == 0:
            sure, config = optimizer.certainty(), optimizer.recommend().config
            best = tuple(config.items())
            trained = {o.context for o in optimizer.observations if o.config == config}
            looks.append(
                Look(
                    spent,
                    sure.loss,
                    sure.probability,
                    judge.robust(best),
                    *sure.interval,
                    missing=optimizer.n_contexts - len(trained),
                    test=judge.test(best),
                )
            )

    return watch


def read_cells(directory: Path) -> dict[Key, Cell]:
    """The finished cells of a directory; a line cut off by a crash is left out. A later line
    replaces an earlier one, and the file of a searcher what the first file says."""
    cells = {}
    for path in sorted(directory.glob("*.jsonl"), key=lambda path: path.name != FIRST_FILE):
        for text in path.read_text("utf-8").splitlines():
            try:
                cell = Cell.parse(text)
            except ValueError:
                continue
            cells[cell.key] = cell
    return cells


def file_of(directory: Path, searcher: str) -> Path:
    """Where the cells of a searcher are appended."""
    return directory / (re.sub(r"\W+", "-", searcher) + ".jsonl")


def settle() -> None:
    """A quiet process with one thread, for torch too where it is installed."""
    show_no_warnings()
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


def run_missing(
    wanted: Iterable[tuple[Key, Sequence[int]]],
    directory: Path,
    processes: int,
    minutes: float | None = None,
) -> int:
    """Run cells side by side, each with its budgets, and append each to its file as it comes in.

    Begins none after so many minutes; how many were left out.
    """
    left = list(wanted)
    end = None if minutes is None else time.monotonic() + 60 * minutes
    running: set[Future[Cell]] = set()
    count, total = 0, len(left)
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=settle
    ) as pool:
        while True:
            while left and len(running) < processes and (end is None or time.monotonic() < end):
                key, budgets = left.pop(0)
                running.add(pool.submit(run_cell, budgets, *key))
            if not running:
                return len(left)
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                count += 1
                _keep(future.result(), directory, f"{count}/{total}")


def _keep(cell: Cell, directory: Path, number: str) -> None:
    """Append a cell to its file, on a line of its own, and print it."""
    path = file_of(directory, cell.searcher)
    cut_off = path.exists() and not path.read_bytes().endswith(b"\n")
    with open(path, "a", encoding="utf-8") as file:
        file.write(("\n" if cut_off else "") + json.dumps(asdict(cell)) + "\n")
    shown = " ".join(f"{answer.robust:.4f}" for answer in cell.answers)
    print(
        f"{number} {cell.problem} {cell.searcher} seed {cell.seed}:"
        f" {shown} ({cell.cpu_seconds:.1f} CPU s)",
        flush=True,
    )
