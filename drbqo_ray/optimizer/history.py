"""What has been evaluated, as arrays for the model and as a table of distinct configs.

| symbol | meaning                                        | shape  |
|--------|------------------------------------------------|--------|
| Z      | model inputs of the evaluations, in order told | (N, d) |
| c      | their context indices                          | (N,)   |
| y      | their scores, larger is better, NaN if failed  | (N,)   |
| costs  | what they cost, NaN where that was not told    | (N,)   |
| U      | snapped points of the distinct configs         | (m, p) |

A pair that is trained again, with another seed, is a *repeat*. What its scores differ by is noise
of the seed. A repeat that scores exactly as before shows that training repeats and says nothing
more of the process, so the model does not see it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from drbqo_ray.records import Config
from drbqo_ray.space.space import Space
from drbqo_ray.types import Array, Indices


class Column:
    """A growing array: rows are appended, a view of all rows is free."""

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._data = np.empty((16, *shape), dtype=dtype)
        self._size = 0

    def append(self, row: npt.ArrayLike) -> None:
        """Add one row."""
        if self._size == len(self._data):
            self._data = np.concatenate([self._data, np.empty_like(self._data)])
        self._data[self._size] = row
        self._size += 1

    @property
    def rows(self) -> npt.NDArray[Any]:
        """All rows so far."""
        return self._data[: self._size]

    @staticmethod
    def of(rows: npt.NDArray[Any]) -> Column:
        """A growing array that begins with a copy of some rows, at least one."""
        column = Column(rows.shape[1:], rows.dtype)
        column._data, column._size = rows.copy(), len(rows)
        return column


class History:
    """Evaluations in the order they were told, and the distinct configs among them.

    Attributes:
        configs: the distinct configs, in the order first told.
    """

    def __init__(self, space: Space, n_contexts: int) -> None:
        self._space = space
        self._sums = Column((n_contexts,), np.float64)
        self._counts = Column((n_contexts,), np.float64)
        self._Z = Column((space.n_features,), np.float64)
        self._c = Column((), np.int64)
        self._y = Column((), np.float64)
        self._costs = Column((), np.float64)
        self._U = Column((len(space),), np.float64)
        self._config_Z = Column((space.n_features,), np.float64)
        self.configs: list[Config] = []
        self._number: dict[bytes, int] = {}
        self._failed: set[int] = set()
        self._numbers = Column((), np.int64)
        self._first: dict[tuple[int, int], float] = {}
        self._exact = Column((), np.bool_)
        self._differing = Column((), np.float64)

    def __len__(self) -> int:
        return len(self._y.rows)

    @property
    def Z(self) -> Array:
        """Model inputs (N, d)."""
        return self._Z.rows

    @property
    def c(self) -> Indices:
        """Context indices (N,)."""
        return self._c.rows

    @property
    def y(self) -> Array:
        """Scores (N,), larger is better, NaN where an evaluation failed."""
        return self._y.rows

    @property
    def costs(self) -> Array:
        """What each evaluation cost (N,), NaN where that was not told."""
        return self._costs.rows

    @property
    def numbers(self) -> Indices:
        """Number of the config of each evaluation (N,)."""
        return self._numbers.rows

    @property
    def U(self) -> Array:
        """Distinct configs as snapped points (m, p), in the order first told."""
        return self._U.rows

    @property
    def config_Z(self) -> Array:
        """Distinct configs as model inputs (m, d)."""
        return self._config_Z.rows

    @property
    def usable(self) -> Indices:
        """Numbers of the distinct configs without a failed fold."""
        kept = [k for k in range(len(self.U)) if k not in self._failed]
        return np.array(kept, dtype=np.int64)

    def table(self, numbers: Indices) -> Array:
        """Mean score of configs in every context, NaN where there is none: (k,) -> (k, n)."""
        sums, counts = self._sums.rows[numbers], self._counts.rows[numbers]
        return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)

    def counts(self, numbers: Indices) -> Array:
        """How many scores configs have in every context: (k,) -> (k, n)."""
        return np.asarray(self._counts.rows[numbers])

    def n_scores(self, u: Array, context: int) -> int:
        """How many scores the config at its snapped point u (p,) has in a context."""
        number = self.number_of(u)
        return 0 if number is None else int(self._counts.rows[number, context])

    @property
    def n_exact(self) -> int:
        """Number of repeats that scored exactly as the first time."""
        return int(np.count_nonzero(self._exact.rows))

    @property
    def n_differing(self) -> int:
        """Number of repeats that scored otherwise."""
        return int(np.count_nonzero(~np.isnan(self._differing.rows)))

    @property
    def seed_variance(self) -> float:
        """Variance of a score over seeds as the repeats have it; 0 without any."""
        repeats = self.n_exact + self.n_differing
        return float(np.nansum(self._differing.rows)) / max(repeats, 1)

    def model_data(self) -> tuple[Array, Indices, Array]:
        """Inputs (k, d), context indices (k,) and scores (k,) for the model, exact repeats left
        out; a failed evaluation counts as the worst score so far."""
        Z, c, y = self.Z, self.c, self.scores()
        if not self._exact.rows.any():
            return Z, c, y
        news = ~self._exact.rows
        return Z[news], c[news], y[news]

    def middling_row(self) -> int:
        """The evaluation, of a pair that was trained once, whose score is nearest to the median."""
        once = self._counts.rows[self.numbers, self.c] == 1
        gaps = np.abs(self.y - np.nanmedian(self.y))
        return int(np.nanargmin(np.where(once | ~once.any(), gaps, np.nan)))

    @property
    def model_size(self) -> int:
        """Number of evaluations that the model sees."""
        return len(self) - self.n_exact

    def number_of(self, u: Array) -> int | None:
        """Number of the config at its snapped point u (p,), None if it was not evaluated."""
        return self._number.get(u.tobytes())

    def best_rows(self, count: int) -> Indices:
        """Numbers of the distinct configs of the `count` best scores, each judged against the
        mean of its own context."""
        y = self.scores()
        totals = np.bincount(self.c, weights=y)
        means = totals / np.maximum(np.bincount(self.c), 1)
        order = np.argsort(means[self.c] - y, kind="stable")[:count]
        return np.unique(self._numbers.rows[order])

    def scores(self) -> Array:
        """Scores (N,) for the model: a failed evaluation counts as the worst score so far."""
        y = self._y.rows.astype(np.float64)
        failed = np.isnan(y)
        if failed.any():
            y[failed] = np.min(y[~failed]) if (~failed).any() else 0.0
        return y

    @property
    def n_ok(self) -> int:
        """Number of evaluations with a score."""
        return int(np.count_nonzero(~np.isnan(self._y.rows.astype(np.float64))))

    def first(self, size: int) -> History:
        """A history of its own of the first `size` evaluations, at least one."""
        numbers, c, y = self.numbers[:size], self.c[:size], self.y[:size]
        known, ok = int(numbers.max()) + 1, ~np.isnan(y)
        sums, counts = np.zeros((2, known, self._sums.rows.shape[1]))
        np.add.at(sums, (numbers[ok], c[ok]), y[ok])
        np.add.at(counts, (numbers[ok], c[ok]), 1.0)
        cut = History(self._space, sums.shape[1])
        cut._sums, cut._counts = Column.of(sums), Column.of(counts)
        cut._Z, cut._c, cut._y = Column.of(self.Z[:size]), Column.of(c), Column.of(y)
        cut._U, cut._config_Z = Column.of(self.U[:known]), Column.of(self.config_Z[:known])
        cut._numbers, cut._failed = Column.of(numbers), set(numbers[~ok].tolist())
        cut._exact, cut._costs = Column.of(self._exact.rows[:size]), Column.of(self.costs[:size])
        cut._differing = Column.of(self._differing.rows[:size])
        cut.configs = self.configs[:known]
        cut._number = {key: number for key, number in self._number.items() if number < known}
        return cut

    def add(
        self,
        config: Config,
        u: Array,
        context: int,
        score: float | None,
        cost: float | None = None,
    ) -> None:
        """Record an evaluation of a config at its snapped point u (p,); no score: it failed."""
        key = u.tobytes()
        z = self._space.features(u[None])[0]
        if key not in self._number:
            self._number[key] = len(self.U)
            self.configs.append(config)
            self._U.append(u)
            self._config_Z.append(z)
            self._sums.append(0.0)
            self._counts.append(0.0)
        number = self._number[key]
        self._numbers.append(number)
        self._note_repeat(number, context, score)
        if score is None:
            self._failed.add(number)
        else:
            self._sums.rows[number, context] += score
            self._counts.rows[number, context] += 1.0
        self._Z.append(z)
        self._c.append(context)
        self._y.append(np.nan if score is None else score)
        self._costs.append(np.nan if cost is None else cost)

    def _note_repeat(self, number: int, context: int, score: float | None) -> None:
        """Whether the score repeats an earlier one of its pair, or what it adds to their spread."""
        exact, added = False, np.nan
        if score is not None:
            exact = score == self._first.setdefault((number, context), score)
            count = self._counts.rows[number, context]
            exact = exact and count > 0
            if count > 0 and not exact:
                mean = self._sums.rows[number, context] / count
                added = (score - mean) ** 2 * count / (count + 1)
        self._exact.append(exact)
        self._differing.append(added)
