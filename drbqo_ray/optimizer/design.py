"""Which (config, context) pairs were handed out, and where a search starts.

| symbol | meaning                                     | shape  |
|--------|---------------------------------------------|--------|
| u      | a config as a snapped point                 | (p,)   |
| grid   | all configs of a small finite space         | (g, p) |
"""

from __future__ import annotations

import math

import numpy as np

from drbqo_ray.core.maximize import sobol
from drbqo_ray.records import Config
from drbqo_ray.space.space import Space
from drbqo_ray.types import Array

GRID_LIMIT = 4096
DRAWS = 4096


class Design:
    """The initial pairs, and the record of pairs that were handed out or evaluated.

    Args:
        space: the search space.
        n_contexts: number of contexts n.
        n_initial: number of pairs of the initial design.
        seed: seed of the initial design.
    """

    def __init__(self, space: Space, n_contexts: int, n_initial: int, seed: int) -> None:
        self._space = space
        self._n = n_contexts
        self._n_initial = n_initial
        self._seed = seed
        self._taken: dict[bytes, set[int]] = {}
        self._configs: dict[bytes, Config] = {}
        self._grid = space.grid(GRID_LIMIT)
        rows = [] if self._grid is None else [u.tobytes() for u in self._grid]
        self._row = {key: k for k, key in enumerate(rows)}
        self._free = np.ones(len(rows), dtype=bool)

    def take(self, u: Array, config: Config, context: int) -> None:
        """Mark a pair as handed out or evaluated; the first config at u stands for it from then."""
        key = u.tobytes()
        self._configs.setdefault(key, dict(config))
        taken = self._taken.setdefault(key, set())
        taken.add(context)
        if len(taken) == self._n and key in self._row:
            self._free[self._row[key]] = False

    def open_contexts(self, u: Array) -> list[int]:
        """Contexts in which u was not handed out yet; all of them if there are none left."""
        taken = self._taken.get(u.tobytes(), set())
        rest = [i for i in range(self._n) if i not in taken]
        return rest or list(range(self._n))

    def best_open(self, u: Array, merit: Array) -> int:
        """Of the contexts in which u was not handed out yet the one of highest merit (n,)."""
        contexts = self.open_contexts(u)
        return contexts[int(np.argmax(merit[contexts]))]

    def known(self, u: Array) -> Config | None:
        """The config at the snapped point u (p,) as it was first told or handed out, if it was."""
        return self._configs.get(u.tobytes())

    def config_at(self, u: Array) -> Config:
        """The config to train at the settled point u (p,), the same for every context."""
        return dict(self.known(u) or self._space.from_unit(u))

    def left(self, u: Array) -> int:
        """Number of contexts in which u was not handed out yet."""
        return self._n - len(self._taken.get(u.tobytes(), ()))

    def is_open(self, u: Array, reserved: int = 0) -> bool:
        """Whether u has more than `reserved` contexts in which it was not handed out yet."""
        return self.left(u) > reserved

    def spread(self, choices: Array, values: Array) -> Array:
        """For each row of values (T, k) the best of the choices (k, p) that has a context to spare
        once the rows before it took theirs; the best of all if there is none."""
        reserved = np.zeros(len(choices), dtype=int)
        picks = []
        for row in values:
            order = iter(np.argsort(-row, kind="stable"))
            spare = (k for k in order if self.is_open(choices[k], int(reserved[k])))
            best = next(spare, int(np.argmax(row)))
            reserved[best] += 1
            picks.append(best)
        return choices[picks]

    @property
    def choices(self) -> Array | None:
        """Configs (k, p) of a small finite space to choose from: those with an open context,
        or all once there are none. None if the space is not small and finite."""
        if self._grid is None:
            return None
        return self._grid if self.exhausted else self._grid[self._free]

    @property
    def exhausted(self) -> bool:
        """Whether every pair of a small finite space was handed out."""
        return self._grid is not None and not self._free.any()

    def initial_pair(self, turn: int, rng: np.random.Generator) -> tuple[Array, int]:
        """Pair number `turn` of the design: Sobol points, contexts taking turns at random."""
        if turn >= self._n_initial:
            return self.uniform_pair(rng)
        own = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(2**32 - 1,)))
        points = sobol(len(self._space), math.ceil(math.log2(self._n_initial)), own)
        cycles = -(-self._n_initial // self._n)
        order = np.concatenate([own.permutation(self._n) for _ in range(cycles)])
        return self._open_pair(points[turn], int(order[turn]), rng)

    def uniform_pair(self, rng: np.random.Generator) -> tuple[Array, int]:
        """A pair drawn uniformly."""
        return self._open_pair(rng.random(len(self._space)), int(rng.integers(self._n)), rng)

    def _open_pair(self, u: Array, context: int, rng: np.random.Generator) -> tuple[Array, int]:
        """The pair, or another one if it was handed out before and there is an open one."""
        u = self.settle(u)
        if not self.is_open(u):
            u = self.other(u, rng)
        contexts = self.open_contexts(u)
        return u, context if context in contexts else int(rng.choice(contexts))

    def other(self, u: Array, rng: np.random.Generator) -> Array:
        """A random config with an open context, u itself if none is found."""
        if self.choices is not None:
            return self.choices[rng.integers(len(self.choices))]
        draws = (self.settle(rng.random(len(u))) for _ in range(DRAWS))
        return next((v for v in draws if self.is_open(v)), u)

    def settle(self, u: Array) -> Array:
        """The snapped point of the config at u, as it comes back from the config itself."""
        if u.tobytes() in self._configs:
            return u
        return self._space.to_unit(self._space.from_unit(u))
