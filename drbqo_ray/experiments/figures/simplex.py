"""Figure 2: chi-square balls on the simplex of three contexts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drbqo_ray.experiments.figures.style import DASHES, RADIUS_SHADES, new_figure, save

RADII = (0.02, 0.1, 0.25, 0.5, 1.0)
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def draw_simplex(folder: Path) -> None:
    """Write figure2 into the folder: the boundary of each ball cut with the simplex."""
    figure, axes = new_figure(1, width=4.2, height=3.6)
    axis = axes[0, 0]
    triangle = np.vstack([_CORNERS, _CORNERS[:1]])
    axis.plot(*triangle.T, color="#444444", linewidth=1)
    for k, radius in enumerate(RADII):
        _ball(axis, radius, k)
    axis.plot(*(np.full(3, 1 / 3) @ _CORNERS), "k+", markersize=7)
    for name, place in zip(("w1", "w2", "w3"), _CORNERS * 1.04 - 0.02, strict=True):
        axis.annotate(name, place)
    axis.set_aspect("equal")
    axis.axis("off")
    axis.legend(loc="upper left", frameon=False, fontsize=7)
    save(
        figure,
        folder,
        "figure2",
        "Weights over three contexts within chi-square distance rho of"
        " the uniform ones (the cross); from rho = (n-1)/2 = 1 on the ball is the whole"
        " simplex.",
    )


def _ball(axis: Any, radius: float, k: int) -> None:
    angles = np.linspace(0, 2 * np.pi, 721)
    first = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)
    second = np.array([1.0, 1.0, -2.0]) / np.sqrt(6)
    directions = np.outer(np.cos(angles), first) + np.outer(np.sin(angles), second)
    length = np.sqrt(2 * radius / 3)
    reach = np.min(
        np.where(directions < -1e-12, -1 / 3 / np.minimum(directions, -1e-12), np.inf), axis=1
    )
    weights = 1 / 3 + directions * np.minimum(length, reach)[:, None]
    axis.plot(
        *(weights @ _CORNERS).T,
        color=RADIUS_SHADES[k],
        linestyle=DASHES[k],
        label=f"rho = {radius:g}",
    )
