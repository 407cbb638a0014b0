"""The pictures of the report as matplotlib axes, for notebooks.

    from drbqo_ray import plots
    plots.radius_path(result)

Every function takes what there is of a search: a `Result`, the directory of a run, an
`Optimizer`, a fitted `RobustSearchCV`, a `DRBQOSearch`, or `Facts` that were gathered once for
several pictures. It draws into `ax`, or into a figure of its own, and returns the axes. Scores are
on the user's scale; hatched cells and dashed lines are the model's, not observed.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.report.about import About
from drbqo_ray.report.facts import Facts, gather

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Part = TypeVar("Part")

# Okabe and Ito's colors: told apart by everyone, and in grey by their lightness
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
SLOPES = 12


def facts_of(source: Any) -> Facts:
    """What the pictures of a search show, gathered once."""
    if isinstance(source, Facts):
        return source
    if isinstance(source, (str, PathLike)):
        from drbqo_ray.cli.saved_run import SavedRun

        return _journal_facts(SavedRun.read(str(source)).place.directory)
    if isinstance(source, Optimizer):
        return gather(source, About(name="search"))
    for name in ("optimizer_", "optimizer", "storage"):
        found = getattr(source, name, None)
        if isinstance(found, Optimizer):
            return facts_of(found)
        if isinstance(found, Path):
            return _journal_facts(found)
    raise InvalidInput(
        "Pictures are drawn of a search.",
        type(source).__name__,
        "Pass a Result, the directory of a run, an Optimizer, a fitted RobustSearchCV, a"
        " DRBQOSearch or Facts.",
    )


def _journal_facts(directory: Path) -> Facts:
    from drbqo_ray.runtime.run_report import journal_facts

    return journal_facts(directory, directory.name)


def ranking(source: Any, ax: Axes | None = None) -> Axes:
    """Ranks by the plain mean beside ranks by the worst case: does robustness change the choice?"""
    _, found, ax = _open(source, ax, lambda facts: facts.ranking)
    ranks = [
        (row.mean_rank, row.robust_rank, row.number)
        for row in found.rows
        if row.mean_rank is not None and row.robust_rank is not None
    ]
    for by_mean, by_worst, number in sorted(ranks, key=lambda ranks: min(ranks[:2]))[:SLOPES]:
        chosen = number == found.chosen
        color, width = (ORANGE, 2.5) if chosen else (GREY, 1.0)
        ax.plot([0, 1], [by_mean, by_worst], "o-", color=color, linewidth=width)
        ax.annotate(
            f"config {number}",
            (1, by_worst),
            (6, 0),
            textcoords="offset points",
            va="center",
            weight="bold" if chosen else "normal",
        )
    ax.set_xticks([0, 1], ["by the mean", "by the worst case"])
    ax.set_xlim(-0.15, 1.4)
    ax.invert_yaxis()
    return _name(ax, "Mean against robust ranking", "", "rank")


def heat_map(source: Any, ax: Axes | None = None) -> Axes:
    """Scores of the best configs fold by fold; untrained cells are hatched, filled by the model."""
    facts, found, ax = _open(source, ax, lambda facts: facts.heat_map)
    values = np.array([[cell.value for cell in row] for row in found.cells])
    colors = "viridis_r" if facts.minimize else "viridis"
    image = ax.imshow(values, aspect="auto", cmap=colors)
    for y, row in enumerate(found.cells):
        for x, cell in enumerate(row):
            if not cell.observed:
                _hatch(ax, x, y)
    ax.set_xticks(range(len(found.folds)), [facts.fold(fold) for fold in found.folds], rotation=90)
    ax.set_yticks(range(len(found.configs)), [f"config {number}" for number in found.configs])
    ax.figure.colorbar(image, ax=ax, label="score")
    return _name(ax, "Scores by config and fold (hatched: not trained)", "", "")


def _hatch(ax: Axes, x: int, y: int) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(
        Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch="///", linewidth=0, edgecolor="white")
    )


def fold_weights(source: Any, ax: Axes | None = None) -> Axes:
    """Worst-case weight of every fold of the recommended config, beside the reference weights."""
    facts, found, ax = _open(source, ax, lambda facts: facts.weights)
    places = np.arange(len(found.weights))
    ax.bar(places, found.weights, color=BLUE, label="worst case")
    ax.plot(places, found.reference, "_", color="black", markersize=18, label="reference")
    ax.set_xticks(places, [facts.fold(int(fold)) for fold in places], rotation=90)
    ax.legend()
    return _name(ax, f"Worst-case weights of config {found.config}", "", "weight")


def radius_path(source: Any, ax: Axes | None = None) -> Axes:
    """Robust value against the size of the set, and where another config becomes the best."""
    _, found, ax = _open(source, ax, lambda facts: facts.radius_path)
    styles = ["-", "--", "-.", ":"]
    for k, (number, values) in enumerate(found.curves.items()):
        ax.plot(found.sizes, values, styles[k % 4], color=GREY, linewidth=1)
        ax.annotate(f"config {number}", (found.sizes[-1], values[-1]), fontsize="small")
    ax.plot(found.sizes, found.best, color=BLUE, linewidth=2.5, label="best config")
    ax.axvline(found.own, color=ORANGE, linestyle="--", label="this run")
    for change in found.changes:
        ax.axvline(change.size, color=GREEN, linestyle=":", linewidth=1)
    ax.legend()
    return _name(ax, "The price of caution", found.label, "robust value")


def pareto(source: Any, ax: Axes | None = None) -> Axes:
    """Mean over the folds against their spread, with the configs that no other one dominates."""
    facts, found, ax = _open(source, ax, lambda facts: facts.pareto)
    front = sorted((p for p in found.points if p.on_front), key=lambda p: p.spread)
    ax.plot([p.spread for p in found.points], [p.mean for p in found.points], ".", color=GREY)
    ax.plot([p.spread for p in front], [p.mean for p in front], "o-", color=BLUE, label="front")
    chosen = facts.ranking.chosen if facts.ranking else None
    own = [p for p in found.points if p.number == chosen]
    ax.plot(
        [p.spread for p in own],
        [p.mean for p in own],
        "*",
        color=ORANGE,
        markersize=14,
        label="recommended",
    )
    ax.legend()
    return _name(ax, "Mean against spread", "spread between folds", "mean score")


def incumbent(source: Any, ax: Axes | None = None) -> Axes:
    """Robust value of the recommendation as evaluations came in, with its 95 % band."""
    _, found, ax = _open(source, ax, lambda facts: facts.incumbent)
    steps = [point.evaluations for point in found.checkpoints]
    low, high = ([getattr(point, end) for point in found.checkpoints] for end in ("low", "high"))
    ax.fill_between(steps, low, high, color=BLUE, alpha=0.2, linewidth=0, label="95 %")
    ax.plot(steps, [point.value for point in found.checkpoints], color=BLUE)
    ax.legend()
    return _name(ax, "The recommendation over time", "evaluations", "robust value")


def importance(source: Any, ax: Axes | None = None) -> Axes:
    """Share of the variance of the robust value that each parameter has a part in."""
    _, found, ax = _open(source, ax, lambda facts: facts.importance)
    names, effects = zip(*found.effects, strict=True)
    ax.barh(range(len(names)), effects, color=BLUE)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    return _name(ax, "Importance of the parameters", "total effect", "")


def timeline(source: Any, ax: Axes | None = None) -> Axes:
    """When each fold ran, worker by worker, and the share of time that workers were busy."""
    _, found, ax = _open(source, ax, lambda facts: facts.timeline)
    for bar in found.bars:
        ax.barh(
            bar.lane,
            bar.end - bar.start,
            left=bar.start,
            height=0.8,
            edgecolor="white",
            color=BLUE if bar.ok else ORANGE,
            hatch=None if bar.ok else "xxx",
        )
    ax.set_yticks(range(len(found.lanes)), [f"worker {k}" for k in range(len(found.lanes))])
    title = f"Workers were busy {100 * found.utilisation:.1f} % of the time"
    return _name(ax, title, "seconds into the run", "")


def _open(
    source: Any, ax: Axes | None, part: Callable[[Facts], Part | None]
) -> tuple[Facts, Part, Axes]:
    facts = facts_of(source)
    found = part(facts)
    if found is None:
        raise NothingObserved(
            "This picture needs more than the search has seen so far."
            f" Got {facts.evaluations} evaluations. Tell some scores first."
        )
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1]
    return facts, found, ax


def _name(ax: Axes, title: str, x: str, y: str) -> Axes:
    ax.set(title=title, xlabel=x, ylabel=y)
    return ax
