"""Points that the user wants evaluated first, and those evaluated earlier, read against a space."""

from __future__ import annotations

import copy
import numbers
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbqo_ray.errors import InvalidInput
from drbqo_ray.records import Config
from drbqo_ray.tune_searcher.space import TuneSpace

Pair = tuple[Config, int]


@dataclass(frozen=True)
class Folds:
    """Where the fold stands in a Tune config.

    Attributes:
        key: its key, None when there are no folds.
        count: number of folds, 1 when there are none.
    """

    key: str | None
    count: int

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
