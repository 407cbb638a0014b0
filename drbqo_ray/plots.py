"""The pictures of the report as matplotlib axes, for notebooks.

    from drbqo_ray import plots
    plots.radius_path(result)

Every function takes what there is of a search: a `Result`, the directory of a run, an
`Optimizer`, a fitted `RobustSearchCV`, a `DRBQOSearch`, or `Facts` that were gathered once for
several pictures. It draws into `ax`, or into a figure of its own, and returns the axes. Scores are
on the user's scale; hatched cells and dashed lines are the model's, not observed.

The functions are the plots of the panels of `drbqo_ray.report.panels`: ranking, heat_map,
fold_weights, radius_path, pareto, incumbent, importance, slices, parallel and timeline.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.report.facts import About, Facts, gather
from drbqo_ray.report.panel import Panel
from drbqo_ray.report.panels import all_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def facts_of(source: Any) -> Facts:
    """What the pictures of a search show, gathered once."""
    if isinstance(source, Facts):
        return source
    if isinstance(source, (str, PathLike)):
        from drbqo_ray.storage.listing import find_run

        return _journal_facts(find_run(str(source)).directory)
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


def __getattr__(name: str) -> Callable[..., Axes]:
    """The plot of the panel that names it."""
    for panel in all_panels():
        if panel.plot_name == name:
            return _function(panel)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(panel.plot_name for panel in all_panels() if panel.plot_name)})


@cache
def _function(panel: Panel[Any]) -> Callable[..., Axes]:
    def draw(source: Any, ax: Axes | None = None) -> Axes:
        facts = facts_of(source)
        data = facts.parts[panel.key]
        if data is None:
            raise NothingObserved(
                "This picture needs more than the search has seen so far."
                f" Got {facts.evaluations} evaluations. Tell some scores first."
            )
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        panel.plot(ax, facts, data)
        return ax

    draw.__name__ = draw.__qualname__ = str(panel.plot_name)
    draw.__doc__ = panel.plot.__doc__
    return draw
