"""Figure 6 (test functions), the figure of the support vector machines, and table 1 as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drbqo_ray.experiments.figures.curves import draw_curve, draw_methods
from drbqo_ray.experiments.figures.style import DASHES, NAMES, RADIUS_SHADES, look, new_figure, save
from drbqo_ray.experiments.metrics import interval
from drbqo_ray.experiments.results import Results
from drbqo_ray.experiments.table import caption, shown_values


def draw_surfaces(folder: Path, parts: list[Results]) -> None:
    """Figure 6: robust value of the reports on each test function."""
    figure, axes = new_figure(len(parts))
    for axis, results in zip(axes[0], parts, strict=True):
        radius = results.radii[0]
        draw_methods(axis, results, results.methods, radius, "robust", best=True)
        optimum = float(results.run["optima"][0]["value"])
        axis.axhline(optimum, color="#888888", linewidth=0.6)
        finals = [results.values[m, radius, "robust"][:, 10] for m in results.methods]
        low = float(np.percentile(np.concatenate(finals), 25))
        axis.set(title=results.run["experiment"], ylim=(low, optimum + 0.05 * (optimum - low)))
    axes[0, 0].set_ylabel("robust value, best so far")
    axes[0, 0].legend(fontsize=6)
    words = "Line: the robust optimum. "
    save(figure, folder, "figure6", words + caption(parts[0]))


def draw_svm(folder: Path, parts: list[Results]) -> None:
    """Test accuracy of the reports, by method (left) and DRBQO by radius (right)."""
    figure, axes = new_figure(2, len(parts), width=3.6)
    for row, results in zip(axes, parts, strict=True):
        radius = 1.0 if 1.0 in results.radii else results.radii[-1]
        _accuracies(row[0], results, radius)
        row[0].set_title(f"{results.run['experiment']}, rho = {radius:g}")
        for k, rho in enumerate(results.radii):
            accuracy = 1 - results.values["drbqo", rho, "test_error"]
            draw_curve(
                row[1],
                accuracy,
                f"DRBQO, rho = {rho:g}",
                color=RADIUS_SHADES[k],
                linestyle=DASHES[k],
            )
        row[1].set(title=results.run["experiment"], xlabel="evaluations t")
        for axis in row:
            axis.set_ylabel("test accuracy")
            axis.legend(fontsize=6)
    save(figure, folder, "figure-svm", caption(parts[0]))


def _accuracies(axis: Any, results: Results, radius: float) -> None:
    for method in results.methods:
        accuracy = 1 - results.values[method, radius, "test_error"]
        draw_curve(axis, accuracy, NAMES[method], **look(method))
    axis.set_xlabel("evaluations t")


def draw_errors(folder: Path, parts: list[Results]) -> None:
    """Final test errors of table 1 as points with intervals."""
    figure, axes = new_figure(len(parts), width=3.6)
    for axis, results in zip(axes[0], parts, strict=True):
        for method in results.methods:
            points = []
            for radius in results.radii:
                values = shown_values(results, method, radius, "test_error")
                points.append(interval(values[:, -1]) if values is not None else None)
            kept = [(r, p) for r, p in zip(results.radii, points, strict=True) if p is not None]
            axis.errorbar(
                [r for r, _ in kept],
                [float(p.mean) for _, p in kept],
                [float(p.half) for _, p in kept],
                label=NAMES[method],
                capsize=2,
                **look(method),
            )
        axis.set(
            xscale="log", xlabel="rho", ylabel="test error (%)", title=results.run["experiment"]
        )
        axis.legend(fontsize=6)
    save(figure, folder, "figure-table1", caption(parts[0]))
