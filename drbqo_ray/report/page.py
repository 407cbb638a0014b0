"""The facts as one HTML file that works offline, with scripts off, and under a strict policy."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from drbqo_ray.records import BAND
from drbqo_ray.report.draw import radius
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.panels import panels
from drbqo_ray.report.ranking import ConfigRow, Ranking
from drbqo_ray.report.wording import (
    Decimals,
    config_text,
    name_text,
    seconds,
    short,
    value_text,
    with_band,
)
from drbqo_ray.runtime.terminal import printable

PARAMETERS = 6
LONG_VALUE = 1000
VALUES_ARE = {
    True: "Values are scores, filled in by the model where a fold was not trained",
    False: "Values are posterior means of the model on the scale of your scores",
}


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


def render_page(facts: Facts, watch_version: str | None = None) -> str:
    """The page.

    Args:
        facts: what to show.
        watch_version: a word that changes with the run when the page is served while the run goes
            on; the page then asks for it and loads itself anew.
    """
    style, script = (Markup(_resource(name)) for name in ("page.css", "page.js"))
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=False, keep_trailing_newline=True
    )
    ranking = facts.ranking
    columns, table = _table(facts, ranking) if ranking is not None else ((), ())
    page = environment.from_string(_resource("page.html")).render(
        facts=facts,
        name=name_text(facts.about.name),
        tiles=list(_tiles(facts)),
        key_numbers=list(_key_numbers(facts)),
        recommended=_recommended(facts),
        panels=panels(facts),
        columns=columns,
        table=table,
        left_out=ranking.left_out if ranking is not None else 0,
        slider=has_slider(facts),
        details=[(name_text(key), printable(text, 400)) for key, text in facts.about.details],
        config_text=config_text,
        data=_data(facts),
        style=style,
        script=script,
        policy=_policy(style, script, watch_version is not None),
        version=watch_version,
        drbqo_version=installed_version("drbqo_ray"),
        values_are=VALUES_ARE[facts.filled],
    )
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def _resource(name: str) -> str:
    return files("drbqo_ray.report").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str, watched: bool) -> str:
    """Nothing but the style and the script of this very page, and its own server when watched."""
    rules = ["default-src 'none'", f"style-src '{_hash(style)}'", f"script-src '{_hash(script)}'"]
    rules += ["base-uri 'none'", "form-action 'none'"]
    return "; ".join([*rules, "connect-src 'self'"] if watched else rules)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def has_slider(facts: Facts) -> bool:
    """Whether the page can rank the configs anew at any radius."""
    path = facts.radius_path
    return path is not None and path.mean_minus_spread


def json_block(plain: object) -> Markup:
    """Plain data as JSON in which no character can end the block it stands in."""
    text = json.dumps(plain, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _data(facts: Facts) -> Markup:
    """What the script needs."""
    sign = -1 if facts.minimize else 1
    rows = [row for row in _rows(facts) if row.robust_rank is not None]
    path = facts.radius_path
    plain: dict[str, Any] = {
        "sign": sign,
        "slider": has_slider(facts),
        "reference": facts.reference,
        "radius": path.own if path is not None else 0.0,
        "high": path.sizes[-1] if path is not None else 0.0,
        "places": _digits(facts).places,
        "ends": [end if math.isfinite(end) else None for end in _ends(facts)],
        "plot": {
            "left": radius.LEFT,
            "right": radius.RIGHT,
            "top": radius.TOP,
            "bottom": radius.BOTTOM,
        },
        "configs": [
            {"number": row.number, "gains": [float(f"{sign * v:.15g}") for v in row.estimates]}
            for row in rows
        ]
        if has_slider(facts)
        else [],
    }
    return json_block(plain)


def _ends(facts: Facts) -> tuple[float, float]:
    return facts.score_range.low, facts.score_range.high


def _rows(facts: Facts) -> tuple[ConfigRow, ...]:
    return facts.ranking.rows if facts.ranking is not None else ()


def _digits(facts: Facts) -> Decimals:
    return facts.ranking.digits if facts.ranking is not None else Decimals(3)


def _tiles(facts: Facts) -> Iterator[tuple[str, str]]:
    about = facts.about
    done = f"{facts.evaluations:,}"
    done += f" of {about.budget:,}" if about.budget is not None else ""
    yield "state", about.state or "under way or cut off"
    yield "evaluations", done
    if facts.failures.total:
        yield "failed", f"{facts.failures.total:,}"
    if facts.pending:
        yield "pending", f"{facts.pending:,}"
    yield "folds", f"{facts.n_folds:,}"
    yield "scores", "smaller is better" if facts.minimize else "larger is better"
    yield "uncertainty set", facts.set_words
    if about.method is not None:
        yield "method", name_text(about.method)
    if about.objective is not None:
        yield "objective", name_text(about.objective)
    if about.seconds is not None:
        yield "time", seconds(about.seconds)


def _key_numbers(facts: Facts) -> Iterator[tuple[str, str]]:
    ranking, weights = facts.ranking, facts.weights
    row = ranking.row(ranking.chosen) if ranking is not None else None
    if row is None or weights is None:
        return
    digits = _digits(facts)
    yield "robust score", with_band(digits.text(row.robust), BAND * row.std)
    yield "mean score", digits.text(row.mean)
    yield f"worst fold ({facts.fold(row.worst_fold)})", digits.text(row.worst)
    yield "spread between folds", digits.text(row.spread)


def _choice(ranking: Ranking, row: ConfigRow) -> str:
    words = ["recommended"] if row.number == ranking.chosen else []
    words += ["robust choice"] if row.number == ranking.robust_choice != ranking.chosen else []
    words += ["mean choice"] if row.number == ranking.mean_choice != ranking.chosen else []
    return ", ".join(words)


def _recommended(facts: Facts) -> list[tuple[str, str]]:
    row = facts.ranking.row(facts.ranking.chosen) if facts.ranking is not None else None
    if row is None:
        return []
    return [(name_text(name), printable(value, LONG_VALUE)) for name, value in row.config.items()]


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
    digits = _digits(facts)
    return columns, tuple(_table_row(facts, ranking, row, names, digits) for row in ranking.rows)


def _table_row(
    facts: Facts, ranking: Ranking, row: ConfigRow, names: list[str], digits: Decimals
) -> TableRow:
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
