"""The figures of the paper, drawn from the CSV files of an experiment alone.

Colors are safe for color-blind eyes, dashes for gray paper; a method looks the same in all of them.
"""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from drbqo_ray.experiments.results import TRAJECTORY, Results
from drbqo_ray.experiments.synthetic import SURFACES
from drbqo_ray.experiments.table import best_so_far, caption, interval, shown_values
from drbqo_ray.types import Array

NAMES = {
    "drbqo": "DRBQO",
    "emp-drbqo": "Emp-DRBQO",
    "bqo-ts": "BQO-TS",
    "maximin-bqo-ts": "Maximin-BQO-TS",
    "bqo-ei": "BQO-EI",
    "maximin-bqo-ei": "Maximin-BQO-EI",
    "mtbo": "MTBO",
    "random": "Random",
    "drbqo-randw": "DRBQO-RandW",
    "bqo-ts-randw": "BQO-TS-RandW",
    "bqo-ei-randw": "BQO-EI-RandW",
}
_LOOKS: dict[str, tuple[str, Any, str]] = {
    "drbqo": ("#000000", "-", ""),
    "emp-drbqo": ("#56B4E9", (0, (6, 2)), "v"),
    "bqo-ts": ("#D55E00", "-", "o"),
    "maximin-bqo-ts": ("#E69F00", (0, (4, 2)), "^"),
    "bqo-ei": ("#0072B2", "-.", "s"),
    "maximin-bqo-ei": ("#009E73", (0, (1, 1)), "D"),
    "mtbo": ("#CC79A7", (0, (5, 1, 1, 1)), "P"),
    "random": ("#888888", ":", "x"),
    "drbqo-randw": ("#CC79A7", (0, (4, 2)), "*"),
    "bqo-ts-randw": ("#E69F00", (0, (4, 2)), "^"),
    "bqo-ei-randw": ("#009E73", (0, (1, 1)), "D"),
}
RADIUS_SHADES = ("#000000", "#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7")
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), "-.", (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 3)))
SHOWN_RADIUS = 1.0
BALL_RADII = (0.02, 0.1, 0.25, 0.5, 1.0)
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
_QUADRATURE_NODES = 40


def look(method: str) -> dict[str, Any]:
    """Arguments of `plot` for a method."""
    color, dash, marker = _LOOKS[method]
    return {
        "color": color,
        "linestyle": dash,
        "marker": marker,
        "markevery": 0.2,
        "markersize": 4,
        "linewidth": 1.8 if method == "drbqo" else 1.2,
    }


def new_figure(columns: int, rows: int = 1, width: float = 3.1, height: float = 2.6) -> Any:
    """A figure and its axes (rows, columns), with fixed fonts."""
    plt.rcParams.update({"font.size": 8, "axes.grid": True, "grid.alpha": 0.3, "pdf.fonttype": 42})
    return plt.subplots(
        rows, columns, figsize=(width * columns, height * rows + 0.5), squeeze=False
    )


def save(figure: Any, folder: Path, stem: str, caption: str) -> None:
    """Write the figure as PDF and PNG, its caption below it."""
    lines = textwrap.wrap(caption, int(figure.get_figwidth() * 22))
    height = (0.115 * len(lines) + 0.05) / figure.get_figheight()
    figure.tight_layout(rect=(0, height, 1, 1))
    figure.text(0.01, 0.005, "\n".join(lines), fontsize=6, va="bottom")
    figure.savefig(folder / f"{stem}.pdf", metadata={"CreationDate": None})
    figure.savefig(folder / f"{stem}.png", dpi=110, metadata={"Software": None})
    plt.close(figure)


def _shade(k: int, label: str) -> dict[str, Any]:
    """Arguments of `plot` for the k-th radius."""
    return {"color": RADIUS_SHADES[k], "linestyle": DASHES[k], "label": label}


def draw_curve(axis: Any, values: Array, **style: Any) -> None:
    """Draw values (seeds, horizon + 1): their mean, and the interval as a band."""
    band = interval(values)
    steps = np.arange(values.shape[1])
    (line,) = axis.plot(steps, band.mean, **style)
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
        draw_curve(axis, values, label=NAMES[method], **look(method))
    axis.set_xlabel("evaluations t")


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
        draw_curve(axes[0, 1], results.values["drbqo", rho, "mean"], **_shade(k, f"rho = {rho:g}"))
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
    return SHOWN_RADIUS if SHOWN_RADIUS in results.radii else results.radii[-1]


def draw_simplex(folder: Path) -> None:
    """Write figure2 into the folder: the boundary of each ball cut with the simplex."""
    figure, axes = new_figure(1, width=4.2, height=3.6)
    axis = axes[0, 0]
    triangle = np.vstack([_CORNERS, _CORNERS[:1]])
    axis.plot(*triangle.T, color="#444444", linewidth=1)
    for k, radius in enumerate(BALL_RADII):
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
    axis.plot(*(weights @ _CORNERS).T, **_shade(k, f"rho = {radius:g}"))


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
        radius, experiment = _radius(results), results.run["experiment"]
        for method in results.methods:
            accuracy = 1 - results.values[method, radius, "test_error"]
            draw_curve(row[0], accuracy, label=NAMES[method], **look(method))
        for k, rho in enumerate(results.radii):
            accuracy = 1 - results.values["drbqo", rho, "test_error"]
            draw_curve(row[1], accuracy, **_shade(k, f"DRBQO, rho = {rho:g}"))
        for axis, title in zip(row, (f"{experiment}, rho = {radius:g}", experiment), strict=True):
            axis.set(title=title, xlabel="evaluations t", ylabel="test accuracy")
            axis.legend(fontsize=6)
    save(figure, folder, "figure-svm", caption(parts[0]))


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
