"""What counts as a score: one finite number of sane size."""

from __future__ import annotations

import math
import numbers

from drbqo_ray.errors import InvalidInput, shown

LARGEST_SCORE = 1e100


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
    text, kind = shown(value, 60), f"of type {type(value).__name__}"
    return text if kind in text else f"{text} {kind}"  # what has no repr is named by its type
