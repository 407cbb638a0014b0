"""`.venv/bin/python examples/06_cnn_digits.py [EVALUATIONS]` tunes a small CNN.

Progress goes to standard error. Then it prints:

    config         learning_rate=…, dropout1=…, dropout2=…
    robust value   …, mean …
    test accuracy  … on 360 images
    failed         0 of …
"""

from __future__ import annotations

import sys

import drbqo_ray as dr
from workers.cnn import CNNFolds


def main(evaluations: int = 16) -> None:
    worker = CNNFolds("digits", n_folds=5, subset=500, epochs=3, batch_size=32)
    result = dr.run(
        worker,
        worker.space,
        worker.n_folds,
        n_evaluations=evaluations,
        n_initial=8,
        resources={"CPU": 1},  # add "GPU": 1 to train every fold on a GPU of its own
        timeout_seconds=60,
    )
    best = result.recommendation
    assert best is not None
    final = worker.evaluate_final(best.config, seed=0)
    settings = ", ".join(f"{name}={value:.3g}" for name, value in best.config.items())
    failed = sum(seen.status == "failed" for seen in result.observations)
    print(f"config         {settings}")
    print(f"robust value   {best.robust_value:.3f}, mean {best.mean_value:.3f}")
    print(f"test accuracy  {final['test_accuracy']:.3f} on {final['n_test']} images")
    print(f"failed         {failed} of {len(result.observations)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
