"""The frozen records that travel between the optimizer, the journal and the workers.

They hold plain data only (numbers, strings, lists, dicts), so that a record can be
written as JSON and read back without loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Config = dict[str, Any]
Status = Literal["ok", "failed"]
BAND = 1.96  # deviations in half of a 95 % interval: what we print after a ±


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One evaluation that was handed out: train `config` on `context` with `seed`.

    Attributes:
        id: number of the suggestion within its run, counted from 0.
        config: hyperparameters by name; inactive conditional ones are absent.
        context: index of the fold or sample, 0 <= context < n.
        seed: seed for the random numbers of this evaluation, 0 <= seed < 2**31.
    """

    id: int
    config: Config
    context: int
    seed: int


@dataclass(frozen=True, slots=True)
class Observation:
    """The outcome of one evaluation.

    Attributes:
        id: id of the suggestion it answers.
        config: hyperparameters by name.
        context: index of the fold or sample.
        status: "ok" with a finite score, or "failed" with a reason.
        score: the score as it was told (the user's sign), None when failed.
        reason: why it failed, None when ok.
    """

    id: int
    config: Config
    context: int
    status: Status
    score: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The evaluated config with the best posterior value, and how sure we are.

    All values have the user's sign (`mode="min"` gives losses back as losses).

    Attributes:
        config: the recommended hyperparameters.
        robust_value: posterior mean of the score under the worst weights of the set.
        mean_value: posterior mean of the score under the reference weights.
        weights: the worst-case weights, length n.
        context_means: posterior mean per context, length n.
        context_stds: posterior standard deviation per context, length n.
        std: posterior standard deviation of the score averaged with `weights`.
    """

    config: Config
    robust_value: float
    mean_value: float
    weights: list[float] = field(repr=False)
    context_means: list[float] = field(repr=False)
    context_stds: list[float] = field(repr=False)
    std: float
