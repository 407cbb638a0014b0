"""The slope chart: rank by mean on the left, rank by worst case on the right."""

from __future__ import annotations

from markupsafe import Markup

from drbqo_ray.report.draw.svg import element, figure, line, text, tip
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.ranking import ConfigRow, Ranking
from drbqo_ray.report.wording import Decimals, config_text

TOP = 8
WIDTH, LEFT, RIGHT, ROW, HEAD = 860.0, 320.0, 534.0, 26.0, 46.0
BOLD = 8.5


def slope_rows(ranking: Ranking) -> list[ConfigRow]:
    """The configs that are among the first few by mean or by worst case, best robust first."""
    rows = [row for row in ranking.rows if row.robust_rank is not None]
    return [row for row in rows if min(row.robust_rank or 0, row.mean_rank or 0) <= TOP]


def draw_slope(facts: Facts, ranking: Ranking) -> Markup:
    """The chart."""
    right = slope_rows(ranking)
    left = sorted(right, key=lambda row: row.mean_rank or 0)
    digits = ranking.digits
    place = {row.number: k for k, row in enumerate(right)}
    marks: list[Markup] = [
        text("rank by mean score", LEFT, 20, "head", "end"),
        text("rank by robust score", RIGHT, 20, "head"),
        line(LEFT + 14, HEAD - 14, LEFT + 14, HEAD + ROW * len(right) - 12, "axis"),
        line(RIGHT - 14, HEAD - 14, RIGHT - 14, HEAD + ROW * len(right) - 12, "axis"),
    ]
    lines, labels = [], []
    wide = _width(right, digits)
    for k, row in enumerate(left):
        y1, y2 = HEAD + ROW * k, HEAD + ROW * place[row.number]
        kind = _kind(ranking, row)
        lines.append((kind == "other", _line(row, y1, y2, kind, digits)))
        labels += _labels(ranking, row, y1, y2, kind, digits, wide)
    marks += [mark for _, mark in sorted(lines, key=lambda pair: not pair[0])]
    longest = BOLD * max(len(f"config {row.number} (robust choice)") for row in right)
    return figure(
        max(WIDTH, RIGHT + 40 + wide + longest),
        HEAD + ROW * len(right),
        "Ranks by mean and by robust score",
        _description(ranking, right, digits),
        [*marks, *labels],
        max(0.0, longest + wide + 34 - LEFT),
    )


def _width(rows: list[ConfigRow], digits: Decimals) -> float:
    """Room for the scores."""
    words = [digits.text(value) for row in rows for value in (row.mean, row.robust)]
    return 16 + BOLD * max(len(word) for word in words)


def _kind(ranking: Ranking, row: ConfigRow) -> str:
    if row.number == ranking.robust_choice:
        return "robust"
    return "mean" if row.number == ranking.mean_choice else "other"


def _line(row: ConfigRow, y1: float, y2: float, kind: str, digits: Decimals) -> Markup:
    words = (
        f"config {row.number}: mean {digits.text(row.mean)} (rank {row.mean_rank}), robust "
        f"{digits.text(row.robust)} (rank {row.robust_rank}); {config_text(row.config)}"
    )
    return element(
        "g",
        tip(words),
        line(LEFT + 14, y1, RIGHT - 14, y2, f"slope {kind}"),
        element("circle", cx=LEFT + 14, cy=y1, r=4, cls=f"dot {kind}"),
        element("circle", cx=RIGHT - 14, cy=y2, r=4, cls=f"dot {kind}"),
        cls="mark",
    )


def _labels(
    ranking: Ranking, row: ConfigRow, y1: float, y2: float, kind: str, digits: Decimals, wide: float
) -> list[Markup]:
    own = f"name {kind}"
    mean = "mean choice: " if ranking.mean_choice == row.number else ""
    robust = " (robust choice)" if ranking.robust_choice == row.number else ""
    return [
        text(f"{mean}config {row.number}", LEFT - 34 - wide, y1 + 4, own, "end"),
        text(digits.text(row.mean), LEFT - 34, y1 + 4, own, "end"),
        text(f"{row.mean_rank}", LEFT, y1 + 4, own, "end"),
        text(f"{row.robust_rank}", RIGHT + 18, y2 + 4, own, "end"),
        text(digits.text(row.robust), RIGHT + 22 + wide, y2 + 4, own, "end"),
        text(f"config {row.number}{robust}", RIGHT + 40 + wide, y2 + 4, own),
    ]


def _description(ranking: Ranking, rows: list[ConfigRow], digits: Decimals) -> str:
    listed = "; ".join(
        f"config {row.number} mean rank {row.mean_rank}, robust rank {row.robust_rank}"
        for row in rows[:10]
    )
    return f"{len(rows)} of {ranking.ranked} configs. {listed}."
