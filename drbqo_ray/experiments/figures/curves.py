"""A panel of curves over t: the mean over seeds with its interval as a band."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from drbqo_ray.experiments.figures.style import NAMES, look
from drbqo_ray.experiments.metrics import best_so_far, interval
from drbqo_ray.experiments.results import (
    Results,
)
from drbqo_ray.experiments.table import shown_values
from drbqo_ray.types import Array


def draw_curve(axis: Any, values: Array, label: str, **style: Any) -> None:
    """Draw values (seeds, horizon + 1): their mean, and the interval as a band."""
    band = interval(values)
    steps = np.arange(values.shape[1])
    (line,) = axis.plot(steps, band.mean, label=label, **style)
    axis.fill_between(
        steps,
        band.mean - band.half,
        band.mean + band.half,
        color=line.get_color(),
        alpha=0.15,
        linewidth=0,
    )


def draw_methods(
    axis: Any,
    results: Results,
    methods: Iterable[str],
    radius: float,
    metric: str,
    best: bool | None = None,
) -> None:
    """Draw a metric of several methods; `best`: best so far, larger (True) or smaller is better."""
    for method in methods:
        values = shown_values(results, method, radius, metric)
        if values is None:
            continue
        if best is not None:
            values = best_so_far(values, larger_is_better=best)
        draw_curve(axis, values, NAMES[method], **look(method))
    axis.set_xlabel("evaluations t")
