"""A process that drives a run and may be killed at any time, for the fault tests.

Usage: run_driver.py STORAGE CALLS [--evaluations N] [--seconds S] [--in-flight K] [--method M]
                     [--retries R] [--hoard X]

Connects to the Ray that RAY_ADDRESS names, which is known to be ours; "local" starts one with two
CPUs. With --hoard, folds with x below X hoard memory. Resumes the run if there is one. Writes
"ask ID" when an evaluation starts, "ack ID" when its outcome is safe, and at the end "stopped
REASON VALUE". On a second Ctrl-C it leaves as a command line should, without waiting for Ray to
take its leave.
"""

from __future__ import annotations

import argparse
import os
import sys

import ray

from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.run import run
from tests.support.faulty_objectives import Hoards
from tests.support.fold_objectives import SPACE, Slow
from tests.support.local_ray import CONNECTION_OPTIONS

LOCAL = {"include_dashboard": False, "num_cpus": 2, "object_store_memory": 100_000_000}


class Report:
    def on_ask(self, suggestion: Suggestion) -> None:
        os.write(1, b"ask %d\n" % suggestion.id)

    def on_observation(self, observation: Observation) -> None:
        os.write(1, b"ack %d\n" % observation.id)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("storage")
    parser.add_argument("calls")
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--in-flight", type=int, default=2)
    parser.add_argument("--method", default="random")
    parser.add_argument("--retries", type=int, default=2)
    parser.add_argument("--hoard", type=float)
    args = parser.parse_args()
    local = os.environ["RAY_ADDRESS"] == "local"
    ray.init(**CONNECTION_OPTIONS, **LOCAL if local else {})
    result = run(
        Slow(args.seconds, args.calls) if args.hoard is None else Hoards(args.hoard, args.seconds),
        SPACE,
        3,
        n_evaluations=args.evaluations,
        method=args.method,
        storage=args.storage,
        resume=True,
        max_in_flight=args.in_flight,
        max_retries=args.retries,
        progress=False,
        callbacks=[Report()],
    )
    best = result.recommendation
    os.write(1, f"stopped {result.stopped} {best and best.robust_value!r}\n".encode())
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        os.write(2, b"KeyboardInterrupt\n")
        os._exit(130)
