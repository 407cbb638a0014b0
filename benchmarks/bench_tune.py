"""What the Tune searcher costs, and whether it finds as good a config as `dr.run`.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.bench_tune [--trials 150] [--seeds 10]

Overhead: CPU time of suggest and on_trial_complete, less that of ask and tell on an optimizer that
sees the same scores, per trial. At most 5 ms. Quality (left out with --seeds 0): 40 trials, 2 at a
time, of the SVM on sonar, by a Tuner with the searcher and by `dr.run`, same seeds; the robust
value of each recommendation is that of its scores in all folds. The median must be as good.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")

import ray
from ray import tune

import drbqo_ray as dr
from drbqo_ray.tune_searcher import DRBQOSearch
from workers.svm import sonar

FOLDS, RADIUS, EVALUATIONS, AT_ONCE = 5, 1.0, 40, 2
MOST_OVERHEAD_MS = 5.0


def smooth(config: dict[str, float], fold: int) -> float:
    return -((config["x"] - 0.1 * fold) ** 2) - 0.3 * abs(config["y"] - 0.4) + 0.1 * config["z"]


def overhead(trials: int) -> tuple[list[float], float, float]:
    """Extra milliseconds of each trial, mean milliseconds of the optimizer, and of one save."""
    names = ("x", "y", "z")
    optimizer = dr.Optimizer({name: dr.Float(0, 1) for name in names}, FOLDS)
    search = DRBQOSearch(n_folds=FOLDS)
    search.set_search_properties("score", "max", {name: tune.uniform(0, 1) for name in names})
    extra, own = [], []
    for trial in map(str, range(trials)):
        start = time.process_time()
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, smooth(suggestion.config, suggestion.context))
        middle = time.process_time()
        config = search.suggest(trial)
        result = {"score": smooth(config, config["fold"]), "done": True}
        result |= {f"config/{name}": value for name, value in config.items()}
        search.on_trial_result(trial, result)
        search.on_trial_complete(trial, result)
        end = time.process_time()
        assert config == {**suggestion.config, "fold": suggestion.context}
        own.append(1e3 * (middle - start))
        extra.append(1e3 * (end - middle) - own[-1])
    with tempfile.TemporaryDirectory() as directory:
        start = time.process_time()
        search.save_to_dir(directory)
        save = 1e3 * (time.process_time() - start)
    return extra, statistics.fmean(own), save


def train(config: dict) -> None:
    fold = config.pop("fold")
    tune.report({"accuracy": sonar(config, fold=fold, seed=0)})


def by_tuner(seed: int) -> dict:
    search = DRBQOSearch(n_folds=FOLDS, uncertainty=RADIUS, seed=seed)
    with tempfile.TemporaryDirectory() as storage:
        tune.Tuner(
            train,
            param_space={
                name: tune.loguniform(item["low"], item["high"])
                for name, item in sonar.space.items()
            },
            tune_config=tune.TuneConfig(
                search_alg=search, metric="accuracy", mode="max", num_samples=EVALUATIONS,
                max_concurrent_trials=AT_ONCE, reuse_actors=True,
            ),
            run_config=tune.RunConfig(storage_path=storage, verbose=0),
        ).fit()  # fmt: skip
    return search.recommend().config


def by_run(seed: int) -> dict:
    result = dr.run(
        sonar, sonar.space, FOLDS, n_evaluations=EVALUATIONS, uncertainty=RADIUS, seed=seed,
        max_in_flight=AT_ONCE, progress=False,
    )  # fmt: skip
    assert result.recommendation is not None
    return result.recommendation.config


def robust_value(config: dict) -> float:
    scores = [sonar(config, fold=fold, seed=0) for fold in range(FOLDS)]
    return float(dr.ChiSquareBall(RADIUS).worst_case(scores)[0])


def quality(seeds: int) -> bool:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    found: dict[str, list[float]] = {"Tuner": [], "dr.run": []}
    for seed in range(seeds):
        for name, tuned in (("Tuner", by_tuner), ("dr.run", by_run)):
            found[name].append(robust_value(tuned(seed)))
        print(
            f"seed {seed}: " + ", ".join(f"{k} {v[-1]:.4f}" for k, v in found.items()), flush=True
        )
    ray.shutdown()
    medians = {name: statistics.median(values) for name, values in found.items()}
    print("median: " + ", ".join(f"{k} {v:.4f}" for k, v in medians.items()))
    return medians["Tuner"] >= medians["dr.run"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    extra, own, save = overhead(args.trials)
    mean = statistics.fmean(extra)
    print(f"optimizer {own:.2f} ms a trial; searcher adds {mean:.2f}")
    print(f"saving the state of {args.trials} trials {save:.1f} ms")
    good = quality(args.seeds) if args.seeds else True
    return 0 if good and mean <= MOST_OVERHEAD_MS else 1


if __name__ == "__main__":
    sys.exit(main())
