"""The quality benchmark for readers: a page of tables, and a figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.cells import Cell
from benchmarks.quality.measures import (
    CHAMPION,
    MEASURES,
    PAPER,
    RANKED,
    Measure,
    Scores,
    budgets_of,
    complete,
    coverage_lines,
    difference_lines,
    mean_ranks,
    needed_lines,
    overtuning_lines,
    regret_curves,
    saving_lines,
    scores_of,
    shared_seeds,
    variant_lines,
    verdicts,
)
from benchmarks.quality.problems import GROUPS
from benchmarks.table import Line

TITLES = {
    "fresh": "Fresh problems",
    "fresh-random": "Fresh problems with random training",
    "held-out": "Problems set aside",
    "mixed": "Mixed spaces, added when the methods were done",
    "random": "Random training",
    "development": "Development problems",
    "dev-random": "Development problems with random training",
}
WORDS = {"robust": "robust value", "test": "test score"}
AXES = {"robust": "regret in robust value", "test": "regret in test score"}


def groups_of(cells: Iterable[Cell]) -> dict[str, list[str]]:
    """The problems that have cells, by group."""
    done = {cell.problem for cell in cells}
    found = {group: [name for name in GROUPS[group] if name in done] for group in TITLES}
    return {group: problems for group, problems in found.items() if problems}


def page(cells: Sequence[Cell]) -> Iterator[str]:
    """The page, line by line."""
    seeds = 1 + max(cell.seed for cell in cells)
    yield "# Answer quality at equal fold evaluations"
    yield ""
    yield "Made by `python -m benchmarks.quality` and `python -m benchmarks.quality --page`"
    yield f"(docs/benchmarks.md says what is compared), seeds 0 to {seeds - 1}, commits"
    yield f"{', '.join(sorted({cell.commit for cell in cells}))}. Larger values are better."
    for group, problems in groups_of(cells).items():
        yield from _group(cells, problems, group)


def _group(cells: Sequence[Cell], problems: list[str], group: str) -> Iterator[str]:
    budgets = budgets_of(cells, problems)
    yield from ("", f"## {TITLES[group]}", "", f"Cuts of the data: {_cuts(cells, problems)}.", "")
    yield from _table("", needed_lines(cells, problems, group))
    yield from ("Mean rank, 1 is best:", "")
    yield from _ranks(cells, problems)
    yield from ("", f"`{CHAMPION}` beside each peer, paired by seed, on {len(problems)} problems")
    yield from (
        f"with {len(budgets)} budgets each: 95 % interval above 0 / around 0 / below 0.",
        "",
    )
    yield from _verdicts(cells, problems)
    yield from ("", f"What `{CHAMPION}` is better by, the mean over problems with a test set and")
    yield from ("its 95 % interval:", "")
    yield from _differences(cells, problems, group)
    for measure in MEASURES:
        yield from ("", f"Mean {WORDS[measure]} after {', '.join(map(str, budgets))} folds:", "")
        yield from _means(cells, problems, measure)
    yield ""
    stop = f"What a stop rule does to `{CHAMPION}`:"
    yield from _table(stop, saving_lines(cells, problems, group))
    holds = "How often the 95 % interval of `certainty` holds the robust value, and how wide it is:"
    yield from _table(holds, coverage_lines(cells, problems, group))
    worse = "How often the config named last is worse in test score than a config without search:"
    yield from _table(worse, overtuning_lines(cells, problems, group, budgets[-1]))
    variants = (line for b in budgets for line in variant_lines(cells, problems, group, b))
    yield from _table(
        "What a radius changes against a search for the best mean, what a Matern kernel and a"
        f" report by posterior means change against `{CHAMPION}`, and one worker against eight:",
        variants,
    )


def _cuts(cells: Sequence[Cell], problems: list[str]) -> str:
    """How many seeds every ranked searcher has run, problem by problem."""
    first = budgets_of(cells, problems)[0]
    series = complete(cells, problems, RANKED, first)
    scores = {name: scores_of(cells, name, first, "robust") for name in problems}
    return ", ".join(
        f"{name} {len(shared_seeds(scores[name], series)) if series else 0}" for name in problems
    )


def _ranks(cells: Sequence[Cell], problems: list[str]) -> Iterator[str]:
    """Columns of ranks; a series that was not run with a budget has none there."""
    columns: dict[str, dict[str, float]] = {}
    for measure, budget in product(MEASURES, budgets_of(cells, problems)):
        series = complete(cells, problems, RANKED, budget)
        found = mean_ranks(cells, problems, series, budget, measure) if series else np.empty(0)
        if len(found):
            column = dict(zip(series, found.mean(axis=0).tolist(), strict=True))
            columns[f"{measure}, {budget} folds"] = column
    robust = [column for name, column in columns.items() if name.startswith("robust")]
    by_robust = {
        series: float(np.mean([column[series] for column in robust if series in column]))
        for series in RANKED
        if any(series in column for column in robust)
    }
    yield from _head(["searcher", *columns])
    for name in sorted(by_robust, key=by_robust.__getitem__):
        yield _row([name, *(_rank(column, name) for column in columns.values())])


def _rank(column: dict[str, float], series: str) -> str:
    if series not in column:
        return ""
    mark = "**" if column[series] == min(column.values()) else ""
    return f"{mark}{column[series]:.2f}{mark}"


def _verdicts(cells: Sequence[Cell], problems: list[str]) -> Iterator[str]:
    yield from _head(["peer", *MEASURES])
    done = {answer.series for cell in cells if cell.problem in problems for answer in cell.answers}
    for peer in (name for name in RANKED[1:] if name in done):
        counts = (verdicts(cells, problems, peer, m) for m in MEASURES)
        yield _row([peer, *(" / ".join(map(str, each)) for each in counts)])


def _differences(cells: Sequence[Cell], problems: list[str], group: str) -> Iterator[str]:
    columns = list(product(MEASURES, budgets_of(cells, problems)))
    yield from _head(["peer", *(f"{measure}, {budget} folds" for measure, budget in columns)])
    rows: dict[str, dict[tuple[Measure, int], str]] = {}
    for measure, budget in columns:
        for line in difference_lines(cells, problems, group, budget, measure):
            row = rows.setdefault(line.what.partition(" less ")[2], {})
            row[measure, budget] = _signed(line)
    yield from (_row([peer, *(row.get(c, "") for c in columns)]) for peer, row in rows.items())


def _signed(line: Line) -> str:
    assert line.low is not None
    return f"{line.value:+.4f} ±{line.value - line.low:.4f}"


def _means(cells: Sequence[Cell], problems: list[str], measure: Measure) -> Iterator[str]:
    budgets = budgets_of(cells, problems)
    complete_at = {b: complete(cells, problems, RANKED, b) for b in budgets}
    tables = {(p, b): scores_of(cells, p, b, measure) for p in problems for b in budgets}
    shown = [name for name in problems if tables[name, budgets[0]]]
    yield from _head(["searcher", *shown])
    for name in complete_at[budgets[0]]:
        means = [
            " ".join(
                f"{_mean(tables[problem, b], name, complete_at[b]):.3f}"
                for b in budgets
                if name in complete_at[b]
            )
            for problem in shown
        ]
        yield _row([name, *means])


def _mean(scores: Scores, name: str, series: Sequence[str]) -> float:
    """The mean of one series over the seeds that all series have."""
    return float(np.mean([scores[name][seed] for seed in shared_seeds(scores, series)]))


def _table(title: str, lines: Iterable[Line]) -> Iterator[str]:
    """Lines under a title; nothing if there are none."""
    found = list(lines)
    if not found:
        return
    yield from (title, "") if title else ()
    yield from _head(["", "", "mean [95 % interval over problems]"])
    yield from (_row([line.what, line.setting, line.figure]) for line in found)
    yield ""


def _head(cells: Sequence[str]) -> Iterator[str]:
    yield _row(cells)
    yield "|---" + "|--:" * (len(cells) - 1) + "|"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def save_figure(cells: Sequence[Cell], path: Path, groups: Sequence[str] | None = None) -> None:
    """Regret in robust value and in test score against folds trained, one column a group; the
    paper's methods are left out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    found = {g: p for g, p in groups_of(cells).items() if groups is None or g in groups}
    shape = (len(MEASURES), len(found))
    size = (5.2 * len(found) + 2.4, 7.0)
    figure, panels = plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
    styles = _styles()
    for column, (group, problems) in enumerate(found.items()):
        for row, measure in enumerate(MEASURES):
            curves = regret_curves(cells, problems, measure)
            _panel(panels[row][column], curves, styles)
            panels[row][column].set_ylabel(AXES[measure] if column == 0 else "")
        panels[0][column].set_title(f"{TITLES[group]} ({len(problems)})")
        panels[-1][column].set_xlabel("folds trained")
    handles: dict[str, Any] = {}
    for panel in panels.flat:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    figure.legend(
        [handles[name] for name in styles if name in handles],
        [name for name in styles if name in handles],
        loc="outside right upper",
        fontsize=8,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _styles() -> dict[str, dict[str, Any]]:
    """Ours thick and black, peers in colors, those told the robust value dashed."""
    from matplotlib import colormaps

    names = [name for name in RANKED if name not in PAPER]
    families = sorted({_family(name) for name in names if name != CHAMPION})
    colors = {family: colormaps["tab10"](k % 10) for k, family in enumerate(families)}
    styles: dict[str, dict[str, Any]] = {}
    for name in names:
        if name == CHAMPION:
            styles[name] = {"color": "black", "linewidth": 3.0, "zorder": 5}
        else:
            dashed = "--" if name.endswith("robust") else "-"
            styles[name] = {"color": colors[_family(name)], "linestyle": dashed, "linewidth": 1.3}
    return styles


def _family(name: str) -> str:
    """The searcher without the value it is told."""
    return name.removesuffix(" robust").removesuffix(" mean")


def _panel(
    panel: Any, curves: dict[str, dict[int, float]], styles: dict[str, dict[str, Any]]
) -> None:
    ticks = sorted({budget for curve in curves.values() for budget in curve})
    for name, style in styles.items():
        if name in curves:
            points = sorted(curves[name].items())
            panel.plot(*zip(*points, strict=True), label=name, marker="o", markersize=3, **style)
    panel.set_xscale("log")
    panel.set_xticks(ticks, labels=[str(tick) for tick in ticks], minor=False)
    panel.minorticks_off()
    panel.set_yscale("log")
    panel.grid(alpha=0.3)
