"""Theorem 2 in numbers: cumulative regret of DRBQO on functions drawn from the prior.

Everything is finite and exact here: configs are a grid, the adversary has a finite subset of the
chi-square ball, the kernel is known, and posterior draws come from the exact joint law.

The printed theorem uses  sum of var_t <= 2 gamma_T / (1 + 1/noise), which fails already for
T = 1; the inequality of Srinivas et al. has log(1 + 1/noise) in its place. Both forms of the bound
are written to the CSV. gamma_T is not known exactly: greedy selection reaches at least 1 - 1/e of
it, so the greedy gain over 1 - 1/e is put into the bound.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drbqo_ray.errors import InvalidInput
from drbqo_ray.experiments.provenance import provenance
from drbqo_ray.experiments.table import interval
from drbqo_ray.threads import one_thread
from drbqo_ray.types import Array

SIDE = 7
N_CONTEXTS = 5
LENGTH = 0.5
CONTEXT_CORRELATION = 0.5
NOISE = 0.01
RADIUS = 1.0
N_WEIGHTS = 200
SETTINGS = {"paper": (30, 500), "small": (5, 100)}
CURVES = "theory.csv"
LATE = 0.2
"""The slope is that of the curve from this share of the horizon on."""


@dataclass(frozen=True)
class FiniteProblem:
    """Configs, contexts and weights, all finite.

    Attributes:
        K: prior covariance of all pairs, config by config, (m n, m n).
        P: the adversary's weights (k, n).
        m, n: numbers of configs and contexts.
    """

    K: Array
    P: Array
    m: int
    n: int

    def robust(self, f: Array) -> Array:
        """Robust value (m,) of every config for scores f (m n,)."""
        return np.asarray((f.reshape(self.m, self.n) @ self.P.T).min(axis=1))


def finite_problem() -> FiniteProblem:
    """The grid of the experiment."""
    ticks = np.linspace(0, 1, SIDE)
    x = np.stack([part.ravel() for part in np.meshgrid(ticks, ticks)], axis=1)
    squared = np.sum((x[:, None] - x[None]) ** 2, axis=-1)
    between = np.full((N_CONTEXTS, N_CONTEXTS), CONTEXT_CORRELATION)
    np.fill_diagonal(between, 1.0)
    K = np.kron(np.exp(-squared / LENGTH**2), between)
    return FiniteProblem(K, ball_subset(N_WEIGHTS, N_CONTEXTS, RADIUS), len(x), N_CONTEXTS)


def ball_subset(count: int, n: int, radius: float) -> Array:
    """Weights (count, n) inside the chi-square ball: uniform ones, and points on its boundary."""
    rng = np.random.default_rng(0)
    raw = rng.dirichlet(np.full(n, 0.3), size=count)
    away = raw - 1 / n
    length = np.sqrt(n * np.sum(away**2, axis=1))  # chi2 = n |p - 1/n|^2 <= 2 radius
    pulled = 1 / n + away * np.minimum(1.0, np.sqrt(2 * radius) / length)[:, None]
    pulled[0] = 1 / n
    return np.asarray(pulled)


def play(problem: FiniteProblem, horizon: int, seed: int) -> tuple[Array, Array, float]:
    """One run on one function: regret and variance at each step (horizon,), norm of the function.

    The regret counts the true robust value of the chosen config, which is never more than what
    the theorem credits the policy with.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    size = problem.m * problem.n
    root = np.linalg.cholesky(problem.K + 1e-8 * np.eye(size))
    white = rng.standard_normal(size)
    f = root @ white
    true = problem.robust(f)
    mean, C = np.zeros(size), problem.K.copy()
    regret, variance = np.empty(horizon), np.empty(horizon)
    for t in range(horizon):
        draw = mean + _root(C) @ rng.standard_normal(size)
        k = int(np.argmax(problem.robust(draw)))
        pairs = slice(k * problem.n, (k + 1) * problem.n)
        i = k * problem.n + int(np.argmax(np.diagonal(C)[pairs]))
        regret[t], variance[t] = true.max() - true[k], C[i, i]
        score = f[i] + np.sqrt(NOISE) * rng.standard_normal()
        gain = C[:, i] / (C[i, i] + NOISE)
        mean = mean + gain * (score - mean[i])
        C = C - np.outer(gain, C[i])
    return regret, variance, float(np.linalg.norm(white))


def _root(C: Array) -> Array:
    """A factor R with R R' = C for a covariance that may have lost rank."""
    return np.asarray(np.linalg.cholesky((C + C.T) / 2 + 1e-8 * np.eye(len(C))), dtype=np.float64)


def greedy_gain(K: Array, horizon: int) -> Array:
    """Information gain (horizon,) of picking the pair of highest variance again and again."""
    C = K.copy()
    gains = np.empty(horizon)
    for t in range(horizon):
        i = int(np.argmax(np.diagonal(C)))
        gains[t] = 0.5 * np.log1p(C[i, i] / NOISE)
        C = C - np.outer(C[:, i], C[i]) / (C[i, i] + NOISE)
    return np.cumsum(gains)


def bound(problem: FiniteProblem, gamma: Array, norm: float, factor: float) -> Array:
    """Theorem 2 at T = 1, 2, ... for information gains gamma (horizon,).

    Args:
        problem: the grid.
        gamma: bound on the information gain at each T.
        norm: bound B on the norm of the function.
        factor: what stands for (1 + 1/noise)^-1 in the printed theorem.
    """
    T = np.arange(1, len(gamma) + 1)
    count = problem.m * len(problem.P)
    log = np.log((1 + T**2) * count / np.sqrt(2 * np.pi))
    return np.asarray(
        1
        + (np.sqrt(2 * log) + norm) * np.sqrt(2 * np.pi) / count
        + 2 * gamma * np.sqrt((1 + 2 * RADIUS) * problem.n) * factor
        + 2 * np.sqrt(T * gamma * factor * log)
    )


def run_theory(folder: Path, preset: str, seeds: int | None, redraw: bool) -> Path:
    """Play all functions, write the curves, draw them."""
    if preset not in SETTINGS:
        raise InvalidInput("The preset must be one we know.", preset, f"Use {list(SETTINGS)}.")
    if seeds is not None and seeds < 2:
        raise InvalidInput("There must be at least 2 seeds.", seeds, "Pass e.g. 10.")
    count, horizon = SETTINGS[preset]
    count = seeds or count
    if not redraw:
        folder.mkdir(parents=True, exist_ok=True)
        write_curves(folder / CURVES, count, horizon)
        run = {
            "preset": preset,
            "seeds": list(range(count)),
            "horizon": horizon,
            **provenance(f"drbqo experiment theory --preset {preset}"),
        }
        (folder / "run.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    draw_theory(folder)
    return folder


@one_thread
def write_curves(path: Path, count: int, horizon: int) -> None:
    """Write cumulative regret (mean, interval), variances and both bounds at each T."""
    problem = finite_problem()
    runs = [play(problem, horizon, seed) for seed in range(count)]
    regret = interval(np.cumsum([run[0] for run in runs], axis=1))
    variance = np.mean(np.cumsum([run[1] for run in runs], axis=1), axis=0)
    norm = max(run[2] for run in runs)
    greedy = greedy_gain(problem.K, horizon)
    gamma = greedy / (1 - 1 / np.e)
    printed = bound(problem, gamma, norm, 1 / (1 + 1 / NOISE))
    fixed = bound(problem, gamma, norm, 1 / np.log1p(1 / NOISE))
    columns = {
        "regret": regret.mean,
        "half_width": regret.half,
        "variance_sum": variance,
        "greedy_gain": greedy,
        "bound_printed": printed,
        "bound_mended": fixed,
    }
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["T", *columns])
        for t, row in enumerate(zip(*columns.values(), strict=True), start=1):
            writer.writerow([t, *(f"{v:.8g}" for v in row)])


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
    """Write the figure of cumulative regret beside the bounds, and a summary of its slope."""
    from drbqo_ray.experiments.figures import new_figure, save

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
