"""What failed evaluations say about a run: that nothing works any more, or one fold never does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from drbqo_ray.records import Config, Observation
from drbqo_ray.runtime.terminal import printable
from drbqo_ray.space.parameters import Choice, same
from drbqo_ray.space.space import Space

FOLD_FAILURES = 3
"""Failures of a fold without a success from which on it may be taken for broken."""
OPTION = "max_consecutive_failures"
CHANCE = 0.01
"""How likely it may at most be that a sound fold looks broken."""


class Failures:
    """The failures of one session, and what to say when they are reason to stop.

    There are two such reasons. `limit` evaluations in a row have failed. Or a fold has failed
    `FOLD_FAILURES` times and never worked although others do: then its data are missing, as when
    the number of folds is wrong. Where the others fail often too, it takes more failures: as many
    as make bad luck unlikely. And where a parameter tells the configs that failed there from those
    that work, they may be what is wrong: then it takes some that it does not.

    Failures of earlier sessions do not count, for they may be why the objective was fixed. Their
    successes do.

    Args:
        limit: failures in a row that stop the run; None: nothing stops it.
        n_folds: number of folds.
        space: where configs come from.
        context_names: names of the folds; empty where they are counted.
    """

    def __init__(
        self, limit: int | None, n_folds: int, space: Space, context_names: Sequence[str] = ()
    ) -> None:
        self._names = context_names
        self._limit = limit
        self._n_folds = n_folds
        self._space = space
        self._streak: list[Observation] = []
        self._by_fold: dict[int, list[Observation]] = {}
        self._good: Counter[int] = Counter()
        self._bad: Counter[int] = Counter()
        self._working: list[Config] = []

    def resumed(self, done: Mapping[int, int], failed: Mapping[int, int]) -> None:
        """So many evaluations of each fold were done, and so many failed, in earlier sessions."""
        self._good.update({fold: done[fold] - failed.get(fold, 0) for fold in done})

    def count(self, observation: Observation) -> str | None:
        """Take note of an outcome; why to stop now, None to go on."""
        fold = observation.context
        if observation.status == "ok":
            self._streak.clear()
            self._good[fold] += 1
            self._working.append(observation.config)
            return None
        self._streak.append(observation)
        self._bad[fold] += 1
        self._by_fold.setdefault(fold, []).append(observation)
        if self._limit is None:
            return None
        if self.too_many(()):
            what = f"{len(self._streak)} evaluations in a row failed"
            return _said(what, self._streak[0], f"resume the run, or raise {OPTION}.")
        if self._is_broken(fold):
            failed = self._by_fold[fold]
            called = f"Fold {fold} of {self._n_folds}, counted from 0,"
            if self._names:
                called = printable(self._names[fold])
            what = f"{called} failed {len(failed)} times and never worked, while others do"
            cure = (
                "resume the run, or start one with as many folds as there are. To go on all the"
                f" same, set {OPTION} to None, on the command line to never."
            )
            return _said(what, failed[0], cure)
        return None

    def too_many(self, coming: Iterable[bool]) -> bool:
        """Whether too many have failed in a row, counting those `coming`: True for each failed."""
        streak = len(self._streak)
        for failed in coming:
            streak = streak + 1 if failed else 0
        return self._limit is not None and streak >= self._limit

    def _is_broken(self, fold: int) -> bool:
        failures = len(self._by_fold[fold])
        if failures < FOLD_FAILURES or self._good[fold]:
            return False
        working = [other for other, count in self._good.items() if count]
        good = sum(self._good[other] for other in working)
        bad = sum(self._bad[other] for other in working)
        share = (bad + 0.5) / (good + bad + 1)  # of failures where folds work, by Jeffreys
        if not good or self._n_folds * share**failures > CHANCE:
            return False
        failed = [seen.config for seen in self._by_fold[fold]]
        return not any(self._tells_apart(name, failed) for name in self._space.parameters)

    def _tells_apart(self, name: str, failed: Sequence[Config]) -> bool:
        """Whether the parameter's values in failed configs are others than in those that work.

        Being left out, as inactive parameters are, is a value too.
        """
        bad = [config[name] for config in failed if name in config]
        good = [config[name] for config in self._working if name in config]
        if len(bad) < len(failed) and len(good) < len(self._working):
            return False
        if not bad or not good:
            return True
        if isinstance(self._space.parameters[name], Choice):
            return not any(same(one, other) for one in bad for other in good)
        return bool(max(bad) < min(good) or min(bad) > max(good))


def _said(what: str, first: Observation, cure: str) -> str:
    return (
        f"{what}, so the run was stopped. The first of them was evaluation {first.id} (fold"
        f" {first.context}, {first.config}):\n{first.reason}\nFix the objective and {cure}"
    )
