"""How a method looks in every figure: colors safe for color-blind eyes, dashes for grey paper."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

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
