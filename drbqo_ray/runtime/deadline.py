"""The end of a run's time, and which evaluations still fit in before it.

The time of a run is that of all its sessions: what the journal knows of earlier ones, and what has
gone by since this one was started, with the start of Ray. How long an evaluation will take is
expected by those before it (`drbqo_ray.core.costs`); before there are any, all of them fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from drbqo_ray.core.costs import RECENT, CostModel
from drbqo_ray.problem import Limits, Problem
from drbqo_ray.records import Config, Suggestion

Timed = tuple[Config, int, float]
"""Config, fold and seconds of an evaluation."""


class Deadline:
    """Knows when a run has to end; for a run without a time budget that is never.

    Args:
        limits: how the run is run.
        problem: what it is about.
        clock: seconds that never go back.

    Attributes:
        ends: the time on the clock, infinite before `begin`.
        refused: whether anything was left undone for lack of time.
    """

    def __init__(self, limits: Limits, problem: Problem, clock: Callable[[], float]) -> None:
        self._budget = limits.time_budget
        self._problem = problem
        self._clock = clock
        self._timed: list[Timed] = []
        self._model: CostModel | None = None
        self._modeled = 0
        self.ends = math.inf
        self.refused = False

    def begin(self, since: float, earlier: float, timed: Iterable[Timed]) -> None:
        """The run was opened.

        Args:
            since: when this session was started.
            earlier: seconds of the sessions before it.
            timed: evaluations of those sessions.
        """
        if self._budget is not None:
            self.ends = since + self._budget - earlier
            self._timed.extend(timed)

    @property
    def passed(self) -> bool:
        """Whether the time is used up."""
        return self._clock() >= self.ends

    def saw(self, config: Config, fold: int, seconds: float) -> None:
        """An evaluation took so long."""
        if self._budget is not None and seconds > 0:
            self._timed.append((config, fold, seconds))

    def fits(self, suggestion: Suggestion) -> bool:
        """Whether an evaluation is expected to end in time if it starts now; else it is refused."""
        left = self.ends - self._clock()
        fits = left > 0
        if fits and math.isfinite(left) and self._timed:
            z = self._problem.space.encode([suggestion.config])
            fits = float(self._fitted().expected(z)[0, suggestion.context]) <= left
        self.refused = self.refused or not fits
        return fits

    def _fitted(self) -> CostModel:
        if self._model is None or self._modeled < len(self._timed):
            del self._timed[:-RECENT]
            configs, folds, seconds = zip(*self._timed, strict=True)
            z = self._problem.space.encode(configs)
            n = self._problem.n_folds
            self._model = CostModel.fit(z, np.array(folds), np.array(seconds), n)
            self._modeled = len(self._timed)
        assert self._model is not None  # there are seconds > 0
        return self._model
