"""`.venv/bin/python examples/03_your_own_worker.py [EVALUATIONS]` tunes a forest.

Progress goes to standard error. Then it prints:

    config         max_depth=…, max_features=…, criterion=…
    robust value   …, mean …
    times trained  {…}
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold

import drbqo_ray as dr


class ForestFolds:
    """A random forest on wine, called as worker(config, fold, seed); the folds never change."""

    n_folds = 5
    space: Mapping[str, Any] = {
        "max_depth": dr.Int(1, 12),
        "max_features": dr.Float(0.1, 1.0, step=0.1),
        "criterion": dr.Choice(["gini", "entropy"]),
    }

    def __init__(self) -> None:  # the data travels with the worker, once for each node
        self.X, self.y = load_wine(return_X_y=True)
        splitter = StratifiedKFold(self.n_folds, shuffle=True, random_state=0)
        self.folds = list(splitter.split(self.X, self.y))

    def __call__(self, config: Mapping[str, Any], fold: int, seed: int) -> float:
        train, held_out = self.folds[fold]
        # not `seed`, which differs each time: a fold trained again should score the same again
        forest = RandomForestClassifier(20, random_state=0, **config)
        forest.fit(self.X[train], self.y[train])
        return float(forest.score(self.X[held_out], self.y[held_out]))


def main(evaluations: int = 20) -> None:
    worker = ForestFolds()
    result = dr.run(worker, worker.space, worker.n_folds, n_evaluations=evaluations)
    best = result.recommendation
    assert best is not None
    settings = ", ".join(f"{name}={value}" for name, value in best.config.items())
    trained = result.to_dataframe()["context"].value_counts(sort=False)
    print(f"config         {settings}")
    print(f"robust value   {best.robust_value:.3f}, mean {best.mean_value:.3f}")
    print(f"times trained  {dict(sorted(trained.items()))}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
