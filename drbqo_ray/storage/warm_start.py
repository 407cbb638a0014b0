"""Evaluations of an earlier run that a new one starts from.

They stand at the beginning of the new journal as its own asks and tells, marked as warm, so that
the new run needs the earlier one no more: it is replayed, resumed and reported as any other. What
is not valid in the new problem is left out, counted, and named.

| what has changed                 | what is taken                                                 |
|----------------------------------|---------------------------------------------------------------|
| a wider range, more options      | everything                                                    |
| a narrower range, fewer options  | configs that still lie in the space                           |
| a new parameter                  | everything, if `defaults` says what its value was             |
| a parameter that is gone         | nothing: its configs mean something else now                  |
| radius, method, kernel, seed     | everything                                                    |
| more or fewer folds              | folds with the same number; or, of samples, the same sample   |
| mode, or the data by fingerprint | refused: the scores do not mean the same                      |
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, cast

from drbqo_ray.errors import InvalidInput
from drbqo_ray.problem import Problem
from drbqo_ray.records import Config, Observation, fold_text
from drbqo_ray.storage.listing import find_run
from drbqo_ray.storage.stored_run import read_run, told_entry

Entry = tuple[str, dict[str, Any]]
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WarmStart:
    """An earlier run to start from.

    Attributes:
        storage: its directory, or an address such as s3://bucket/runs.
        name: its name below `storage`, if it has one.
        defaults: values that parameters of the new space had in the earlier run, by name.
    """

    storage: str | Path
    name: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(given: WarmStart | str | PathLike[str]) -> WarmStart:
        """The warm start that a user means."""
        if isinstance(given, WarmStart):
            return given
        if isinstance(given, (str, PathLike)):
            return WarmStart(str(given))
        raise InvalidInput(
            "A warm start is an earlier run.", given, 'Pass its directory, e.g. "runs/old".'
        )

    def carry(self, problem: Problem) -> Carried:
        """What of the earlier run is valid in a new problem; what is not, is logged.

        Raises:
            InvalidInput: scores of the two problems do not mean the same, a default is of no
                parameter, or nothing is valid.
            JournalError: the earlier run cannot be read.
        """
        earlier = read_run(find_run(self.storage, self.name).directory)
        self._check(earlier.problem, problem)
        folds = _folds(earlier.problem, problem)
        taken: list[Observation] = []
        left_out: Counter[str] = Counter()
        seeds: list[int] = []
        for seen in earlier.outcomes.values():
            if seen.context not in folds:
                called = fold_text(seen.context, earlier.problem.context_names)
                left_out[f"{called} is none of the {problem.n_folds} folds"] += 1
                continue
            try:
                config = self._config(seen.config, problem)
            except InvalidInput as error:
                left_out[error.rule] += 1
                continue
            seeds.append(earlier.suggestions[seen.id].seed)
            taken.append(replace(seen, id=len(taken), config=config, context=folds[seen.context]))
        carried = Carried(str(self.storage), taken, seeds, dict(left_out))
        if not taken:
            raise InvalidInput(
                "A warm start needs an evaluation that is valid in the new space.",
                carried.words(),
                "Widen the space, or state `defaults` of new parameters.",
            )
        _logger.log(logging.WARNING if left_out else logging.INFO, "%s", carried.words())
        return carried

    def _check(self, old: Problem, new: Problem) -> None:
        for name in self.defaults:
            if name not in new.space.parameters:
                raise InvalidInput(
                    "A default belongs to a parameter of the space.",
                    name,
                    f"Use one of {list(new.space.parameters)}.",
                )
        modes = [one.settings.get("mode", "max") for one in (old, new)]
        if modes[0] != modes[1]:
            raise InvalidInput(
                "Earlier scores must be better in the same direction.",
                f"mode {modes[0]!r} then, {modes[1]!r} now",
                "Use the same mode.",
            )
        if None not in (old.fingerprint, new.fingerprint) and old.fingerprint != new.fingerprint:
            raise InvalidInput(
                "Earlier scores must come from the same data.",
                f"fingerprint {old.fingerprint} then, {new.fingerprint} now",
                "Start without warm_start.",
            )
        if old.objective != new.objective:
            _logger.warning(
                "The warm start was scored by %r, this run is by %r: their scores must mean the"
                " same.",
                old.objective,
                new.objective,
            )

    def _config(self, config: Config, problem: Problem) -> Config:
        """The config in the new space; InvalidInput when it is not in it."""
        missing = {name: v for name, v in self.defaults.items() if name not in config}
        try:
            return problem.space.validate(config | missing)
        except InvalidInput:
            if not missing:
                raise
        return problem.space.validate(config)  # a default of a parameter that is not active


@dataclass(frozen=True)
class Carried:
    """What a run starts from.

    Attributes:
        source: where it comes from.
        taken: the outcomes, numbered anew.
        seeds: the seed of each of them.
        left_out: how many were left out, by the reason.
    """

    source: str
    taken: list[Observation]
    seeds: list[int]
    left_out: dict[str, int]

    def entries(self, problem: Problem) -> Iterator[Entry]:
        """The records of a journal that starts from it, always the same."""
        for seen, seed in zip(self.taken, self.seeds, strict=True):
            config = problem.plain_config(seen.config)
            asked = {"id": seen.id, "config": config, "context": seen.context, "seed": seed}
            yield "ask", asked | {"told": seen.id, "at": 0.0, "warm": True}
            yield told_entry(seen, 0.0)

    def words(self) -> str:
        """What was taken and what was not, as one line."""
        total = len(self.taken) + sum(self.left_out.values())
        text = f"Warm start from {self.source}: {len(self.taken)} of {total} evaluations taken"
        named = [f"{count} left out: {why.rstrip('.')}" for why, count in self.left_out.items()]
        return "; ".join([text, *named]) + "."


def _folds(old: Problem, new: Problem) -> dict[int, int]:
    """The fold of the new problem that each fold of the old one is: the one with its name where
    both have names, else the one with its number."""
    if old.context_names and new.context_names:
        numbers = {name: fold for fold, name in enumerate(new.context_names)}
        named = enumerate(old.context_names)
        return {fold: numbers[name] for fold, name in named if name in numbers}
    counted = [isinstance(one.contexts, int) or bool(one.context_names) for one in (old, new)]
    if all(counted):
        if old.n_folds != new.n_folds or old.context_names or new.context_names:
            _logger.warning(
                "There were %d folds and are %d: fold k of the warm start is taken for fold k.",
                old.n_folds,
                new.n_folds,
            )
        return {fold: fold for fold in range(min(old.n_folds, new.n_folds))}
    if any(counted):
        raise InvalidInput(
            "A warm start has folds if the run has, and samples if it has.",
            f"{old.n_folds} contexts then, {new.n_folds} now",
            "Pass contexts of the same kind.",
        )
    rows = [cast("list[list[float]]", one.contexts) for one in (old, new)]
    places = {tuple(row): k for k, row in enumerate(rows[1])}
    found = {k: places.get(tuple(row)) for k, row in enumerate(rows[0])}
    return {k: place for k, place in found.items() if place is not None}
