"""What the adapters cost: RobustSearchCV beside GridSearchCV, and the Tune searcher.

    OMP_NUM_THREADS=1 python -m benchmarks.runtime.adapters search_cv [--rounds 3]
    OMP_NUM_THREADS=1 python -m benchmarks.runtime.adapters tune [--trials 150] [--seeds 10]
        [--out FILE]

search_cv: 60 fold fits of an SVM on sonar, two at a time, by GridSearchCV and by our search in
turns. Warm means that their worker processes are up and have trained before; cold that each starts
them inside `fit`, in a fresh process. Ours must take at most twice as long as GridSearchCV, plus
the time its optimizer takes to ask and tell. The search in one process, without Ray, is timed too.

tune, overhead: CPU time of the calls that Tune makes for a trial, less the part of it that is spent
inside the optimizer. At most 5 ms a trial on average.

tune, quality (left out with --seeds 0): 40 trials, 2 at a time, of the SVM on sonar, by a Tuner
with the searcher and by `dr.run` with the same seeds, in one Ray. The config that each recommends
is trained in all folds; its robust value (chi-square, radius 1) is what counts. The median of the
Tuner must be at least that of `dr.run`. With --out every seed is kept as a JSON line as soon as it
is done, and is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
import ray
from ray import tune
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr
from benchmarks.table import Line, add_save_option, publish
from drbqo_ray.search_cv import RobustSearchCV
from drbqo_ray.tune_searcher import DRBQOSearch
from workers.data import load
from workers.svm import sonar

FOLDS, RADIUS = 5, 1.0
FITS, JOBS = 60, 2
SPACE = {"svc__C": dr.Float(1e-3, 1e3, log=True), "svc__gamma": dr.Float(1e-5, 1e1, log=True)}
GRID = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": [1e-3, 1e-2, 1e-1]}
MOST_OF_GRID = 2.0
EVALUATIONS, AT_ONCE = 40, 2
METHOD = "drbqo"
MOST_OVERHEAD_MS = 5.0
RESAMPLES = 10_000
Config = dict[str, Any]
Data = tuple[np.ndarray, np.ndarray]


def model() -> Pipeline:
    return make_pipeline(StandardScaler(), SVC())


def sonar_rows() -> Data:
    found = load("sonar", 0)
    return found.X, found.y


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
        n_evaluations=FITS,
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
    for _ in range(FITS):
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
    from drbqo_ray.runtime.ray_cluster import connection

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
    command = [sys.executable, "-m", "benchmarks.runtime.adapters", "search_cv", "--fit"]

    def fresh(which: str) -> float:
        done = subprocess.run([*command, which], check=True, capture_output=True, text=True)
        return float(done.stdout)

    return [(fresh("grid"), fresh("ours"), optimizer_seconds(rows)) for _ in range(rounds)]


def excess(times: list[tuple[float, ...]]) -> float:
    """Our time without the optimizer's, as a multiple of GridSearchCV's; median of the rounds."""
    return statistics.median((ours - thought) / grid for grid, ours, thought, *_ in times)


def search_cv_lines(rounds: int) -> Iterator[Line]:
    """Our time without the optimizer's over GridSearchCV's, warm and cold."""
    rows = sonar_rows()
    for name, measure in (("warm", warm_times), ("cold", cold_times)):
        times = measure(rows, rounds)
        for t in times:
            print(f"{name}: GridSearchCV {t[0]:.2f} s, ours {t[1]:.2f} s, optimizer", end=" ")
            print(f"{t[2]:.2f} s" + "".join(f", ours in one process {s:.2f} s" for s in t[3:]))
        yield Line(
            "search_cv",
            "fit less optimizer / GridSearchCV",
            f"{FITS} fits, {JOBS} at a time, {name}",
            excess(times),
            "x",
            most=MOST_OF_GRID,
            note=f"median of {rounds} rounds, {os.cpu_count()} CPUs",
        )


def fit_once(which: str) -> None:
    """Print how long one `fit` takes in this process."""
    grid, search = searches()
    rows = sonar_rows()
    print(seconds(lambda: (grid if which == "grid" else search).fit(*rows)))


class Stopwatch:
    """Milliseconds of CPU time spent inside the methods of an object."""

    def __init__(self, target: object, names: tuple[str, ...]) -> None:
        self.spent = 0.0
        for name in names:
            setattr(target, name, self._timed(getattr(target, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            start = time.process_time()
            try:
                return method(*args)
            finally:
                self.spent += 1e3 * (time.process_time() - start)

        return timed


def smooth(config: Config) -> float:
    near = (config["x"] - 0.1 * config["fold"]) ** 2
    return -near - 0.3 * abs(config["y"] - 0.4) + 0.1 * config["z"]


def overhead(trials: int) -> tuple[list[float], float, float]:
    """Extra milliseconds of each trial, mean milliseconds of the optimizer, and of one save."""
    search = DRBQOSearch(n_folds=FOLDS, method=METHOD)
    space = {name: tune.uniform(0, 1) for name in ("x", "y", "z")}
    search.set_search_properties("score", "max", space)
    inside = Stopwatch(search._ready().ledger.optimizer, ("ask", "tell", "stop_reason"))
    extra = []
    for trial in map(str, range(trials)):
        start, before = time.process_time(), inside.spent
        config = search.suggest(trial)
        result = {"score": smooth(config), "done": True}
        result |= {f"config/{name}": value for name, value in config.items()}
        search.on_trial_result(trial, result)
        search.on_trial_complete(trial, result)
        extra.append(1e3 * (time.process_time() - start) - (inside.spent - before))
    with tempfile.TemporaryDirectory() as directory:
        start = time.process_time()
        search.save_to_dir(directory)
        save = 1e3 * (time.process_time() - start)
    return extra, inside.spent / trials, save


def train(config: Config) -> None:
    fold = config.pop("fold")
    tune.report({"accuracy": sonar(config, fold=fold, seed=0)})


def by_tuner(seed: int) -> Config:
    search = DRBQOSearch(n_folds=FOLDS, method=METHOD, uncertainty=RADIUS, seed=seed)
    with tempfile.TemporaryDirectory() as storage, contextlib.redirect_stdout(io.StringIO()):
        tune.Tuner(
            train,
            param_space={
                name: tune.loguniform(item["low"], item["high"])
                for name, item in sonar.space.items()
            },
            tune_config=tune.TuneConfig(
                search_alg=search,
                metric="accuracy",
                mode="max",
                num_samples=EVALUATIONS,
                max_concurrent_trials=AT_ONCE,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(storage_path=storage, verbose=0),
        ).fit()
    assert len(search.observations) == EVALUATIONS
    return search.recommend().config


def by_run(seed: int) -> Config:
    result = dr.run(
        sonar,
        sonar.space,
        FOLDS,
        n_evaluations=EVALUATIONS,
        method=METHOD,
        uncertainty=RADIUS,
        seed=seed,
        max_in_flight=AT_ONCE,
        progress=False,
    )
    assert result.recommendation is not None
    assert len(result.observations) == EVALUATIONS
    return result.recommendation.config


def robust_value(config: Config) -> float:
    scores = [sonar(config, fold=fold, seed=0) for fold in range(FOLDS)]
    return float(dr.ChiSquareBall(RADIUS).worst_case(scores)[0])


def measured(seed: int) -> dict[str, Any]:
    """The line of one seed."""
    line: dict[str, Any] = {"seed": seed, "date": time.strftime("%Y-%m-%d"), "ray": ray.__version__}
    for name, tuned in (("tuner", by_tuner), ("run", by_run)):
        start = time.monotonic()
        config = tuned(seed)
        line[f"{name}_seconds"] = round(time.monotonic() - start, 1)
        line[name], line[f"{name}_config"] = robust_value(config), config
    return line


def kept_lines(out: Path | None) -> dict[int, dict[str, Any]]:
    """The lines of earlier runs by seed; one that was cut short is left out."""
    lines = {}
    for text in out.read_text("utf-8").splitlines() if out is not None and out.exists() else ():
        with contextlib.suppress(ValueError):
            line = json.loads(text)
            lines[line["seed"]] = line
    return lines


def quality(seeds: int, out: Path | None) -> list[dict[str, Any]]:
    lines = kept_lines(out)
    missing = [seed for seed in range(seeds) if seed not in lines]
    if missing:
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    for seed in missing:
        lines[seed] = measured(seed)
        if out is not None:
            with open(out, "a", encoding="utf-8") as file:
                file.write("\n" + json.dumps(lines[seed]))
        print("seed {seed}: Tuner {tuner:.4f}, dr.run {run:.4f}".format(**lines[seed]), flush=True)
    if missing:
        ray.shutdown()
    return [lines[seed] for seed in range(seeds)]


def tune_lines(trials: int, seeds: int, out: Path | None) -> Iterator[Line]:
    """What the searcher adds to a trial, and its answers beside those of `dr.run`."""
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    extra, own, save = overhead(trials)
    note = f"optimizer {own:.2f} ms; at most {max(extra):.2f} ms; state saved in {save:.1f} ms"
    mean = statistics.fmean(extra)
    setting = f"{trials} trials"
    yield Line("tune", "added to a trial", setting, mean, "ms", most=MOST_OVERHEAD_MS, note=note)
    if seeds:
        lines = quality(seeds, out)
        tuner, run = (np.array([line[name] for line in lines]) for name in ("tuner", "run"))
        gaps = tuner - run
        drawn = np.random.default_rng(0).choice(gaps, (RESAMPLES, seeds)).mean(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        yield Line(
            "tune",
            "median robust value, Tuner less run",
            f"{seeds} seeds",
            float(np.median(tuner) - np.median(run)),
            "",
            least=0.0,
            note=f"mean {gaps.mean():+.4f} [{low:+.4f}, {high:+.4f}]; better {sum(gaps > 0)},"
            f" equal {sum(gaps == 0)}, worse {sum(gaps < 0)}",
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = parser.add_subparsers(dest="adapter", required=True)
    search = kinds.add_parser("search_cv")
    search.add_argument("--rounds", type=int, default=3)
    search.add_argument("--fit", choices=("grid", "ours"), help="time one fit, and nothing else")
    tuner = kinds.add_parser("tune")
    tuner.add_argument("--trials", type=int, default=150)
    tuner.add_argument("--seeds", type=int, default=10)
    tuner.add_argument("--out", type=Path, default=None)
    for kind in (search, tuner):
        add_save_option(kind)
    args = parser.parse_args()
    if args.adapter == "tune":
        return publish(tune_lines(args.trials, args.seeds, args.out), args.save)
    if args.fit:
        fit_once(args.fit)
        return 0
    return publish(search_cv_lines(args.rounds), args.save)


if __name__ == "__main__":
    sys.exit(main())
