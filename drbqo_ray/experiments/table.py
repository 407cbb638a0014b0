"""Tables of an experiment at its last step, as Markdown and LaTeX, and the statistics in them.

`rows_of` gives one row per method and radius: the chosen metric as reported, the best so far,
and the paired difference to DRBQO at the same radius on the same seeds. The paper gives 96 %
intervals; ours use Student's t.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from drbqo_ray.experiments.results import Results
from drbqo_ray.types import Array

CONFIDENCE = 0.96
LEAST_REGRET = 1e-10
OURS = "drbqo"
LABELS = {
    "regret": "log10 regret",
    "robust": "robust value",
    "mean": "mean value",
    "test_error": "test error (%)",
}
_LARGER_IS_BETTER = {"robust": True, "mean": True, "regret": False, "test_error": False}


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and half the width of its interval; numbers or arrays over t."""

    mean: Array
    half: Array

    @property
    def excludes_zero(self) -> bool:
        """Whether a single interval lies on one side of 0."""
        return bool(np.abs(self.mean) > self.half)


def interval(samples: Array) -> Interval:
    """Mean and 96 % interval over the seeds, the first axis of samples (seeds, ...)."""
    n = len(samples)
    deviation = np.std(samples, axis=0, ddof=1) if n > 1 else np.full(samples.shape[1:], np.nan)
    factor = float(student.ppf(0.5 + CONFIDENCE / 2, n - 1)) if n > 1 else np.nan
    return Interval(np.mean(samples, axis=0), factor * deviation / np.sqrt(n))


def paired(first: Array, second: Array) -> Interval:
    """Interval of first - second, both (seeds, ...), seed by seed."""
    return interval(first - second)


def best_so_far(values: Array, larger_is_better: bool) -> Array:
    """The best value up to each t of (seeds, horizon + 1)."""
    pick = np.maximum if larger_is_better else np.minimum
    return np.asarray(pick.accumulate(values, axis=1))


def log_regret(regret: Array) -> Array:
    """log10 of regrets; below 1e-10 all count the same."""
    return np.asarray(np.log10(np.maximum(regret, LEAST_REGRET)))


@dataclass(frozen=True)
class Row:
    """One line of the table; the intervals hold single numbers."""

    method: str
    radius: float
    reported: Interval
    best: Interval
    difference: Interval | None


def shown_values(results: Results, method: str, radius: float, metric: str) -> Array | None:
    """The values of a series (seeds, horizon + 1) in the unit they are shown in."""
    values = results.values.get((method, radius, metric))
    if values is None:
        return None
    if metric == "regret":
        return log_regret(values)
    return 100 * values if metric == "test_error" else values


def rows_of(results: Results, metric: str) -> list[Row]:
    """All rows for a metric."""
    rows = []
    for radius in results.radii:
        ours = shown_values(results, OURS, radius, metric)
        for method in results.methods:
            values = shown_values(results, method, radius, metric)
            if values is None:
                continue
            best = best_so_far(values, _LARGER_IS_BETTER[metric])[:, -1]
            last = values[:, -1]
            change = None if ours is None or method == OURS else paired(last, ours[:, -1])
            rows.append(Row(method, radius, interval(last), interval(best), change))
    return rows


def markdown(results: Results, metric: str) -> str:
    """The table as Markdown, with its caption."""
    head = (
        f"| radius | method | {LABELS[metric]} | best so far | minus DRBQO, paired |\n"
        "|---|---|---|---|---|\n"
    )
    lines = []
    for row in rows_of(results, metric):
        change = "" if row.difference is None else _pm(row.difference)
        if row.difference is not None and not row.difference.excludes_zero:
            change += " (contains 0)"
        cells = (f"{row.radius:g}", row.method, _pm(row.reported), _pm(row.best), change)
        lines.append("| " + " | ".join(cells) + " |\n")
    return head + "".join(lines) + f"\n{caption(results)}\n"


def latex(results: Results, metric: str) -> str:
    """The table as LaTeX."""
    lines = ["\\begin{tabular}{rlrrr}\n", "\\hline\n"]
    lines.append(f"radius & method & {LABELS[metric]} & best so far & minus DRBQO \\\\ \\hline\n")
    for row in rows_of(results, metric):
        change = "" if row.difference is None else f"${_pm(row.difference, chr(92) + 'pm')}$"
        reported, best = (_pm(part, "\\pm") for part in (row.reported, row.best))
        lines.append(f"{row.radius:g} & {row.method} & ${reported}$ & ${best}$ & {change} \\\\\n")
    text = "".join([*lines, "\\hline\n", "\\end{tabular}\n"]).replace("%", "\\%")
    return f"% {caption(results)}\n{text}"


def caption(results: Results) -> str:
    """What the numbers are, for tables and figures."""
    run = results.run
    notes = "".join(f" Note: {note}." for note in run["notes"])
    return (
        f"{run['experiment']}, {run['difference']}. Mean over {len(run['seeds'])} seeds with 96 %"
        f" interval after {run['horizon']} evaluations and {run['n_initial']} initial ones.{notes}"
    )


def write_tables(results: Results) -> None:
    """Write summary.md and a LaTeX table for each metric that was measured."""
    run = results.run
    parts = [f"# {run['experiment']}, {run['preset']} preset\n\n"]
    parts.append(f"- Command: `{run['command']}`\n- Commit: {run['commit']}\n")
    if run.get("commits of cells", [run["commit"]]) != [run["commit"]]:
        parts.append(f"- Cells were run by: {', '.join(run['commits of cells'])}\n")
    parts.append(f"- Date: {run['date']}\n- Seeds: {_ranges(run['seeds'])}\n")
    parts.append(f"- Settings: {run['difference']}\n")
    parts += [f"- Note: {note}\n" for note in run["notes"]]
    parts.append(_optima(run["optima"]))
    for metric, label in LABELS.items():
        if results.has(metric):
            parts.append(f"\n## {label[0].upper()}{label[1:]}\n\n{markdown(results, metric)}")
            _write(results.folder / f"table-{metric}.tex", latex(results, metric))
    _write(results.folder / "summary.md", "".join(parts))


def _optima(optima: list[dict[str, object]]) -> str:
    if not optima:
        return ""
    lines = ["\n## Robust optima\n\n| radius | value | x | gap | proof |\n|---|---|---|---|---|\n"]
    for best in optima:
        x = ", ".join(f"{v:.6f}" for v in best["x"])  # type: ignore[attr-defined]
        lines.append(
            f"| {best['radius']:g} | {best['value']:.10f} | ({x}) | {best['gap']:.1e} |"
            f" {best['proof']} |\n"
        )
    words = (
        "\nA gap by duality is proven: weights of the ball bound the optimum from above. A gap by"
        " agreement is the difference between the best of two independent sets of local searches.\n"
    )
    return "".join(lines) + words


def _pm(part: Interval, sign: str = "±") -> str:
    if np.isnan(part.mean):
        return "missing"
    if np.isnan(part.half):  # a single seed
        return f"{float(part.mean):.4g}"
    mean = float(part.mean) if abs(part.mean) > 1e-6 * part.half else 0.0  # the CSV has 10 digits
    return f"{mean:.4g} {sign} {float(part.half):.2g}"


def _ranges(seeds: list[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 2 else ", ".join(map(str, seeds))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
