"""A process that appends to a journal until it is killed, for the fault tests.

Usage: journal_crasher.py DIRECTORY [--mutant early-ack] [--size-limit BYTES] [--hold]

Each acknowledged id is written to standard output as soon as `append` has returned. With
--size-limit the process ends by itself when the journal refuses to grow.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path
from types import ModuleType

# The journal needs nothing of the package's own __init__, which loads scipy: without it the
# hundreds of processes of the fault tests start ten times sooner.
package = ModuleType("drbqo_ray")
package.__path__ = [str(Path(__file__).parents[2] / "drbqo_ray")]
sys.modules["drbqo_ray"] = package

from drbqo_ray.errors import JournalError  # noqa: E402
from drbqo_ray.storage.journal import Journal  # noqa: E402

PROBLEM = {"space": {"C": [0.01, 1000.0]}, "contexts": 10, "method": "drbqo", "seed": 0}


def append_then_acknowledge(journal: Journal, number: int) -> None:
    journal.append("tell", {"id": number, "score": number / 7})
    os.write(1, b"%d\n" % number)


def acknowledge_then_append(journal: Journal, number: int) -> None:
    os.write(1, b"%d\n" % number)
    time.sleep(0.005)
    journal.append("tell", {"id": number, "score": number / 7})


def write_until_killed(directory: Path, mutant: str | None) -> None:
    step = acknowledge_then_append if mutant == "early-ack" else append_then_acknowledge
    with Journal.attach(directory, PROBLEM) as journal:
        number = sum(record.kind == "tell" for record in journal.records())
        os.write(1, b"open\n")
        while True:
            step(journal, number)
            number += 1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--mutant", choices=["early-ack"])
    parser.add_argument("--size-limit", type=int)
    parser.add_argument("--hold", action="store_true", help="open the journal and sleep")
    args = parser.parse_args()
    if args.hold:
        with Journal.attach(args.directory, PROBLEM):
            os.write(1, b"open\n")
            time.sleep(60)
        return 0
    if args.size_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (args.size_limit, args.size_limit))
    try:
        write_until_killed(args.directory, args.mutant)
    except JournalError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
