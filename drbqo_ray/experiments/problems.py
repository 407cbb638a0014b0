"""What a cell of the grid works on: a space, contexts, evaluations, and how a point is judged.

A `ProblemSpec` is plain data that travels to the workers and into the journals; `open_problem`
makes the problem of one seed from it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from drbqo_ray.experiments.synthetic import Surface, find_surface
from drbqo_ray.records import Config
from drbqo_ray.space.space import Space


@dataclass(frozen=True)
class ProblemSpec:
    """A problem by name.

    Attributes:
        kind: "surface" for a test function, or "module:Class" of a fold objective.
        name: the test function or the data set.
        options: further arguments of the fold objective, as (name, value) pairs.
        split_by_seed: whether each seed has a train/test split and folds of its own.
        judge_all: whether every reported config is judged on all contexts and on the test set;
            else only the final reports are, on the test set.
    """

    kind: str
    name: str
    options: tuple[tuple[str, Any], ...] = ()
    split_by_seed: bool = False
    judge_all: bool = True


@dataclass(frozen=True)
class Judgment:
    """What a reported config is really worth.

    Attributes:
        contexts: its score in every context (n,), None if that was not computed.
        test_error: its error on the test set, None if there is no test set.
    """

    contexts: tuple[float, ...] | None = None
    test_error: float | None = None


class Opened(Protocol):
    """One problem, opened for one seed."""

    @property
    def space(self) -> Space:
        """The search space."""

    @property
    def contexts(self) -> int | list[list[float]]:
        """Number of folds, or sample vectors (n, m)."""

    def evaluate(self, config: Config, context: int, seed: int) -> float:
        """The score of a config in one context."""

    def judge(self, config: Config) -> Judgment:
        """What the config is really worth; the search never sees this."""


class SurfaceProblem:
    """A noiseless test function."""

    def __init__(self, surface: Surface) -> None:
        self.surface = surface
        self.contexts: int | list[list[float]] = surface.samples.tolist()
        box = {"type": "float", "low": surface.low, "high": surface.high}
        self.space = Space({f"x{k}": dict(box) for k in range(surface.d)})

    def _values(self, config: Config) -> list[float]:
        x = np.array([[config[name] for name in self.space]])
        return [float(v) for v in self.surface.values(x)[0]]

    def evaluate(self, config: Config, context: int, seed: int) -> float:
        """The value at the sample; the seed is not used."""
        return self._values(config)[context]

    def judge(self, config: Config) -> Judgment:
        """The values at all samples."""
        return Judgment(contexts=tuple(self._values(config)))


class FoldProblem:
    """A model tuned by cross-validation; scores are accuracies."""

    def __init__(self, spec: ProblemSpec, seed: int) -> None:
        module, _, attribute = spec.kind.partition(":")
        options = dict(spec.options)
        if spec.split_by_seed:
            options["split_seed"] = seed
        maker = getattr(importlib.import_module(module), attribute)
        self._objective = maker(dataset=spec.name, **options)
        self._seed = seed
        self._judge_all = spec.judge_all
        self.contexts: int | list[list[float]] = int(self._objective.n_folds)
        self.space = Space(self._objective.space)

    def load(self) -> None:
        """Read the data now, so that missing files are noticed before anything is started."""
        _ = self._objective.split

    def evaluate(self, config: Config, context: int, seed: int) -> float:
        """Accuracy on one fold."""
        return float(self._objective(config, context, seed))

    def judge(self, config: Config) -> Judgment:
        """Error on the test set after training on all folds, and the folds if they are cheap."""
        error = float(self._objective.evaluate_final(config, self._seed)["test_error"])
        if not self._judge_all:
            return Judgment(test_error=error)
        folds = range(self._objective.n_folds)
        scores = tuple(float(self._objective(config, fold, self._seed)) for fold in folds)
        return Judgment(scores, error)


def open_problem(spec: ProblemSpec, seed: int) -> SurfaceProblem | FoldProblem:
    """The problem that a spec describes, for one seed."""
    if spec.kind == "surface":
        return SurfaceProblem(find_surface(spec.name))
    return FoldProblem(spec, seed)


def initial_pairs(problem: Opened, seed: int, count: int) -> list[tuple[Config, int]]:
    """The uniformly random pairs (config, context) that every method starts from."""
    n = problem.contexts if isinstance(problem.contexts, int) else len(problem.contexts)
    random = np.random.RandomState(1000 + seed)
    points = random.uniform(0, 1, (count, len(problem.space)))
    contexts = random.randint(0, n, count)
    configs = [problem.space.from_unit(u) for u in points]
    return [(config, int(i)) for config, i in zip(configs, contexts, strict=True)]
