"""What options of the command line take: radii, resources, times and the like."""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

import click


class MethodName(click.Choice[str]):
    """The name of a method; the table of methods is loaded when it is looked at."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names."""
        from drbqo_ray.optimizer.methods import METHODS

        return tuple(METHODS)


class Radius(click.ParamType[Any]):
    """A chi-square radius >= 0, or "auto"."""

    name = "radius"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        """The number, or "auto"."""
        if value == "auto":
            return "auto"
        try:
            radius = float(value)
        except ValueError:
            radius = math.nan
        if not 0 <= radius < math.inf:
            self.fail(f"{value!r} must be a number >= 0, or auto.", param, ctx)
        return radius


class Resource(click.ParamType[Any]):
    """NAME=AMOUNT."""

    name = "name=amount"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, float]:
        """The name and the amount."""
        name, _, text = str(value).partition("=")
        try:
            amount = float(text)
        except ValueError:
            amount = math.nan
        if not name.strip() or not 0 < amount < math.inf:
            self.fail(f"{value!r} must look like A100=1.", param, ctx)
        return name.strip(), amount


class NamedValue(click.ParamType[Any]):
    """NAME=VALUE, the value as in YAML."""

    name = "name=value"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Any]:
        """The name and the value."""
        import yaml

        name, equals, text = str(value).partition("=")
        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError:
            self.fail(f"{value!r} must look like degree=3.", param, ctx)
        if not name.strip() or not equals:
            self.fail(f"{value!r} must look like degree=3.", param, ctx)
        return name.strip(), found


class FailureLimit(click.ParamType[Any]):
    """A number of failures, or "never"."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        """The number, or "never"."""
        if value == "never":
            return "never"
        try:
            limit = int(value)
        except ValueError:
            limit = 0
        if limit < 1:
            self.fail(f"{value!r} must be a whole number >= 1, or never.", param, ctx)
        return limit


class Duration(click.ParamType[Any]):
    """A length of time: 90, 90s, 10m, 1h30m."""

    name = "time"
    units: ClassVar = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Its seconds."""
        text = str(value).strip().lower()
        number = r"(\d+(?:\.\d*)?|\.\d+)"
        if re.fullmatch(number, text):
            text += "s"
        parts = [f"(?:{number}{unit})?" for unit in self.units]
        found = re.fullmatch(r"\s*".join(parts), text)
        amounts = found.groups() if found else ()
        scales = zip(amounts, self.units.values(), strict=False)
        seconds = sum(float(amount) * scale for amount, scale in scales if amount)
        if not 0 < seconds < math.inf:
            self.fail(f"{value!r} must be a time > 0 such as 90s, 10m or 1h30m.", param, ctx)
        return seconds


class Seconds(click.FloatRange):
    """A time limit."""

    name = "seconds"
