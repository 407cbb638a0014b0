"""`.venv/bin/python examples/05_elasticnet.py [EVALUATIONS]` compares methods.

Progress goes to standard error. Then it prints:

    method      alpha     l1_ratio  test accuracy
    drbqo       …         …         …
    bqo-ts      …         …         …
    random      …         …         …
"""

from __future__ import annotations

import sys

import drbqo_ray as dr
from workers.elasticnet import ElasticNetFolds

METHODS = ["drbqo", "bqo-ts", "random"]


def main(evaluations: int = 16) -> None:
    worker = ElasticNetFolds("digits", n_folds=10, subset=600)
    results = dr.run_many(
        worker,
        worker.space,
        worker.n_folds,
        methods=METHODS,
        seeds=[0],
        n_evaluations=evaluations,
    )
    print("method      alpha     l1_ratio  test accuracy")
    for result in results:
        best = result.recommendation
        assert best is not None
        final = worker.evaluate_final(best.config, seed=0)
        print(
            f"{result.labels['method']:<12}{best.config['alpha']:<10.2g}"
            f"{best.config['l1_ratio']:<10.3f}{final['test_accuracy']:.3f}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
