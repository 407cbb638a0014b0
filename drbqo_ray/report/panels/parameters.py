"""Which parameters matter.

The importance of a parameter is its total effect: the share of the variance of the modeled robust
value over the whole space that is left when all other parameters are known,

    effect_j = E[Var(R | all but u_j)] / Var(R)        R the robust value at u, uniform in the cube

Var(R) is that of 1,024 points of a Latin hypercube. The variance that is left is the mean of those
along lines: through 64 points, each at the same values of u_j, evenly spread. It is a part of
Var(R), so a share is at most 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from drbqo_ray.records import Config
from drbqo_ray.report.draw import (
    BLUE,
    Scale,
    figure,
    rect,
    text,
    tip,
)
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.panels.ranking import Ranking
from drbqo_ray.report.posterior import Posterior
from drbqo_ray.report.wording import count, name_text, percent
from drbqo_ray.space.parameters import Choice
from drbqo_ray.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import Facts

POINTS, LINES = 1024, 64
LEVELS, MOST_LEVELS = 16, 32
FLAT = 1e-18
WIDTH, LEFT, RIGHT, ROW = 860.0, 200.0, 760.0, 24.0
MOST = 20


@dataclass(frozen=True)
class Importance:
    """Total effect of every parameter, largest first, and along how many lines it was measured."""

    effects: tuple[tuple[str, float], ...]
    lines: int


class ParametersPanel(Panel[Importance]):
    """Importance of the parameters as bars."""

    key, order, plot_name = "parameters", 70, "importance"
    title, question = "Parameters", "Which parameter matters?"

    def gather(self, source: Source) -> Importance | None:
        """Their importance; None without a recommended config."""
        posterior = source.posterior
        if posterior is None:
            return None
        ranking: Ranking = source.part("ranking")
        if ranking.chosen is None:
            return None
        effects = total_effects(posterior, source.optimizer.seed)
        names = list(posterior.space)
        order = np.argsort(-effects, kind="stable")
        return Importance(
            effects=tuple((names[j], float(effects[j])) for j in order),
            lines=LINES,
        )

    def draw(self, facts: Facts, data: Importance) -> Sequence[Markup]:
        """The bars."""
        shown = data.effects[:MOST]
        scale = Scale(0.0, max([effect for _, effect in shown] + [1e-9]) * 1.02, LEFT, RIGHT)
        marks: list[Markup] = []
        for k, (name, effect) in enumerate(shown):
            y = ROW * k
            words = name_text(name)
            brief = words if len(words) <= 26 else words[:25] + "…"
            marks += [
                text(brief, LEFT - 10, y + 16, "name", "end"),
                rect(
                    LEFT,
                    y + 3,
                    max(scale(effect) - LEFT, 0.75),
                    ROW - 6,
                    "bar robust mark",
                    tip(f"{words}: {percent(effect)}"),
                ),
                text(percent(effect), RIGHT + 10, y + 16, "value"),
            ]
        listed = ", ".join(f"{name_text(name)} {percent(effect)}" for name, effect in shown[:8])
        name = "Importance of the parameters"
        return (figure(WIDTH, ROW * len(shown) + 6, name, f"{listed}.", marks),)

    def reading(self, facts: Facts, data: Importance) -> Sequence[str]:
        """What importance is, and what is left out."""
        words = (
            "Importance is the share of the variation of the modeled robust score over the whole"
            " space that a parameter has a hand in, alone or with others; shares can sum to more"
            f" than 100 %. It is estimated along {data.lines} random lines for each"
            " parameter."
        )
        hidden = data.effects[MOST:]
        if hidden:
            words += (
                f" {count(len(hidden), 'parameter')} of at most {percent(hidden[0][1])} are left"
                " out."
            )
        return (words,)

    def plot(self, ax: Axes, facts: Facts, data: Importance) -> None:
        """Share of the variance of the robust value that each parameter has a part in."""
        names, effects = zip(*data.effects, strict=True)
        ax.barh(range(len(names)), effects, color=BLUE)
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set(title="Importance of the parameters", xlabel="total effect", ylabel="")


PANEL = ParametersPanel()


def total_effects(posterior: Posterior, seed: int) -> Array:
    """Total effect of each parameter (p,), within [0, 1], all 0 when the model is flat."""
    rng = np.random.default_rng(seed)
    space = posterior.space
    total = float(_values(posterior, space.snap(_hypercube(POINTS, len(space), rng))).var())
    if total <= FLAT:
        return np.zeros(len(space))
    base = _hypercube(LINES, len(space), rng)
    left = np.array([_variance_along(posterior, base, j) for j in range(len(space))])
    return np.minimum(left / total, 1.0)


def _hypercube(size: int, width: int, rng: np.random.Generator) -> Array:
    """Random points (size, width) in the unit cube, one in every slice of each axis."""
    strata = rng.permuted(np.tile(np.arange(size), (width, 1)), axis=1)
    return np.asarray(((strata + rng.random(strata.shape)) / size).T)


def _variance_along(posterior: Posterior, base: Array, column: int) -> float:
    """Mean variance of the robust value along one parameter, on lines through points (B, p)."""
    item = list(posterior.space.parameters.values())[column]
    levels = min(item.count, MOST_LEVELS) if isinstance(item, Choice) else LEVELS
    u = np.repeat(base, levels, axis=0)
    u[:, column] = np.tile((np.arange(levels) + 0.5) / levels, len(base))
    values = _values(posterior, posterior.space.snap(u)).reshape(len(base), levels)
    return float(values.var(axis=1).mean())


def _values(posterior: Posterior, u: Array) -> Array:
    return posterior.robust(posterior.predict(posterior.space.features(u)))[0]


def gain_from(posterior: Posterior, config: Config, name: str, place: float) -> float:
    """What the modeled robust value of a config gains, standardized, by its own value of one
    parameter over the value at `place` in [0, 1]."""
    u = np.tile(posterior.space.to_unit(config), (2, 1))
    u[1, list(posterior.space).index(name)] = place
    own, other = _values(posterior, posterior.space.snap(u))
    return float(own - other)
