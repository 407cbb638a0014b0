"""Cases of the uncertainty sets that can be checked by hand."""

from __future__ import annotations

import subprocess
import sys

import mpmath
import numpy as np
import pytest

from drbqo_ray.core.sets import (
    ChiSquareBall,
    CVaR,
    Expectation,
    KLBall,
    MMDBall,
    TotalVariationBall,
    WassersteinBall,
    WorstCase,
    as_uncertainty,
    from_dict,
)
from drbqo_ray.core.sets import mmd as mmd_ball
from drbqo_ray.errors import InvalidInput
from tests.support.hostile_objects import WithoutRepr

LINE = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))


def test_expectation_is_the_weighted_mean():
    value, p = Expectation().worst_case([1.0, 2.0, 4.0], [0.5, 0.25, 0.25])
    assert value == 2.0
    assert p.tolist() == [0.5, 0.25, 0.25]


def test_worst_case_is_the_minimum_and_ties_share_by_reference():
    value, p = WorstCase().worst_case([5.0, 1.0, 1.0], [0.5, 0.375, 0.125])
    assert value == 1.0
    assert p.tolist() == [0.0, 0.75, 0.25]


def test_worst_case_reaches_a_context_without_reference_weight():
    value, p = WorstCase().worst_case([5.0, 1.0, 1.0], [1.0, 0.0, 0.0])
    assert value == 1.0
    assert p.tolist() == [0.0, 0.5, 0.5]


def test_chi_square_of_two_contexts_by_hand():
    value, p = ChiSquareBall(0.125).worst_case([0.0, 1.0])
    assert value == pytest.approx(0.25, abs=1e-15)
    assert p == pytest.approx([0.75, 0.25], abs=1e-15)


def test_chi_square_with_a_weighted_reference_by_hand():
    # p = (3/4 + e, 1/4 - e): e^2 / (3/4) + e^2 / (1/4) = 2 rho gives e = sqrt(3 rho / 8)
    value, p = ChiSquareBall(0.06).worst_case([0.0, 1.0], [0.75, 0.25])
    assert p == pytest.approx([0.9, 0.1], abs=1e-15)
    assert value == pytest.approx(0.1, abs=1e-15)


def short(value: object) -> str:
    return repr(value)[:12]


@pytest.mark.parametrize("radius", [4.5, 4.5 + 1e-12, 5.0, 1e6, 1e300])
def test_chi_square_at_and_past_the_whole_simplex_is_exactly_the_minimum(radius):
    values = np.random.default_rng(0).normal(size=(200, 10))
    value, p = ChiSquareBall(radius).worst_case(values)
    np.testing.assert_array_equal(value, values.min(axis=-1))
    np.testing.assert_array_equal(p, np.eye(10)[values.argmin(axis=-1)])


@pytest.mark.parametrize("n", range(2, 60))
def test_chi_square_at_exact_saturation_for_every_n(n):
    values = np.random.default_rng(n).normal(size=(20, n))
    value, _ = ChiSquareBall((n - 1) / 2).worst_case(values)
    np.testing.assert_allclose(value, values.min(axis=-1), atol=1e-14)


def test_chi_square_saturates_early_on_ties_and_keeps_the_least_divergent_weights():
    value, p = ChiSquareBall(1.0).worst_case([0.0, 2.0, 0.0, 1.0], [0.2, 0.3, 0.4, 0.1])
    assert value == 0.0
    assert p == pytest.approx([1 / 3, 0.0, 2 / 3, 0.0], abs=1e-15)


@pytest.mark.parametrize("make", [ChiSquareBall, KLBall])
@pytest.mark.parametrize("radius", [1e-18, 1e-14, 1e-10, 1e-6])
def test_a_tiny_radius_moves_the_mean_by_the_square_root_of_it(make, radius):
    values = np.array([3.0, -1.0, 2.0, 0.5, 0.0])
    value, p = make(radius).worst_case(values)
    moved = values.mean() - value
    assert moved == pytest.approx(np.sqrt(2 * radius * values.var()), rel=1e-3, abs=1e-15)
    tilt = (p - 0.2) / np.sqrt(radius)
    centered = values.mean() - values
    expected = 0.2 * centered / values.std() * np.sqrt(2)
    np.testing.assert_allclose(tilt, expected, rtol=1e-2, atol=1e-16 / np.sqrt(radius))


@pytest.mark.parametrize("radius", [1e-12, 1e-4, 0.3, 1.2, 1.6, 1.609437, 1.6094379])
def test_kl_satisfies_its_equations_in_high_precision(radius):
    values = [0.3, 1.7, -0.4, 0.9, 2.2]
    value, p = KLBall(radius).worst_case(values)
    with mpmath.workdps(50):
        exact = [mpmath.mpf(v) for v in values]

        def weights(beta):
            raw = [mpmath.exp(-beta * v) for v in exact]
            return [r / mpmath.fsum(raw) for r in raw]

        def excess(log_beta):
            each = weights(mpmath.exp(log_beta))
            return mpmath.fsum(w * mpmath.log(5 * w) for w in each) - mpmath.mpf(radius)

        low, high = mpmath.mpf(-30), mpmath.mpf(8)
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) < 0 else (low, middle)
        expected = weights(mpmath.exp(low))
        target = mpmath.fsum(w * v for w, v in zip(expected, exact, strict=True))
    assert value == pytest.approx(float(target), abs=1e-12)
    assert p == pytest.approx([float(w) for w in expected], abs=1e-9)


def test_kl_past_the_mass_of_the_ties_is_the_minimum():
    value, p = KLBall(np.log(2.0) + 1e-12).worst_case([0.0, 1.0, 0.0, 3.0])
    assert value == 0.0
    assert p.tolist() == [0.5, 0.0, 0.5, 0.0]


def test_total_variation_moves_mass_from_the_top_to_the_bottom():
    value, p = TotalVariationBall(0.375).worst_case([3.0, 0.0, 2.0, 1.0])
    assert p.tolist() == [0.0, 0.625, 0.125, 0.25]
    assert value == 0.5


@pytest.mark.parametrize("n", range(2, 40))
def test_total_variation_at_the_whole_simplex_is_exactly_the_minimum(n):
    values = np.random.default_rng(n).normal(size=(20, n))
    for radius in (1 - 1 / n, 1.0, 7.0):
        value, p = TotalVariationBall(radius).worst_case(values)
        np.testing.assert_array_equal(value, values.min(axis=-1))
        np.testing.assert_array_equal(p, np.eye(n)[values.argmin(axis=-1)])


def test_total_variation_can_reach_a_context_without_reference_weight():
    _, p = TotalVariationBall(0.25).worst_case([1.0, 2.0, 0.0], [0.5, 0.5, 0.0])
    assert p.tolist() == [0.5, 0.25, 0.25]


def test_cvar_is_the_mean_of_the_lowest_share():
    value, p = CVaR(0.375).worst_case([3.0, 0.0, 2.0, 1.0])
    assert p == pytest.approx([0.0, 2 / 3, 0.0, 1 / 3], abs=1e-15)
    assert value == pytest.approx(1 / 3, abs=1e-15)


def test_cvar_shares_among_ties_by_reference():
    _, p = CVaR(0.5).worst_case([0.0, 1.0, 1.0, 2.0], [0.25, 0.125, 0.375, 0.25])
    assert p == pytest.approx([0.5, 0.125, 0.375, 0.0], abs=1e-15)


def test_wasserstein_buys_the_steepest_edge_first():
    # from 3 to 2 the value falls by 4 per step, the best rate; the rest of the radius buys
    # the next best edge, from 1 to 0 at rate 1 and from 2 to 0 at rate 1
    value, p = WassersteinBall(0.25, LINE).worst_case([0.0, 1.0, 2.0, 6.0])
    assert p == pytest.approx([0.25, 0.25, 0.5, 0.0], abs=1e-15)
    assert value == pytest.approx(1.25, abs=1e-15)
    value, _ = WassersteinBall(0.5, LINE).worst_case([0.0, 1.0, 2.0, 6.0])
    assert value == pytest.approx(1.0, abs=1e-15)


def test_wasserstein_steps_over_a_context_that_is_no_better():
    value, p = WassersteinBall(0.5, LINE).worst_case([0.0, 5.0, 4.0, 4.0])
    assert p == pytest.approx([0.625, 0.0, 0.125, 0.25], abs=1e-15)
    assert value == pytest.approx(1.5, abs=1e-15)


@pytest.mark.parametrize("seed", range(40))
def test_wasserstein_spends_the_whole_radius_where_all_edges_are_equally_steep(seed):
    rng = np.random.default_rng(seed)
    points = np.sort(rng.random(30))
    values = 0.37 * points
    q = rng.dirichlet(np.ones(30))
    distances = np.abs(np.subtract.outer(points, points))
    reach = q @ (points - points[0])
    for radius in (0.2 * reach, 0.7 * reach):
        value, p = WassersteinBall(radius, distances).worst_case(values, q)
        assert value == pytest.approx(q @ values - 0.37 * radius, abs=1e-13)
        assert q @ points - p @ points == pytest.approx(radius, abs=1e-13)


def test_wasserstein_moves_freely_between_contexts_at_distance_zero():
    distances = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    value, p = WassersteinBall(0.0, distances).worst_case([0.0, 3.0, 1.0])
    assert p == pytest.approx([2 / 3, 0.0, 1 / 3], abs=1e-15)
    assert value == pytest.approx(1 / 3, abs=1e-15)


def test_mmd_of_two_contexts_by_hand():
    # p = (1/2 + e, 1/2 - e) has (p - q)'K(p - q) = 2 e^2 (1 - r)
    value, p = MMDBall(0.1, [[1.0, 0.5], [0.5, 1.0]]).worst_case([0.0, 1.0])
    assert p == pytest.approx([0.6, 0.4], abs=1e-14)
    assert value == pytest.approx(0.4, abs=1e-14)


def test_mmd_with_a_singular_gram_moves_freely_between_copies_of_a_context():
    gram = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    value, p = MMDBall(0.1, gram).worst_case([0.0, 3.0, 1.0])
    moved = 0.1 / np.sqrt(2)
    assert p == pytest.approx([2 / 3 + moved, 0.0, 1 / 3 - moved], abs=1e-7)
    assert value == pytest.approx(1 / 3 - moved, abs=1e-7)


@pytest.mark.parametrize(("level", "quantile"), [(0.95, 3.841458820694124), (0.5, 0.454936423119)])
def test_a_confidence_level_gives_the_chi_square_quantile_over_2n(level, quantile):
    ball = ChiSquareBall.from_confidence(level, 10)
    assert ball.radius == pytest.approx(quantile / 20, rel=1e-11)


def test_the_confidence_radius_is_capped_at_the_whole_simplex():
    assert ChiSquareBall.from_confidence(0.999, 2).radius == 0.5
    assert ChiSquareBall.from_confidence(0.95, 1).radius == 0.0


def test_the_confidence_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(3)
    samples = rng.exponential(size=(4000, 200))
    ball = ChiSquareBall.from_confidence(0.95, 200)
    low, high = ball.worst_case(samples)[0], -ball.worst_case(-samples)[0]
    assert np.mean((low <= 1.0) & (high >= 1.0)) == pytest.approx(0.95, abs=0.02)
    assert np.mean(low <= 1.0) == pytest.approx(0.975, abs=0.02)


@pytest.mark.parametrize(
    "level", [0.0, 1.0, -0.1, 95, np.nan, True, "0.95", None, 10**400], ids=short
)
def test_bad_confidence_levels_are_refused(level):
    with pytest.raises(InvalidInput):
        ChiSquareBall.from_confidence(level, 10)


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "10", 10**400], ids=short)
def test_bad_numbers_of_contexts_are_refused(n):
    with pytest.raises(InvalidInput):
        ChiSquareBall.from_confidence(0.95, n)


@pytest.mark.parametrize(
    "radius",
    [-1e-9, np.nan, np.inf, True, "1", None, [1.0], 1j, 10**400, np.ones(2), WithoutRepr()],
    ids=type,
)
def test_bad_radii_are_refused(radius):
    for make in (
        ChiSquareBall,
        KLBall,
        TotalVariationBall,
        lambda r: WassersteinBall(r, LINE),
        lambda r: MMDBall(r, np.eye(3)),
    ):
        with pytest.raises(InvalidInput, match=r"at least 0.* Got "):
            make(radius)


@pytest.mark.parametrize("radius", [1e301, 1.7e308, 2**1023], ids=["1e301", "1.7e308", "int"])
def test_the_largest_radii_hold_all_weights(radius):
    for ball in (
        ChiSquareBall(radius),
        KLBall(radius),
        TotalVariationBall(radius),
        WassersteinBall(radius, LINE[:3, :3]),
        MMDBall(radius, np.eye(3)),
    ):
        value, weights = ball.worst_case([0.2, 0.1, 0.4], [0.5, 0.3, 0.2])
        assert value == pytest.approx(0.1, abs=1e-12)
        np.testing.assert_allclose(weights, [0.0, 1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    "alpha", [0.0, -0.1, 1.0001, np.nan, np.inf, True, "0.5", None, 10**400], ids=short
)
def test_bad_shares_are_refused(alpha):
    with pytest.raises(InvalidInput):
        CVaR(alpha)


@pytest.mark.parametrize("number", [1, np.float32(1), np.int64(1)])
def test_radii_of_any_real_type_become_floats(number):
    assert ChiSquareBall(number) == ChiSquareBall(1.0)
    assert type(ChiSquareBall(number).radius) is float
    assert type(CVaR(number).alpha) is float


@pytest.mark.parametrize(
    "distances",
    [
        [[0.0, 1.0]],
        [0.0, 1.0],
        [],
        [[0.0, -1.0], [-1.0, 0.0]],
        [[0.0, 1.0], [2.0, 0.0]],
        [[0.1, 1.0], [1.0, 0.0]],
        [[0.0, np.nan], [np.nan, 0.0]],
        [[0.0, 1e308], [1e308, 0.0]],
        [[0, 10**400], [10**400, 0]],
        "far",
    ],
)
def test_bad_distances_are_refused(distances):
    with pytest.raises(InvalidInput):
        WassersteinBall(0.1, distances)


@pytest.mark.parametrize(
    "gram",
    [
        [[1.0, 0.0]],
        [[1.0, 2.0], [2.0, 1.0]],
        [[1.0, 0.5], [0.4, 1.0]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[np.inf, 0.0], [0.0, 1.0]],
        [[-1.0, 0.0], [0.0, -1.0]],
        [[10**400, 0], [0, 1]],
    ],
)
def test_bad_gram_matrices_are_refused(gram):
    with pytest.raises(InvalidInput):
        MMDBall(0.1, gram)


def test_matrices_are_copied_on_the_way_in_and_read_only():
    distances = LINE.copy()
    ball = WassersteinBall(0.25, distances)
    distances[0, 1] = distances[1, 0] = 9.0
    assert ball == WassersteinBall(0.25, LINE)
    with pytest.raises(ValueError, match="read-only"):
        ball.distances[0, 1] = 9.0


@pytest.mark.parametrize("ball", [WassersteinBall(0.1, LINE), MMDBall(0.1, np.eye(4))])
def test_a_matrix_for_another_number_of_contexts_is_refused(ball):
    with pytest.raises(InvalidInput, match="3"):
        ball.worst_case([1.0, 2.0, 3.0])
    with pytest.raises(InvalidInput, match="3"):
        as_uncertainty(ball, 3)


def test_a_number_means_a_chi_square_radius_and_auto_means_95_percent():
    assert as_uncertainty(0.5, 10) == ChiSquareBall(0.5)
    assert as_uncertainty(0, 10) == ChiSquareBall(0.0)
    assert as_uncertainty("auto", 10) == ChiSquareBall.from_confidence(0.95, 10)


@pytest.mark.parametrize(
    "value", [True, -1.0, np.nan, np.inf, "Auto", "chi-square", None, [1.0], 10**400]
)
def test_anything_else_is_no_uncertainty(value):
    with pytest.raises(InvalidInput, match="Got "):
        as_uncertainty(value, 10)


def test_plain_data_reads_as_one_expects():
    assert ChiSquareBall(1).to_dict() == {"set": "chi-square", "radius": 1.0}
    assert CVaR(0.5).to_dict() == {"set": "cvar", "alpha": 0.5}
    assert WorstCase().to_dict() == {"set": "worst-case"}
    plain = MMDBall(0.5, np.eye(2)).to_dict()
    assert plain == {"set": "mmd", "radius": 0.5, "gram": [[1.0, 0.0], [0.0, 1.0]]}


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"set": "ball"},
        {"set": ["kl"]},
        {"set": "kl"},
        {"set": "kl", "radius": 1.0, "alpha": 0.5},
        {"set": "kl", "radius": -1.0},
        "kl",
        None,
    ],
)
def test_bad_plain_data_is_refused(plain):
    with pytest.raises(InvalidInput):
        from_dict(plain)


def test_importing_the_sets_loads_no_heavy_module():
    script = (
        "import sys, drbqo_ray.core.sets;"
        "print(*[name for name in ('ray', 'torch', 'scipy.stats') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.split() == []


class TestManyRowsOfAnMMDBall:
    """Rows whose weights hit 0 follow their paths together."""

    @pytest.mark.parametrize("n", [2, 5, 9])
    @pytest.mark.parametrize("radius", [0.1, 0.5, 3.0])
    def test_a_row_gets_what_it_gets_alone(self, n, radius):
        rng = np.random.default_rng(n)
        points = rng.random((n, 2))
        gram = np.exp(-3 * ((points[:, None] - points) ** 2).sum(axis=-1))
        ball, reference = MMDBall(radius, gram), rng.dirichlet(np.ones(n))
        values = rng.standard_normal((60, n))
        values[::4] = np.round(values[::4])  # ties
        value, weights = ball.worst_case(values, reference)
        for row in range(60):
            alone, own = ball.worst_case(values[row], reference)
            assert value[row] == pytest.approx(alone, abs=1e-12)
            np.testing.assert_allclose(weights[row], own, atol=1e-12)

    def test_the_number_of_steps_does_not_grow_with_the_rows(self, monkeypatch):
        steps = []
        own = mmd_ball._pieces
        monkeypatch.setattr(mmd_ball, "_pieces", lambda *a: steps.append(len(a[0])) or own(*a))
        values = np.random.default_rng(0).standard_normal((400, 8))
        MMDBall(0.5, np.eye(8)).worst_case(values)
        assert sum(steps) > 400
        assert len(steps) <= 20 * 8
