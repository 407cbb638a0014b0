"""`.venv/bin/python examples/22_tune_restore.py [TRIALS]` kills a Tune run and restores it.

Among Tune's own lines it prints:

    killed         with … trials begun
    restored       … trials, … known to the model
    config         C=…, gamma=…
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ray import tune

from drbqo_ray.tune_searcher import DRBQOSearch
from workers.svm import glass


def train(config: dict[str, Any]) -> None:
    time.sleep(0.5)  # stands for a longer training
    fold = config.pop("fold")
    tune.report({"accuracy": glass(config, fold=fold, seed=0)})


def start(trials: int, storage: str) -> None:
    search, goal = DRBQOSearch(n_folds=glass.n_folds), {"metric": "accuracy", "mode": "max"}
    tuning = tune.TuneConfig(search_alg=search, num_samples=trials, reuse_actors=True, **goal)
    space = {"C": tune.loguniform(1e-3, 1e3), "gamma": tune.loguniform(1e-5, 1e1)}
    kept = tune.RunConfig(storage_path=storage, name="glass", verbose=0)
    tune.Tuner(train, param_space=space, tune_config=tuning, run_config=kept).fit()


def kill_and_restore(trials: int, storage: str) -> None:
    run = Path(storage, "glass")
    often = {**os.environ, "TUNE_GLOBAL_CHECKPOINT_S": "2"}  # Tune's default is 10 s
    child = subprocess.Popen([sys.executable, __file__, str(trials), storage], env=often)
    while child.poll() is None and len([*run.glob("train_*")]) < trials // 2:
        time.sleep(0.5)
    child.kill()
    print(f"killed         with {len([*run.glob('train_*')])} trials begun")
    results, search = tune.Tuner.restore(str(run), train).fit(), DRBQOSearch.load(run)
    print(f"restored       {len(results)} trials, {len(search.observations)} known to the model")
    print("config         C={C:.3g}, gamma={gamma:.3g}".format(**search.recommend().config))


if __name__ == "__main__":
    os.environ.setdefault("RAY_ADDRESS", "local")  # a Ray of its own, unless you name one
    if len(sys.argv) > 2:
        start(int(sys.argv[1]), sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as directory:
            kill_and_restore(int(sys.argv[1]) if len(sys.argv) > 1 else 14, directory)
