"""`.venv/bin/python examples/07_resume.py [EVALUATIONS]` stops and resumes a run.

Progress goes to standard error. Then it prints:

    first          … evaluations, then stopped
    second         … evaluations, the first ones kept: True
    config         C=…, gamma=…
"""

from __future__ import annotations

import sys
import tempfile

import drbqo_ray as dr
from workers.svm import SVMFolds


def main(evaluations: int = 20) -> None:
    worker = SVMFolds("glass", n_folds=5)
    with tempfile.TemporaryDirectory() as storage:
        results = [
            dr.run(
                worker,
                worker.space,
                worker.n_folds,
                n_evaluations=total,
                storage=storage,
                name="glass",
                resume=True,  # starts the run when there is none
                max_in_flight=2,
            )
            for total in (evaluations // 2, evaluations)
        ]
        first, second = results
        kept = second.observations[: len(first.observations)] == first.observations
        print(f"first          {len(first.observations)} evaluations, then stopped")
        print(f"second         {len(second.observations)} evaluations, the first ones kept: {kept}")
        best = second.recommendation
        assert best is not None
        print(f"config         C={best.config['C']:.3g}, gamma={best.config['gamma']:.3g}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
