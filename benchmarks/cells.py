"""Cells of the quality benchmark: one searcher on one problem with one seed, kept as JSON lines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import drbqo_ray as dr
from benchmarks.learners import Config
from benchmarks.peers import Ours, Purse, answers, show_no_warnings
from benchmarks.problems import FoldProblem, open_problem
from benchmarks.searchers import SEARCHERS
from drbqo_ray.experiments.provenance import provenance

RADIUS = 1.0
LOOK_EVERY = 5
LOOKING = ("foldwise",)

Key = tuple[str, str, int]


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
    """

    spent: int
    loss: float
    probability: float
    robust: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Cell:
    """One searcher on one problem with one seed."""

    problem: str
    searcher: str
    seed: int
    answers: list[Answer]
    looks: list[Look]
    cpu_seconds: float
    commit: str

    @property
    def key(self) -> Key:
        return self.problem, self.searcher, self.seed

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

    def _scores(self, config: tuple[tuple[str, float], ...]) -> list[float]:
        score = self._problem.expected or self._problem.score
        return [score(dict(config), i) for i in range(self._problem.n_folds)]

    def _robust(self, config: tuple[tuple[str, float], ...]) -> float:
        return float(dr.ChiSquareBall(RADIUS).worst_case(self.scores(config))[0])

    def _test(self, config: tuple[tuple[str, float], ...]) -> float | None:
        return None if self._problem.test is None else self._problem.test(dict(config))

    def answer(self, series: str, budget: int, config: Config) -> Answer:
        """A recommendation with its worth."""
        key = tuple(config.items())
        mean = float(np.mean(self.scores(key)))
        return Answer(series, budget, config, self.robust(key), mean, self.test(key))


def run_cell(budgets: list[int], name: str, searcher: str, seed: int) -> Cell:
    """One searcher on one problem with one seed."""
    problem = open_problem(name, seed)
    purse, judge = Purse(problem, RADIUS), Judge(problem)
    looks: list[Look] = []
    start = time.process_time()
    made = SEARCHERS[searcher](purse, seed, max(budgets))
    watch = _watcher(made, judge, looks) if searcher in LOOKING else None
    found = answers(made, purse, budgets, watch)
    seconds = round(time.process_time() - start, 3)
    judged = [
        judge.answer(series, budget, config)
        for budget, by_series in found.items()
        for series, config in by_series.items()
    ]
    return Cell(name, searcher, seed, judged, looks, seconds, provenance("")["commit"])


def _watcher(searcher: object, judge: Judge, looks: list[Look]) -> Callable[[int], None]:
    """Looks at the certainty of our optimizer now and then."""
    assert isinstance(searcher, Ours)
    optimizer = searcher.optimizer
    first = optimizer.n_initial + 2 * optimizer.n_contexts

    def watch(spent: int) -> None:
        if spent >= first and spent % LOOK_EVERY == 0:
            sure = optimizer.certainty()
            best = tuple(optimizer.recommend().config.items())
            looks.append(
                Look(spent, sure.loss, sure.probability, judge.robust(best), *sure.interval)
            )

    return watch


def read_cells(path: Path) -> dict[Key, Cell]:
    """The finished cells of a file; a line cut off by a crash is left out."""
    cells = {}
    for text in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            cell = Cell.parse(text)
        except ValueError:
            continue
        cells[cell.key] = cell
    return cells


def settle() -> None:
    """A quiet process with one thread, for torch too where it is installed."""
    show_no_warnings()
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


def run_missing(keys: list[Key], path: Path, processes: int, budgets: list[int]) -> None:
    """Run cells side by side and append each to the file as it comes in."""
    cut_off = path.exists() and not path.read_bytes().endswith(b"\n")
    with (
        ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=settle) as pool,
        open(path, "a", encoding="utf-8") as file,
    ):
        file.write("\n" if cut_off else "")
        running = [pool.submit(run_cell, budgets, *key) for key in keys]
        for count, future in enumerate(as_completed(running), 1):
            cell = future.result()
            file.write(json.dumps(asdict(cell)) + "\n")
            file.flush()
            shown = " ".join(f"{answer.robust:.4f}" for answer in cell.answers)
            print(
                f"{count}/{len(keys)} {cell.problem} {cell.searcher} seed {cell.seed}:"
                f" {shown} ({cell.cpu_seconds:.1f} CPU s)",
                flush=True,
            )
