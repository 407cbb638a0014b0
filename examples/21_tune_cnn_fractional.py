"""`.venv/bin/python examples/21_tune_cnn_fractional.py [TRIALS]` trains CNNs that share CPUs.

Every trial takes half a CPU, so twice as many run side by side; with {"cpu": 1, "gpu": 0.25}
four would share a GPU. Among Tune's own lines it prints:

    trials         …, 0 with errors
    config         learning_rate=…, dropout1=…, dropout2=…
    robust value   …, mean …
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import ray
from ray import tune

from drbqo_ray.tune_searcher import DRBQOSearch
from workers.cnn import CNNFolds

SPACE = {
    "learning_rate": tune.loguniform(1e-5, 1e-1),
    "dropout1": tune.uniform(0, 0.9),
    "dropout2": tune.uniform(0, 0.9),
}
WORKER = CNNFolds("digits", n_folds=5, subset=300, epochs=4, batch_size=16)


def train(config: dict[str, Any]) -> None:
    fold = config.pop("fold")
    tune.report({"accuracy": WORKER(config, fold=fold, seed=0)})


def main(trials: int = 12) -> None:
    os.environ.setdefault("RAY_ADDRESS", "local")  # a Ray of its own, unless you name one
    ray.init(log_to_driver=False, logging_level="ERROR")
    search = DRBQOSearch(n_folds=WORKER.n_folds, n_initial=6)
    how = tune.TuneConfig(
        search_alg=search, metric="accuracy", mode="max", num_samples=trials, reuse_actors=True
    )
    with tempfile.TemporaryDirectory() as storage:
        results = tune.Tuner(
            tune.with_resources(train, {"cpu": 0.5}),
            param_space=SPACE,
            tune_config=how,
            run_config=tune.RunConfig(storage_path=storage, verbose=0),
        ).fit()
    best = search.recommend()
    print(f"trials         {len(results)}, {len(results.errors)} with errors")
    print("config         " + ", ".join(f"{k}={v:.3g}" for k, v in best.config.items()))
    print(f"robust value   {best.robust_value:.3f}, mean {best.mean_value:.3f}")
    ray.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
