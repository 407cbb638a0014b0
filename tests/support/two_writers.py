"""A process that appends to a journal when it is told to, beside another one that does the same.

Usage: two_writers.py DIRECTORY NAME COUNT [--lying-lock] [--mutant unfenced]

It opens the journal, writes "open", waits for a line on its standard input, and then appends up to
COUNT records. Each acknowledged one is written to standard output as "NAME:number". With
--lying-lock every lock is granted, as some network file systems do. It ends with status 3 and the
reason when the journal refuses.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from pathlib import Path
from types import ModuleType

# As in journal_crasher: without the package's own __init__ a process starts ten times sooner.
package = ModuleType("drbqo_ray")
package.__path__ = [str(Path(__file__).parents[2] / "drbqo_ray")]
sys.modules["drbqo_ray"] = package

from drbqo_ray.errors import JournalError  # noqa: E402
from drbqo_ray.storage.journal import Journal  # noqa: E402

PROBLEM = {"contexts": 10, "seed": 0}


def unfence() -> None:
    """Take away the checks before an acknowledgement: what is lost then has to be seen."""
    for name in ("_check_alone", "_check_ours"):
        setattr(Journal, name, lambda *given: None)


def write(directory: Path, name: str, count: int) -> None:
    with Journal.attach(directory, PROBLEM) as journal:
        os.write(1, b"open\n")
        sys.stdin.readline()
        for number in range(count):
            journal.append("tell", {"id": f"{name}:{number}"})
            os.write(1, f"{name}:{number}\n".encode())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("name")
    parser.add_argument("count", type=int)
    parser.add_argument("--lying-lock", action="store_true")
    parser.add_argument("--mutant", choices=["unfenced"])
    args = parser.parse_args()
    if args.lying_lock:
        fcntl.flock = lambda fd, how: None
    if args.mutant == "unfenced":
        unfence()
    try:
        write(args.directory, args.name, args.count)
    except JournalError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
