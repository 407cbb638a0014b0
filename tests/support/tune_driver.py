"""A Tune run to be killed: python -m tests.support.tune_driver ADDRESS STORAGE NUM_SAMPLES"""

from __future__ import annotations

import os
import sys

import ray
from ray import tune

from drbqo_ray.tune_searcher import DRBQOSearch
from tests.support.tune_trainables import slow

SPACE = {"x": tune.uniform(0, 1), "net": {"width": tune.randint(1, 9)}}


def main() -> None:
    address, storage, num_samples = sys.argv[1:]
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "1"
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    tune.Tuner(
        slow,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            search_alg=DRBQOSearch(n_folds=3, seed=7),
            metric="score",
            mode="max",
            num_samples=int(num_samples),
            max_concurrent_trials=2,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(storage_path=storage, name="killed", verbose=0),
    ).fit()


if __name__ == "__main__":
    main()
