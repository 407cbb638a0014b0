"""The maximizer on mixed spaces: it finds the best config and never leaves the space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from drbqo_ray.core.ascent import Effort
from drbqo_ray.core.maximize import candidates, climb, maximize, sobol
from drbqo_ray.space.parameters import Choice, Float, Int
from drbqo_ray.space.space import Space


@dataclass
class Fake:
    """An acquisition that is a plain function of model inputs, and remembers what it saw."""

    function: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray] = np.zeros_like
    seen: list[np.ndarray] = field(default_factory=list)

    def values(self, z: np.ndarray) -> np.ndarray:
        self.seen.append(z.copy())
        return self.function(z)[None]

    def __call__(self, z: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert not owner.any()
        return self.values(z)[0], self.slope(z)


@dataclass
class Several:
    """A few acquisitions side by side."""

    parts: list[Fake]

    def values(self, z: np.ndarray) -> np.ndarray:
        return np.concatenate([part.values(z) for part in self.parts])

    def __call__(self, z: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pairs = [self.parts[t](row[None], np.zeros(1)) for row, t in zip(z, owner, strict=True)]
        return np.concatenate([v for v, _ in pairs]), np.concatenate([g for _, g in pairs])


def best_of(fake: Fake, space: Space, incumbents: np.ndarray, rng: np.random.Generator):
    """The one point of one function."""
    (u,) = maximize(fake, space, incumbents, rng)
    return u


def hill(top: np.ndarray, width: np.ndarray | float = 1.0) -> Fake:
    return Fake(
        lambda z: -(((z - top) / width) ** 2).sum(axis=1), lambda z: -2 * (z - top) / width**2
    )


def mixed_space() -> Space:
    return Space(
        {
            "model": Choice(["svm", "knn", "tree"]),
            "C": Float(1e-3, 1e3, log=True, when={"model": ["svm"]}),
            "kernel": Choice(["rbf", "poly"], when={"model": ["svm"]}),
            "degree": Int(2, 6, when={"kernel": ["poly"]}),
            "neighbors": Int(1, 64, log=True, when={"model": ["knn"]}),
            "share": Float(0.1, 0.9, step=0.2, when={"model": ["tree"]}),
            "shrink": Float(-1.0, 1.0),
        }
    )


def test_the_peak_of_a_smooth_function_is_found_to_1e_6():
    space = Space({"a": Float(0, 1), "b": Float(-5, 5), "c": Float(1e-4, 1, log=True)})
    top = np.array([0.31, 0.77, 0.05])
    u = best_of(hill(top), space, np.empty((0, 3)), np.random.default_rng(0))
    np.testing.assert_allclose(u, top, rtol=0, atol=1e-6)
    config = space.from_unit(u)
    assert config["b"] == pytest.approx(-5 + 10 * 0.77, abs=1e-5)
    assert np.log10(config["c"]) == pytest.approx(-4 + 4 * 0.05, abs=1e-5)


def test_the_highest_of_many_peaks_is_found():
    space = Space({"a": Float(0, 1), "b": Float(0, 1)})
    rng = np.random.default_rng(0)
    tops, heights = rng.random((6, 2)), np.array([1.0, 0.9, 0.8, 0.7, 0.6, 0.5])

    def parts(z):
        gap = z[:, None, :] - tops
        return heights * np.exp(-40 * (gap**2).sum(axis=2)), gap

    fake = Fake(
        lambda z: parts(z)[0].sum(axis=1),
        lambda z: (-80 * parts(z)[0][:, :, None] * parts(z)[1]).sum(axis=1),
    )
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 301)] * 2), axis=-1).reshape(-1, 2)
    best = fake.function(grid).max()
    for seed in range(5):
        u = best_of(fake, space, np.empty((0, 2)), np.random.default_rng(seed))
        assert fake.function(u[None])[0] >= best - 1e-6


@pytest.mark.parametrize("seed", range(10))
def test_the_best_config_of_a_small_discrete_space_is_found_whatever_the_values(seed):
    space = Space(
        {
            "a": Choice(["x", "y", "z"]),
            "b": Int(1, 4),
            "c": Float(0.0, 0.5, step=0.1, when={"a": ["x"]}),
        }
    )
    grid = space.grid(1000)
    keys = [row.tobytes() for row in space.features(grid).round(9)]
    table = dict(zip(keys, np.random.default_rng(seed).random(len(keys)), strict=True))
    fake = Fake(lambda z: np.array([table[row.tobytes()] for row in z.round(9)]))
    u = best_of(fake, space, np.empty((0, 3)), np.random.default_rng(seed))
    assert fake.values(space.features(u[None]))[0] == max(table.values())


@pytest.mark.parametrize("seed", range(5))
def test_moves_along_long_integer_axes_reach_the_brute_force_optimum(seed):
    space = Space({"a": Int(1, 60), "b": Int(1, 1000, log=True)})
    grid = space.grid(10**6)
    rng = np.random.default_rng(seed)
    fake = hill(rng.random(2), np.array([1.0, 0.3]))
    best = grid[np.argmax(fake.values(space.features(grid)))]
    u = best_of(fake, space, np.empty((0, 2)), rng)
    assert space.from_unit(u) == space.from_unit(best)


def test_each_option_of_a_choice_gets_its_own_climb():
    space = Space({"k": Choice(["a", "b", "c", "d"]), "x": Float(0, 1)})
    tops, heights = np.array([0.1, 0.4, 0.6, 0.9]), np.array([0.0, 0.3, 0.2, 0.1])

    def function(z):
        return z[:, :4] @ heights - 9 * (z[:, 4] - z[:, :4] @ tops) ** 2

    def slope(z):
        g = np.zeros_like(z)
        g[:, 4] = -18 * (z[:, 4] - z[:, :4] @ tops)
        return g

    u = best_of(Fake(function, slope), space, np.empty((0, 2)), np.random.default_rng(0))
    assert space.from_unit(u)["k"] == "b"
    assert space.from_unit(u)["x"] == pytest.approx(0.4, abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_the_answer_and_every_point_looked_at_lie_in_the_space(seed):
    space = mixed_space()
    rng = np.random.default_rng(seed)
    fake = hill(rng.random(space.n_features))
    incumbents = space.snap(rng.random((4, len(space))))
    u = best_of(fake, space, incumbents, rng)

    config = space.from_unit(u)
    assert space.validate(config) == config
    np.testing.assert_allclose(space.to_unit(config), u, rtol=0, atol=1e-12)
    z = np.concatenate(fake.seen)
    assert z.min() >= 0
    assert z.max() <= 1
    discrete = ~space.continuous
    first = space.feature_columns
    for i in np.flatnonzero(discrete):
        item = list(space.parameters.values())[i]
        allowed = {0.5, 1 / max(item.n_features, 2)}
        allowed |= {0.0, 1.0} if isinstance(item, Choice) else set(_grid(item))
        columns = z[:, first[i] : first[i] + item.n_features]
        gaps = np.abs(columns.ravel()[:, None] - np.array(sorted(allowed)))
        assert gaps.min(axis=1).max() < 1e-12


def _grid(item: Float | Int) -> np.ndarray:
    return item.axis.position(np.arange(item.count))


def test_candidates_are_snapped_and_keep_the_incumbents():
    space = mixed_space()
    rng = np.random.default_rng(0)
    incumbents = space.snap(rng.random((3, len(space))))
    points = candidates(space, incumbents, rng)
    np.testing.assert_array_equal(points, space.snap(points))
    np.testing.assert_array_equal(points[-3:], incumbents)


def test_an_incumbent_that_cannot_be_beaten_is_kept():
    space = Space({"a": Float(0, 1), "b": Float(0, 1)})
    best = np.array([[0.123456789, 0.987654321]])
    needle = Fake(lambda z: np.where((z == best[0]).all(axis=1), 1.0, 0.0))
    u = best_of(needle, space, best, np.random.default_rng(0))
    np.testing.assert_array_equal(u, best[0])


def test_a_climb_moves_only_active_continuous_coordinates():
    space = mixed_space()
    start = space.snap(np.random.default_rng(1).random((6, len(space))))
    u, value = climb(
        hill(np.full(space.n_features, 0.3)), space, start, np.zeros(len(start), int), Effort()
    )
    still = ~(space.continuous & space.active(start))
    np.testing.assert_array_equal(u[still], start[still])
    np.testing.assert_allclose(u[:, -1], 0.3, rtol=0, atol=1e-6)
    assert (value >= hill(np.full(space.n_features, 0.3)).values(space.features(start))[0]).all()


def test_one_seed_gives_one_answer():
    space = mixed_space()
    fake = hill(np.full(space.n_features, 0.4))
    empty = np.empty((0, len(space)))
    first = best_of(fake, space, empty, np.random.default_rng(5))
    np.testing.assert_array_equal(first, best_of(fake, space, empty, np.random.default_rng(5)))


def test_sobol_points_fill_the_cube_and_differ_by_seed():
    points = sobol(3, 6, np.random.default_rng(0))
    assert points.shape == (64, 3)
    counts = np.histogramdd(points, bins=4, range=[(0, 1)] * 3)[0]
    np.testing.assert_array_equal(counts, 1)
    assert not np.array_equal(points, sobol(3, 6, np.random.default_rng(1)))


@pytest.mark.parametrize("fast", [False, True])
def test_several_functions_are_maximized_side_by_side(fast):
    space = mixed_space()
    tops = np.random.default_rng(4).random((8, space.n_features))
    several = Several([hill(top) for top in tops])
    U = maximize(several, space, np.empty((0, len(space))), np.random.default_rng(1), fast)
    together = several(space.features(U), np.arange(8))[0]
    for t, part in enumerate(several.parts):
        alone = best_of(part, space, np.empty((0, len(space))), np.random.default_rng(1))
        assert together[t] >= part.values(space.features(alone[None]))[0, 0] - 1e-5
