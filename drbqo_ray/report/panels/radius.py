"""The price of caution: the robust value as the uncertainty set grows from the mean to the worst
fold, and the sizes at which another config becomes the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from drbqo_ray.records import BAND
from drbqo_ray.report.draw import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    Scale,
    bottom_axis,
    dot,
    element,
    figure,
    fill,
    left_axis,
    line,
    overhang,
    path,
    text,
    tick_text,
    tip,
)
from drbqo_ray.report.panel import NOTHING, Panel, Source
from drbqo_ray.report.panels.ranking import ConfigRow, Ranking, choices
from drbqo_ray.report.posterior import Posterior
from drbqo_ray.report.wording import (
    LONG_VALUE,
    Decimals,
    config_text,
    count,
    name_text,
    short,
    value_text,
)
from drbqo_ray.types import Array, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

STEPS = 48
BISECTIONS = 30
SLOW_CONFIGS = 200
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860.0, 340.0, 70.0, 650.0, 48.0, 276.0
LABEL, NOTE = 34.0, 13.0
HEADS = (
    ("rank", "Rank", "by robust score"),
    ("config", "Config", ""),
    ("choice", "Choice", ""),
)
SCORE_HEADS = (
    ("robust", "Robust", "score under the worst weights of the folds"),
    ("std", "± 95 %", "half the 95 % band of the robust score"),
    ("mean", "Mean", "score under the reference weights"),
    ("mean-rank", "Mean rank", ""),
    ("worst", "Worst fold", ""),
    ("spread", "Spread", "deviation between the folds"),
    ("trained", "Trained", "folds with a score"),
)
PARAMETERS = 12
PRINTED = 40
"""Rows of the table on paper, as page.css has it."""
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
<p class="reading"><button type="button" class="plain" id="save-table" hidden>Save as CSV</button>{#
#}{% if hidden %} {{ hidden }} that matter least have no column here;{#
#} drbqo export has them.{% endif %}</p>
{% if rows|length > printed %}<p class="reading print-only">The first {{ printed }} rows are{#
#} printed, of {{ rows|length }} in the file.</p>
{% endif %}<div class="scroll tall" tabindex="0" role="region" aria-label="Table of configs">
<table id="configs">
<thead><tr>{% for key, title, hint in heads %}{#
#}<th scope="col"{% if key != "choice" %} class="number"{% endif %} data-key="{{ key }}"{#
#}{% if hint %} title="{{ hint }}"{% endif %}>{{ title }}</th>{#
#}{% endfor %}</tr></thead>
<tbody>
{% for number, mark, cells in rows %}<tr data-number="{{ number }}"{#
#}{% if mark %} class="{{ mark }}"{% endif %}>{% for cell in cells %}{#
#}<td{% if cell.numeric %} class="number"{% endif %}{#
#}{% if cell.sort is not none %} data-sort="{{ cell.sort }}"{% endif %}{#
#}{% if cell.hint %} title="{{ cell.hint }}"{% endif %}>{{ cell.text }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table>
</div>
"""


@dataclass(frozen=True)
class WinnerChange:
    """Another config becomes the best one at a size."""

    size: float
    before: int
    after: int


@dataclass(frozen=True)
class RadiusPath:
    """Robust values against the size of the set, on the user's scale.

    Attributes:
        label: what the size is.
        sizes: sizes (k,), ascending from 0, where the set is the reference alone, to `high`,
            where it holds every single fold.
        own: size of the run's own set, at most the last of `sizes`.
        best: value of the best config at each size (k,).
        winners: number of that config (k,).
        curves: number -> values (k,) of the recommended config, the mean choice and every winner.
        changes: where the winner changes.
        mean_minus_spread: see `Family`; such a set the page can solve by itself.
    """

    label: str
    sizes: tuple[float, ...]
    own: float
    best: tuple[float, ...]
    winners: tuple[int, ...]
    curves: dict[int, tuple[float, ...]]
    changes: tuple[WinnerChange, ...]
    mean_minus_spread: bool = False


class RadiusPanel(Panel[RadiusPath]):
    """Robust score against the size of the set, the slider, and the table it ranks anew."""

    key, order, plot_name = "radius", 40, "radius_path"
    title = "Robust score against radius"
    question = "What does caution cost, and where does the winner change?"

    def gather(self, source: Source) -> RadiusPath | None:
        """The path; None when the set has one member, as with one fold."""
        posterior = source.posterior
        if posterior is None:
            return None
        keep = choices(posterior, source.report)
        family = posterior.uncertainty.family(posterior.reference)
        numbers = np.flatnonzero(posterior.usable)
        if family is None or not len(numbers):
            return None
        numbers = _considered(posterior, numbers, keep)
        gains = posterior.gains[numbers]

        def values(size: float) -> Array:
            return family.make(size).solve(gains, posterior.reference)[0]

        sizes = family.high * np.linspace(0.0, 1.0, STEPS + 1) ** 2
        own = min(family.own, family.high)
        sizes = np.unique(np.append(sizes, own))
        table = np.array([values(float(size)) for size in sizes])  # (k, m)
        winners = table.argmax(axis=1)
        wanted = {*winners.tolist(), *(int(i) for i in np.flatnonzero(np.isin(numbers, keep)))}
        best = posterior.user(table[np.arange(len(sizes)), winners])
        return RadiusPath(
            label=family.label,
            sizes=tuple(float(size) for size in sizes),
            own=own,
            best=tuple(float(v) for v in best),
            winners=tuple(int(numbers[i]) for i in winners),
            curves={
                int(numbers[i]): tuple(float(v) for v in posterior.user(table[:, i]))
                for i in sorted(wanted)
            },
            changes=tuple(_changes(values, sizes, winners, numbers)),
            mean_minus_spread=family.mean_minus_spread,
        )

    def missing(self, facts: Facts) -> str:
        """No config can be ranked, there is one fold, or the set has one size."""
        if facts.ranking is None or facts.ranking.chosen is None:
            return NOTHING
        alone = sum(weight > 0 for weight in facts.reference) == 1
        why = "There is one fold" if alone else "The set has one size"
        return f"{why}, so the score does not depend on a radius."

    def draw(self, facts: Facts, data: RadiusPath) -> Sequence[Markup]:
        """The curve, and how far behind it the choices are where the winner changes."""
        first = draw_radius(facts, data)
        return (first, draw_shortfall(facts, data)) if data.changes else (first,)

    def reading(self, facts: Facts, data: RadiusPath) -> Sequence[str]:
        """Where the winner changes, and why there may be no slider."""
        words = "The winner is the same at every size."
        if data.changes:
            listed = "; ".join(
                f"{short(c.size)} (config {c.before} to {c.after})" for c in data.changes[:8]
            )
            more = "; and more." if len(data.changes) > 8 else "."
            words = f"The winner changes at {count(len(data.changes), 'size')}: {listed}{more}"
        if has_slider(facts):
            return (words,)
        return (
            words,
            "The slider that ranks configs anew is made for chi-square balls and is left out; the"
            " curve above was solved for this run's own kind of set.",
        )

    def below(self, facts: Facts) -> Markup:
        """The slider and the table of configs."""
        return config_table(facts)

    def plot(self, ax: Axes, facts: Facts, data: RadiusPath) -> None:
        """Robust value against the size of the set, and where another config becomes the best."""
        styles = ["-", "--", "-.", ":"]
        for k, (config, values) in enumerate(data.curves.items()):
            ax.plot(data.sizes, values, styles[k % 4], color=GRAY, linewidth=1)
            ax.annotate(f"config {config}", (data.sizes[-1], values[-1]), fontsize="small")
        ax.plot(data.sizes, data.best, color=BLUE, linewidth=2.5, label="best config")
        ax.axvline(data.own, color=ORANGE, linestyle="--", label="this run")
        for change in data.changes:
            ax.axvline(change.size, color=GREEN, linestyle=":", linewidth=1)
        ax.legend()
        ax.set(title="The price of caution", xlabel=data.label, ylabel="robust value")


PANEL = RadiusPanel()


def _considered(posterior: Posterior, numbers: Indices, keep: tuple[int, ...]) -> Indices:
    if not posterior.uncertainty.slow or len(numbers) <= SLOW_CONFIGS:
        return numbers
    value, _ = posterior.robust(posterior.gains[numbers])
    best = numbers[np.argsort(-value, kind="stable")[:SLOW_CONFIGS]]
    return np.unique(np.concatenate([best, np.array(keep, dtype=np.int64)]))


def _changes(
    values: Callable[[float], Array], sizes: Array, winners: Indices, numbers: Indices
) -> list[WinnerChange]:
    """Every change of the winner between neighboring sizes, found by halving the gap."""
    found = []
    for k in np.flatnonzero(winners[1:] != winners[:-1]):
        low, high = float(sizes[k]), float(sizes[k + 1])
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            if int(values(middle).argmax()) == winners[k]:
                low = middle
            else:
                high = middle
        found.append(WinnerChange(high, int(numbers[winners[k]]), int(numbers[winners[k + 1]])))
    return found


def has_slider(facts: Facts) -> bool:
    """Whether the page can rank the configs anew at any radius."""
    path = facts.radius_path
    return path is not None and path.mean_minus_spread


def slider_data(facts: Facts) -> dict[str, Any]:
    """What the script of the page needs for the slider, as plain data."""
    sign = -1 if facts.minimize else 1
    rows = facts.ranking.rows if facts.ranking is not None and has_slider(facts) else ()
    found = facts.radius_path
    ends = (facts.score_range.low, facts.score_range.high)
    return {
        "sign": sign,
        "slider": has_slider(facts),
        "reference": facts.reference,
        "radius": found.own if found is not None else 0.0,
        "high": found.sizes[-1] if found is not None else 0.0,
        "places": facts.digits.places,
        "ends": [end if math.isfinite(end) else None for end in ends],
        "plot": {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM},
        "configs": [
            {"number": row.number, "gains": [float(f"{sign * v:.15g}") for v in row.estimates]}
            for row in rows
            if row.robust_rank is not None
        ],
    }


def draw_radius(facts: Facts, found: RadiusPath) -> Markup:
    """The best value, and the curves of the recommended config and of the mean choice."""
    assert facts.ranking is not None
    x = Scale(0.0, found.sizes[-1], LEFT, RIGHT, math.sqrt)
    special = _special(facts, found)
    values = [*found.best, *(v for _, number in special for v in found.curves[number])]
    y = Scale.around(values, BOTTOM, TOP, facts.score_range.low, facts.score_range.high)
    digits = Decimals.of(values)
    marks = left_axis(y, LEFT, RIGHT, f"robust score ({facts.better})", LABEL)
    marks += _ground(facts, x, found)
    for kind, number in special:
        points = [(x(s), y(v)) for s, v in zip(found.sizes, found.curves[number], strict=True)]
        marks.append(path(points, f"curve {kind} mark", tip(facts.config(number))))
    marks.append(
        path([(x(s), y(v)) for s, v in zip(found.sizes, found.best, strict=True)], "curve best")
    )
    for size, value, winner in zip(found.sizes, found.best, found.winners, strict=True):
        words = (
            f"{found.label} {short(size, 4)}: {digits.text(value)}, config {winner} is best;"
            f" {config_text(facts.configs[winner])}"
        )
        marks.append(dot(x(size), y(value), 3.0, "best", words))
    ends = [(y(found.curves[number][-1]), (kind, number)) for kind, number in special]
    marks += _names(facts, [*ends, (y(found.best[-1]), ("best", -1))])
    return figure(
        WIDTH,
        HEIGHT,
        "Robust score against the size of the set",
        _description(found, digits),
        marks,
        overhang(y, LEFT),
    )


def draw_shortfall(facts: Facts, found: RadiusPath) -> Markup:
    """How far the recommended config and the mean choice are behind the best one at each size."""
    x = Scale(0.0, found.sizes[-1], LEFT, RIGHT, math.sqrt)
    behind = {
        (kind, number): [
            abs(best - value) for best, value in zip(found.best, found.curves[number], strict=True)
        ]
        for kind, number in _special(facts, found)
    }
    gaps = [gap for curve in behind.values() for gap in curve]
    least = 1e-9 * max(abs(value) for value in found.best) or 1.0
    y = Scale(0.0, max(*gaps, least) * 1.08, TOP, BOTTOM)
    digits = Decimals.of(gaps)
    marks = left_axis(y, LEFT, RIGHT, "behind the best config at that size (0 is best)", LABEL)
    marks += _ground(facts, x, found)
    for (kind, number), curve in behind.items():
        points = [(x(size), y(gap)) for size, gap in zip(found.sizes, curve, strict=True)]
        marks.append(path(points, f"curve {kind} mark", tip(facts.config(number))))
        for (px, py), size, gap in zip(points, found.sizes, curve, strict=True):
            words = (
                f"config {number} at {short(size, 4)}: {digits.text(gap)} behind the best;"
                f" {config_text(facts.configs[number])}"
            )
            marks.append(dot(px, py, 2.5, kind, words))
    marks += _names(facts, [(y(curve[-1]), pair) for pair, curve in behind.items()])
    worst = "; ".join(
        f"config {number} ({kind} choice) at most {digits.text(max(curve))}"
        for (kind, number), curve in behind.items()
    )
    name = "How far behind the best config"
    return figure(WIDTH, HEIGHT, name, f"{worst}.", marks, overhang(y, LEFT))


def _ground(facts: Facts, x: Scale, found: RadiusPath) -> list[Markup]:
    """The axis below, the changes of the winner, and the size of this run."""
    return [
        *_bottom(x, found),
        *_change_lines(facts, found, x),
        line(x(found.own), TOP, x(found.own), BOTTOM, "own"),
        text(f"this run: {short(found.own, 4)}", x(found.own), TOP - NOTE, "note", "middle"),
    ]


def _special(facts: Facts, found: RadiusPath) -> list[tuple[str, int]]:
    ranking = facts.ranking
    assert ranking is not None
    pairs = [("robust", ranking.robust_choice), ("mean", ranking.mean_choice)]
    if ranking.robust_choice == ranking.mean_choice:
        pairs = pairs[:1]
    return [(kind, number) for kind, number in pairs if number in found.curves]


def _bottom(x: Scale, found: RadiusPath) -> list[Markup]:
    places = [tick for tick in x.ticks(7) if 0 < tick < x.high]
    step = places[0] if places else 1.0
    small = [places[0] * share for share in (0.05, 0.25)] if places else []
    places = [0.0, *small, *places, x.high]
    words = [
        "0 (mean)" if tick == 0 else short(tick, 3) if tick < step else tick_text(tick, step)
        for tick in places[:-1]
    ]
    words.append(f"{short(x.high, 3)} (worst fold)")
    return bottom_axis(x, BOTTOM, found.label, list(zip(places, words, strict=True)))


def _change_lines(facts: Facts, found: RadiusPath, x: Scale) -> list[Markup]:
    marks = []
    for change in found.changes:
        words = (
            f"at {short(change.size, 4)} config {change.after}"
            f" ({config_text(facts.configs[change.after])}) overtakes config {change.before}"
            f" ({config_text(facts.configs[change.before])})"
        )
        marks.append(
            element(
                "g",
                tip(words),
                line(x(change.size), TOP, x(change.size), BOTTOM, "change"),
                cls="mark",
            )
        )
    return marks


def _names(facts: Facts, ends: list[tuple[float, tuple[str, int]]]) -> list[Markup]:
    """Names at the right ends of curves, moved apart where they would overlap, none below the
    axis."""
    marks = []
    ordered = sorted(ends)
    places = [place for place, _ in ordered]
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + 15)
    lowest = BOTTOM
    for k in reversed(range(len(places))):
        places[k] = min(places[k], lowest)
        lowest = places[k] - 15
    for place, (_, (kind, number)) in zip(places, ordered, strict=True):
        words, hint = "best at each size", ""
        if kind != "best":
            words, hint = f"config {number} ({kind} choice)", facts.config(number)
        marks.append(text(words, RIGHT + 8, place + 4, f"name {kind}", hint=hint))
    return marks


def _description(found: RadiusPath, digits: Decimals) -> str:
    changes = "; ".join(
        f"at {short(change.size, 4)} from config {change.before} to config {change.after}"
        for change in found.changes[:12]
    )
    return (
        f"The best value goes from {digits.text(found.best[0])} at size 0 to"
        f" {digits.text(found.best[-1])} at {short(found.sizes[-1], 4)}. The winner changes "
        + (f"{changes}." if changes else "nowhere.")
    )


@dataclass(frozen=True)
class Cell:
    """A cell of the table: its text, and the number it is sorted by; "" sorts last, None by the
    text."""

    text: str
    sort: float | str | None = None
    numeric: bool = True
    hint: str = ""


def config_table(facts: Facts) -> Markup:
    """The slider and the table; nothing before there is a ranking."""
    ranking = facts.ranking
    if ranking is None:
        return Markup("")
    names = [name for name, _ in facts.importance.effects] if facts.importance is not None else []
    names = names or list(dict.fromkeys(name for row in ranking.rows for name in row.config))
    hidden, names = names[PARAMETERS:], names[:PARAMETERS]
    heads = [(f"parameter-{k}", name_text(name), "") for k, name in enumerate(names)]
    rows = [
        (
            row.number,
            _mark(ranking, row),
            [
                *_name_cells(facts, ranking, row),
                *(_parameter_cell(row, name) for name in names),
                *_score_cells(facts, row),
            ],
        )
        for row in ranking.rows
    ]
    return fill(
        TABLE,
        heads=[*HEADS, *heads, *SCORE_HEADS],
        rows=rows,
        left_out=ranking.left_out,
        printed=PRINTED,
        hidden=count(len(hidden), "parameter") if hidden else "",
        slider=has_slider(facts),
    )


def _mark(ranking: Ranking, row: ConfigRow) -> str:
    if row.number == ranking.chosen:
        return "chosen"
    if row.number == ranking.mean_choice:
        return "mean"
    return "failed" if row.robust_rank is None else ""


def _choice(ranking: Ranking, row: ConfigRow) -> str:
    words = ["recommended"] if row.number == ranking.chosen else []
    words += ["robust choice"] if row.number == ranking.robust_choice != ranking.chosen else []
    words += ["mean choice"] if row.number == ranking.mean_choice != ranking.chosen else []
    return ", ".join(words)


def _name_cells(facts: Facts, ranking: Ranking, row: ConfigRow) -> list[Cell]:
    return [
        Cell(str(row.robust_rank or "failed"), row.robust_rank or ""),
        Cell(str(row.number), row.number, hint=facts.config(row.number)),
        Cell(_choice(ranking, row), numeric=False),
    ]


def _score_cells(facts: Facts, row: ConfigRow) -> list[Cell]:
    digits = facts.digits
    return [
        Cell(digits.text(row.robust), row.robust),
        Cell(short(BAND * row.std, 2), BAND * row.std),
        Cell(digits.text(row.mean), row.mean),
        Cell(str(row.mean_rank or "–"), row.mean_rank or ""),
        Cell(digits.text(row.worst), row.worst),
        Cell(digits.text(row.spread), row.spread),
        Cell(f"{row.folds_seen} of {facts.n_folds}", row.folds_seen),
    ]


def _parameter_cell(row: ConfigRow, name: str) -> Cell:
    if name not in row.config:
        return Cell("–", numeric=False)
    value = row.config[name]
    brief, whole = value_text(value, 24), value_text(value, LONG_VALUE)
    hint = whole if whole != brief else ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return Cell(brief, numeric=False, hint=hint)
    return Cell(brief, value, hint=hint)
