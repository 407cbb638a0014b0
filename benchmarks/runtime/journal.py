"""Speed of the journal: acknowledged tells beside the bare disk, and replay.

    python -m benchmarks.runtime.journal [--directory DIR] [--tells 500] [--records 100000]

The disk's own rate is that of the least any durable append can do: one write and one fsync of the
same bytes. It is measured in turns with the journal, so that a busy disk slows both alike. Tells
are counted when `Coordinator.tell` returns, that is when they are on the disk. One by one they
cannot be faster than the disk; those that come while a flush is under way go together in the next
one, as the driver sends them. Replay makes a run of its records: it checks each of them, and tells
an optimizer all there is to know.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import drbqo_ray as dr
from benchmarks.table import Line, add_save_option, publish, ratio
from drbqo_ray.core.surrogate import Fit
from drbqo_ray.problem import Problem
from drbqo_ray.records import Observation, Suggestion
from drbqo_ray.runtime.coordinator import Coordinator
from drbqo_ray.storage.format import encode_record
from drbqo_ray.storage.journal import Journal, read_journal
from drbqo_ray.storage.stored_run import replay, told_entry

FOLDS = 10
NODE = "0123456789ab"
SPACE = dr.Space(
    {
        "C": dr.Float(1e-3, 1e3, log=True),
        "gamma": dr.Float(1e-5, 10.0, log=True),
        "kernel": dr.Choice(["rbf", "poly"]),
    }
)
FULL_RATE = 1000.0
TOGETHER = 20
MOST_REPLAY_SECONDS = 10.0


def never(config: dict[str, Any], fold: int, seed: int) -> float:
    """An objective that is named in the journal and not called."""
    raise AssertionError("not called")


def problem_of(method: str) -> Problem:
    settings = {"method": method, "uncertainty": 1.0, "seed": 0, "n_initial": 8}
    return Problem.of(SPACE, FOLDS, settings, never, "benchmarks.runtime.journal:never")


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Disk:
    """The bare disk: one write and one fsync."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, line: bytes) -> None:
        os.write(self._fd, line)
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def observed(number: int, score: float) -> Observation:
    return Observation.of(Suggestion(number, {}, 0, 0), score, seconds=12.345678, node=NODE)


def tell_lines(root: Path, tells: int) -> Iterator[Line]:
    """Acknowledged tells, one by one and together, in turns with the bare disk."""
    disk = Disk(root / "bare")
    keeper = Coordinator(root / "run", problem_of("random"), 2 * tells + TOGETHER * tells, {})
    numbers = iter(range(10**9))
    while len(keeper.take(0, 2 * tells, 2)) < 2 * tells:
        time.sleep(0.05)
    one, bare = [], []
    for _ in range(tells):
        outcome = observed(next(numbers), 0.75)
        line = encode_record(outcome.id, *told_entry(outcome, 1.5))
        bare.append(seconds(partial(disk.append, line)))
        one.append(seconds(partial(keeper.tell, [outcome])))
    middle, low, high = ratio(one, bare)
    rate = 1 / statistics.mean(bare)
    yield Line(
        "journal",
        "tell / bare write and fsync",
        "one by one",
        middle,
        "x",
        low,
        high,
        note=f"medians {1e3 * statistics.median(one):.3f} and"
        f" {1e3 * statistics.median(bare):.3f} ms",
    )
    together = []
    for _ in range(tells // TOGETHER):
        batch = [observed(next(numbers), 0.75) for _ in range(TOGETHER)]
        together.append(seconds(partial(keeper.tell, batch)) / TOGETHER)
    keeper.close()
    disk.close()
    note = f"the disk alone does {rate:.0f} a second"
    yield Line(
        "journal",
        "acknowledged tells",
        "one by one",
        1 / statistics.mean(one),
        "/s",
        least=min(FULL_RATE, rate),
        note=note,
    )
    yield Line(
        "journal",
        "acknowledged tells",
        f"{TOGETHER} in one flush",
        1 / statistics.mean(together),
        "/s",
        least=min(FULL_RATE, rate),
    )


def processor_line(appends: int) -> Iterator[Line]:
    """What the journal adds in processor time, measured where fsync is free."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        print("no /dev/shm: processor time of an append not measured")
        return
    with (
        tempfile.TemporaryDirectory(dir=memory) as root,
        Journal.create(Path(root) / "run", {"about": "nothing"}) as journal,
    ):
        kind, data = told_entry(observed(1, 0.75), 1.5)
        times = [seconds(lambda: journal.append(kind, data)) for _ in range(appends)]
    yield Line("journal", "append without a disk", "", 1e6 * statistics.median(times), "us")


def some_fit() -> Fit:
    """A fit of the model as a run writes it down."""
    optimizer = dr.Optimizer(SPACE, FOLDS, n_initial=1)
    rng = np.random.default_rng(0)
    for fold in range(FOLDS):
        optimizer.observe(SPACE.from_unit(rng.random(len(SPACE))), fold, float(rng.random()))
    optimizer.ask()
    assert optimizer.last_fit is not None
    return optimizer.last_fit


def write_run(directory: Path, records: int) -> Problem:
    """A journal of about `records` records as a long run leaves it behind."""
    problem = problem_of("drbqo")
    rng = np.random.default_rng(0)
    fit = some_fit().to_dict()
    with Journal.create(directory, problem.header()) as journal:
        journal.append("session", {"at": 0.0})
        for start in range(0, records // 2 - 1, 500):
            entries: list[tuple[str, dict[str, Any]]] = [("fit", {"fit": fit, "told": start})]
            numbers = range(start, min(start + 500, records // 2 - 1))
            for number in numbers:
                config = SPACE.from_unit(rng.random(len(SPACE)))
                fold, seed = int(rng.integers(FOLDS)), int(rng.integers(2**31))
                ask = {"id": number, "config": config, "context": fold, "seed": seed}
                entries.append(("ask", ask | {"told": start, "at": float(number)}))
            for number in numbers:
                outcome = observed(number, float(rng.random()))
                entries.append(told_entry(outcome, number + 0.5))
            journal.append_many(entries)
    return problem


def replay_lines(root: Path, records: int) -> Iterator[Line]:
    problem = write_run(root / "long", records)
    path = root / "long" / "journal.jsonl"
    count = sum(1 for _ in read_journal(path))
    setting = f"{count} records, {path.stat().st_size / 1e6:.0f} MB"
    cpu, wall = time.process_time(), time.perf_counter()
    assert sum(1 for _ in read_journal(path)) == count
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    yield Line(
        "journal", "read and check", setting, cpu, "CPU s", note=f"{wall:.1f} s by the clock"
    )
    cpu, wall = time.process_time(), time.perf_counter()
    with Journal.open(root / "long", problem.header()) as journal:
        run = replay(journal.records(), problem)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert len(run.outcomes) == len(run.optimizer.observations) == records // 2 - 1
    yield Line(
        "journal",
        "open and replay a run",
        setting,
        cpu,
        "CPU s",
        most=MOST_REPLAY_SECONDS,
        note=f"the optimizer is told everything; {wall:.1f} s by the clock",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", help="a directory on the disk to measure")
    parser.add_argument("--tells", type=int, default=500)
    parser.add_argument("--records", type=int, default=100_000)
    add_save_option(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.directory) as root:
        missed = publish(tell_lines(Path(root), args.tells), args.save)
        missed += publish(processor_line(3000), args.save)
        missed += publish(replay_lines(Path(root), args.records), args.save)
    return missed


if __name__ == "__main__":
    sys.exit(main())
