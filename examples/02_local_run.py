"""`.venv/bin/python examples/02_local_run.py [EVALUATIONS]` tunes a function on a local Ray.

Progress goes to standard error. Then it prints:

    robust choice   x=…, worst fold …
    best on average x=0.31, worst fold 0.762
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import drbqo_ray as dr

PEAKS = [0.1, 0.15, 0.2, 0.8]  # three folds agree, one does not


def score(config: Mapping[str, Any], fold: int, seed: int) -> float:
    """Train and score one fold; here a curve that peaks elsewhere on every fold."""
    return 1.0 - (config["x"] - PEAKS[fold]) ** 2


def main(evaluations: int = 20) -> None:
    result = dr.run(
        score,
        {"x": dr.Float(0.0, 1.0)},
        contexts=len(PEAKS),
        n_evaluations=evaluations,
        uncertainty=1.0,
        max_in_flight=2,  # two folds at a time; as many as there are CPUs when left out
    )
    best = result.recommendation
    assert best is not None
    mean_peak = sum(PEAKS) / len(PEAKS)
    worst = min(score({"x": mean_peak}, fold, 0) for fold in range(len(PEAKS)))
    print(f"robust choice   x={best.config['x']:.2f}, worst fold {min(best.context_means):.3f}")
    print(f"best on average x={mean_peak:.2f}, worst fold {worst:.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
