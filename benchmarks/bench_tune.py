"""What the Tune searcher costs, and whether it finds as good a config as `dr.run`.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.bench_tune [--trials 150] [--seeds 10]
        [--out FILE]

Overhead: CPU time of the calls that Tune makes for a trial, less the part of it that is spent
inside the optimizer. At most 5 ms a trial on average.

Quality (left out with --seeds 0): 40 trials, 2 at a time, of the SVM on sonar, by a Tuner with the
searcher and by `dr.run` with the same seeds, in one Ray. The config that each recommends is trained
in all folds; its robust value (chi-square, radius 1) is what counts. The median of the Tuner must
be at least that of `dr.run`. With --out every seed is kept as a JSON line as soon as it is done,
and is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
import ray
from ray import tune

import drbqo_ray as dr
from drbqo_ray.tune_searcher import DRBQOSearch
from workers.svm import sonar

FOLDS, RADIUS, EVALUATIONS, AT_ONCE = 5, 1.0, 40, 2
METHOD = "drbqo"
MOST_OVERHEAD_MS = 5.0
RESAMPLES = 10_000
Config = dict[str, Any]


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


def compared(lines: list[dict[str, Any]]) -> bool:
    """Print the comparison; whether the median of the Tuner is at least that of `dr.run`."""
    tuner, run = (np.array([line[name] for line in lines]) for name in ("tuner", "run"))
    gaps = tuner - run
    drawn = np.random.default_rng(0).choice(gaps, (RESAMPLES, len(gaps))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    print(
        f"Tuner - dr.run: mean {gaps.mean():+.4f} [{low:+.4f}, {high:+.4f}], median "
        f"{np.median(gaps):+.4f}; better {sum(gaps > 0)}, equal {sum(gaps == 0)}, worse "
        f"{sum(gaps < 0)} of {len(gaps)} seeds"
    )
    medians = float(np.median(tuner)), float(np.median(run))
    print("robust value, median: Tuner {:.4f}, dr.run {:.4f}".format(*medians))
    return medians[0] >= medians[1]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    extra, own, save = overhead(args.trials)
    mean = statistics.fmean(extra)
    print(f"optimizer {own:.2f} ms a trial; searcher adds {mean:.2f}, at most {max(extra):.2f}")
    print(f"saving the state of {args.trials} trials {save:.1f} ms", flush=True)
    good = compared(quality(args.seeds, args.out)) if args.seeds else True
    return 0 if good and mean <= MOST_OVERHEAD_MS else 1


if __name__ == "__main__":
    sys.exit(main())
