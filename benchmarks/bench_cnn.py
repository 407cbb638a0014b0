"""Epoch time of the CNN worker against a bare torch loop, and its accuracy on MNIST.

    DRBQO_DATA=/path/to/idx/files python -m benchmarks.bench_cnn

Both train the same network for one epoch on the same images, in turns, so that the load of the
machine falls on both. The worker's time is that of a whole fit: building the network, seeding,
copying the data, checks. Prints the median ratio, then the fold accuracy at the default config;
exits 1 when either misses its bound.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import nn

from benchmarks.table import Line, add_save_option, publish
from workers.cnn import CNNFolds

TIMED_IMAGES = 1500
ROUNDS = 9
TRAINING_IMAGES = 5000
MOST_RATIO = 1.3
LEAST_ACCURACY = 0.94


def bare_epoch(images: torch.Tensor, labels: torch.Tensor) -> None:
    """One epoch over images (N, 1, 28, 28), labels (N,), with nothing around it."""
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


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of one run."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def compare_epochs(worker: CNNFolds) -> tuple[float, float]:
    """Median over the rounds of worker to bare loop, in wall and in CPU time."""
    X, y = worker.split.data.X, worker.split.data.y
    images, labels = torch.tensor(X).unsqueeze(1) / 255, torch.tensor(y)
    runs: list[Callable[[], object]] = [
        lambda: bare_epoch(images, labels),
        lambda: worker.fit(worker.default_config, X, y, seed=0),
    ]
    for run in runs:
        run()
    ratios = []
    for number in range(ROUNDS):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        took = {which: seconds(runs[which]) for which in order}
        ratios.append([ours / bare for ours, bare in zip(took[1], took[0], strict=True)])
        print(f"bare loop {took[0][0]:.2f} s, worker {took[1][0]:.2f} s", flush=True)
    wall, cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
    return wall, cpu


def lines() -> Iterator[Line]:
    """Both measurements."""
    wall, cpu = compare_epochs(CNNFolds("mnist", subset=TIMED_IMAGES, epochs=1))
    note = f"median of {ROUNDS} rounds, {torch.get_num_threads()} threads, CPU time {cpu:.3f}"
    yield Line(
        "cnn",
        "epoch, worker / bare loop",
        f"{TIMED_IMAGES} images",
        wall,
        "x",
        most=MOST_RATIO,
        note=note,
    )
    trained = CNNFolds("mnist", subset=TRAINING_IMAGES, epochs=5)
    accuracy = trained(trained.default_config, 0, 0)
    yield Line(
        "cnn",
        "fold accuracy, 5 epochs",
        f"{TRAINING_IMAGES} images",
        accuracy,
        "",
        least=LEAST_ACCURACY,
    )


def main() -> int:
    """Print the lines; the exit code tells how many missed their bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_save_option(parser)
    return publish(lines(), parser.parse_args().save)


if __name__ == "__main__":
    sys.exit(main())
