"""What finished cells say: ranks, paired differences, overtuning, intervals, stop rules.

All comparisons are paired by seed, on the seeds that both sides have run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.stats import rankdata

from benchmarks.quality.cells import Cell, Look
from benchmarks.quality.searchers import AT_ONCE, MATERN, OTHERS, PLAIN, SMOOTHED
from benchmarks.table import Line, mean_interval

Measure = Literal["robust", "test"]
Scores = dict[str, dict[int, float]]  # series -> seed -> score

MEASURES: tuple[Measure, ...] = ("robust", "test")
CHAMPION = "foldwise"
PAPER = ["drbqo", "emp-drbqo", "bqo-ts", "maximin-bqo-ts", "bqo-ei", "maximin-bqo-ei", "mtbo"]
PEERS = [
    "random mean",
    "random robust",
    "optuna-tpe mean",
    "optuna-tpe robust",
    "optuna-tpe forgiving mean",
    "optuna-tpe forgiving robust",
    "optuna-tpe wilcoxon mean",
    "optuna-gp mean",
    "optuna-gp robust",
    "optuna-gp forgiving mean",
    "optuna-gp forgiving robust",
    "irace",
    "botorch cvar",
    "smac folds",
]
RANKED = [CHAMPION, *PAPER, *PEERS]
ENOUGH = 10  # seeds with which a slow searcher is ranked
ROUNDING = 1e-9  # an interval may be a point
LIMITS = (0.001, 0.002, 0.005, 0.01, 0.02)
LEAST_SAVED, MOST_LOST = 20.0, 0.005
RECOMMENDED = 0.005
MOST_OVERTUNED = 5.0


def budgets_of(cells: Iterable[Cell], problems: Sequence[str]) -> list[int]:
    """The budgets that cells of the problems have answers for."""
    return sorted({b for cell in cells if cell.problem in problems for b in cell.budgets})


def scores_of(cells: Iterable[Cell], problem: str, budget: int, measure: Measure) -> Scores:
    """What the series reached on a problem with a budget; without those that have no such score."""
    found: Scores = {}
    for cell in cells:
        if cell.problem == problem:
            for answer in cell.answers:
                value = getattr(answer, measure)
                if answer.budget == budget and value is not None:
                    found.setdefault(answer.series, {})[cell.seed] = value
    return found


def shared_seeds(scores: Scores, series: Sequence[str]) -> list[int]:
    """The seeds that all of the series have run."""
    return sorted(set.intersection(*(set(scores.get(name, {})) for name in series)))


def gaps(scores: Scores, series: str, other: str) -> list[float]:
    """What a series is better than another by, seed by seed."""
    seeds = shared_seeds(scores, [series, other])
    return [scores[series][seed] - scores[other][seed] for seed in seeds]


def ranks(scores: Scores, series: Sequence[str]) -> np.ndarray:
    """Rank of every series with every shared seed, (seeds, series); 1 is best, ties share it."""
    seeds = shared_seeds(scores, series)
    table = np.array([[scores[name][seed] for name in series] for seed in seeds])
    return rankdata(-table.round(12), axis=1) if len(seeds) else np.empty((0, len(series)))


def complete(
    cells: Iterable[Cell], problems: Sequence[str], names: Sequence[str], budget: int
) -> list[str]:
    """Those of the series that have run as many seeds as any of them, or enough, on every
    problem."""
    cells = list(cells)
    tables = [scores_of(cells, problem, budget, "robust") for problem in problems]
    runs = {name: [len(table.get(name, {})) for table in tables] for name in names}
    most = [min(max(counts), ENOUGH) for counts in zip(*runs.values(), strict=True)]
    if not problems or min(most) == 0:
        return []
    return [n for n in names if all(r >= m for r, m in zip(runs[n], most, strict=True))]


def mean_ranks(
    cells: Iterable[Cell],
    problems: Sequence[str],
    series: Sequence[str],
    budget: int,
    measure: Measure,
) -> np.ndarray:
    """Mean rank of every series on every problem that has the measure, (problems, series)."""
    cells = list(cells)
    tables = [ranks(scores_of(cells, name, budget, measure), series) for name in problems]
    return np.array([table.mean(axis=0) for table in tables if len(table)])


def rank_lines(
    cells: Sequence[Cell], problems: Sequence[str], group: str, budget: int, measure: Measure
) -> Iterator[Line]:
    """The mean rank of every series over the problems of a group."""
    series = complete(cells, problems, RANKED, budget)
    if not series:
        return
    found = mean_ranks(cells, problems, series, budget, measure)
    if not len(found):
        return
    means = found.mean(axis=0)
    for k in np.argsort(means, kind="stable"):
        least = float(means.min()) if (series[k], measure) == (CHAMPION, "robust") else None
        yield Line(
            "quality",
            f"rank by {measure}, {series[k]}",
            f"{group}, {budget} folds",
            float(means[k]),
            "",
            most=least,
            note=f"of {len(series)}, {len(found)} problems",
        )


def difference_lines(
    cells: Sequence[Cell], problems: Sequence[str], group: str, budget: int, measure: Measure
) -> Iterator[Line]:
    """What our method is better by than each other one. Only problems with a test set: the scores
    of the others have another scale."""
    scaled = [name for name in problems if scores_of(cells, name, budget, "test")]
    for peer in RANKED[1:]:
        found = mean_gap(cells, scaled, budget, measure, CHAMPION, peer)
        if found is not None:
            middle, low, high = found
            yield Line(
                "quality",
                f"{measure}, {CHAMPION} less {peer}",
                f"{group}, {budget} folds",
                middle,
                "",
                low,
                high,
                least=0.0 if measure == "robust" else None,
                note=f"{len(scaled)} problems",
            )


def variant_lines(
    cells: Sequence[Cell], problems: Sequence[str], group: str, budget: int
) -> Iterator[Line]:
    """What a radius gains over none, what a Matern kernel and another report gain over the
    champion, and what one worker gains over eight."""
    pairs = [(series, PLAIN, "radius 0") for series in OTHERS]
    pairs += [(series, CHAMPION, CHAMPION) for series in (MATERN, SMOOTHED)]
    pairs += [(CHAMPION, AT_ONCE, "the same with 8 workers")]
    for measure in MEASURES:
        for series, base, called in pairs:
            found = mean_gap(cells, problems, budget, measure, series, base)
            if found is not None:
                middle, low, high = found
                what = f"{measure}, {series} less {called}"
                yield Line("quality", what, f"{group}, {budget} folds", middle, "", low, high)


def mean_gap(
    cells: Sequence[Cell],
    problems: Sequence[str],
    budget: int,
    measure: Measure,
    series: str,
    base: str,
) -> tuple[float, float, float] | None:
    """What a series gains over another: the mean over problems and its interval; None if they
    share no seed."""
    by_problem = [gaps(scores_of(cells, p, budget, measure), series, base) for p in problems]
    means = [float(np.mean(found)) for found in by_problem if found]
    return mean_interval(means) if means else None


def verdicts(
    cells: Sequence[Cell], problems: Sequence[str], peer: str, measure: Measure
) -> tuple[int, int, int]:
    """In how many pairs of problem and budget the champion is clearly better than a peer, level
    with it, and clearly worse, by 95 % intervals over seeds."""
    counts = [0, 0, 0]
    for problem in problems:
        for budget in budgets_of(cells, [problem]):
            found = gaps(scores_of(cells, problem, budget, measure), CHAMPION, peer)
            if found:
                _, low, high = mean_interval(found)
                counts[0 if low > 0 else 2 if high < 0 else 1] += 1
    return counts[0], counts[1], counts[2]


def overtuning_lines(
    cells: Sequence[Cell], problems: Sequence[str], group: str, budget: int
) -> Iterator[Line]:
    """How often a series recommends a config with a worse test score than the default one, and
    than the first one it tried."""
    for base in ("default", "first"):
        for series in RANKED:
            worse = [
                answer.test < cell.baseline[base] - ROUNDING
                for cell in cells
                if cell.problem in problems and base in cell.baseline
                for answer in cell.answers
                if (answer.series, answer.budget) == (series, budget) and answer.test is not None
            ]
            if worse:
                yield Line(
                    "quality",
                    f"worse in test than the {base} config, {series}",
                    f"{group}, {budget} folds",
                    100 * float(np.mean(worse)),
                    "%",
                    most=MOST_OVERTUNED if series == CHAMPION else None,
                    note=f"{len(worse)} searches",
                )


def coverage_lines(cells: Sequence[Cell], problems: Sequence[str], group: str) -> Iterator[Line]:
    """The share of intervals that hold the value and their width, the mean over problems: at all
    looks, at those where folds of the config were missing, and at those where none was."""
    by_problem = [_looks(cells, name) for name in problems]
    missing = [table[table[:, 3] > 0] for table in by_problem]
    whole = [table[table[:, 3] == 0] for table in by_problem]
    for when, chosen in (
        ("", by_problem),
        (", folds missing", missing),
        (", all folds trained", whole),
    ):
        tables = [table for table in chosen if len(table)]
        if not tables:
            continue
        note = f"{len(tables)} problems, {sum(map(len, tables))} looks"
        shares = [100 * float(np.mean(_held(table))) for table in tables]
        middle, low, high = mean_interval(shares)
        yield Line("quality", f"interval holds{when}", group, middle, "%", low, high, note=note)
        widths = [float(np.mean(table[:, 2] - table[:, 0])) for table in tables]
        middle, low, high = mean_interval(widths)
        yield Line("quality", f"interval width{when}", group, middle, "", low, high, note=note)


def _looks(cells: Sequence[Cell], problem: str) -> np.ndarray:
    """Low end, robust value, high end and missing folds (k, 4) at all looks with an interval. Of
    older cells it is only known that an interval with some width has folds missing."""
    rows = [
        (x.low, x.robust, x.high, x.missing if x.missing is not None else x.high - x.low > ROUNDING)
        for c in cells
        if c.problem == problem
        for x in c.looks
        if x.low is not None and x.high is not None
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def _held(looks: np.ndarray) -> np.ndarray:
    low, robust, high, _ = looks.T
    return (robust >= low - ROUNDING) & (robust <= high + ROUNDING)


def stop_at(looks: Sequence[Look], limit: float) -> Look:
    """The look at which a search stops: the second in a row with a loss below the limit, or the
    last one."""
    for before, now in pairwise(looks):
        if max(before.loss, now.loss) < limit:
            return now
    return looks[-1]


def savings(cells: Sequence[Cell], limit: float) -> tuple[list[float], list[float], list[float]]:
    """Per cent of the budget saved, robust value and test score lost by stopping, cell by cell;
    older cells know no test scores."""
    saved, lost, lost_test = [], [], []
    for cell in cells:
        stop, end = stop_at(cell.looks, limit), cell.looks[-1]
        saved.append(100 * (1 - stop.spent / end.spent))
        lost.append(end.robust - stop.robust)
        if end.test is not None and stop.test is not None:
            lost_test.append(end.test - stop.test)
    return saved, lost, lost_test


def saving_lines(cells: Sequence[Cell], problems: Sequence[str], group: str) -> Iterator[Line]:
    """Means over the problems of a group, for several limits."""
    by_problem = [[c for c in cells if c.looks and c.problem == name] for name in problems]
    by_problem = [members for members in by_problem if members]
    kinds = (("budget saved", "%"), ("robust value lost", ""), ("test score lost", ""))
    for limit in LIMITS if by_problem else ():
        found = [savings(members, limit) for members in by_problem]
        setting = f'{group}, stop_when="loss < {limit:g}"'
        asked = limit == RECOMMENDED
        for k, (what, unit) in enumerate(kinds):
            means = [float(np.mean(each[k])) for each in found if each[k]]
            if means:
                middle, low, high = mean_interval(means)
                yield Line(
                    "quality",
                    what,
                    setting,
                    middle,
                    unit,
                    low,
                    high,
                    least=LEAST_SAVED if asked and k == 0 else None,
                    most=MOST_LOST if asked and k == 1 else None,
                    note=f"{len(means)} problems",
                )


def regret_curves(
    cells: Sequence[Cell], problems: Sequence[str], measure: Measure
) -> dict[str, dict[int, float]]:
    """Mean regret by series and budget, for the series that are complete at that budget.

    Regret is what is missing to the best answer known for a problem and seed. It is divided by the
    mean of all series at the smallest budget, problem by problem, so that each problem counts as
    much as the others; then averaged over problems, on the seeds that all series share.
    """
    budgets = budgets_of(cells, problems)
    curves: dict[str, dict[int, float]] = {}
    scales: dict[str, float] = {}
    for budget in budgets:
        series = complete(cells, problems, RANKED, budget)
        tables = {name: _regrets(cells, name, budget, measure, series) for name in problems}
        for problem, table in tables.items():
            if len(table):
                scales.setdefault(problem, max(float(table.mean()), ROUNDING))
        means = [table.mean(axis=0) / scales[name] for name, table in tables.items() if len(table)]
        for name, value in zip(series, np.mean(means, axis=0) if means else (), strict=False):
            curves.setdefault(name, {})[budget] = float(value)
    return curves


def _regrets(
    cells: Sequence[Cell], problem: str, budget: int, measure: Measure, series: Sequence[str]
) -> np.ndarray:
    """Regret of every series with every shared seed, (seeds, series)."""
    scores = scores_of(cells, problem, budget, measure)
    best: dict[int, float] = {}
    for cell in cells:
        if cell.problem == problem:
            values = [getattr(answer, measure) for answer in cell.answers]
            known = [value for value in values if value is not None]
            best[cell.seed] = max([best.get(cell.seed, -np.inf), *known])
    seeds = shared_seeds(scores, series) if series else []
    return np.array([[best[seed] - scores[name][seed] for name in series] for seed in seeds])


def folds_needed(curve: dict[int, float], regret: float) -> float:
    """With how many folds a curve of regrets comes down to a regret, between its budgets on a
    logarithmic scale; its first budget if it begins there, infinity if it never gets there."""
    points = sorted(curve.items())
    if points and points[0][1] <= regret:
        return float(points[0][0])
    for (before, high), (after, low) in pairwise(points):
        if low <= regret < high:
            share = (high - regret) / (high - low)
            return float(before * (after / before) ** share)
    return float("inf")


def needed_lines(cells: Sequence[Cell], problems: Sequence[str], group: str) -> Iterator[Line]:
    """The folds that each other series needs for the robust value that ours reaches with 60."""
    curves = regret_curves(cells, problems, "robust")
    reached = curves.get(CHAMPION, {}).get(60)
    for series in RANKED[1:] if reached is not None else ():
        if series in curves:
            value, most = folds_needed(curves[series], reached or 0.0), max(curves[series])
            what = f"needed for what {CHAMPION} reaches with 60, {series}"
            unit = "folds" if value <= most else "folds are not enough"
            yield Line("quality", what, group, min(value, most), unit)


def lines(cells: Sequence[Cell], groups: dict[str, list[str]]) -> Iterator[Line]:
    """Everything, by group of problems."""
    for group, problems in groups.items():
        budgets = budgets_of(cells, problems)
        yield from saving_lines(cells, problems, group)
        yield from coverage_lines(cells, problems, group)
        yield from needed_lines(cells, problems, group)
        for budget in budgets:
            yield from variant_lines(cells, problems, group, budget)
            yield from overtuning_lines(cells, problems, group, budget)
        for measure in MEASURES:
            for budget in budgets:
                yield from rank_lines(cells, problems, group, budget, measure)
                yield from difference_lines(cells, problems, group, budget, measure)
