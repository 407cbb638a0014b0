"""A run as a user would write it, on the cluster that RAY_ADDRESS names.

Usage: driver.py STORAGE CALLS EVALUATIONS SECONDS [METHOD]

Goes on with the run if there is one. Writes "start ID SECONDS" when a fold is handed out and
"ack ID SECONDS" when its outcome is safe, by the clock of the machine, and at the end "stopped
REASON". An error of ours ends it as it ends the command line: one sentence, exit code 1.
"""

from __future__ import annotations

import os
import sys
import time

import drbqo_ray as dr
from tests.support.fold_objectives import SPACE, Slow


class Report:
    def on_ask(self, suggestion: dr.Suggestion) -> None:
        os.write(1, f"start {suggestion.id} {time.monotonic()}\n".encode())

    def on_observation(self, observation: dr.Observation) -> None:
        os.write(1, f"ack {observation.id} {time.monotonic()}\n".encode())


def main(storage: str, calls: str, evaluations: str, seconds: str, method: str = "random") -> int:
    try:
        result = dr.run(
            Slow(float(seconds), calls),
            SPACE,
            3,
            n_evaluations=int(evaluations),
            method=method,
            storage=storage,
            resume=True,
            progress=True,
            callbacks=[Report()],
        )
    except dr.DrbqoError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    os.write(1, f"stopped {result.stopped}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
