"""The panels of the report: every module here whose name does not begin with _ is one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from drbqo_ray.report.panel import Panel


def all_panels() -> list[Panel[Any]]:
    """Every panel, in the order of the page."""
    names = [found.name for found in iter_modules(__path__) if not found.name.startswith("_")]
    panels = [import_module(f"{__name__}.{name}").PANEL for name in names]
    return sorted(panels, key=lambda panel: panel.order)
