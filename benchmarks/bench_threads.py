"""What the limit to one thread saves: CPU time of asks, libraries left to themselves or pinned.

    python -m benchmarks.bench_threads [--rounds 5]

The job: 60 asks of `foldwise` with 3 parameters and 10 folds, in a process of its own. The two
settings take turns. A ratio is the geometric mean over the rounds, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.table import Line, add_save_option, publish, ratio

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
ASKS = 60
MOST = 1.2


def search() -> tuple[float, str]:
    """CPU seconds of the asks in this process, and what was asked."""
    import drbqo_ray as dr

    names = "abc"
    opt = dr.Optimizer({name: dr.Float(0.0, 1.0) for name in names}, 10, method="foldwise")
    asked, spent = [], 0.0
    for _ in range(ASKS):
        start = time.process_time()
        s = opt.ask()
        spent += time.process_time() - start
        asked.append((s.config, s.context))
        opt.tell(s.id, -sum((s.config[k] - 0.3) ** 2 for k in names) + 0.05 * (7 * s.context % 5))
    return spent, repr(asked)


def in_a_process(threads: int | None) -> tuple[float, str]:
    """`search` in a process whose libraries may use so many threads; None: all they like."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    own = {} if threads is None else dict.fromkeys(VARIABLES, str(threads))
    code = "from benchmarks.bench_threads import search; print(*search(), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept | own, capture_output=True, text=True, check=True
    )
    seconds, asked = done.stdout.split("\n", 1)
    return float(seconds), asked


def lines(rounds: int) -> Iterator[Line]:
    """The ratio, and whether the asks are the same."""
    free, pinned, same = [], [], True
    for _ in range(rounds):
        (one, asked), (other, asked_too) = in_a_process(1), in_a_process(None)
        pinned.append(one)
        free.append(other)
        same &= asked == asked_too
    setting = f"{ASKS} asks, {os.cpu_count()} cores"
    value, low, high = ratio(free, pinned)
    yield Line(
        "threads",
        "CPU: default threads / one",
        setting,
        value,
        "x",
        low,
        high,
        most=MOST,
        note=f"one thread {min(pinned):.2f} s",
    )
    yield Line("threads", "searches that differ", setting, 0 if same else 1, "", most=0)


def main() -> int:
    """Print the lines; the exit code tells how many missed their bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    add_save_option(parser)
    args = parser.parse_args()
    return publish(lines(args.rounds), args.save)


if __name__ == "__main__":
    sys.exit(main())
