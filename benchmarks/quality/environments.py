"""New environments: what does well in one that was not there, and whether forecasts hold.

    DRBQO_DATA=... python -m benchmarks.quality.environments --cells docs/results/environments

Each environment of each table is left out once. A search over the others recommends a config and
says what to expect of it. The config is then trained on all of them and scored in the one left out.

| searcher      | folds              | chooses by                 | promises            |
|---------------|--------------------|----------------------------|---------------------|
| radius 0 to 1 | one an environment | robust value, chi-square   | its forecast        |
| worst fold    | one an environment | the lowest fold            | its forecast        |
| optuna        | five, shuffled     | their mean, TPE            | mean and t interval |
| grid          | five, shuffled     | their mean, `GridSearchCV` | mean and t interval |

All train 45 models. A cell is one table, model, environment left out and searcher, a line of JSON;
cells that are there are not run again. Scores are accuracies, or 1 - RMSE / (standard deviation of
the target in the table); a point is 0.01. Features are coded once for a table, without its target.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, ParameterGrid
from sklearn.svm import SVC, SVR

import drbqo_ray as dr
from benchmarks.table import Line, add_save_option, publish

LEVEL = 0.95
TRAININGS, SHUFFLED, TREES = 45, 5, 40
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
    "boosting": {"learning_rate": dr.Float(0.01, 1.0, log=True), "max_depth": dr.Int(1, 5)},
}
GRIDS: dict[str, dict[str, list[Any]]] = {
    "linear": {"C": np.logspace(-4, 2, 9).tolist()},
    "svm": {"C": [0.1, 3.0, 100.0], "gamma": [1e-3, 1e-2, 1e-1]},
    "boosting": {"learning_rate": [0.03, 0.1, 0.3], "max_depth": [1, 3, 5]},
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
        if model == "boosting":
            kind = GradientBoostingClassifier if self.classes else GradientBoostingRegressor
            return kind(n_estimators=TREES, max_features="sqrt", random_state=0, **config)
        if self.classes:
            return LogisticRegression(C=config["C"], max_iter=300)
        return Ridge(alpha=1.0 / config["C"])


@dataclass(frozen=True)
class Cell:
    """One environment left out of one table, by one searcher with one model.

    Attributes:
        table, model, env, searcher, seed: which one.
        config: what was recommended.
        trainings: models that were trained to find it.
        score: of the config in the environment left out.
        promised: what to expect there, as it was said before.
        low, high: where the score was said to lie with probability 0.95.
    """

    table: str
    model: str
    env: str
    searcher: str
    seed: int
    config: dict[str, Any]
    trainings: int
    score: float
    promised: float
    low: float
    high: float

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return self.table, self.model, self.env, self.searcher, self.seed

    @property
    def held(self) -> bool:
        """Whether the score was where it was said to be."""
        return self.low <= self.score <= self.high


Found = tuple[dict[str, Any], int, float, float, float]
"""Config, trainings, promise and the ends of its interval."""


def by_environment(radius: float | None) -> Callable[[Table, str, int, int], Found]:
    """The searcher with one fold an environment; no radius: the lowest fold alone."""

    def search(table: Table, model: str, left_out: int, seed: int) -> Found:
        seen = [k for k in range(len(table.names)) if k != left_out]
        inside = table.env != left_out
        names = [table.names[k] for k in seen]
        opt = dr.Optimizer(
            SPACES[model],
            names,
            method="foldwise",
            uncertainty=dr.WorstCase() if radius is None else radius,
            seed=seed,
            fixed_seed=True,
        )
        for _ in range(TRAININGS):
            asked = opt.ask()
            test = table.env == seen[asked.context]
            opt.tell(asked.id, table.score(model, asked.config, inside & ~test, test))
        said = opt.forecast(LEVEL)
        return opt.recommend().config, TRAININGS, said.expected, *said.interval

    return search


def by_optuna(table: Table, model: str, left_out: int, seed: int) -> Found:
    """TPE on the mean of shuffled folds."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folds = list(shuffled_folds(table.env != left_out, SHUFFLED, seed))
    rows: dict[int, list[float]] = {}

    def objective(trial: Any) -> float:
        config = {name: _suggested(trial, name, one) for name, one in SPACES[model].items()}
        rows[trial.number] = [table.score(model, config, *fold) for fold in folds]
        return float(np.mean(rows[trial.number]))

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=TRAININGS // SHUFFLED)
    best = study.best_trial
    return dict(best.params), TRAININGS, *usual_promise(rows[best.number])


def _suggested(trial: Any, name: str, one: Any) -> Any:
    if isinstance(one, dr.Int):
        return trial.suggest_int(name, one.low, one.high)
    return trial.suggest_float(name, one.low, one.high, log=one.log)


def by_grid(table: Table, model: str, left_out: int, seed: int) -> Found:
    """What `GridSearchCV` does: every config of a grid on every shuffled fold, the best mean."""
    folds = list(shuffled_folds(table.env != left_out, SHUFFLED, seed))
    configs = list(ParameterGrid(GRIDS[model]))
    rows = [[table.score(model, config, *fold) for fold in folds] for config in configs]
    best = int(np.argmax(np.mean(rows, axis=1)))
    return configs[best], len(configs) * SHUFFLED, *usual_promise(rows[best])


def usual_promise(scores: list[float]) -> tuple[float, float, float]:
    """Mean of the scores of folds, and the ends of the t interval of one more score."""
    row = np.array(scores)
    half = t.ppf((1 + LEVEL) / 2, len(row) - 1) * row.std(ddof=1) * np.sqrt(1 + 1 / len(row))
    return float(row.mean()), float(row.mean() - half), float(row.mean() + half)


SEARCHERS: dict[str, Callable[[Table, str, int, int], Found]] = {
    "radius 0.3": by_environment(0.3),
    "radius 0": by_environment(0.0),
    "optuna": by_optuna,
    "radius 1": by_environment(1.0),
    "grid": by_grid,
    "radius 0.1": by_environment(0.1),
    "worst fold": by_environment(None),
}


def run_cell(table: Table, name: str, model: str, left_out: int, searcher: str, seed: int) -> Cell:
    """One environment left out."""
    config, *rest = SEARCHERS[searcher](table, model, left_out, seed)
    inside = table.env != left_out
    score = table.score(model, config, inside, ~inside)
    trainings, promised, low, high = rest
    return Cell(
        name,
        model,
        table.names[left_out],
        searcher,
        seed,
        config,
        int(trainings),
        score,
        float(promised),
        float(low),
        float(high),
    )


def shuffled_folds(inside: Any, n: int, seed: int) -> Iterator[tuple[Any, Any]]:
    """Masks of training and test rows of n shuffled folds of the rows inside."""
    rows = np.flatnonzero(inside)
    for _, test in KFold(n, shuffle=True, random_state=seed).split(rows):
        chosen = np.zeros(len(inside), dtype=bool)
        chosen[rows[test]] = True
        yield inside & ~chosen, chosen


def read_cells(file: Path) -> dict[tuple[str, str, str, str, int], Cell]:
    """The cells that are there; a line that was cut off is left out."""
    cells = {}
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        with suppress(ValueError):
            cell = Cell(**json.loads(line))
            cells[cell.key] = cell
    return cells


def lines(name: str, cells: Sequence[Cell]) -> Iterator[Line]:
    """What came of the cells of one searcher."""
    score, promised = np.array([[cell.score, cell.promised] for cell in cells]).T
    setting = f"{name}, {len(cells)} cases"
    held = 100 * float(np.mean([cell.held for cell in cells]))
    width = 100 * float(np.median([cell.high - cell.low for cell in cells]))
    yield Line("environments", "score left out", setting, 100 * float(score.mean()), "points")
    yield Line("environments", "intervals that hold", setting, held, "%")
    yield Line("environments", "median width", setting, width, "points")
    error = 100 * float(np.mean(promised - score))
    yield Line("environments", "mean promised too much", setting, error, "points")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", nargs="*", default=list(TABLES))
    parser.add_argument("--model", nargs="*", default=list(SPACES))
    parser.add_argument("--searcher", nargs="*", default=list(SEARCHERS))
    parser.add_argument("--rows", type=int, default=60, help="of each environment at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", type=Path, default=Path("runs/environments"))
    add_save_option(parser)
    args = parser.parse_args()
    if not (Path(os.environ.get("DRBQO_DATA", "")) / "shift").is_dir():
        print("DRBQO_DATA names no folder with the tables in shift/: nothing to do.")
        return 2
    args.cells.mkdir(parents=True, exist_ok=True)
    file = args.cells / "cells.jsonl"
    known = read_cells(file)
    for searcher, name in product(args.searcher, args.table):
        table = Table.read(name, args.rows)
        for model, left_out in product(args.model, range(len(table.names))):
            key = (name, model, table.names[left_out], searcher, args.seed)
            if key not in known:
                cell = known[key] = run_cell(table, name, model, left_out, searcher, args.seed)
                with open(file, "a", encoding="utf-8") as out:
                    out.write(json.dumps(asdict(cell)) + "\n")
    chosen = {
        searcher: [cell for cell in known.values() if cell.searcher == searcher]
        for searcher in args.searcher
    }
    found = [line for searcher, cells in chosen.items() for line in lines(searcher, cells)]
    return publish(found, args.save)


if __name__ == "__main__":
    sys.exit(main())
