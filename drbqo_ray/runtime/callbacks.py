"""Being told what happens in a run, without being able to break it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from drbqo_ray.records import Observation, Suggestion

_logger = logging.getLogger(__name__)


class Callback:
    """Base class for callbacks; override what you need. Any object with such methods will do."""

    def on_ask(self, suggestion: Suggestion) -> None:
        """An evaluation is about to start."""

    def on_observation(self, observation: Observation) -> None:
        """An outcome was recorded for good."""

    def on_finish(self, result: Any) -> None:
        """The run has ended; `result` is what `run` is about to return."""


class Callbacks:
    """Calls the callbacks one after the other; an exception is logged and does no more harm."""

    def __init__(self, callbacks: Iterable[object] = ()) -> None:
        self._callbacks = list(callbacks)

    def call(self, method: str, *arguments: object) -> None:
        """Call `method` of every callback that has it."""
        for callback in self._callbacks:
            function = getattr(callback, method, None)
            if function is None:
                continue
            try:
                function(*arguments)
            except Exception:
                name = type(callback).__name__
                _logger.exception("%s of %s failed; the run goes on.", method, name)
