"""CPU time of the exact chi-square solve, as a multiple of one `numpy.sort` of the same array.

    OMP_NUM_THREADS=1 python -m benchmarks.bench_worst_case

The two are timed in turn, so that a busy machine slows both alike. Budget: 15 times the sort.
Also prints the time of one small call, as made inside the search for the next config.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.table import Line, add_save_option, publish
from drbqo_ray.core.sets import ChiSquareBall, reference_weights

ROWS, CONTEXTS, ROUNDS, BUDGET = 100_000, 10, 15, 15.0
RADII = (0.1, 1.0, 4.5)


def cpu_seconds(call) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def ratios(values, ball, reference=None) -> list[float]:
    """Time of one batched solve over that of one sort, once per round."""
    found = []
    for _ in range(ROUNDS):
        sorting = cpu_seconds(lambda: np.sort(values, axis=-1))
        solving = cpu_seconds(lambda: ball.worst_case(values, reference))
        found.append(solving / sorting)
    return found


def microseconds_per_call(values, ball, calls=300) -> float:
    """Least CPU time of one call over several rounds of calls."""
    q = reference_weights(None, values.shape[-1])
    rounds = (
        cpu_seconds(lambda: [ball.solve(values, q) for _ in range(calls)]) for _ in range(ROUNDS)
    )
    return min(rounds) / calls * 1e6


def lines() -> Iterator[Line]:
    """The ratios; the bound is for equal reference weights."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(ROWS, CONTEXTS))
    weighted = rng.dirichlet(np.full(CONTEXTS, 5.0))
    for radius in RADII:
        for name, reference in (("equal", None), ("weighted", weighted)):
            found = ratios(values, ChiSquareBall(radius), reference)
            low, median, high = np.percentile(found, [10, 50, 90])
            yield Line(
                "worst case",
                "chi-square solve / sort",
                f"radius {radius}, {name} weights",
                float(median),
                "x",
                float(low),
                float(high),
                most=BUDGET if reference is None else None,
                note="median, 10 to 90 %",
            )
    for rows in (8, 500):
        taken = microseconds_per_call(values[:rows], ChiSquareBall(1.0))
        yield Line("worst case", "one solve", f"{rows} x {CONTEXTS}", taken, "us")


def main() -> int:
    """Print the lines; the exit code tells how many missed their bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_save_option(parser)
    return publish(lines(), parser.parse_args().save)


if __name__ == "__main__":
    raise SystemExit(main())
