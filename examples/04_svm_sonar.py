"""`.venv/bin/python examples/04_svm_sonar.py [EVALUATIONS]` tunes the paper's SVM.

Progress goes to standard error. Then it prints:

    config         C=…, gamma=…
    robust value   …, mean …
    worst weights  … … … … …
    test accuracy  … on 42 rows
"""

from __future__ import annotations

import sys

import drbqo_ray as dr
from workers.svm import SVMFolds


def main(evaluations: int = 30) -> None:
    worker = SVMFolds("sonar", n_folds=5)
    result = dr.run(
        worker,
        worker.space,
        worker.n_folds,
        n_evaluations=evaluations,
        uncertainty="auto",  # the radius that covers the folds' true weights with 95 %
        max_in_flight=2,
    )
    best = result.recommendation
    assert best is not None
    final = worker.evaluate_final(best.config, seed=0)
    print(f"config         C={best.config['C']:.3g}, gamma={best.config['gamma']:.3g}")
    print(f"robust value   {best.robust_value:.3f}, mean {best.mean_value:.3f}")
    print("worst weights  " + " ".join(f"{weight:.2f}" for weight in best.weights))
    print(f"test accuracy  {final['test_accuracy']:.3f} on {final['n_test']} rows")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
