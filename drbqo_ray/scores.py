"""What counts as a score: one finite number of sane size."""

from __future__ import annotations

import math
import numbers

from drbqo_ray.errors import shown

LARGEST_SCORE = 1e100


def read_score(value: object) -> tuple[float | None, str | None]:
    """(score, None) for a usable number, else (None, what is wrong with it).

    Scalars of numpy and PyTorch count as numbers; booleans, strings and None do not.
    """
    got = f"got {_kind(value)}"
    try:
        value = _plain(value)
    except Exception:  # a user's object may do anything
        return None, f"a score must be one number, {got}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None, f"a score must be one number, {got}"
    try:
        score = float(value)
    except (OverflowError, ValueError, TypeError):
        return None, f"a score must be a number that fits a float, {got}"
    if not math.isfinite(score) or abs(score) > LARGEST_SCORE:
        return None, f"a score must be finite and at most {LARGEST_SCORE:g} in size, got {score}"
    return score, None


def _plain(value: object) -> object:
    """The number inside a scalar of numpy or PyTorch; anything else as it is."""
    if getattr(value, "shape", None) != () or not callable(getattr(value, "item", None)):
        return value
    masked = bool(getattr(value, "mask", False))
    return None if masked else value.item()  # type: ignore[attr-defined]


def _kind(value: object) -> str:
    try:
        return f"{shown(value, 60)} of type {type(value).__name__}"
    except Exception:  # a user's __repr__ may do anything
        return f"an object of type {type(value).__name__}"
