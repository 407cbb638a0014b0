"""The frozen records that travel between the optimizer, the journal and the workers.

They hold plain data only (numbers, strings, lists, dicts), so that a record can be
written as JSON and read back without loss.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field
from typing import Any, Literal

from drbqo_ray.errors import InvalidInput, short_repr

Config = dict[str, Any]
Status = Literal["ok", "failed"]
LARGEST_SCORE = 1e100
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


def read_score(value: object) -> tuple[float | None, str | None]:
    """(score, None) for a usable number, else (None, what is wrong with it).

    Scalars of numpy and PyTorch count as numbers; booleans, strings and None do not.
    """
    number = _number(value)
    if number is None:
        return None, f"a score must be one number, got {_kind(value)}"
    try:
        score = float(number)
    except (OverflowError, ValueError, TypeError):
        return None, f"a score must be a number that fits a float, got {_kind(value)}"
    if not math.isfinite(score) or abs(score) > LARGEST_SCORE:
        return None, f"a score must be finite and at most {LARGEST_SCORE:g} in size, got {score}"
    return score, None


def told_score(value: object) -> tuple[float | None, str | None]:
    """The same for a score that a caller passes: what is no number at all is his mistake.

    Raises:
        InvalidInput: the value is no number.
    """
    if _number(value) is None:
        raise InvalidInput(
            "A score is one number.", value, "Pass a float, or record a failure with fail(...)."
        )
    return read_score(value)


def _number(value: object) -> numbers.Real | None:
    """The number that a value is or holds, None when it is none."""
    try:
        value = _plain(value)
    except Exception:  # a user's object may do anything
        return None
    return None if isinstance(value, bool) or not isinstance(value, numbers.Real) else value


def _plain(value: object) -> object:
    """The number inside a scalar of numpy or PyTorch; anything else as it is."""
    if getattr(value, "shape", None) != () or not callable(getattr(value, "item", None)):
        return value
    masked = bool(getattr(value, "mask", False))
    return None if masked else value.item()  # type: ignore[attr-defined]


def _kind(value: object) -> str:
    text, kind = short_repr(value, 60), f"of type {type(value).__name__}"
    return text if kind in text else f"{text} {kind}"  # what has no repr is named by its type
