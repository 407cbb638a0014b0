"""Cumulative regret beside the bound of theorem 2, and the slope of the log-log curve."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from drbqo_ray.experiments.figures.style import new_figure, save
from drbqo_ray.experiments.theory import CURVES, NOISE
from drbqo_ray.types import Array

LATE = 0.2
"""The slope is that of the curve from this share of the horizon on."""


def read_curves(path: Path) -> dict[str, Array]:
    """The columns of the CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def late_slope(T: Array, values: Array) -> float:
    """Slope of log values over log T, late in the run; below 1 means sublinear growth."""
    late = np.ceil(LATE * T[-1]) <= T
    return float(np.polyfit(np.log(T[late]), np.log(values[late]), 1)[0])


def draw_theory(folder: Path) -> None:
    """Write the figure and a summary of the slope."""
    curves = read_curves(folder / CURVES)
    run = json.loads((folder / "run.json").read_text("utf-8"))
    T, regret = curves["T"], curves["regret"]
    slope = late_slope(T, regret)
    figure, axes = new_figure(1, width=4.6, height=3.2)
    axis = axes[0, 0]
    axis.plot(T, regret, "k-", linewidth=1.8, label=f"DRBQO, late slope {slope:.2f}")
    low = np.maximum(regret - curves["half_width"], 1e-3)
    axis.fill_between(T, low, regret + curves["half_width"], color="k", alpha=0.15)
    axis.plot(
        T,
        curves["bound_mended"],
        color="#0072B2",
        linestyle="-.",
        label="theorem 2 with log(1 + 1/noise)",
    )
    axis.plot(
        T,
        curves["bound_printed"],
        color="#D55E00",
        linestyle=(0, (4, 2)),
        label="theorem 2 as printed",
    )
    axis.plot(T, regret[0] * T, color="#888888", linestyle=":", label="linear growth")
    axis.set(xscale="log", yscale="log", xlabel="T", ylabel="cumulative regret")
    axis.legend(fontsize=6)
    words = f"{len(run['seeds'])} functions from the prior, mean with 96 % interval."
    save(figure, folder, "figure-theory", words)
    (folder / "summary.md").write_text(_summary(curves, run, slope), encoding="utf-8")


def _summary(curves: dict[str, Array], run: dict[str, object], slope: float) -> str:
    last = {name: float(values[-1]) for name, values in curves.items()}
    printed = 2 * curves["greedy_gain"] / (1 - 1 / np.e) / (1 + 1 / NOISE)
    fixed = 2 * curves["greedy_gain"] / np.log1p(1 / NOISE)
    lines = [
        "# Theorem 2 in numbers\n",
        f"- Command: `{run['command']}`",
        f"- Commit: {run['commit']}\n- Date: {run['date']}",
        f"- Functions: {len(run['seeds'])}, horizon {run['horizon']}\n",  # type: ignore[arg-type]
        "| quantity at the last T | value |\n|---|---|",
        f"| cumulative regret | {last['regret']:.4g} ± {last['half_width']:.2g} |",
        f"| slope of the log-log curve over the last 80 % | {slope:.3f} |",
        f"| bound of theorem 2 as printed | {last['bound_printed']:.4g} |",
        f"| bound with log(1 + 1/noise) | {last['bound_mended']:.4g} |",
        f"| sum of variances at the chosen pairs | {last['variance_sum']:.4g} |",
        f"| its bound as printed, 2 gamma / (1 + 1/noise) | {printed[-1]:.4g} |",
        f"| its bound with log(1 + 1/noise), from the greedy gain | {fixed[-1]:.4g} |",
    ]
    return "\n".join(lines) + "\n"
