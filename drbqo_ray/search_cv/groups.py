"""Groups of rows, such as hospitals or months: what folds are called by them, and what may be wrong
with folds that are to stand for new ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from drbqo_ray.core.sets import UncertaintySet

Split = tuple[Any, Any]
UNEQUAL = 10
"""Times as many rows as another from which on a group is much larger."""
_DEPTH = 4
"""From here to the line of the user that calls `fit`."""


def group_names(splits: Sequence[Split], groups: npt.ArrayLike) -> tuple[str, ...]:
    """Names of the folds (n,), if each of them scores the rows of a group of its own; else none.

    Args:
        splits: (training rows, test rows) of each fold.
        groups: group of each row (N,).
    """
    labels = np.asarray(groups)
    names = []
    for _, test in splits:
        found = set(labels[test].tolist())
        if len(found) != 1:
            return ()
        names.append(str(found.pop()))
    good = len(set(names)) == len(names) and all(name.strip() for name in names)
    return tuple(names) if good else ()


def warn_of_groups(
    splits: Sequence[Split],
    groups: npt.ArrayLike,
    names: tuple[str, ...],
    uncertainty: UncertaintySet,
) -> None:
    """Say what may be wrong with folds where rows come in groups.

    Args:
        splits: (training rows, test rows) of each fold.
        groups: group of each row (N,).
        names: names of the folds, if each is a group.
        uncertainty: the set that the groups are re-weighted in.
    """
    found = [torn_groups(splits, groups)]
    if names:
        found += [_too_few(len(names), uncertainty), _unequal(splits, np.asarray(groups), names)]
    for words in found:
        if words is not None:
            warnings.warn(words, stacklevel=_DEPTH)


def torn_groups(splits: Sequence[Split], groups: npt.ArrayLike) -> str | None:
    """What to say of groups with rows in both training and validation, None without such."""
    labels = np.asarray(groups)
    torn: set[Any] = set()
    for train, test in splits:
        torn |= set(labels[train].tolist()) & set(labels[test].tolist())
    if not torn:
        return None
    return (
        f"{len(torn)} of {len(set(labels.tolist()))} groups have rows in both training and"
        " validation: cv ignores the groups that were passed, so scores say nothing of new groups."
        " Pass cv=LeaveOneGroupOut() or GroupKFold() if the model is to run in new ones; leave the"
        " groups out if it is to run in these."
    )


def _too_few(n: int, uncertainty: UncertaintySet) -> str | None:
    family = uncertainty.family(np.full(n, 1 / n)) if n > 1 else None
    if family is None or family.kind != uncertainty.kind or family.own < family.high:
        return None
    return (
        f"{n} groups are too few for this uncertainty set ({uncertainty.describe()}): from"
        f" {family.high:.3g} on only the worst group counts. Pass a smaller one, such as"
        " uncertainty=0.3, or more groups."
    )


def _unequal(
    splits: Sequence[Split], labels: npt.NDArray[Any], names: tuple[str, ...]
) -> str | None:
    sizes = [len(labels[test]) for _, test in splits]
    low, high = int(np.argmin(sizes)), int(np.argmax(sizes))
    if sizes[high] <= UNEQUAL * sizes[low]:
        return None
    return (
        f"Groups are of very unequal size: {names[low]!r} has {sizes[low]} rows and"
        f" {names[high]!r} has {sizes[high]}. Each counts the same, and scores of the small ones"
        " are mostly chance. Put small groups together."
    )
