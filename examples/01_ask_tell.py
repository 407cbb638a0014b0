"""`.venv/bin/python examples/01_ask_tell.py [EVALUATIONS]` tunes an SVM, without Ray.

It prints:

    evaluations   … single folds, 5 folds
    config        C=…, gamma=…
    robust value  …, mean …
    folds         … … … … …
"""

from __future__ import annotations

import sys

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr

N_FOLDS = 5
EVALUATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 25

X, y = load_breast_cancer(return_X_y=True)
folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(X, y))


def accuracy(config: dict[str, float], fold: int) -> float:
    train, held_out = folds[fold]
    model = make_pipeline(StandardScaler(), SVC(**config))
    return model.fit(X[train], y[train]).score(X[held_out], y[held_out])


space = {"C": dr.Float(1e-2, 1e3, log=True), "gamma": dr.Float(1e-6, 1.0, log=True)}
optimizer = dr.Optimizer(space, contexts=N_FOLDS, uncertainty=1.0, seed=0)
for _ in range(EVALUATIONS):
    suggestion = optimizer.ask()
    optimizer.tell(suggestion.id, accuracy(suggestion.config, suggestion.context))

best = optimizer.recommend()
print(f"evaluations   {EVALUATIONS} single folds, {N_FOLDS} folds")
print(f"config        C={best.config['C']:.3g}, gamma={best.config['gamma']:.3g}")
print(f"robust value  {best.robust_value:.3f}, mean {best.mean_value:.3f}")
print("folds         " + " ".join(f"{mean:.3f}" for mean in best.context_means))
