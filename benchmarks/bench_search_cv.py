"""RobustSearchCV beside Optuna's TPE for quality, and beside GridSearchCV for time.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.bench_search_cv [--splits 10] [--rounds 3]

Quality: an SVM on sonar and glass, 60 fold fits for either search, over several cuts into 5 folds.
TPE maximizes the mean of whole cross-validations, as OptunaSearchCV does, so it sees 12 configs.
The config each search settles on is trained on all folds and judged by its robust value at
radius 1. Ours must not be lower on average.

Time: 60 fold fits of the SVM on sonar, two at a time, by GridSearchCV and by our search in turns.
Warm means that their worker processes are up and have trained before; cold that each starts them
inside `fit`, in a fresh process. Ours must take at most twice as long as GridSearchCV, plus the
time its optimizer takes to ask and tell. The search in one process, without Ray, is timed too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray.search_cv import RobustSearchCV
from workers.data import load

BUDGET, FOLDS, RADIUS, JOBS = 60, 5, 1.0, 2
BOUNDS = {"svc__C": (1e-3, 1e3), "svc__gamma": (1e-5, 1e1)}
SPACE = {name: dr.Float(low, high, log=True) for name, (low, high) in BOUNDS.items()}
GRID = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": [1e-3, 1e-2, 1e-1]}
Data = tuple[np.ndarray, np.ndarray]


def model() -> Pipeline:
    return make_pipeline(StandardScaler(), SVC())


def data(name: str) -> Data:
    found = load(name, 0)
    return found.X, found.y


def ours(rows: Data, cv: StratifiedKFold, seed: int) -> Mapping[str, Any]:
    search = RobustSearchCV(
        model(),
        SPACE,
        cv=cv,
        n_evaluations=BUDGET,
        uncertainty=RADIUS,
        random_state=seed,
        refit=False,
    )
    return search.fit(*rows).best_params_


def tpe(rows: Data, cv: StratifiedKFold, seed: int) -> Mapping[str, Any]:
    import optuna

    def mean_score(trial: optuna.Trial) -> float:
        config = {k: trial.suggest_float(k, *BOUNDS[k], log=True) for k in BOUNDS}
        return float(np.mean(cross_val_score(model().set_params(**config), *rows, cv=cv)))

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(mean_score, n_trials=BUDGET // FOLDS)
    return study.best_params


def compare_quality(name: str, splits: int) -> bool:
    """Whether the mean robust value of our choices is at least that of TPE's."""
    rows, ball, values = data(name), dr.ChiSquareBall(RADIUS), []
    for seed in range(splits):
        cv = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        chosen = [search(rows, cv, seed) for search in (ours, tpe)]
        tables = [cross_val_score(model().set_params(**c), *rows, cv=cv) for c in chosen]
        values.append([float(ball.worst_case(table)[0]) for table in tables])
        print(f"{name} cut {seed}: ours {values[-1][0]:.4f}, TPE {values[-1][1]:.4f}", flush=True)
    mean_ours, mean_tpe = np.mean(values, axis=0)
    gap = np.subtract(*np.transpose(values))
    error = np.std(gap, ddof=1) / np.sqrt(splits) if splits > 1 else float("nan")
    print(f"{name}: robust value ours {mean_ours:.4f}, TPE {mean_tpe:.4f}", end=", ")
    print(f"difference {np.mean(gap):+.4f} +- {error:.4f} (standard error), {splits} cuts")
    return bool(mean_ours >= mean_tpe)


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def searches() -> tuple[GridSearchCV, RobustSearchCV]:
    """Both searches, for 60 fold fits by two processes."""
    grid = GridSearchCV(model(), GRID, cv=FOLDS, n_jobs=JOBS, refit=False)
    search = RobustSearchCV(
        model(),
        SPACE,
        cv=FOLDS,
        n_evaluations=BUDGET,
        uncertainty=RADIUS,
        n_jobs=JOBS,
        random_state=0,
        refit=False,
    )
    return grid, search


def optimizer_seconds(rows: Data) -> float:
    """Time that asking and telling take in a search over the same folds."""
    splits = list(StratifiedKFold(FOLDS).split(*rows))
    optimizer = dr.Optimizer(SPACE, FOLDS, uncertainty=RADIUS)
    spent = 0.0
    for _ in range(BUDGET):
        start = time.perf_counter()
        suggestion = optimizer.ask()
        spent += time.perf_counter() - start
        fold = [splits[suggestion.context]]
        score = cross_val_score(model().set_params(**suggestion.config), *rows, cv=fold)[0]
        start = time.perf_counter()
        optimizer.tell(suggestion.id, float(score))
        spent += time.perf_counter() - start
    return spent


def warm_times(rows: Data, rounds: int) -> list[tuple[float, ...]]:
    """Seconds of GridSearchCV, ours, its optimizer, and ours in one process, by round."""
    from drbqo_ray.runtime.connection import connection

    grid, search = searches()
    alone = clone(search).set_params(n_jobs=1)
    with connection():
        for each in (grid, search, alone):
            each.fit(*rows)
        return [
            (
                seconds(lambda: grid.fit(*rows)),
                seconds(lambda: search.fit(*rows)),
                optimizer_seconds(rows),
                seconds(lambda: alone.fit(*rows)),
            )
            for _ in range(rounds)
        ]


def cold_times(rows: Data, rounds: int) -> list[tuple[float, ...]]:
    """Seconds of GridSearchCV, ours, and its optimizer, each `fit` in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.bench_search_cv", "--fit"]

    def fresh(which: str) -> float:
        done = subprocess.run([*command, which], check=True, capture_output=True, text=True)
        return float(done.stdout)

    return [(fresh("grid"), fresh("ours"), optimizer_seconds(rows)) for _ in range(rounds)]


def excess(times: list[tuple[float, ...]]) -> float:
    """Our time without the optimizer's, as a multiple of GridSearchCV's; median of the rounds."""
    return statistics.median((ours - thought) / grid for grid, ours, thought, *_ in times)


def compare_time(rounds: int) -> bool:
    """Whether the bound holds, warm and cold."""
    rows = data("sonar")
    print(f"{BUDGET} fold fits of an SVM on sonar, {JOBS} at a time, {os.cpu_count()} CPUs")
    ratios = []
    for name, measure in (("warm", warm_times), ("cold", cold_times)):
        times = measure(rows, rounds)
        for t in times:
            print(f"{name}: GridSearchCV {t[0]:.2f} s, ours {t[1]:.2f} s, optimizer", end=" ")
            print(f"{t[2]:.2f} s" + "".join(f", ours in one process {s:.2f} s" for s in t[3:]))
        ratios.append(excess(times))
    print("(ours - optimizer) / GridSearchCV, at most 2:", end=" ")
    print("warm {:.2f}, cold {:.2f}".format(*ratios))
    return max(ratios) <= 2


def fit_once(which: str) -> None:
    """Print how long one `fit` takes in this process."""
    grid, search = searches()
    rows = data("sonar")
    print(seconds(lambda: (grid if which == "grid" else search).fit(*rows)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10, help="0 leaves quality out")
    parser.add_argument("--rounds", type=int, default=3, help="0 leaves time out")
    parser.add_argument("--fit", choices=("grid", "ours"), help="time one fit, and nothing else")
    arguments = parser.parse_args()
    if arguments.fit:
        fit_once(arguments.fit)
        return 0
    held = []
    if arguments.splits:
        try:
            import optuna  # noqa: F401
        except ImportError:
            print("Optuna is not installed, so quality is not compared: pip install optuna")
        else:
            held += [compare_quality(name, arguments.splits) for name in ("sonar", "glass")]
    if arguments.rounds:
        held.append(compare_time(arguments.rounds))
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
