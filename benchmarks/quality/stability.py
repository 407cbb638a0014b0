"""How often a recommendation is a disaster: logistic boxes with samples and shifts of their own.

    python -m benchmarks.quality.stability [--method drbqo] [--seeds 50] [--evaluations 100]

f(x, w) = -log(1 + exp(x'w)) without noise, ten random samples w, x in a square of side 4 that is
moved at random, twelve initial points. A look is a recommendation after one more evaluation, from
the 40th on; its regret is taken against the best robust value in the box.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

import drbqo_ray as dr
from benchmarks.table import Line, add_save_option, publish

FIRST_LOOK, MIDDLE = 40, 50
DISASTER = 0.1
RADIUS = 1.0


@dataclass(frozen=True)
class Box:
    """A square of side 4 with its lower corner, and ten samples W (10, 2)."""

    low: np.ndarray
    W: np.ndarray

    @staticmethod
    def draw(seed: int) -> Box:
        rng = np.random.RandomState(5000 + seed)
        W = rng.randn(10, 2)
        return Box(rng.uniform(-1.2, 1.2, 2) - 2, W)

    def scores(self, x: np.ndarray) -> np.ndarray:
        return -np.logaddexp(0.0, self.W @ x)

    def robust(self, x: np.ndarray) -> float:
        return float(dr.ChiSquareBall(RADIUS).worst_case(self.scores(x))[0])

    def best(self) -> float:
        """The largest robust value, which is concave in x: at the kink, or at a smooth peak."""

        def lowered(x: np.ndarray) -> float:
            return -self.robust(np.clip(x, self.low, self.low + 4))

        starts = np.random.RandomState(0).uniform(self.low, self.low + 4, (6, 2))
        tight = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 4000}
        peaks = [-minimize(lowered, s, method="Nelder-Mead", options=tight).fun for s in starts]
        return float(max(*peaks, -lowered(np.zeros(2))))


def regrets(method: str, seed: int, evaluations: int) -> np.ndarray:
    """Regret of the recommendation after FIRST_LOOK, FIRST_LOOK + 1, ... evaluations."""
    box = Box.draw(seed)
    space = {f"x{i}": dr.Float(box.low[i], box.low[i] + 4.0) for i in range(2)}
    opt = dr.Optimizer(space, box.W, method=method, uncertainty=RADIUS, n_initial=12, seed=seed)
    best, found = box.best(), []
    for t in range(1, evaluations + 1):
        asked = opt.ask()
        opt.tell(asked.id, float(box.scores(np.array(list(asked.config.values())))[asked.context]))
        if t >= FIRST_LOOK:
            x = np.array(list(opt.recommend().config.values()))
            found.append(best - box.robust(x))
    return np.array(found)


def lines(method: str, seeds: int, evaluations: int) -> Iterator[Line]:
    table = np.array([regrets(method, seed, evaluations) for seed in range(seeds)])
    setting = f"{method}, {seeds} boxes, looks {FIRST_LOOK} to {evaluations}"
    bad = int((table > DISASTER).sum())
    yield Line(
        "stability",
        f"looks with regret above {DISASTER}",
        setting,
        bad,
        f"of {table.size}",
        most=0,
    )
    for t in (MIDDLE, evaluations):
        value = float(np.log10(table[:, t - FIRST_LOOK].mean()))
        yield Line("stability", f"log10 mean regret at {t}", setting, value, "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", nargs="*", default=["drbqo", "foldwise"])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--evaluations", type=int, default=100)
    add_save_option(parser)
    args = parser.parse_args()
    missed = 0
    for method in args.method:
        missed += publish(lines(method, args.seeds, args.evaluations), args.save)
    return missed


if __name__ == "__main__":
    sys.exit(main())
