"""Suggestion latency against N beside the peers: one thread, interleaved, CPU time.

    OMP_NUM_THREADS=1 python -m benchmarks.bench_suggestion [--sizes 50 100 200 500 1000]

The job: tell a score, fit by the schedule, ask; see `benchmarks.steppers` for what each optimizer
does. Our steps are averaged over 20 or a few more, whole periods of the refit schedule; SMAC3's
over 20. BoTorch and Optuna fit at every step, so few steps are enough. BoTorch is timed as it comes
(a cold fit) and helped (warm-started, 15 L-BFGS steps). The other yardstick is one N x N Cholesky
factorization, for the steps without a refit. A ratio is the geometric mean over the rounds, with
its 95 % interval.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.peers import show_no_warnings
from benchmarks.steppers import BoTorch, Optuna, Ours, Smac
from benchmarks.table import Line, add_save_option, publish, ratio

STEPS = 20
SHORT_STEPS = 3
PEERS = ("botorch", "optuna", "smac")
MOST_OF_COLD = 1 / 20
MOST_OF_CHOLESKY = 2.0
Times = dict[str, list[float]]


def cpu_seconds(job: Callable[[], object]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def cholesky_seconds(size: int) -> float:
    K = np.eye(size) + 0.5
    return statistics.median(cpu_seconds(lambda: np.linalg.cholesky(K)) for _ in range(5))


def time_ours(size: int, seed: int, times: Times) -> None:
    """The first ask after N scores, the mean step, and the median step without a new fit.

    At least 20 steps, and as many as make whole periods of the refit schedule: fewer would leave
    out the refit that is due next.
    """
    ours = Ours(size, seed)
    times.setdefault("first", []).append(cpu_seconds(ours.optimizer.ask))
    fit = ours.optimizer.last_fit
    assert fit is not None
    period = fit.due - fit.size
    ours.step()  # its ask comes before its tell, so the last of a period is the first of the next
    all_steps, plain = [], []
    for _ in range(-(-STEPS // period) * period):
        before = ours.optimizer.last_fit
        all_steps.append(cpu_seconds(ours.step))
        if ours.optimizer.last_fit is before:
            plain.append(all_steps[-1])
    times.setdefault("ours", []).append(statistics.mean(all_steps))
    if plain:
        times.setdefault("plain", []).append(statistics.median(plain))
        times.setdefault("cholesky", []).append(cholesky_seconds(size))


def time_peers(size: int, seed: int, times: Times, peers: tuple[str, ...]) -> None:
    if "botorch" in peers:
        botorch = BoTorch(size, seed)
        cold, warm = partial(botorch.step, warm=False), partial(botorch.step, warm=True)
        times.setdefault("BoTorch default", []).append(cpu_seconds(cold))
        steps = [cpu_seconds(warm) for _ in range(SHORT_STEPS)]
        times.setdefault("BoTorch warm", []).append(statistics.mean(steps))
    if "optuna" in peers:
        optuna = Optuna(size, seed)
        steps = [cpu_seconds(optuna.step) for _ in range(SHORT_STEPS)]
        times.setdefault("Optuna GPSampler", []).append(statistics.mean(steps))
    if "smac" in peers:
        smac = Smac(size, seed)
        steps = [cpu_seconds(smac.step) for _ in range(STEPS)]
        times.setdefault("SMAC3", []).append(statistics.mean(steps))
        times.setdefault("SMAC3 retrain", []).append(max(steps))


def most_of(name: str, size: int) -> float | None:
    """The share of a peer's time that we may take."""
    if name == "BoTorch default":
        return MOST_OF_COLD
    if name == "BoTorch warm":
        return 1 / 8 if size <= 200 else 1 / 4
    return None


def lines(size: int, rounds: int, peers: tuple[str, ...]) -> Iterator[Line]:
    times: Times = {}
    for seed in range(rounds):
        time_ours(size, seed, times)
        time_peers(size, seed, times, peers)
    setting = f"N = {size}"
    spread = (
        f"median of {rounds} rounds; the first ask {1e3 * statistics.median(times['first']):.0f} ms"
    )
    yield Line(
        "suggestion",
        "tell, fit by schedule, ask",
        setting,
        1e3 * statistics.median(times["ours"]),
        "ms",
        note=spread,
    )
    for name in ("BoTorch warm", "BoTorch default", "Optuna GPSampler", "SMAC3", "SMAC3 retrain"):
        if name in times:
            yield Line(
                "suggestion",
                f"ours / {name}",
                setting,
                *_ratio(times, "ours", name),
                most=most_of(name, size),
                note=f"{name} {1e3 * statistics.median(times[name]):.0f} ms",
            )
    if "plain" in times and size >= 500:
        note = f"step {1e3 * statistics.median(times['plain']):.1f} ms,"
        note += f" factorization {1e3 * statistics.median(times['cholesky']):.1f} ms"
        yield Line(
            "suggestion",
            "step without refit / Cholesky",
            setting,
            *_ratio(times, "plain", "cholesky"),
            most=MOST_OF_CHOLESKY if size >= 1000 else None,
            note=note,
        )


def _ratio(times: Times, ours: str, theirs: str) -> tuple[float, str, float, float]:
    middle, low, high = ratio(times[ours], times[theirs])
    return middle, "x", low, high


def installed() -> tuple[str, ...]:
    """The peers that can be imported; says which cannot."""
    found = tuple(name for name in PEERS if importlib.util.find_spec(name) is not None)
    for name in set(PEERS) - set(found):
        print(f"{name} is not installed and left out: pip install -e '.[bench]'")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 100, 200, 500, 1000])
    parser.add_argument("--alone", type=int, nargs="*", default=[2000], help="sizes without peers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rounds-above", type=int, default=3, help="rounds from N = 500 on")
    add_save_option(parser)
    args = parser.parse_args()
    show_no_warnings()
    peers, missed = installed(), 0
    time_ours(50, 0, {})  # imports and first calls, not timed
    time_peers(50, 0, {}, peers)
    for size in args.sizes + args.alone:
        rounds = args.rounds if size < 500 else args.rounds_above
        found = lines(size, rounds, peers if size in args.sizes else ())
        missed += publish(found, args.save)
    return missed


if __name__ == "__main__":
    sys.exit(main())
