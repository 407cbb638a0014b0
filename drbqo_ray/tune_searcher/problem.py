"""What a Tune searcher searches for: space, folds, metric, the settings of its optimizer, and the
points it starts from.
"""

from __future__ import annotations

import copy
import numbers
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from drbqo_ray.core.contexts import context_names
from drbqo_ray.core.sets import Expectation, from_dict
from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.problem import DEFAULTS
from drbqo_ray.records import Config
from drbqo_ray.space.parameters import Float
from drbqo_ray.space.space import Space
from drbqo_ray.storage.journal import refuse_changes
from drbqo_ray.tune_searcher.space import TuneSpace
from drbqo_ray.types import plain

SAVED = ("method", "uncertainty", "seed", "stop_when")
"""Settings that every saved state has; others are there if they were given."""
Pair = tuple[Config, int]


@dataclass(frozen=True)
class TuneProblem:
    """The problem, as far as it is known.

    Attributes:
        folds: the folds and their key in a config.
        reported: which report of a trial is its score, "last" or "best".
        settings: keyword arguments of `Optimizer`, without the mode.
        space: the search space, None until Tune gives it.
        given: whether the user gave the space, so that Tune must not.
        metric, mode: name of the score and its direction, None until Tune gives them.
    """

    folds: Folds
    reported: str
    settings: dict[str, Any]
    space: TuneSpace | None = None
    given: bool = False
    metric: str | None = None
    mode: str | None = None

    @staticmethod
    def of(
        space: Mapping[str, Any] | Space | None,
        n_folds: int | Sequence[str] | None,
        fold_key: str,
        reported: str,
        settings: Mapping[str, Any],
    ) -> TuneProblem:
        """The problem a user states, everything in it checked and turned into plain Python.

        Raises:
            InvalidInput: a setting is wrong.
        """
        n_folds, fold_key, reported = plain((n_folds, fold_key, reported))
        chosen: dict[str, Any] = plain({**{name: DEFAULTS[name] for name in SAVED}, **settings})
        names = context_names(n_folds)
        count = len(names) if names else n_folds
        if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
            raise InvalidInput(
                "n_folds is a whole number >= 1, or names of the folds.",
                n_folds,
                "Pass e.g. 5, or None for no folds.",
            )
        if not isinstance(fold_key, str) or not fold_key:
            raise InvalidInput("fold_key is a non-empty string.", fold_key, "Leave it out.")
        if not isinstance(reported, str) or reported not in ("last", "best"):
            raise InvalidInput("reported must be 'last' or 'best'.", reported, "Pass one of them.")
        folds = Folds(None, 1) if count is None else Folds(fold_key, count, names)
        uncertainty = Optimizer({"x": Float(0, 1)}, folds.count, **chosen).uncertainty
        chosen["uncertainty"] = Expectation() if n_folds is None else uncertainty
        if chosen.get("reference") is not None:
            chosen["reference"] = [float(weight) for weight in chosen["reference"]]
        problem = TuneProblem(folds, reported, chosen)
        return problem if space is None else problem.with_space(space, given=True)

    def with_space(self, space: Mapping[str, Any] | Space, given: bool = False) -> TuneProblem:
        """The problem with a search space, which stays as it is where nothing is to be searched.

        Raises:
            InvalidInput: the space cannot be searched, or sets the fold.
        """
        found = TuneSpace.of(space)
        if found is None and given:
            raise InvalidInput(
                "A search space has something to search.", space, "Use tune.uniform and others."
            )
        if self.folds.key in space:
            raise InvalidInput(
                f"The searcher itself sets {self.folds.key!r}.",
                list(space),
                "Take it out of the search space, or pass another fold_key.",
            )
        return self if found is None else replace(self, space=found, given=given)

    def with_metric(self, metric: object, mode: object) -> TuneProblem:
        """The problem with metric and mode, where they are not None.

        Raises:
            InvalidInput: one of them is wrong.
        """
        metric, mode = plain((metric, mode))
        if metric is not None and not isinstance(metric, str):
            raise InvalidInput("metric is the name of one score.", metric, "Pass one name.")
        if mode is not None and (not isinstance(mode, str) or mode not in ("min", "max")):
            raise InvalidInput("mode must be 'min' or 'max'.", mode, "Pass one of them.")
        return replace(self, metric=metric or self.metric, mode=mode or self.mode)

    def maker(self) -> partial[Optimizer]:
        """Makes the optimizer, once space and mode are known."""
        assert self.space is not None
        mode: Any = self.mode
        return partial(Optimizer, self.space.space, self.folds.contexts, mode=mode, **self.settings)

    def refuse_change_to(self, other: TuneProblem, where: str) -> None:
        """Raise ProblemChanged if what is known in both differs."""
        if self.space is not None and other.space is not None:
            other.space.refuse_change(self.space.to_dict(), where)
        names = ("metric", "mode")
        old, new = ({name: getattr(one, name) for name in names} for one in (self, other))
        both = [name for name in names if old[name] is not None and new[name] is not None]
        refuse_changes({n: old[n] for n in both}, {n: new[n] for n in both}, where)

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form; objects in the space are described, not stored."""
        settings = {**self.settings, "uncertainty": self.settings["uncertainty"].to_dict()}
        return {
            "folds": self.folds.to_dict(),
            "reported": self.reported,
            "settings": settings,
            "space": None if self.space is None else self.space.to_dict(),
            "given": self.given,
            "metric": self.metric,
            "mode": self.mode,
        }

    @staticmethod
    def from_dict(stored: Mapping[str, Any], space: TuneSpace | None) -> TuneProblem:
        """The problem with this plain-data form, on the space, if given, that it describes.

        Raises:
            ProblemChanged: the space is another one.
            InvalidInput: the plain data holds objects, and no space is given.
        """
        if space is not None and stored["space"] is not None:
            space.refuse_change(stored["space"], "the saved state")
        elif stored["space"] is not None:
            space = TuneSpace.from_dict(stored["space"])
        settings = stored["settings"]
        return TuneProblem(
            folds=Folds.from_dict(stored["folds"]),
            reported=stored["reported"],
            settings={**settings, "uncertainty": from_dict(settings["uncertainty"])},
            space=space,
            given=stored["given"],
            metric=stored["metric"],
            mode=stored["mode"],
        )


@dataclass(frozen=True)
class Folds:
    """Where the fold stands in a Tune config.

    Attributes:
        key: its key, None when there are no folds.
        count: number of folds, 1 when there are none.
        names: their names in order; empty where they are counted.
    """

    key: str | None
    count: int
    names: tuple[str, ...] = ()

    @property
    def contexts(self) -> int | tuple[str, ...]:
        """The folds as `Optimizer` takes them."""
        return self.names or self.count

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form; without names, that of versions that had none."""
        named = {"names": list(self.names)} if self.names else {}
        return {"key": self.key, "count": self.count, **named}

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> Folds:
        """The folds with this plain-data form."""
        return Folds(stored["key"], stored["count"], tuple(stored.get("names", ())))

    def of(self, config: Mapping[str, Any]) -> int | None:
        """The fold in a config; None if it names none.

        Raises:
            InvalidInput: it is not a fold that exists.
        """
        if self.key is None:
            return 0
        fold = config.get(self.key)
        if fold is None:
            return None
        whole = isinstance(fold, numbers.Integral) and not isinstance(fold, bool)
        if not whole or not 0 <= fold < self.count:
            raise InvalidInput(
                f"{self.key!r} is a whole number in 0..{self.count - 1}.",
                fold,
                "Count folds from 0.",
            )
        return int(fold)

    def needed(self, config: Mapping[str, Any]) -> int:
        """The fold in a config that must name one.

        Raises:
            InvalidInput: it names none, or one that does not exist.
        """
        fold = self.of(config)
        if fold is None:
            raise InvalidInput(
                "A score belongs to one fold.", dict(config), f"Add {self.key!r} to the point."
            )
        return fold

    def without(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The config without its fold."""
        return {key: value for key, value in config.items() if key != self.key}


def check_points(points: object, rewards: object) -> None:
    """Raise InvalidInput unless points are dicts in a list, and rewards as many or None."""
    listed = isinstance(points, (list, tuple)) and all(isinstance(p, Mapping) for p in points)
    if points is not None and not listed:
        raise InvalidInput(
            "points_to_evaluate is a list of configs.", points, 'Write [{"C": 1.0, "fold": 0}].'
        )
    if rewards is None:
        return
    many = len(points) if isinstance(points, (list, tuple)) else 0
    if not isinstance(rewards, (list, tuple, np.ndarray)) or len(rewards) != many:
        raise InvalidInput(
            "evaluated_rewards has one entry for each of points_to_evaluate.",
            rewards,
            f"Pass a list of {many}, with None for points that are still to be run.",
        )


@dataclass
class StartingPoints:
    """What a search starts from, before its space is known.

    Attributes:
        wanted: points to run.
        told: points with their rewards.
    """

    wanted: list[Mapping[str, Any]]
    told: list[tuple[Mapping[str, Any], Any]]

    @staticmethod
    def of(points: object, rewards: object) -> StartingPoints:
        """The points a user gives; those without a reward are to be run.

        Raises:
            InvalidInput: points or rewards have the wrong form.
        """
        check_points(points, rewards)
        copied: Any = copy.deepcopy(points or ())
        scores: Any = [None] * len(copied) if rewards is None else rewards
        pairs = list(zip(copied, scores, strict=True))
        return StartingPoints(
            [point for point, score in pairs if score is None],
            [(point, score) for point, score in pairs if score is not None],
        )

    def read(
        self, space: TuneSpace, folds: Folds, seed: int
    ) -> tuple[deque[Pair], list[tuple[Config, int, Any]]]:
        """The evaluations to run, and those known as (config, fold, score).

        Raises:
            InvalidInput: a point is not in the space.
        """
        seeds = np.random.SeedSequence(seed, spawn_key=(2**32 - 2,))
        queue = to_run(self.wanted, space, folds, np.random.default_rng(seeds))
        known = [evaluated(point, reward, space, folds) for point, reward in self.told]
        return queue, [triple for triples in known for triple in triples]


def to_run(
    points: Sequence[Mapping[str, Any]], space: TuneSpace, folds: Folds, rng: np.random.Generator
) -> deque[Pair]:
    """The points as evaluations in order.

    Values that a point leaves out are drawn at random; points without a fold take turns.

    Raises:
        InvalidInput: a point is not in the space.
    """
    queue: deque[Pair] = deque()
    turn = 0
    for point in points:
        fold = folds.of(point)
        if fold is None:
            fold, turn = turn % folds.count, turn + 1
        values = space.read(folds.without(point), strict=True)
        queue.append((space.complete(values, rng), fold))
    return queue


def evaluated(
    point: Mapping[str, Any], reward: Any, space: TuneSpace, folds: Folds
) -> list[tuple[Config, int, Any]]:
    """The (config, fold, score) triples in an evaluated point.

    Args:
        point: a config with its fold, which may hold anything else besides.
        reward: its score; or a list of the scores in all folds, None where there is none.
        space, folds: where it is read against.

    Raises:
        InvalidInput: the point is not in the space, or names no fold.
    """
    config = space.space.validate(space.read(folds.without(point)))
    if not isinstance(reward, (list, tuple)) and np.ndim(reward) == 0:
        return [(config, folds.needed(point), reward)]
    if len(reward) != folds.count:
        raise InvalidInput(
            f"A point has one score, or one for each of the {folds.count} folds.",
            reward,
            "Put None for folds that were not evaluated.",
        )
    return [(config, fold, score) for fold, score in enumerate(reward) if score is not None]
