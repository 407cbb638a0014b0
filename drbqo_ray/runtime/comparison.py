"""Several runs beside each other: what each has come to, how it got there, and who won.

Robust values can be compared when the runs train the same folds of the same objective and mean the
same by "robust". Runs that differ in nothing but their seed are repetitions of one setting. Two
settings with seeds in common are compared seed by seed, which takes the luck of a seed out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.records import Config
from drbqo_ray.runtime.result import Result, result_of_judged
from drbqo_ray.storage.checkpoint import judged_run
from drbqo_ray.storage.journal import problem_changes
from drbqo_ray.storage.location import RunLocation
from drbqo_ray.storage.stored_run import ReplayedRun

POINTS, LONG, LONG_POINTS = 32, 2000, 12
YARDSTICK = ("objective", "contexts", "mode", "uncertainty", "reference")
"""Parts of a problem that must be equal for robust values to mean the same."""


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison.

    Attributes:
        name: what it is called.
        setting: what tells it from the runs of other settings, e.g. "method drbqo".
        seed: its seed.
        state: see `list_runs`.
        n_done, n_evaluations: outcomes so far, and its budget, None when unknown.
        robust_value, mean_value, std: of its recommendation, None without one.
        probability: of the recommendation being the best config seen, None without one.
        config: the recommended config, None without one.
        curve: robust value of what it recommended after so many evaluations, as pairs, by the model
            with its final hyperparameters.
    """

    name: str
    setting: str
    seed: int
    state: str
    n_done: int
    n_evaluations: int | None
    robust_value: float | None
    mean_value: float | None
    std: float | None
    probability: float | None
    config: Config | None
    curve: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class PairedSeeds:
    """Two settings compared seed by seed.

    Attributes:
        one, other: the settings.
        seeds: the seeds they share.
        difference: mean of (one - other) of the robust values.
        interval: its 95 % interval by Student's t; None for a single seed.
        wins, losses: seeds in which `one` is better, and worse.
    """

    one: str
    other: str
    seeds: tuple[int, ...]
    difference: float
    interval: tuple[float, float] | None
    wins: int
    losses: int


@dataclass(frozen=True)
class Comparison:
    """Runs beside each other.

    Attributes:
        runs: in the order given.
        mode: "max" if larger values are better, "min" if smaller ones are; None when they differ.
        comparable: whether the robust values of the runs mean the same.
        differences: where the problems of the runs differ from that of the first.
        pairs: settings that share seeds, each against each other.
    """

    runs: tuple[ComparedRun, ...]
    mode: str | None
    comparable: bool
    differences: dict[str, tuple[str, ...]]
    pairs: tuple[PairedSeeds, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @property
    def best(self) -> ComparedRun | None:
        """The run with the best robust value; None when there is none, or they cannot be
        compared."""
        known = [run for run in self.runs if run.robust_value is not None]
        if not self.comparable or not known:
            return None
        sign = -1.0 if self.mode == "min" else 1.0
        return max(known, key=lambda run: sign * (run.robust_value or 0.0))


def compare(places: Sequence[tuple[str, RunLocation]]) -> Comparison:
    """The comparison of the runs in some places, each with the name it is to have.

    Raises:
        InvalidInput: there is no run.
        JournalError: one of them cannot be read.
    """
    if not places:
        raise InvalidInput("A comparison needs a run.", [], "Name some runs.")
    read = [(name, *_read(place)) for name, place in places]
    headers = [run.problem.header() for _, run, _ in read]
    settings = _settings(headers)
    runs = tuple(
        _compared(name, setting, run, result)
        for (name, run, result), setting in zip(read, settings, strict=True)
    )
    first, yardsticks = headers[0], [{key: h.get(key) for key in YARDSTICK} for h in headers]
    modes = {str(header.get("mode", "max")) for header in headers}
    comparable = all(not problem_changes(yardsticks[0], other) for other in yardsticks)
    changes = {
        run.name: tuple(problem_changes(first, header))
        for run, header in zip(runs, headers, strict=True)
    }
    mode = modes.pop() if len(modes) == 1 else None
    return Comparison(
        runs=runs,
        mode=mode,
        comparable=comparable,
        differences={name: lines for name, lines in changes.items() if lines},
        pairs=tuple(_pairs(runs, mode)) if comparable else (),
    )


def _read(place: RunLocation) -> tuple[ReplayedRun, Result]:
    run, judged = judged_run(place.directory)
    return run, result_of_judged(place, run, judged)


def _compared(name: str, setting: str, run: ReplayedRun, result: Result) -> ComparedRun:
    best, sure = result.recommendation, result.certainty
    return ComparedRun(
        name=name,
        setting=setting,
        seed=run.optimizer.seed,
        state=result.stopped,
        n_done=len(result.observations),
        n_evaluations=run.session.get("n_evaluations"),
        robust_value=None if best is None else best.robust_value,
        mean_value=None if best is None else best.mean_value,
        std=None if best is None else best.std,
        probability=None if sure is None else sure.probability,
        config=None if best is None else best.config,
        curve=tuple(curve(run)),
    )


def curve(run: ReplayedRun) -> Iterator[tuple[int, float]]:
    """Robust values of what a run recommended after so many evaluations."""
    try:
        scoring = run.optimizer.scoring()
    except NothingObserved:
        return
    total = len(scoring.scores)
    points = POINTS if total <= LONG else LONG_POINTS
    known = np.flatnonzero(~np.isnan(scoring.scores))
    for size in np.unique(np.linspace(1, total, min(points, total)).round().astype(int)):
        if len(known) and known[0] < size:
            try:
                yield int(size), scoring.after(int(size)).recommend().robust_value
            except NothingObserved:
                continue


def _settings(headers: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells each problem from the others, the seed left out."""
    flat = [_flat({k: v for k, v in header.items() if k != "seed"}) for header in headers]
    names = dict.fromkeys(name for one in flat for name in one)
    telling = [name for name in names if len({one.get(name) for one in flat}) > 1]
    return [", ".join(f"{name} {one.get(name, '-')}" for name in telling) for one in flat]


def _flat(header: Mapping[str, Any], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in header.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return found


def _pairs(runs: Iterable[ComparedRun], mode: str | None) -> Iterator[PairedSeeds]:
    values: dict[str, dict[int, float]] = {}
    for run in runs:
        if run.robust_value is not None:
            values.setdefault(run.setting, {}).setdefault(run.seed, run.robust_value)
    for (one, ours), (other, theirs) in combinations(values.items(), 2):
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            continue
        gaps = np.array([ours[seed] - theirs[seed] for seed in seeds])
        gains = -gaps if mode == "min" else gaps
        yield PairedSeeds(
            one=one,
            other=other,
            seeds=tuple(seeds),
            difference=float(gaps.mean()),
            interval=_interval(gaps),
            wins=int((gains > 0).sum()),
            losses=int((gains < 0).sum()),
        )


def _interval(gaps: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float] | None:
    if len(gaps) < 2:
        return None
    from scipy.stats import t

    half = float(t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / math.sqrt(len(gaps)))
    return float(gaps.mean()) - half, float(gaps.mean()) + half
