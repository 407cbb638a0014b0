"""Three pieces beside a bare yardstick: the exact solve, one thread, the CNN worker.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.pieces worst_case
    python -m benchmarks.speed.pieces threads
    DRBQO_DATA=/path/to/idx/files python -m benchmarks.speed.pieces cnn

worst_case: CPU time of the exact chi-square solve as a multiple of one `numpy.sort` of the same
array, and the time of one small call as made inside the search for the next config.

threads: CPU time of 60 asks of `foldwise` with 3 parameters and 10 folds, in a process whose
libraries may use all cores, over that of one pinned to one thread.

cnn: one epoch of the CNN worker over that of a bare torch loop on the same images. The worker's
time is that of a whole fit: building the network, seeding, copying the data, checks. Then its fold
accuracy at the default config, on MNIST.

The two sides of a ratio are timed in turn, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.table import Line, add_save_option, publish, ratio

ROWS, CONTEXTS, ROUNDS, MOST_SORTS = 100_000, 10, 15, 15.0
RADII = (0.1, 1.0, 4.5)
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
ASKS, ASK_ROUNDS = 60, 5
MOST_THREADED = 1.2
TIMED_IMAGES, TRAINING_IMAGES, EPOCH_ROUNDS = 1500, 5000, 9
MOST_EPOCH, LEAST_ACCURACY = 1.3, 0.94


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def sort_ratios(values: np.ndarray, ball: Any, reference: np.ndarray | None = None) -> list[float]:
    """Time of one batched solve of values (r, n) over that of one sort, once per round."""
    found = []
    for _ in range(ROUNDS):
        sorting = cpu_seconds(lambda: np.sort(values, axis=-1))
        solving = cpu_seconds(lambda: ball.worst_case(values, reference))
        found.append(solving / sorting)
    return found


def microseconds_per_call(values: np.ndarray, ball: Any, calls: int = 300) -> float:
    """Least CPU time of one call over several rounds of calls."""
    from drbqo_ray.core.sets import reference_weights

    q = reference_weights(None, values.shape[-1])
    rounds = (
        cpu_seconds(lambda: [ball.solve(values, q) for _ in range(calls)]) for _ in range(ROUNDS)
    )
    return min(rounds) / calls * 1e6


def worst_case_lines() -> Iterator[Line]:
    """The ratios; the bound is for equal reference weights."""
    from drbqo_ray.core.sets import ChiSquareBall

    rng = np.random.default_rng(0)
    values = rng.normal(size=(ROWS, CONTEXTS))
    weighted = rng.dirichlet(np.full(CONTEXTS, 5.0))
    for radius in RADII:
        for name, reference in (("equal", None), ("weighted", weighted)):
            found = sort_ratios(values, ChiSquareBall(radius), reference)
            low, median, high = np.percentile(found, [10, 50, 90])
            yield Line(
                "worst case",
                "chi-square solve / sort",
                f"radius {radius}, {name} weights",
                float(median),
                "x",
                float(low),
                float(high),
                most=MOST_SORTS if reference is None else None,
                note="median, 10 to 90 %",
            )
    for rows in (8, 500):
        taken = microseconds_per_call(values[:rows], ChiSquareBall(1.0))
        yield Line("worst case", "one solve", f"{rows} x {CONTEXTS}", taken, "us")


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
    code = "from benchmarks.speed.pieces import search; print(*search(), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept | own, capture_output=True, text=True, check=True
    )
    seconds, asked = done.stdout.split("\n", 1)
    return float(seconds), asked


def thread_lines() -> Iterator[Line]:
    """The ratio, and whether the asks are the same."""
    free, pinned, same = [], [], True
    for _ in range(ASK_ROUNDS):
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
        most=MOST_THREADED,
        note=f"one thread {min(pinned):.2f} s",
    )
    yield Line("threads", "searches that differ", setting, 0 if same else 1, "", most=0)


def bare_epoch(images: Any, labels: Any) -> None:
    """One epoch over images (N, 1, 28, 28), labels (N,), with nothing around it."""
    import torch
    from torch import nn

    net = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(3136, 10),
    )
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    order = torch.randperm(len(labels))
    for start in range(0, len(labels), 128):
        rows = order[start : start + 128]
        loss = nn.functional.cross_entropy(net(images[rows]), labels[rows])
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()


def both_seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of one run."""
    wall = time.perf_counter()
    cpu = cpu_seconds(run)
    return time.perf_counter() - wall, cpu


def compare_epochs(worker: Any) -> tuple[float, float]:
    """Median over the rounds of worker to bare loop, in wall and in CPU time."""
    import torch

    X, y = worker.split.data.X, worker.split.data.y
    images, labels = torch.tensor(X).unsqueeze(1) / 255, torch.tensor(y)
    runs: list[Callable[[], object]] = [
        lambda: bare_epoch(images, labels),
        lambda: worker.fit(worker.default_config, X, y, seed=0),
    ]
    for run in runs:
        run()
    ratios = []
    for number in range(EPOCH_ROUNDS):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        took = {which: both_seconds(runs[which]) for which in order}
        ratios.append([ours / bare for ours, bare in zip(took[1], took[0], strict=True)])
        print(f"bare loop {took[0][0]:.2f} s, worker {took[1][0]:.2f} s", flush=True)
    wall, cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
    return wall, cpu


def cnn_lines() -> Iterator[Line]:
    """The epoch and the accuracy."""
    import torch

    from workers.cnn import CNNFolds

    wall, cpu = compare_epochs(CNNFolds("mnist", subset=TIMED_IMAGES, epochs=1))
    note = f"median of {EPOCH_ROUNDS} rounds, {torch.get_num_threads()} threads, CPU time {cpu:.3f}"
    yield Line(
        "cnn",
        "epoch, worker / bare loop",
        f"{TIMED_IMAGES} images",
        wall,
        "x",
        most=MOST_EPOCH,
        note=note,
    )
    trained = CNNFolds("mnist", subset=TRAINING_IMAGES, epochs=5)
    accuracy = trained(trained.default_config, 0, 0)
    setting = f"{TRAINING_IMAGES} images"
    yield Line("cnn", "fold accuracy, 5 epochs", setting, accuracy, "", least=LEAST_ACCURACY)


PIECES = {"worst_case": worst_case_lines, "threads": thread_lines, "cnn": cnn_lines}


def main() -> int:
    """Print the lines; the exit code tells how many missed their bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("piece", choices=PIECES)
    add_save_option(parser)
    args = parser.parse_args()
    return publish(PIECES[args.piece](), args.save)


if __name__ == "__main__":
    sys.exit(main())
