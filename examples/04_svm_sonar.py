"""`.venv/bin/python examples/04_svm_sonar.py [EVALUATIONS]` tunes the paper's SVM.

Progress goes to standard error. Then it prints:

    config         C=101, gamma=0.0094
    robust value   0.793, mean 0.850
    worst weights  0.00 0.30 0.45 0.25 0.00
    test accuracy  0.881 on 42 rows
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
