"""`.venv/bin/python examples/30_search_cv.py [EVALUATIONS]` tunes an SVM as GridSearchCV would.

It runs in this process, without Ray, and prints:

    best config    C=…, gamma=…
    robust score   … by the model
    all five folds … to …
    trained        … folds of … configs
    at radius 0    C=… wins
    at radius 1    C=… wins
    at radius 2    C=… wins
"""

from __future__ import annotations

import sys

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray.search_cv import RobustSearchCV


def main(evaluations: int = 40) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    search = RobustSearchCV(
        make_pipeline(StandardScaler(), SVC()),
        {
            "svc__C": dr.Float(1e-3, 1e3, log=True),  # or scipy.stats.loguniform(1e-3, 1e3)
            "svc__gamma": dr.Float(1e-5, 1e1, log=True),
        },
        cv=5,
        n_evaluations=evaluations,  # single folds, where GridSearchCV would count configs x 5
        uncertainty=1.0,  # 0 is the plain mean, 2 with five folds the worst fold alone
        random_state=0,
    ).fit(X, y)
    best = search.best_params_
    print(f"best config    C={best['svc__C']:.3g}, gamma={best['svc__gamma']:.3g}")
    print(f"robust score   {search.best_score_:.3f} by the model")
    checked = GridSearchCV(search.estimator, {k: [v] for k, v in best.items()}, cv=5).fit(X, y)
    folds = [checked.cv_results_[f"split{i}_test_score"][0] for i in range(5)]
    print(f"all five folds {min(folds):.3f} to {max(folds):.3f}")
    configs = len(search.cv_results_["params"])
    print(f"trained        {search.n_evaluations_} folds of {configs} configs")
    for step in search.robustness_path_[::16]:
        print(f"at radius {step['radius']:.0f}    C={step['params']['svc__C']:.3g} wins")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
