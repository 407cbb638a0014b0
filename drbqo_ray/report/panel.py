"""What a panel is: its data, its pictures on the page, its sentences, its plot for notebooks.

A panel is one module of `drbqo_ray.report.panels` that holds all of it and names it PANEL. The page
and `drbqo_ray.plots` find it there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from markupsafe import Markup

from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import Observation
from drbqo_ray.report.posterior import read_posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from drbqo_ray.report.facts import About, Facts

Data = TypeVar("Data")

NOTHING = "Nothing to show yet: no config has a score and no failed fold."


class Panel(ABC, Generic[Data]):
    """One panel.

    Attributes:
        key: its name, that of its module.
        order: its place on the page, ascending.
        title: its heading.
        question: what it answers.
        plot_name: name of its function in `drbqo_ray.plots`, None when it has no plot.
    """

    key: ClassVar[str]
    order: ClassVar[int]
    title: ClassVar[str]
    question: ClassVar[str]
    plot_name: ClassVar[str | None] = None

    @abstractmethod
    def gather(self, source: Source) -> Data | None:
        """Its data as plain numbers and text; None when the run has nothing for it yet."""

    def missing(self, facts: Facts) -> str:
        """What to say without data."""
        return NOTHING

    def draw(self, facts: Facts, data: Data) -> Sequence[Markup]:
        """Wide pictures."""
        return ()

    def draw_small(self, facts: Facts, data: Data) -> Sequence[Markup]:
        """Pictures side by side, below the wide ones."""
        return ()

    def reading(self, facts: Facts, data: Data) -> Sequence[str]:
        """Paragraphs below the pictures: how to read them."""
        return ()

    def below(self, facts: Facts) -> Markup:
        """HTML at its end, with or without data."""
        return Markup("")

    def plot(self, ax: Axes, facts: Facts, data: Data) -> None:
        """Draw it with matplotlib; the docstring is that of the function in `drbqo_ray.plots`."""
        raise NotImplementedError


class Source:
    """What panels are gathered from.

    Attributes:
        optimizer: told everything; it is not changed.
        about: what else is known of the run.
        observations: the outcomes in the order told, with all that is known of them.
        told_at: when they were told, by id, in seconds into the run, as far as that is known.
        posterior: the model of the run, None before there is one.
        report: "robust" or "mean": what the method recommends by.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        about: About,
        observations: Sequence[Observation],
        told_at: Mapping[int, float],
        panels: Iterable[Panel[Any]],
    ) -> None:
        self.optimizer = optimizer
        self.about = about
        self.observations = observations or optimizer.observations
        self.told_at = told_at
        self.posterior = read_posterior(optimizer)
        self.report = "mean" if optimizer.method.report == "mean" else "robust"
        self._panels = {panel.key: panel for panel in panels}
        self._parts: dict[str, Any] = {}

    def part(self, key: str) -> Any:
        """The data of a panel, gathered once."""
        if key not in self._parts:
            self._parts[key] = self._panels[key].gather(self)
        return self._parts[key]

    def parts(self) -> dict[str, Any]:
        """The data of every panel by its key."""
        return {key: self.part(key) for key in self._panels}
