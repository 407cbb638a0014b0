"""What must hold of the journal of any run, however often its processes were killed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from drbqo_ray.core.surrogate import Fit
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.problem import Problem
from drbqo_ray.records import Suggestion
from drbqo_ray.runtime import background
from drbqo_ray.storage.journal import JournalRecord, read_journal
from drbqo_ray.storage.stored_run import ReplayedRun, observation_of, replay


def records_of(directory: Path, *kinds: str) -> list[dict[str, Any]]:
    return [r.data for r in read_journal(directory) if r.kind in kinds]


def assert_sound(directory: Path, problem: Problem | None = None) -> None:
    """Every outcome once, after its ask; every ask is what the optimizer makes of what it knew."""
    records = list(read_journal(directory))
    told = Counter(r.data["id"] for r in records if r.kind in ("tell", "fail"))
    assert not told or max(told.values()) == 1
    # Asks and outcomes are written by two threads: each kind is in order, the two may interleave.
    for kinds in (("ask",), ("tell", "fail", "conflict"), ("session", "finish")):
        times = [r.data["at"] for r in records if r.kind in kinds]
        assert all(a <= b for a, b in pairwise(times))
    problem = problem or Problem.from_header(records[0].data["problem"])
    assert_recomputed(records, problem)


def assert_recomputed(records: list[JournalRecord], problem: Problem) -> None:
    """Ask a fresh optimizer for each batch of the journal, with the outcomes known then.

    A fit record tells the parameters that were in use. They have to be those that the optimizer
    finds, now or, if the fit was made beside the asking, when it was started.
    """
    optimizer = problem.optimizer()
    asks = [Suggestion(r.data["id"], {}, 0, 0) for r in records if r.kind == "ask"]
    told = [r.data for r in records if r.kind in ("tell", "fail")]
    outcomes = [observation_of(data, asks[data["id"]]) for data in told]
    applied = 0
    made: list[Suggestion] = []
    for record in records:
        if record.kind == "session":
            # A new session starts from all outcomes on the disk and from the last fit.
            known = replay(records[: record.seq], problem)
            optimizer, applied, made = known.optimizer, len(known.outcomes), []
        elif record.kind == "ask":
            data = record.data
            if not made:
                for outcome in outcomes[applied : data["told"]]:
                    optimizer.record(outcome)
                applied = data["told"]
                fit = fit_before(records, record.seq)
                use_fit(optimizer, fit, records[: record.seq - 1], problem)
                made = optimizer.ask(data["batch"])
                assert fit is None or optimizer.last_fit == fit
            assert applied == data["told"]
            again = made.pop(0)
            found = (again.id, problem.plain_config(again.config), again.context, again.seed)
            assert found == (data["id"], data["config"], data["context"], data["seed"])


def fit_before(records: list[JournalRecord], seq: int) -> Fit | None:
    before = records[seq - 1]
    return Fit.from_dict(before.data["fit"]) if before.kind == "fit" else None


def use_fit(optimizer: Optimizer, fit: Fit | None, earlier: list[Any], problem: Problem) -> None:
    """Let the optimizer make the fit that was recorded, or give it one that was made beside."""
    last = optimizer.last_fit
    large = last is not None and last.size >= background.SMALL
    optimizer.model.fits_in_background = fit is None and large
    if fit is None or fit.size == optimizer._history.model_size:
        return
    known = replayed_to(fit.size, earlier, problem)
    known.optimizer.last_fit = last
    job = known.optimizer.model.fit_job()
    assert job is not None
    assert job() == fit
    optimizer.last_fit = fit
    optimizer.model.fits_in_background = True


def replayed_to(size: int, earlier: list[Any], problem: Problem) -> ReplayedRun:
    """The run as far as its model had seen so many evaluations, exact repeats not counted."""
    told = [r.seq for r in earlier if r.kind in ("tell", "fail")]
    for count in range(size, len(told) + 1):
        seen = set(told[:count])
        known = replay([r for r in earlier if r.kind == "ask" or r.seq in seen], problem)
        if known.optimizer._history.model_size == size:
            return known
    raise AssertionError(f"no prefix of the run shows {size} evaluations to the model")
