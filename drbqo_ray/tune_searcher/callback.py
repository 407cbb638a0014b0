"""A Tune callback that adds the robust value found so far to every result."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ray.tune import Callback

from drbqo_ray.errors import NothingObserved

if TYPE_CHECKING:
    from drbqo_ray.tune_searcher.searcher import DRBQOSearch

logger = logging.getLogger(__name__)

ROBUST_VALUE = "robust_value"


class RobustValueCallback(Callback):  # type: ignore[misc]
    """Put `robust_value`, that of the config recommended so far, into each result.

    Tune hands a result to its table, its loggers and its `ResultGrid` after the callbacks, so the
    value appears in all of them, as NaN before there is one. When a trial completes, the entry in
    the `ResultGrid` is brought up to date with the trial's own score.

    Args:
        search: the searcher of the same run.
    """

    def __init__(self, search: DRBQOSearch) -> None:
        self._search = search

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Add the value to a result that was just reported."""
        result[ROBUST_VALUE] = self._value()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Bring the value of the trial's last result up to date."""
        if ROBUST_VALUE in trial.last_result:
            trial.last_result[ROBUST_VALUE] = self._value()

    def _value(self) -> float:
        try:
            return self._search.recommend().robust_value
        except NothingObserved:
            return float("nan")
        except Exception:
            logger.exception("The robust value could not be computed.")
            return float("nan")
