"""What must hold of the journal of any run, however often its processes were killed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

from drbqo_ray.cluster.outcome import Outcome
from drbqo_ray.cluster.replay import replay, tell_optimizer
from drbqo_ray.cluster.run_problem import RunProblem
from drbqo_ray.core.surrogate import Fit
from drbqo_ray.journal import read_journal


def records_of(directory: Path, *kinds: str) -> list[dict]:
    return [r.data for r in read_journal(directory) if r.kind in kinds]


def assert_sound(directory: Path, problem: RunProblem | None = None) -> None:
    """Every outcome once, after its ask; every ask is what the optimizer makes of what it knew."""
    records = list(read_journal(directory))
    told = Counter(r.data["id"] for r in records if r.kind in ("tell", "fail"))
    assert not told or max(told.values()) == 1
    # Asks and outcomes are written by two threads: each kind is in order, the two may interleave.
    for kinds in (("ask",), ("tell", "fail", "conflict"), ("session", "finish")):
        times = [r.data["at"] for r in records if r.kind in kinds]
        assert all(a <= b for a, b in pairwise(times))
    problem = problem or RunProblem.from_header(records[0].data["problem"])
    assert_recomputed(records, problem)


def assert_recomputed(records: list, problem: RunProblem) -> None:
    """Ask a fresh optimizer at each ask of the journal, with the outcomes known then.

    A fit record tells the parameters that were in use, and has to be what the optimizer finds.
    """
    optimizer = problem.optimizer()
    outcomes = [Outcome.from_record(r.data) for r in records if r.kind in ("tell", "fail")]
    applied = 0
    for record in records:
        if record.kind == "session":
            # A new session starts from all outcomes on the disk and from the last fit.
            known = replay(records[: record.seq], problem)
            optimizer, applied = known.optimizer, len(known.outcomes)
        elif record.kind == "fit":
            fit = Fit.from_dict(record.data["fit"])
        elif record.kind == "ask":
            while applied < record.data["told"]:
                tell_optimizer(optimizer, outcomes[applied])
                applied += 1
            assert applied == record.data["told"]
            again = optimizer.ask()
            found = (again.id, problem.plain_config(again.config), again.context, again.seed)
            data = record.data
            assert found == (data["id"], data["config"], data["context"], data["seed"])
            if optimizer.last_fit is not None and records[record.seq - 1].kind == "fit":
                assert optimizer.last_fit == fit
