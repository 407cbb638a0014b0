"""The table of configs, and above it the slider that ranks them anew; both need the script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from drbqo_ray.records import BAND
from drbqo_ray.report.draw.html import fill
from drbqo_ray.report.panels.ranking import ConfigRow, Ranking
from drbqo_ray.report.wording import LONG_VALUE, name_text, short, value_text

if TYPE_CHECKING:
    from drbqo_ray.report.facts import Facts

PARAMETERS = 6
TABLE = """
<div class="slider" id="slider" hidden>
<label for="radius-slider">Radius</label>
<input id="radius-slider" type="range" min="0" max="1000" step="1">
<input id="radius-number" type="number" min="0" step="any" inputmode="decimal"{#
#} aria-label="Radius as a number">
<button type="button" id="radius-reset">this run</button>
<output id="radius-winner" for="radius-slider radius-number"></output>
</div>
{% if slider %}<noscript><p class="reading">With scripts on, a slider here ranks the configs anew{#
#} at any radius.</p></noscript>
{% endif %}<h3>All configs{% if left_out %} (the best {{ rows|length }} shown, {{ left_out }}{#
#} left out){% endif %}</h3>
<div class="scroll tall" tabindex="0" role="region" aria-label="Table of configs">
<table id="configs">
<thead><tr>{% for column in columns %}{#
#}<th scope="col"{% if column.numeric %} class="number"{% endif %} data-key="{{ column.key }}"{#
#}{% if column.hint %} title="{{ column.hint }}"{% endif %}>{{ column.title }}</th>{#
#}{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}<tr data-number="{{ row.number }}"{#
#}{% if row.mark %} class="{{ row.mark }}"{% endif %}>{% for cell in row.cells %}{#
#}<td{% if cell.numeric %} class="number"{% endif %}{#
#}{% if cell.sort is not none %} data-sort="{{ cell.sort }}"{% endif %}{#
#}{% if cell.hint %} title="{{ cell.hint }}"{% endif %}>{{ cell.text }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table>
</div>
"""


@dataclass(frozen=True)
class Column:
    """A column of the table of configs."""

    key: str
    title: str
    numeric: bool = True
    hint: str = ""


@dataclass(frozen=True)
class TableCell:
    """A cell: its text, and the number it is sorted by; "" sorts last, None by the text."""

    text: str
    sort: float | str | None = None
    numeric: bool = True
    hint: str = ""


@dataclass(frozen=True)
class TableRow:
    """A row of the table of configs."""

    number: int
    mark: str
    cells: tuple[TableCell, ...]


def config_table(facts: Facts, slider: bool) -> Markup:
    """The slider and the table; nothing before there is a ranking."""
    ranking = facts.ranking
    if ranking is None:
        return Markup("")
    columns, rows = _table(facts, ranking)
    return fill(TABLE, columns=columns, rows=rows, left_out=ranking.left_out, slider=slider)


def _choice(ranking: Ranking, row: ConfigRow) -> str:
    words = ["recommended"] if row.number == ranking.chosen else []
    words += ["robust choice"] if row.number == ranking.robust_choice != ranking.chosen else []
    words += ["mean choice"] if row.number == ranking.mean_choice != ranking.chosen else []
    return ", ".join(words)


def _table(facts: Facts, ranking: Ranking) -> tuple[tuple[Column, ...], tuple[TableRow, ...]]:
    names = [name for name, _ in facts.importance.effects] if facts.importance is not None else []
    names = names or list(dict.fromkeys(name for row in ranking.rows for name in row.config))
    names = names[:PARAMETERS]
    columns = (
        Column("rank", "Rank", hint="by robust score"),
        Column("config", "Config"),
        Column("choice", "Choice", numeric=False),
        Column("robust", "Robust", hint="score under the worst weights of the folds"),
        Column("std", "± 95 %", hint="half the 95 % band of the robust score"),
        Column("mean", "Mean", hint="score under the reference weights"),
        Column("mean-rank", "Mean rank"),
        Column("worst", "Worst fold"),
        Column("spread", "Spread", hint="deviation between the folds"),
        Column("trained", "Trained", hint="folds with a score"),
        *(Column(f"parameter-{k}", name_text(name)) for k, name in enumerate(names)),
    )
    return columns, tuple(_table_row(facts, ranking, row, names) for row in ranking.rows)


def _table_row(facts: Facts, ranking: Ranking, row: ConfigRow, names: list[str]) -> TableRow:
    digits = facts.digits
    mark = "failed" if row.robust_rank is None else ""
    mark = "mean" if row.number == ranking.mean_choice else mark
    mark = "chosen" if row.number == ranking.chosen else mark
    cells = [
        TableCell(str(row.robust_rank or "failed"), row.robust_rank or ""),
        TableCell(str(row.number), row.number),
        TableCell(_choice(ranking, row), numeric=False),
        TableCell(digits.text(row.robust), row.robust),
        TableCell(short(BAND * row.std, 2), BAND * row.std),
        TableCell(digits.text(row.mean), row.mean),
        TableCell(str(row.mean_rank or "–"), row.mean_rank or ""),
        TableCell(digits.text(row.worst), row.worst),
        TableCell(digits.text(row.spread), row.spread),
        TableCell(f"{row.folds_seen} of {facts.n_folds}", row.folds_seen),
    ]
    cells += [_parameter_cell(row, name) for name in names]
    return TableRow(row.number, mark, tuple(cells))


def _parameter_cell(row: ConfigRow, name: str) -> TableCell:
    if name not in row.config:
        return TableCell("–", numeric=False)
    value = row.config[name]
    brief, whole = value_text(value, 24), value_text(value, LONG_VALUE)
    hint = whole if whole != brief else ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return TableCell(brief, numeric=False, hint=hint)
    return TableCell(brief, float(value), hint=hint)
