"""Which methods share a trace, and which report of a trace belongs to which method.

A *trace* is the sequence of evaluations; a *series* is what one method reports along it. The
names of series are those of the methods, with "-randw" for a random choice of w.
"""

from __future__ import annotations

from dataclasses import dataclass

from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.methods import METHODS, Method, find_method
from drbqo_ray.optimizer.proposals import RobustDraw

RANDW = "-randw"


@dataclass(frozen=True)
class Trace:
    """A way to choose evaluations.

    Attributes:
        method: name of the first method that chooses them so.
        random_context: whether w is chosen at random.
        robust: whether the choice depends on the radius.
    """

    method: str
    random_context: bool
    robust: bool

    @property
    def name(self) -> str:
        """A name fit for a directory."""
        return self.method + (RANDW if self.random_context else "")


def recipe(series: str) -> Method:
    """The recipe of a series."""
    base = series.removesuffix(RANDW)
    if base not in METHODS:
        raise InvalidInput(
            "A series is named after a method.", series, f"Use one of {list(METHODS)}, or + -randw."
        )
    return find_method(base, "random" if series.endswith(RANDW) else None)


def trace_of(series: str) -> Trace:
    """The trace that a series is read from."""
    wanted = recipe(series)
    randw = series.endswith(RANDW)
    for name in METHODS:
        method = find_method(name, "random" if randw else None)
        if _choice(method) == _choice(wanted):
            return Trace(name, randw, wanted.config_rule.name == RobustDraw.name)
    raise AssertionError("every method is its own trace")


def _choice(method: Method) -> tuple[str, str, bool]:
    """What the evaluations of a method depend on."""
    return method.config_rule.name, method.context_rule.name, method.free_form


def report_label(series: str, radius: float) -> str:
    """The report of its trace that a series shows at a radius: "mean" or "robust-R"."""
    return "mean" if recipe(series).report == "mean" else f"robust-{radius:g}"
