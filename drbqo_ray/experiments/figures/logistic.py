"""Figures 1, 3, 4 and 5: the logistic example."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np

from drbqo_ray.experiments.figures.curves import draw_curve, draw_methods
from drbqo_ray.experiments.figures.simplex import draw_simplex
from drbqo_ray.experiments.figures.style import DASHES, NAMES, RADIUS_SHADES, look, new_figure, save
from drbqo_ray.experiments.results import (
    TRAJECTORY,
    Results,
)
from drbqo_ray.experiments.synthetic import SURFACES
from drbqo_ray.experiments.table import caption
from drbqo_ray.types import Array

SHOWN_RADIUS = 1.0
_QUADRATURE_NODES = 40


def draw_logistic(results: Results) -> None:
    """Write all figures of the logistic example into its folder."""
    draw_surface(results)
    draw_simplex(results.folder)
    draw_regret(results)
    draw_values(results)
    draw_context_choice(results)


def true_mean(x: Array) -> Array:
    """E f(x, w) over w ~ N(0, I) at points x (k, 2), by Gauss-Hermite quadrature: x . w is normal
    with standard deviation |x|."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_QUADRATURE_NODES)
    spread = np.linalg.norm(x, axis=1)
    return np.asarray(-np.logaddexp(0, spread[:, None] * nodes) @ weights / np.sqrt(2 * np.pi))


def draw_surface(results: Results) -> None:
    """Figure 1: true and empirical mean, with the average way of the reports."""
    radius = _radius(results)
    ticks = np.linspace(-2, 2, 81)
    x = np.stack([part.ravel() for part in np.meshgrid(ticks, ticks)], axis=1)
    surfaces = (true_mean(x), SURFACES["logistic"].values(x).mean(axis=1))
    figure, axes = new_figure(2, width=3.6, height=3.0)
    titles = ("(a) true mean", "(b) mean over 10 samples")
    for axis, values, title in zip(axes[0], surfaces, titles, strict=True):
        lines = axis.contour(
            ticks, ticks, values.reshape(81, 81), 14, cmap="Greys_r", linewidths=0.7
        )
        axis.clabel(lines, fontsize=5)
        for method, path in _trajectories(results, radius).items():
            axis.plot(*path.T, label=NAMES[method], **look(method))
            axis.plot(*path[-1], marker="*", color=look(method)["color"], markersize=9)
        axis.set(title=title, xlabel="x1", ylabel="x2")
    axes[0, 0].legend(fontsize=7)
    words = f"Average reported point at each t, rho = {radius:g}; a star ends each way. "
    save(figure, results.folder, "figure1", words + caption(results))


def _trajectories(results: Results, radius: float) -> dict[str, Array]:
    paths: dict[str, list[list[float]]] = {}
    with (results.folder / TRAJECTORY).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if float(row["radius"]) == radius:
                paths.setdefault(row["method"], []).append([float(row["x0"]), float(row["x1"])])
    return {method: np.array(path) for method, path in paths.items()}


def draw_regret(results: Results) -> None:
    """Figure 3: log10 regret by radius, best so far above and as reported below."""
    shown = [m for m in results.methods if "randw" not in m and m != "emp-drbqo"]
    figure, axes = new_figure(len(results.radii), 2, width=2.6)
    for column, radius in enumerate(results.radii):
        draw_methods(axes[0, column], results, shown, radius, "regret", best=False)
        draw_methods(axes[1, column], results, shown, radius, "regret")
        axes[0, column].set_title(f"rho = {radius:g}")
    axes[0, 0].set_ylabel("log10 regret, best so far")
    axes[1, 0].set_ylabel("log10 regret, as reported")
    axes[0, 0].legend(fontsize=6)
    save(figure, results.folder, "figure3", caption(results))


def draw_values(results: Results) -> None:
    """Figure 4: mean over the samples at the reports, by method and by radius."""
    radius = _radius(results)
    figure, axes = new_figure(2, width=3.6)
    shown = [m for m in results.methods if "randw" not in m and m != "random"]
    draw_methods(axes[0, 0], results, shown, radius, "mean")
    for k, rho in enumerate(results.radii):
        values = results.values["drbqo", rho, "mean"]
        draw_curve(
            axes[0, 1], values, f"rho = {rho:g}", color=RADIUS_SHADES[k], linestyle=DASHES[k]
        )
    for axis, title in zip(axes[0], (f"(a) methods, rho = {radius:g}", "(b) DRBQO"), strict=True):
        axis.set(title=title, xlabel="evaluations t", ylabel="mean over samples", ylim=(-1.6, -0.5))
        for height in (-0.5924, -np.log(2)):
            axis.axhline(height, color="#888888", linewidth=0.6)
        axis.legend(fontsize=6)
    words = "Lines: maximum of the empirical mean, and its value at the true optimum x = 0. "
    save(figure, results.folder, "figure4", words + caption(results))


def draw_context_choice(results: Results) -> None:
    """Figure 5: w of highest variance against random w."""
    radius = _radius(results)
    figure, axes = new_figure(2, width=3.6)
    baselines = ("bqo-ts", "bqo-ts-randw", "bqo-ei", "bqo-ei-randw")
    draw_methods(axes[0, 0], results, baselines, radius, "mean")
    axes[0, 0].set(title="(a) baselines", ylabel="mean over samples", ylim=(-1.6, -0.5))
    draw_methods(axes[0, 1], results, ("drbqo", "drbqo-randw"), radius, "regret", best=False)
    axes[0, 1].set(title=f"(b) DRBQO, rho = {radius:g}", ylabel="log10 regret, best so far")
    for axis in axes[0]:
        axis.legend(fontsize=6)
    save(figure, results.folder, "figure5", caption(results))


def _radius(results: Results) -> float:
    wanted: Any = SHOWN_RADIUS if SHOWN_RADIUS in results.radii else results.radii[-1]
    return float(wanted)
