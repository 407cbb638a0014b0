"""`.venv/bin/python examples/20_tune_svm.py [TRIALS]` tunes the paper's SVM with Ray Tune.

Among Tune's own lines it prints:

    config         C=…, gamma=…
    robust value   …, mean …
    recommended    worst fold …, mean …
    luckiest fold  worst fold …, mean …
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import ray
from ray import tune

from drbqo_ray.tune_searcher import DRBQOSearch
from workers.svm import sonar


def train(config: dict[str, Any]) -> None:
    values = {name: config[name] for name in ("C", "gamma")}
    tune.report({"accuracy": sonar(values, fold=config["fold"], seed=0)})


def main(trials: int = 30) -> None:
    os.environ.setdefault("RAY_ADDRESS", "local")  # a Ray of its own, unless you name one
    ray.init(log_to_driver=False, logging_level="ERROR")
    search = DRBQOSearch(n_folds=sonar.n_folds)  # the only line that differs
    with tempfile.TemporaryDirectory() as folder:
        kept = tune.RunConfig(storage_path=folder, verbose=0, callbacks=[search.callback()])
        results = tune.Tuner(
            train,
            param_space={"C": tune.loguniform(1e-3, 1e3), "gamma": tune.loguniform(1e-5, 1e1)},
            tune_config=tune.TuneConfig(
                search_alg=search,
                metric="accuracy",
                mode="max",
                num_samples=trials,
                max_concurrent_trials=2,
                reuse_actors=True,
            ),
            run_config=kept,
        ).fit()
    best, luckiest = search.recommend(), results.get_best_result()
    print(f"config         C={best.config['C']:.3g}, gamma={best.config['gamma']:.3g}")
    print(f"robust value   {best.robust_value:.3f}, mean {best.mean_value:.3f}")
    for name, config in (("recommended", best.config), ("luckiest fold", luckiest.config)):
        values = {key: config[key] for key in ("C", "gamma")}
        folds = [sonar(values, fold=fold, seed=0) for fold in range(sonar.n_folds)]
        print(f"{name:14} worst fold {min(folds):.3f}, mean {sum(folds) / len(folds):.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
