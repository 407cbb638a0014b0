"""The best configs as lines across all their parameters: what good configs have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from drbqo_ray.report.draw import (
    BLUE,
    CHARACTER,
    GRAY,
    LINE,
    Scale,
    figure,
    label_of,
    line,
    path,
    text,
    ticks_along,
    tip,
)
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.panels.ranking import Ranking
from drbqo_ray.report.wording import config_text, count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

AXES, LINES = 8, 80
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860.0, 64.0, 770.0, 44.0, 300.0
ABSENT = 26.0
"""How far below its axis a line passes where a config has no value for the parameter."""


@dataclass(frozen=True)
class ParallelAxis:
    """A parameter: its name, whether its scale is logarithmic, places and words of its ticks."""

    name: str
    log: bool
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class ParallelLine:
    """A config: its number, its place in [0, 1] on every axis, None where it has no value, and its
    robust value."""

    number: int
    places: tuple[float | None, ...]
    robust: float


@dataclass(frozen=True)
class Parallel:
    """The configs as lines.

    Attributes:
        axes: the parameters that matter most, the most important first.
        lines: the best configs, best first.
        configs_left_out, parameters_left_out: how many are not shown.
    """

    axes: tuple[ParallelAxis, ...]
    lines: tuple[ParallelLine, ...]
    configs_left_out: int
    parameters_left_out: int


class ParallelPanel(Panel[Parallel]):
    """An axis a parameter, a line a config; the last axis is the robust score."""

    key, order, plot_name = "parallel", 74, "parallel"
    title, question = "Parallel coordinates", "What do the good configs have in common?"

    def gather(self, source: Source) -> Parallel | None:
        """The lines; None without a recommended config."""
        importance = source.part("parameters")
        if importance is None or source.posterior is None:
            return None
        ranking: Ranking = source.part("ranking")
        known = source.posterior.space.parameters
        names = [name for name, _ in importance.effects][:AXES]
        rows = [row for row in ranking.rows if row.robust_rank is not None][:LINES]
        return Parallel(
            axes=tuple(
                ParallelAxis(
                    name, bool(getattr(known[name], "log", False)), tuple(ticks_along(known[name]))
                )
                for name in names
            ),
            lines=tuple(
                ParallelLine(
                    row.number,
                    tuple(
                        known[name].to_unit(row.config[name]) if name in row.config else None
                        for name in names
                    ),
                    row.robust,
                )
                for row in rows
            ),
            configs_left_out=ranking.total - len(rows),
            parameters_left_out=len(importance.effects) - len(names),
        )

    def draw(self, facts: Facts, data: Parallel) -> Sequence[Markup]:
        """The axes and the lines, the best on top."""
        scores = score_axis(data)
        across = Scale(0.0, float(len(data.axes)), LEFT, RIGHT)
        up = Scale(0.0, 1.0, BOTTOM, TOP)
        room = (RIGHT - LEFT) / len(data.axes)
        marks: list[Markup] = []
        for k, row in reversed(list(enumerate(data.lines))):
            marks.append(_line(facts, data, row, k, across, up, scores))
        for k, axis in enumerate(data.axes):
            marks += _axis(
                across(k), label_of(axis.name, axis.log), axis.name, axis.ticks, up, room
            )
        ticks = [(scores(tick), words) for tick, words in scores.labels()]
        marks += _axis(across(len(data.axes)), "robust score", "", ticks, up, room)
        if any(place is None for row in data.lines for place in row.places):
            marks.append(text("no value", 4, BOTTOM + ABSENT + 4, "tick"))
        best = facts.config(data.lines[0].number)
        description = f"{count(len(data.lines), 'config')}, best first: {best}."
        return (figure(WIDTH, BOTTOM + ABSENT + 14, self.title, description, marks),)

    def reading(self, facts: Facts, data: Parallel) -> Sequence[str]:
        """What a line is, and what is left out."""
        words = (
            "A line is a config; it crosses each axis at its value. The stronger the color, the"
            " better its robust score, where the line ends."
        )
        if data.configs_left_out:
            words += f" {count(data.configs_left_out, 'config')} further down are left out."
        if data.parameters_left_out:
            words += (
                f" {count(data.parameters_left_out, 'parameter')} that matter least have no axis."
            )
        return (words,)

    def plot(self, ax: Axes, facts: Facts, data: Parallel) -> None:
        """The best configs as lines across their parameters; the last axis is the robust value."""
        scores = score_axis(data)
        for k, row in reversed(list(enumerate(data.lines))):
            places = [-0.1 if place is None else place for place in row.places]
            strength = _strength(data, k)
            ax.plot(
                [*places, scores(row.robust)], color=BLUE, alpha=strength, linewidth=2 * strength
            )
        ticks = [axis.ticks for axis in data.axes]
        ticks.append(tuple((scores(tick), words) for tick, words in scores.labels()))
        for k, named in enumerate(ticks):
            ax.axvline(k, color=GRAY, linewidth=1)
            for place, words in named:
                ax.annotate(words, (k, place), (3, 0), textcoords="offset points", fontsize="small")
        names = [label_of(axis.name, axis.log, 18) for axis in data.axes]
        ax.set_xticks(range(len(ticks)), [*names, "robust value"], rotation=20)
        ax.set_yticks([])
        ax.set(title=self.title, xlabel="", ylabel="")


PANEL = ParallelPanel()


def score_axis(data: Parallel) -> Scale:
    """The robust scores of the lines between 0 and 1, larger ones higher."""
    return Scale.around([row.robust for row in data.lines], 0.0, 1.0)


def _strength(data: Parallel, rank: int) -> float:
    """How strongly a line is drawn, from 1 for the best config down to 0.15."""
    return 0.15 + 0.85 * (1 - rank / len(data.lines)) ** 3


def _line(
    facts: Facts,
    data: Parallel,
    row: ParallelLine,
    rank: int,
    across: Scale,
    up: Scale,
    scores: Scale,
) -> Markup:
    assert facts.ranking is not None
    points = [
        (across(k), BOTTOM + ABSENT if place is None else up(place))
        for k, place in enumerate(row.places)
    ]
    points.append((across(len(row.places)), up(scores(row.robust))))
    words = (
        f"config {row.number}: {facts.digits.text(row.robust)};"
        f" {config_text(facts.configs[row.number], AXES)}"
    )
    kind = facts.ranking.kind(row.number)
    looks = "" if kind == "other" else f" {kind}"
    opacity = _strength(data, rank) if kind == "other" else 1.0
    return path(points, f"parallel-line mark{looks}", tip(words), stroke_opacity=opacity)


def _axis(
    x: float,
    label: str,
    name: str,
    ticks: Sequence[tuple[float, str]],
    up: Scale,
    room: float,
) -> list[Markup]:
    """An upright axis: its name above, its ticks to its right, as far as there is room."""
    most = max(3, int((room - 12) / CHARACTER))
    brief = label if len(label) <= most else (name or label)[: most - 1] + "…"
    marks = [
        line(x, TOP, x, BOTTOM, "axis"),
        text(brief, x, TOP - 16, "head", "middle", label if brief != label else ""),
    ]
    last = float("inf")
    for place, words in sorted(ticks):
        y = up(place)
        marks.append(line(x - 3, y, x + 3, y, "axis"))
        if last - y >= LINE:
            shown = words if len(words) <= most - 1 else words[: most - 2] + "…"
            marks.append(text(shown, x + 6, y + 4, "tick over"))
            last = y
    return marks
