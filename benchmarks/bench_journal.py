"""Speed of the journal: acknowledged appends beside the bare disk, and replay.

    python benchmarks/bench_journal.py [--directory DIR] [--appends 300] [--records 100000]

The disk's own rate is that of the least any durable append can do: one write and one fsync of as
many bytes. The two are measured in turns, so that a busy disk slows both alike. The last figure of
the first part is what the journal adds in processor time, measured where fsync is free.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from drbqo_ray.journal import Journal, read_journal
from drbqo_ray.journal_format import encode_record

PROBLEM = {"space": {"C": [0.01, 1000.0], "gamma": [1e-4, 1.0]}, "contexts": 10, "seed": 0}


def payload(number: int) -> dict[str, object]:
    config = {"C": 0.1 + number / 7, "gamma": 1 / (3 + number), "kernel": "rbf"}
    return {"id": number, "config": config, "context": number % 10, "score": number / 3}


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def bench_appends(root: Path, appends: int) -> None:
    line = encode_record(1, "tell", payload(1))
    bare = os.open(root / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def bare_append() -> None:
        os.write(bare, line)
        os.fsync(bare)

    journal_times, bare_times = [], []
    with Journal.create(root / "run", PROBLEM) as journal:
        for number in range(appends):
            data = payload(number)
            bare_times.append(seconds(bare_append))
            journal_times.append(seconds(lambda data=data: journal.append("tell", data)))
        many = [("tell", payload(number)) for number in range(100)]
        group = statistics.median(seconds(lambda: journal.append_many(many)) for _ in range(10))
    os.close(bare)
    median_journal, median_bare = map(statistics.median, (journal_times, bare_times))
    print(f"bare write + fsync     {median_bare * 1e3:8.3f} ms median  {1 / median_bare:9.0f} /s")
    print(f"acknowledged append    {median_journal * 1e3:8.3f} ms median "
          f" {1 / median_journal:9.0f} /s   ratio {median_journal / median_bare:.3f}")  # fmt: skip
    print(f"append_many of 100     {group * 1e3:8.3f} ms median  {100 / group:9.0f} records/s")


def bench_overhead(appends: int) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir():
        print("no /dev/shm: overhead not measured")
        return
    with (
        tempfile.TemporaryDirectory(dir=memory) as root,
        Journal.create(Path(root) / "run", PROBLEM) as journal,
    ):
        data = payload(1)
        times = [seconds(lambda: journal.append("tell", data)) for _ in range(appends)]
    print(f"append without a disk  {statistics.median(times) * 1e6:8.1f} us median")


def bench_replay(root: Path, records: int) -> None:
    with Journal.create(root / "long", PROBLEM) as journal:
        for start in range(0, records, 1000):
            stop = min(start + 1000, records)
            journal.append_many([("tell", payload(number)) for number in range(start, stop)])
        path = journal.path

    def replay() -> None:
        assert sum(1 for _ in read_journal(path)) == records + 1

    def reopen() -> None:
        with Journal.open(root / "long") as journal:
            assert sum(1 for _ in journal.records()) == records + 1

    size = path.stat().st_size / 1e6
    print(f"read {records} records     {seconds(replay):6.2f} s ({size:.1f} MB)")
    print(f"open and replay them    {seconds(reopen):6.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", help="a directory on the disk to measure")
    parser.add_argument("--appends", type=int, default=300)
    parser.add_argument("--records", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.directory) as root:
        bench_appends(Path(root), args.appends)
        bench_overhead(3000)
        bench_replay(Path(root), args.records)


if __name__ == "__main__":
    main()
