"""How much of a run came through: folds with a score, and evaluations that failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drbqo_ray.records import Observation

MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the summary of a run always says.

    Attributes:
        n_folds: number of folds.
        missing: folds without a single score.
        n_failed: evaluations that failed.
    """

    n_folds: int
    missing: tuple[int, ...]
    n_failed: int

    @staticmethod
    def of(observations: Iterable[Observation], n_folds: int) -> Coverage:
        """The coverage of these outcomes."""
        scored, n_failed = set(), 0
        for seen in observations:
            if seen.status == "ok":
                scored.add(seen.context)
            else:
                n_failed += 1
        missing = tuple(fold for fold in range(n_folds) if fold not in scored)
        return Coverage(n_folds, missing, n_failed)

    def __str__(self) -> str:
        trained = f"trained on {self.n_folds - len(self.missing)} of {self.n_folds} folds"
        plural = "" if self.n_failed == 1 else "s"
        text = f"{trained}, {self.n_failed} evaluation{plural} failed"
        if not self.missing:
            return text
        named = ", ".join(str(fold) for fold in self.missing[:MOST_NAMED])
        more = len(self.missing) - MOST_NAMED
        return f"{text}; no score on fold {named}" + (f" and {more} more" if more > 0 else "")
