"""The configs in order: by the plain mean and by the worst case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from drbqo_ray.records import Config
from drbqo_ray.report.draw import GRAY, ORANGE, element, figure, line, text, tip
from drbqo_ray.report.panel import NOTHING, Panel, Source
from drbqo_ray.report.posterior import Posterior
from drbqo_ray.report.wording import Decimals, config_text, count
from drbqo_ray.types import Array, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

SHOWN = 300
SLOPES = 12
TOP = 8
WIDTH, LEFT, RIGHT, ROW, HEAD = 860.0, 320.0, 534.0, 26.0, 46.0
BOLD = 8.5


@dataclass(frozen=True)
class ConfigRow:
    """One evaluated config; values are what it is judged by, on the user's scale and kept to the
    range of the scores.

    Attributes:
        number: number of the config, in the order first told.
        config: its hyperparameters.
        robust, mean, worst: value under the worst weights of the set, under the reference
            weights, and in its worst fold of those with a reference weight.
        worst_fold: number of that fold.
        std: posterior deviation of the robust value.
        spread: deviation of the fold means under the reference weights.
        robust_rank, mean_rank: 1 is best; None for a config with a failed fold.
        folds_seen: number of folds with a score.
        fold_means: value in every fold (n,).
        estimates: the same as the model has it, not kept to the range of the scores (n,).
        weights: its worst-case weights (n,).
    """

    number: int
    config: Config
    robust: float
    mean: float
    worst: float
    worst_fold: int
    std: float
    spread: float
    robust_rank: int | None
    mean_rank: int | None
    folds_seen: int
    fold_means: tuple[float, ...]
    estimates: tuple[float, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Ranking:
    """The configs of a run in order.

    Attributes:
        rows: the configs that are shown: those with the best robust, mean or worst-fold value,
            best robust value first, configs with a failed fold last.
        total: number of configs.
        ranked: number of configs without a failed fold.
        chosen: number of the recommended config, None without one.
        mean_choice: number of the config with the best mean.
        robust_choice: number of the config with the best robust value.
        runner_up: number of the config next to the chosen one by the same rule.
        agreement: Kendall's tau between both orders of all ranked configs, None for fewer than 2.
    """

    rows: tuple[ConfigRow, ...]
    total: int
    ranked: int
    chosen: int | None
    mean_choice: int | None
    robust_choice: int | None
    runner_up: int | None
    agreement: float | None

    def row(self, number: int | None) -> ConfigRow | None:
        """The shown row of a config, None when it is not shown."""
        return next((row for row in self.rows if row.number == number), None)

    def kind(self, number: int) -> str:
        """How a config is drawn: as the "robust" or the "mean" choice, or as any "other"."""
        if number == self.robust_choice:
            return "robust"
        return "mean" if number == self.mean_choice else "other"

    @property
    def digits(self) -> Decimals:
        """How scores are written: with digits that tell the best ones apart."""
        return Decimals.of(value for row in self.rows[:10] for value in (row.robust, row.mean))

    @property
    def left_out(self) -> int:
        """Number of configs that are not shown."""
        return self.total - len(self.rows)


class RankingPanel(Panel[Ranking]):
    """Ranks by mean beside ranks by robust score."""

    key, order, plot_name = "ranking", 10, "ranking"
    title = "Mean against robust ranking"
    question = "Does robustness change the choice?"

    def gather(self, source: Source) -> Ranking | None:
        """The ranking; every winner along the radius path is in it."""
        posterior, path = source.posterior, source.part("radius")
        if posterior is None:
            return None
        keep = choices(posterior, source.report) if path is None else tuple(path.curves)
        gains = posterior.gains
        robust, weights = posterior.robust(gains)
        mean = gains @ posterior.reference
        by_robust, by_mean = _orders(posterior)
        own = by_robust if source.report == "robust" else by_mean
        shown = _shown(posterior, by_robust, by_mean, keep)
        ranks = {int(k): place + 1 for place, k in enumerate(by_robust)}
        mean_ranks = {int(k): place + 1 for place, k in enumerate(by_mean)}
        usable = posterior.usable
        return Ranking(
            rows=_rows(posterior, shown, (robust, mean, weights), ranks, mean_ranks),
            total=len(gains),
            ranked=len(by_robust),
            chosen=_first(own),
            mean_choice=_first(by_mean),
            robust_choice=_first(by_robust),
            runner_up=int(own[1]) if len(own) > 1 else None,
            agreement=_agreement(mean[usable], robust[usable]),
        )

    def draw(self, facts: Facts, data: Ranking) -> Sequence[Markup]:
        """The slope chart."""
        if data.chosen is None:
            return ()
        right = slope_rows(data)
        left = sorted(right, key=lambda row: row.mean_rank or 0)
        digits = data.digits
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
            kind = data.kind(row.number)
            lines.append((kind == "other", _line(row, y1, y2, kind, digits)))
            labels += _labels(facts, data, row, (y1, y2), kind, wide)
        marks += [mark for _, mark in sorted(lines, key=lambda pair: not pair[0])]
        longest = BOLD * max(len(f"config {row.number} (robust choice)") for row in right)
        return (
            figure(
                max(WIDTH, RIGHT + 40 + wide + longest),
                HEAD + ROW * len(right),
                "Ranks by mean and by robust score",
                _description(data, right, digits),
                [*marks, *labels],
                max(0.0, longest + wide + 34 - LEFT),
            ),
        )

    def reading(self, facts: Facts, data: Ranking) -> Sequence[str]:
        """How many configs are shown, and how far both orders agree."""
        if data.chosen is None:
            return (NOTHING,)
        words = f"Shown: {count(len(slope_rows(data)), 'config')} among the first by either score."
        if data.agreement is not None:
            words += (
                f" Over all {count(data.ranked, 'config')} Kendall's tau between both orders is"
                f" {data.agreement:.2f}; 1 means that they agree."
            )
        return (words,)

    def plot(self, ax: Axes, facts: Facts, data: Ranking) -> None:
        """Ranks by the plain mean beside ranks by the worst case: does robustness change the
        choice?"""
        ranks = [
            (row.mean_rank, row.robust_rank, row.number)
            for row in data.rows
            if row.mean_rank is not None and row.robust_rank is not None
        ]
        for by_mean, by_worst, config in sorted(ranks, key=lambda ranks: min(ranks[:2]))[:SLOPES]:
            chosen = config == data.chosen
            color, width = (ORANGE, 2.5) if chosen else (GRAY, 1.0)
            ax.plot([0, 1], [by_mean, by_worst], "o-", color=color, linewidth=width)
            ax.annotate(
                f"config {config}",
                (1, by_worst),
                (6, 0),
                textcoords="offset points",
                va="center",
                weight="bold" if chosen else "normal",
            )
        ax.set_xticks([0, 1], ["by the mean", "by the worst case"])
        ax.set_xlim(-0.15, 1.4)
        ax.invert_yaxis()
        ax.set(title=self.title, xlabel="", ylabel="rank")


PANEL = RankingPanel()


def choices(posterior: Posterior, report: str) -> tuple[int, ...]:
    """Numbers of the recommended config and of the best ones by mean and by robust value."""
    by_robust, by_mean = _orders(posterior)
    own = by_robust if report == "robust" else by_mean
    return tuple(dict.fromkeys(int(k[0]) for k in (own, by_mean, by_robust) if len(k)))


def _orders(posterior: Posterior) -> tuple[Indices, Indices]:
    """Numbers of the ranked configs, best first: by robust and by mean value."""
    usable = np.flatnonzero(posterior.usable)
    robust = posterior.robust(posterior.gains)[0][usable]
    mean = (posterior.gains @ posterior.reference)[usable]
    by_robust = usable[np.argsort(-robust, kind="stable")]
    return by_robust, usable[np.argsort(-mean, kind="stable")]


def _first(order: Indices) -> int | None:
    return int(order[0]) if len(order) else None


def _shown(
    posterior: Posterior, by_robust: Indices, by_mean: Indices, keep: tuple[int, ...]
) -> Indices:
    """Numbers of the configs to show, best robust value first, failed ones last; those in `keep`
    whatever their rank."""
    failed = np.flatnonzero(~posterior.usable)
    if len(posterior.gains) <= SHOWN:
        return np.concatenate([by_robust, failed])
    usable = np.flatnonzero(posterior.usable)
    by_worst = usable[np.argsort(-posterior.gains[usable].min(axis=1), kind="stable")]
    share = SHOWN // 6
    wanted = {int(k) for order in (by_mean, by_worst) for k in order[:share]}
    wanted |= set(keep)
    for k in by_robust:
        if len(wanted) >= SHOWN - min(share, len(failed)):
            break
        wanted.add(int(k))
    first = [k for k in by_robust if int(k) in wanted]
    return np.array([*first, *failed[: max(0, SHOWN - len(first))]], dtype=np.int64)


def _rows(
    posterior: Posterior,
    shown: Indices,
    values: tuple[Array, Array, Array],
    ranks: dict[int, int],
    mean_ranks: dict[int, int],
) -> tuple[ConfigRow, ...]:
    robust, mean, weights = values
    gains, q = posterior.gains, posterior.reference
    stds = posterior.judged_stds(shown, weights[shown])
    worst = np.where(q > 0, gains, np.inf).argmin(axis=1)
    spreads = spread(posterior, shown)
    folds_seen = _folds_seen(posterior)
    rows = []
    for place, number in enumerate(int(k) for k in shown):
        rows.append(
            ConfigRow(
                number=number,
                config=posterior.configs[number],
                robust=float(posterior.user(robust[number])),
                mean=float(posterior.user(mean[number])),
                worst=float(posterior.user(gains[number, worst[number]])),
                worst_fold=int(worst[number]),
                std=float(stds[place]),
                spread=float(spreads[place]),
                robust_rank=ranks.get(number),
                mean_rank=mean_ranks.get(number),
                folds_seen=int(folds_seen[number]),
                fold_means=tuple(float(v) for v in posterior.user(gains[number])),
                estimates=tuple(float(v) for v in posterior.estimates(gains[number])),
                weights=tuple(float(w) for w in weights[number]),
            )
        )
    return tuple(rows)


def spread(posterior: Posterior, numbers: Indices) -> Array:
    """Deviation (k,) of the fold means of configs (k,) under the reference, user's scale."""
    gains, q = posterior.gains[numbers], posterior.reference
    centered = gains - (gains @ q)[:, None]
    return np.asarray(posterior.fit.scale * np.sqrt((centered**2) @ q))


def _folds_seen(posterior: Posterior) -> Indices:
    """Number of folds with a score, of every config (m,)."""
    ok = ~np.isnan(posterior.scores)
    seen = np.zeros(posterior.gains.shape, dtype=bool)
    seen[posterior.numbers[ok], posterior.contexts[ok]] = True
    return np.asarray(seen.sum(axis=1))


def _agreement(mean: Array, robust: Array) -> float | None:
    """Kendall's tau-b of two lists of values (m,); None when one of them is constant."""
    together, by_mean, by_robust = 0.0, 0.0, 0.0
    for k in range(1, len(mean)):
        one, other = np.sign(mean[k:] - mean[:-k]), np.sign(robust[k:] - robust[:-k])
        together += float(one @ other)
        by_mean += float(one @ one)
        by_robust += float(other @ other)
    room = math.sqrt(by_mean * by_robust)
    return together / room if room > 0 else None


def slope_rows(ranking: Ranking) -> list[ConfigRow]:
    """The configs that are among the first few by mean or by worst case, best robust first."""
    rows = [row for row in ranking.rows if row.robust_rank is not None]
    return [row for row in rows if min(row.robust_rank or 0, row.mean_rank or 0) <= TOP]


def _width(rows: list[ConfigRow], digits: Decimals) -> float:
    """Room for the scores."""
    words = [digits.text(value) for row in rows for value in (row.mean, row.robust)]
    return 16 + BOLD * max(len(word) for word in words)


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
    facts: Facts,
    ranking: Ranking,
    row: ConfigRow,
    ends: tuple[float, float],
    kind: str,
    wide: float,
) -> list[Markup]:
    own, hint, digits = f"name {kind}", facts.config(row.number), ranking.digits
    y1, y2 = ends
    mean = "mean choice: " if ranking.mean_choice == row.number else ""
    robust = " (robust choice)" if ranking.robust_choice == row.number else ""
    return [
        text(f"{mean}config {row.number}", LEFT - 34 - wide, y1 + 4, own, "end", hint),
        text(digits.text(row.mean), LEFT - 34, y1 + 4, own, "end"),
        text(f"{row.mean_rank}", LEFT, y1 + 4, own, "end"),
        text(f"{row.robust_rank}", RIGHT + 18, y2 + 4, own, "end"),
        text(digits.text(row.robust), RIGHT + 22 + wide, y2 + 4, own, "end"),
        text(f"config {row.number}{robust}", RIGHT + 40 + wide, y2 + 4, own, hint=hint),
    ]


def _description(ranking: Ranking, rows: list[ConfigRow], digits: Decimals) -> str:
    listed = "; ".join(
        f"config {row.number} mean rank {row.mean_rank}, robust rank {row.robust_rank}"
        for row in rows[:10]
    )
    return f"{len(rows)} of {ranking.ranked} configs. {listed}."
