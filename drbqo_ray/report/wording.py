"""Numbers and values as text a reader can trust: fixed decimals in a column, nothing hidden."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from drbqo_ray.records import Config
from drbqo_ray.runtime.terminal import printable

VALUE_LIMIT, LONG_VALUE = 60, 1000
NAME_LIMIT = 60


@dataclass(frozen=True)
class Decimals:
    """One way to write all numbers of one kind, so that their digits line up.

    Attributes:
        places: digits after the point, None for scientific notation.
    """

    places: int | None

    @staticmethod
    def of(values: Iterable[float]) -> Decimals:
        """Digits that tell these values apart: about three of their spread."""
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            return Decimals(3)
        largest = max(abs(value) for value in finite)
        spread = max(finite) - min(finite) or largest
        if largest >= 1e7 or (0 < largest < 1e-4):
            return Decimals(None)
        if spread <= 0:
            return Decimals(3)
        return Decimals(min(8, max(0, 2 - math.floor(math.log10(spread)))))

    def text(self, value: float | None) -> str:
        """The number; a dash when there is none."""
        if value is None or not math.isfinite(value):
            return "–"
        return f"{value:.3e}" if self.places is None else f"{value:z.{self.places}f}"


def short(value: float, digits: int = 3) -> str:
    """A number with a few significant digits."""
    return f"{value:.{digits}g}"


def with_band(value: str, band: float) -> str:
    """A value and half of its 95 % band; the value alone where it is known."""
    return f"{value} ± {short(band, 2)}" if band > 0 else value


def percent(share: float) -> str:
    """A share of 1 as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def seconds(amount: float) -> str:
    """A length of time."""
    if amount < 120:
        return f"{amount:.3g} s"
    if amount < 7200:
        return f"{amount / 60:.3g} min"
    return f"{amount / 3600:.3g} h"


def count(number: int, noun: str) -> str:
    """A number with its noun, e.g. "1 evaluation", "2,000 evaluations"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def value_text(value: Any, limit: int = VALUE_LIMIT) -> str:
    """The value of a parameter on one line."""
    return printable(f"{value:.6g}" if isinstance(value, float) else value, limit)


def name_text(name: object) -> str:
    """The name of a parameter, a run or an objective on one line."""
    return printable(name, NAME_LIMIT)


def config_text(config: Config, most: int = 4) -> str:
    """A config on one line; parameters after the first few are only counted."""
    shown = [f"{name_text(name)} = {value_text(value)}" for name, value in config.items()]
    rest = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {rest} more" if rest > 0 else "")
