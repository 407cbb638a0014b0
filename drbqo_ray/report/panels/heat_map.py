"""Which fold hurts: the scores of the best configs, fold by fold; untrained cells are hatched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from drbqo_ray.report.draw import element, figure, rect, text, tip
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.panels.ranking import ConfigRow, Ranking
from drbqo_ray.report.posterior import Posterior
from drbqo_ray.report.wording import Decimals, config_text, count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

ROWS, COLUMNS = 24, 40
WIDTH, LEFT, TOP, ROW = 860.0, 120.0, 34.0, 24.0
NUMBERED = 14
WIDEST = 185.0
HATCHED = "url(#hatching)"


@dataclass(frozen=True)
class Cell:
    """One config in one fold.

    Attributes:
        config, fold: their numbers.
        value: mean of the observed scores, or what the model fills in where there is none.
        observed: number of scores.
        failed: number of failed evaluations.
        beyond: whether the model's estimate lies beyond the range of the scores, whose end `value`
            then is.
    """

    config: int
    fold: int
    value: float
    observed: int
    failed: int
    beyond: bool


@dataclass(frozen=True)
class HeatMap:
    """The best configs fold by fold.

    Attributes:
        configs: numbers of the configs, best first.
        folds: numbers of the folds shown, in order.
        n_folds: number of all folds.
        cells: one row of cells a config.
        hardest: the fold with the worst posterior mean over all ranked configs.
        fold_means: that mean for every fold (n,), on the user's scale.
    """

    configs: tuple[int, ...]
    folds: tuple[int, ...]
    n_folds: int
    cells: tuple[tuple[Cell, ...], ...]
    hardest: int
    fold_means: tuple[float, ...]


class HeatMapPanel(Panel[HeatMap]):
    """A row a config, a column a fold."""

    key, order, plot_name = "heat_map", 20, "heat_map"
    title, question = "Configs by folds", "Which fold hurts?"

    def gather(self, source: Source) -> HeatMap | None:
        """The map; None before there is a model."""
        posterior = source.posterior
        if posterior is None:
            return None
        ranking: Ranking = source.part("ranking")
        rows = ranking.rows[:ROWS]
        n = len(posterior.reference)
        folds = _folds(rows, n)
        usable = posterior.usable if posterior.usable.any() else slice(None)
        average = posterior.gains[usable].mean(axis=0)
        return HeatMap(
            configs=tuple(row.number for row in rows),
            folds=folds,
            n_folds=n,
            cells=tuple(tuple(_cell(posterior, row, fold) for fold in folds) for row in rows),
            hardest=int(np.argmin(average)),
            fold_means=tuple(float(v) for v in posterior.user(average)),
        )

    def draw(self, facts: Facts, data: HeatMap) -> Sequence[Markup]:
        """The map."""
        values = [cell.value for row in data.cells for cell in row]
        digits = Decimals.of(values)
        column = min(WIDEST, (WIDTH - LEFT) / max(1, len(data.folds)))
        marks: list[Markup] = [_hatching()]
        marks += _heads(facts, data, column)
        for k, row in enumerate(data.cells):
            y = TOP + ROW * k
            chosen = facts.ranking is not None and facts.ranking.chosen == data.configs[k]
            name = f"{'▸ ' if chosen else ''}config {data.configs[k]}"
            looks, hint = f"name {'robust' if chosen else ''}", facts.config(data.configs[k])
            marks.append(text(name, LEFT - 10, y + 16, looks, "end", hint))
            for j, cell in enumerate(row):
                strength = _strength(cell.value, values, facts)
                place = (LEFT + column * j, y, column)
                marks.append(_draw_cell(facts, cell, place, strength, digits))
        height = TOP + ROW * len(data.cells)
        marks += _legend(facts, values, digits, height + 18)
        observed = sum(cell.observed > 0 for row in data.cells for cell in row)
        description = (
            f"{len(data.configs)} configs in {len(data.folds)} folds; {observed} of {len(values)}"
            " cells were trained, the others are filled in by the model. The hardest fold is"
            f" {facts.fold(data.hardest)}."
        )
        return (figure(WIDTH, height + 50, "Scores by config and fold", description, marks),)

    def reading(self, facts: Facts, data: HeatMap) -> Sequence[str]:
        """What colors and hatches mean, and what is left out."""
        words = (
            f"The strongest color is the worst score; the hardest fold is"
            f" {facts.fold(data.hardest)}. Hatched cells were not trained: the model fills them in."
            " ✕ marks a failed evaluation."
        )
        beyond = sum(cell.beyond for row in data.cells for cell in row)
        if beyond:
            words += (
                f" All scores of this run are {facts.score_range.words}, which the model does not"
                f" know: {count(beyond, 'hatched cell')} with an estimate beyond show the end of"
                " that range."
            )
        assert facts.ranking is not None
        left = facts.ranking.total - len(data.configs)
        if left:
            words += f" {count(left, 'config')} further down the ranking are left out."
        if data.n_folds > len(data.folds):
            words += f" Of {data.n_folds:,} folds the {len(data.folds)} with most weight are shown."
        return (words,)

    def plot(self, ax: Axes, facts: Facts, data: HeatMap) -> None:
        """Scores of the best configs fold by fold; untrained cells are hatched, filled by the
        model."""
        from matplotlib.patches import Rectangle

        values = np.array([[cell.value for cell in row] for row in data.cells])
        colors = "viridis_r" if facts.minimize else "viridis"
        image = ax.imshow(values, aspect="auto", cmap=colors)
        hatched: dict[str, Any] = {
            "fill": False,
            "hatch": "///",
            "linewidth": 0,
            "edgecolor": "white",
        }
        for y, row in enumerate(data.cells):
            for x, cell in enumerate(row):
                if not cell.observed:
                    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **hatched))
        ax.set_xticks(
            range(len(data.folds)), [facts.fold(fold) for fold in data.folds], rotation=90
        )
        ax.set_yticks(range(len(data.configs)), [f"config {config}" for config in data.configs])
        ax.figure.colorbar(image, ax=ax, label="score")
        ax.set(title="Scores by config and fold (hatched: not trained)", xlabel="", ylabel="")


PANEL = HeatMapPanel()


def _folds(rows: tuple[ConfigRow, ...], n: int) -> tuple[int, ...]:
    if n <= COLUMNS:
        return tuple(range(n))
    weight = np.mean([row.weights for row in rows], axis=0)
    return tuple(sorted(int(k) for k in np.argsort(-weight, kind="stable")[:COLUMNS]))


def _cell(posterior: Posterior, row: ConfigRow, fold: int) -> Cell:
    here = (posterior.numbers == row.number) & (posterior.contexts == fold)
    scores = posterior.scores[here]
    good = scores[~np.isnan(scores)]
    value = float(good.mean()) if len(good) else row.fold_means[fold]
    beyond = not len(good) and row.estimates[fold] != value
    return Cell(row.number, fold, value, len(good), len(scores) - len(good), beyond)


def _strength(value: float, values: list[float], facts: Facts) -> float:
    """How bad a value is among all shown, from 0 for the best to 1 for the worst."""
    low, high = min(values), max(values)
    if high <= low:
        return 0.3
    share = (value - low) / (high - low)
    return share if facts.minimize else 1 - share


def _hatching() -> Markup:
    stripe = element("path", d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2", cls="hatch")
    return element(
        "defs",
        element("pattern", stripe, id="hatching", width=6, height=6, patternUnits="userSpaceOnUse"),
    )


def _heads(facts: Facts, heat: HeatMap, column: float) -> Iterator[Markup]:
    for j, fold in enumerate(heat.folds):
        words = facts.fold(fold) if column >= 56 else str(fold)
        hard = fold == heat.hardest
        yield text(
            words[: max(3, int(column / 7))],
            LEFT + column * (j + 0.5),
            TOP - 10,
            "head hard" if hard else "head",
            "middle",
        )


def _draw_cell(
    facts: Facts, cell: Cell, place: tuple[float, float, float], strength: float, digits: Decimals
) -> Markup:
    x, y, column = place
    how = f"mean of {cell.observed} scores" if cell.observed > 1 else "trained"
    how = how if cell.observed else "not trained, filled in by the model"
    if cell.beyond:
        how += f", whose estimate lies beyond: all scores are {facts.score_range.words}"
    if cell.failed:
        how += f", {cell.failed} failed"
    words = (
        f"config {cell.config}, {facts.fold(cell.fold)}: {digits.text(cell.value)} ({how});"
        f" {config_text(facts.configs[cell.config])}"
    )
    box = (x + 1, y + 1, column - 2, ROW - 2)
    shown = ("✕ " if cell.failed else "") + digits.text(cell.value)
    return element(
        "g",
        tip(words),
        rect(*box, "cell", fill_opacity=0.06 + 0.84 * strength),
        None if cell.observed else rect(*box, "untrained", fill=HATCHED),
        text(
            shown,
            x + column / 2,
            y + 16,
            f"value{' strong' if strength > 0.55 else ''}{'' if cell.observed else ' guess'}",
            "middle",
        )
        if (WIDTH - LEFT) / column <= NUMBERED + 0.5
        else None,
        cls="mark",
        data_config=cell.config,
        data_fold=cell.fold,
    )


def _legend(facts: Facts, values: list[float], digits: Decimals, y: float) -> Iterator[Markup]:
    best, worst = (min(values), max(values)) if facts.minimize else (max(values), min(values))
    yield text(f"best {digits.text(best)}", LEFT, y + 12, "tick")
    for k in range(6):
        yield rect(LEFT + 100 + 26 * k, y, 26, 16, "cell", fill_opacity=0.06 + 0.84 * k / 5)
    yield text(f"worst {digits.text(worst)}", LEFT + 266, y + 12, "tick")
    yield rect(LEFT + 420, y, 26, 16, "frame")
    yield rect(LEFT + 420, y, 26, 16, "untrained", fill=HATCHED)
    yield text("not trained: filled in by the model", LEFT + 454, y + 12, "tick")
