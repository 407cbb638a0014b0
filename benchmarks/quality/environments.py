"""Whether a forecast holds in an environment that was not there: tables with real environments.

    DRBQO_DATA=... python -m benchmarks.quality.environments [--table heart] [--rows 80]

Each environment of each table is left out once. A search over the others, one fold an environment,
recommends a config and forecasts its score in a new one. The config is then trained on all of them
and scored in the one left out. Beside it stands what shuffled folds of the same rows promise of the
same config, by the same formula. Scores are accuracies, or 1 - RMSE / (standard deviation of the
target in the table); a point is 0.01. Features are coded once for a table, without its target.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.svm import SVC, SVR

import drbqo_ray as dr
from benchmarks.table import Line, add_save_option, publish

LEVEL = 0.95
PER_ENVIRONMENT = 4
"""Evaluations for each environment that a search is given."""
TABLES = (
    "heart",
    "student",
    "bike",
    "seoul",
    "crime",
    "parkinsons",
    "air",
    "bank",
    "flights",
    "ames",
)
SPACES: dict[str, dict[str, Any]] = {
    "linear": {"C": dr.Float(1e-4, 1e2, log=True)},
    "svm": {"C": dr.Float(1e-2, 1e3, log=True), "gamma": dr.Float(1e-4, 1.0, log=True)},
}


@dataclass(frozen=True)
class Table:
    """Rows with their environment.

    Attributes:
        X: features (N, d).
        y: targets (N,).
        names: names of the environments.
        env: number of the environment of each row (N,).
        classes: whether the target is yes or no.
    """

    X: np.ndarray
    y: np.ndarray
    names: list[str]
    env: np.ndarray
    classes: bool

    @staticmethod
    def read(name: str, rows: int) -> Table:
        """The table, with at most so many rows of each environment, drawn with a fixed seed."""
        file = Path(os.environ["DRBQO_DATA"]) / "shift" / f"{name}.csv.gz"
        with gzip.open(file, "rt") as text:
            frame = pd.read_csv(text, dtype={"env": str})
        frame = frame.sample(frac=1.0, random_state=0).groupby("env").head(rows)
        names = sorted(frame["env"].unique())
        X = pd.get_dummies(frame.drop(columns=["env", "y"]), dtype=float)
        X = X.fillna(X.median()).fillna(0.0)
        X = (X - X.mean()) / X.std().replace(0.0, 1.0)
        y = frame["y"].to_numpy(dtype=float)
        env = np.array([names.index(one) for one in frame["env"]])
        return Table(X.to_numpy(), y, names, env, set(y) <= {0.0, 1.0})

    def score(self, model: str, config: Mapping[str, Any], train: Any, test: Any) -> float:
        """The score of a model on rows, trained on others."""
        if len(set(self.y[train])) == 1:
            said = np.full(test.sum(), self.y[train][0])
        else:
            estimator = self._estimator(model, config).fit(self.X[train], self.y[train])
            said = estimator.predict(self.X[test])
        if self.classes:
            return float(np.mean(said == self.y[test]))
        error = float(np.sqrt(np.mean((said - self.y[test]) ** 2)))
        return 1.0 - error / float(self.y.std())

    def _estimator(self, model: str, config: Mapping[str, Any]) -> Any:
        if model == "svm":
            return SVC(**config) if self.classes else SVR(**config)
        if self.classes:
            return LogisticRegression(C=config["C"], max_iter=300)
        return Ridge(alpha=1.0 / config["C"])


@dataclass(frozen=True)
class Case:
    """One environment left out: the score there, and what was promised of it before."""

    score: float
    promised: float
    interval: tuple[float, float]
    shuffled: float
    shuffled_interval: tuple[float, float]


def case_of(table: Table, model: str, left_out: int, seed: int) -> Case:
    """The case of one environment."""
    seen = [k for k in range(len(table.names)) if k != left_out]
    inside = table.env != left_out
    opt = dr.Optimizer(
        SPACES[model],
        [table.names[k] for k in seen],
        method="foldwise",
        uncertainty=0.3,
        seed=seed,
        fixed_seed=True,
    )
    for _ in range(PER_ENVIRONMENT * len(seen)):
        asked = opt.ask()
        test = table.env == seen[asked.context]
        opt.tell(asked.id, table.score(model, asked.config, inside & ~test, test))
    config, forecast = opt.recommend().config, opt.forecast(LEVEL)
    usual = np.array(
        [
            table.score(model, config, train, test)
            for train, test in shuffled_folds(inside, len(seen), seed)
        ]
    )
    half = t.ppf((1 + LEVEL) / 2, len(usual) - 1) * usual.std(ddof=1)
    half *= np.sqrt(1 + 1 / len(usual))
    return Case(
        table.score(model, config, inside, ~inside),
        forecast.expected,
        forecast.interval,
        float(usual.mean()),
        (usual.mean() - half, usual.mean() + half),
    )


def shuffled_folds(inside: Any, n: int, seed: int) -> Iterator[tuple[Any, Any]]:
    """Masks of training and test rows of n shuffled folds of the rows inside."""
    rows = np.flatnonzero(inside)
    for _, test in KFold(n, shuffle=True, random_state=seed).split(rows):
        chosen = np.zeros(len(inside), dtype=bool)
        chosen[rows[test]] = True
        yield inside & ~chosen, chosen


def lines(name: str, model: str, cases: list[Case]) -> Iterator[Line]:
    """What came of some cases."""
    setting = f"{name}, {model}, {len(cases)} environments"
    score = np.array([case.score for case in cases])
    for kind in ("", "shuffled"):
        interval = f"{kind}_interval" if kind else "interval"
        ends = np.array([getattr(case, interval) for case in cases])
        promised = np.array([getattr(case, kind or "promised") for case in cases])
        held = (ends[:, 0] <= score) & (score <= ends[:, 1])
        who = f"{kind or 'forecast'}: "
        yield Line("environments", f"{who}intervals that hold", setting, 100 * held.mean(), "%")
        width = float(np.median(ends[:, 1] - ends[:, 0]))
        yield Line("environments", f"{who}median width", setting, 100 * width, "points")
        error = 100 * float(np.mean(promised - score))
        yield Line("environments", f"{who}mean promised too much", setting, error, "points")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", nargs="*", default=list(TABLES))
    parser.add_argument("--model", nargs="*", default=list(SPACES))
    parser.add_argument("--rows", type=int, default=80, help="of each environment at most")
    parser.add_argument("--seed", type=int, default=0)
    add_save_option(parser)
    args = parser.parse_args()
    if not (Path(os.environ.get("DRBQO_DATA", "")) / "shift").is_dir():
        print("DRBQO_DATA names no folder with the tables in shift/: nothing to do.")
        return 2
    found: dict[str, list[Case]] = {model: [] for model in args.model}
    for name in args.table:
        table = Table.read(name, args.rows)
        for model, cases in found.items():
            new = [case_of(table, model, k, args.seed) for k in range(len(table.names))]
            cases += new
            publish(lines(name, model, new), None)
    every = [case for cases in found.values() for case in cases]
    return publish(lines("all tables", " and ".join(found), every), args.save)


if __name__ == "__main__":
    sys.exit(main())
