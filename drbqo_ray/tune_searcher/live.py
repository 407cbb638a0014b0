"""Which trials are under way, and whether another may be added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class LiveTrials:
    """Trials that have a suggestion and did not end yet.

    Those of an earlier run, or from before a restore, may be dead: Tune may have dropped them, or
    gone on under new ids. As long as nothing is heard of them they are *silent*: they count until
    a newer trial ends, and never take the last free place.

    Args:
        earlier: trials that were live when the state was saved.
        limit: how many may be live, None for any number.
    """

    def __init__(self, earlier: Iterable[str] = (), limit: int | None = None) -> None:
        self._live = set(earlier)
        self.limit = limit
        self.begin_run()

    def begin_run(self) -> None:
        """A run begins: those that are live are of an earlier one."""
        self._silent = set(self._live)
        self._earlier = frozenset(self._live)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._live))

    @property
    def full(self) -> bool:
        """Whether no trial may be added."""
        live = len(self._live)
        return self.limit is not None and live >= self.limit and live > len(self._silent)

    @property
    def busy(self) -> set[str]:
        """The live trials that are not silent."""
        return self._live - self._silent

    def add(self, trial: str) -> None:
        """A trial was given a suggestion."""
        self._live.add(trial)

    def hear(self, trial: str) -> None:
        """Something was heard of a trial."""
        self._silent.discard(trial)

    def end(self, trial: str) -> None:
        """A trial ended."""
        if trial in self._live and trial not in self._earlier:
            self._live -= self._silent
            self._silent.clear()
        self.forget(trial)

    def keep(self, trials: Iterable[str]) -> None:
        """After a restore: only these may be live, and nothing was heard of them yet."""
        self._live &= set(trials)
        self.begin_run()

    def forget(self, trial: str) -> None:
        """A trial is no more, or another goes on in its place."""
        self._live.discard(trial)
        self._silent.discard(trial)
