"""The heat map: a row a config, a column a fold, untrained cells hatched."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from drbqo_ray.report.draw.svg import element, figure, text, tip
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.heat_map import Cell, HeatMap
from drbqo_ray.report.wording import Decimals

WIDTH, LEFT, TOP, ROW = 860.0, 120.0, 34.0, 24.0
NUMBERED = 14
WIDEST = 185.0


def draw_heat(facts: Facts, heat: HeatMap) -> Markup:
    """The map."""
    values = [cell.value for row in heat.cells for cell in row]
    digits = Decimals.of(values)
    column = min(WIDEST, (WIDTH - LEFT) / max(1, len(heat.folds)))
    marks: list[Markup] = [_hatching()]
    marks += _heads(facts, heat, column)
    for k, row in enumerate(heat.cells):
        y = TOP + ROW * k
        chosen = facts.ranking is not None and facts.ranking.chosen == heat.configs[k]
        name = f"{'▸ ' if chosen else ''}config {heat.configs[k]}"
        marks.append(text(name, LEFT - 10, y + 16, f"name {'robust' if chosen else ''}", "end"))
        for j, cell in enumerate(row):
            box = (LEFT + column * j, y, column)
            marks.append(_cell(facts, cell, box, _strength(cell.value, values, facts), digits))
    height = TOP + ROW * len(heat.cells)
    marks += _legend(facts, values, digits, height + 18)
    observed = sum(cell.observed > 0 for row in heat.cells for cell in row)
    description = (
        f"{len(heat.configs)} configs in {len(heat.folds)} folds; {observed} of {len(values)} cells"
        f" were trained, the others are filled in by the model. The hardest fold is"
        f" {facts.fold(heat.hardest)}."
    )
    return figure(WIDTH, height + 50, "Scores by config and fold", description, marks)


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


def _cell(
    facts: Facts, cell: Cell, box: tuple[float, float, float], strength: float, digits: Decimals
) -> Markup:
    x, y, column = box
    how = f"mean of {cell.observed} scores" if cell.observed > 1 else "trained"
    how = how if cell.observed else "not trained, filled in by the model"
    if cell.beyond:
        how += f", whose estimate lies beyond: all scores are {facts.score_range.words}"
    if cell.failed:
        how += f", {cell.failed} failed"
    words = f"config {cell.config}, {facts.fold(cell.fold)}: {digits.text(cell.value)} ({how})"
    shape = {"x": x + 1, "y": y + 1, "width": column - 2, "height": ROW - 2}
    shown = ("✕ " if cell.failed else "") + digits.text(cell.value)
    return element(
        "g",
        tip(words),
        element("rect", **shape, cls="cell", fill_opacity=0.06 + 0.84 * strength),
        element("rect", **shape, cls="untrained", fill="url(#hatching)")
        if not cell.observed
        else None,
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
        yield element(
            "rect",
            x=LEFT + 100 + 26 * k,
            y=y,
            width=26,
            height=16,
            cls="cell",
            fill_opacity=0.06 + 0.84 * k / 5,
        )
    yield text(f"worst {digits.text(worst)}", LEFT + 266, y + 12, "tick")
    yield element("rect", x=LEFT + 420, y=y, width=26, height=16, cls="frame")
    yield element(
        "rect", x=LEFT + 420, y=y, width=26, height=16, cls="untrained", fill="url(#hatching)"
    )
    yield text("not trained: filled in by the model", LEFT + 454, y + 12, "tick")
