"""The batched ascent: smooth hills, curved ridges, kinks, bounds, fixed coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from drbqo_ray.core.ascent import Effort, ascend, top_rows

DIMENSIONS = (1, 2, 3, 5)


def everywhere(x: np.ndarray) -> np.ndarray:
    return np.ones(x.shape, dtype=bool)


def climb(objective, starts: np.ndarray, iterations: int, free: np.ndarray | None = None):
    """All starts on one function."""
    free = everywhere(starts) if free is None else free
    owner = np.zeros(len(starts), dtype=int)
    return ascend(lambda x, _: objective(x), starts, owner, free, Effort(iterations))


def one_by_one(objective, starts: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Each start on its own: in company only the best go on after a few steps."""
    ends = [climb(objective, start[None], iterations) for start in starts]
    return np.concatenate([x for x, _ in ends]), np.concatenate([value for _, value in ends])


def quadratic(top: np.ndarray, Q: np.ndarray):
    def objective(x):
        gap = x - top
        return -0.5 * np.einsum("si,ij,sj->s", gap, Q, gap), -gap @ Q

    return objective


def cone(top: np.ndarray, A: np.ndarray):
    """min over the rows a of A of a'(x - top): highest at the top if 0 is inside their hull."""

    def objective(x):
        values = (x - top) @ A.T
        return values.min(axis=1), A[values.argmin(axis=1)]

    return objective


@pytest.mark.parametrize("d", DIMENSIONS)
def test_a_quadratic_is_climbed_from_every_start(d):
    rng = np.random.default_rng(d)
    top, root = 0.2 + 0.6 * rng.random(d), rng.standard_normal((d, d))
    objective = quadratic(top, root @ root.T + 0.1 * np.eye(d))
    starts = rng.random((8, d))
    x, value = one_by_one(objective, starts, 60)
    assert np.abs(x - top).max() < 1e-6
    np.testing.assert_allclose(value, objective(x)[0], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("d", [2, 3])
def test_the_curved_ridge_of_rosenbrock_is_followed(d):
    def objective(x):
        z = 4 * x - 2
        a, b = z[:, :-1], z[:, 1:]
        ridge = b - a**2
        slope = np.zeros_like(z)
        slope[:, :-1] += 400 * ridge * a - 2 * (a - 1)
        slope[:, 1:] -= 200 * ridge
        return -(100 * ridge**2 + (a - 1) ** 2).sum(axis=1), 4 * slope

    starts = np.random.default_rng(0).random((6, d))
    x, value = climb(objective, starts, 200)
    assert np.abs(x[value.argmax()] - 0.75).max() < 1e-5


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_top_of_a_kinked_cone_is_reached(d, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((6 * d, d))
    top = 0.2 + 0.6 * rng.random(d)
    starts = rng.random((8, d))
    objective = cone(top, A - A.mean(axis=0))
    x, value = climb(objective, starts, 100)
    assert np.abs(x[value.argmax()] - top).max() < 1e-6
    alone, _ = one_by_one(objective, starts, 100)
    assert (np.abs(alone - top).max(axis=1) < 1e-4).mean() > 0.5


@pytest.mark.parametrize("d", DIMENSIONS)
def test_a_pyramid_with_axis_parallel_kinks_is_climbed(d):
    rng = np.random.default_rng(d)
    top, starts = 0.2 + 0.6 * rng.random(d), rng.random((8, d))

    def pyramid(x):
        return -np.abs(x - top).sum(axis=1), -np.sign(x - top)

    x, value = climb(pyramid, starts, 100)
    assert np.abs(x[value.argmax()] - top).max() < 1e-6
    alone, _ = one_by_one(pyramid, starts, 100)
    assert np.abs(alone - top).max() < 1e-5


def test_a_hill_outside_the_box_is_climbed_to_the_nearest_face():
    objective = quadratic(np.array([1.7, 0.4, -0.3]), np.eye(3))
    starts = np.random.default_rng(0).random((6, 3))
    x, _ = one_by_one(objective, starts, 60)
    np.testing.assert_allclose(x, np.tile([1.0, 0.4, 0.0], (6, 1)), rtol=0, atol=1e-6)


def test_no_point_outside_the_box_is_ever_evaluated():
    seen = []
    objective = quadratic(np.array([3.0, -2.0]), np.array([[1.0, 0.9], [0.9, 1.0]]))

    def watched(x):
        seen.append(x.copy())
        return objective(x)

    starts = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]])
    climb(watched, starts, 40)
    points = np.concatenate(seen)
    assert points.min() >= 0
    assert points.max() <= 1


def test_coordinates_that_are_not_free_stay_bit_for_bit():
    rng = np.random.default_rng(3)
    starts, top = rng.random((6, 3)), np.array([0.3, 0.6, 0.9])
    free = np.array([[True, False, True], [False, True, True], [False, False, False]] * 2)
    x, _ = climb(quadratic(top, np.eye(3)), starts, 60, free)
    np.testing.assert_array_equal(x[~free], starts[~free])
    np.testing.assert_allclose(x[free], np.tile(top, (6, 1))[free], rtol=0, atol=1e-6)


def test_a_start_never_ends_lower_and_the_starts_are_left_alone():
    rng = np.random.default_rng(0)
    starts = rng.random((10, 2))
    kept = starts.copy()

    def wiggles(x):
        return np.sin(25 * x).sum(axis=1), 25 * np.cos(25 * x)

    _, together = climb(wiggles, starts, 30)
    x, value = one_by_one(wiggles, starts, 30)
    np.testing.assert_array_equal(starts, kept)
    assert (together >= wiggles(starts)[0]).all()
    assert (value >= wiggles(starts)[0]).all()
    assert np.abs(wiggles(x)[1][(x > 0) & (x < 1)]).max() < 1e-3


def test_a_flat_function_leaves_every_start_where_it_is():
    starts = np.random.default_rng(0).random((4, 2))
    x, value = climb(lambda x: (np.zeros(len(x)), np.zeros_like(x)), starts, 20)
    np.testing.assert_array_equal(x, starts)
    np.testing.assert_array_equal(value, 0.0)


def test_in_company_the_best_starts_go_on_to_the_top():
    rng = np.random.default_rng(8)
    top = np.array([0.3, 0.5, 0.7])
    objective = quadratic(top, np.diag([1.0, 5.0, 300.0]))
    starts = rng.random((10, 3))
    x, value = climb(objective, starts, 60)
    best = np.argsort(-value)[:2]
    assert np.abs(x[best] - top).max() < 1e-6


def test_two_starts_do_not_influence_each_other():
    rng = np.random.default_rng(8)
    objective = quadratic(rng.random(3), np.diag([1.0, 5.0, 30.0]))
    starts = rng.random((2, 3))
    together, _ = climb(objective, starts, 60)
    alone, _ = one_by_one(objective, starts, 60)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-9)


def test_starts_climb_the_function_they_belong_to():
    rng = np.random.default_rng(1)
    tops = 0.2 + 0.6 * rng.random((3, 2))
    owner = np.repeat(np.arange(3), 4)
    hills = [quadratic(top, np.diag([1.0, 20.0])) for top in tops]

    def objective(x, owner):
        pairs = [hills[t](row[None]) for row, t in zip(x, owner, strict=True)]
        return np.concatenate([v for v, _ in pairs]), np.concatenate([g for _, g in pairs])

    starts = rng.random((12, 2))
    x, value = ascend(objective, starts, owner, everywhere(starts), Effort(60))
    for t in range(3):
        own = np.flatnonzero(owner == t)
        best = own[np.argsort(-value[own])[:2]]
        np.testing.assert_allclose(x[best], tops[[t, t]], rtol=0, atol=1e-6)


def test_the_top_rows_of_each_function_come_best_first():
    value = np.array([1.0, 5.0, 3.0, 7.0, 2.0, 9.0, 8.0])
    owner = np.array([0, 0, 0, 2, 5, 5, 5])
    np.testing.assert_array_equal(top_rows(value, owner, 2), [1, 2, 3, 5, 6])
    np.testing.assert_array_equal(top_rows(value, owner, 1), [1, 3, 5])
