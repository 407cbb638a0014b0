"""The worst-case weights against independent oracles, and the laws every set obeys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from drbqo_ray.core.sets import (
    ChiSquareBall,
    CVaR,
    Expectation,
    KLBall,
    MMDBall,
    TotalVariationBall,
    WassersteinBall,
    WorstCase,
)
from tests.support import uncertainty_oracles as oracle

SORT_TOLERANCE = 1e-9
OTHER_TOLERANCE = 1e-7
FEASIBLE = 1e-9

scores = st.integers(1, 12).flatmap(
    lambda n: arrays(
        np.float64, n, elements=st.floats(-5, 5).map(lambda v: round(v, 3)), fill=st.nothing()
    )
)
seeds = st.integers(0, 2**32 - 1)
radii = st.floats(0, 6)
lawful = settings(max_examples=60, deadline=None)


def relative(value, values):
    """Value on the scale where the values run from 0 to 1, in extended precision."""
    wide = np.asarray(values, dtype=np.longdouble)
    span = wide.max() - wide.min()
    return (np.longdouble(value) - wide.min()) / span if span > 0 else np.longdouble(0)


def error_and_weights(ball, values, q, expected):
    """Error of the value as a share of the range, beyond what storing the value must lose."""
    value, p = ball.worst_case(values, q)
    assert (p >= 0).all()
    assert abs(p.sum() - 1) <= 1e-12
    span = np.ptp(values)
    if span == 0:
        assert value == values[0]
        return 0.0, p
    attained = np.sum(p * oracle.unit(values))
    stored = 4 * np.spacing(np.abs(values).max()) / span
    assert abs(relative(value, values) - attained) <= 1e-14 + stored
    return abs(float(attained - expected)), p


def expected_from(values, q, on_support):
    """Oracles that drop contexts without reference weight count from the support's minimum."""
    x = oracle.unit(values)
    return on_support + x[q > 0].min()


def chi_square_excess(p, q, rho):
    on = q > 0
    assert (p[~on] == 0).all()
    return np.sum(p[on] ** 2 / q[on]) - (1 + 2 * rho)


def kl_excess(p, q, rho):
    on = p > 0
    assert (q[on] > 0).all()
    return np.sum(p[on] * np.log(p[on] / q[on])) - rho


def test_chi_square_agrees_with_bisection_in_2000_random_cases():
    for values, q, rho in oracle.random_cases(2000, seed=1):
        expected = expected_from(values, q, oracle.chi_square_value(oracle.unit(values), q, rho))
        error, p = error_and_weights(ChiSquareBall(rho), values, q, expected)
        assert error <= SORT_TOLERANCE
        assert chi_square_excess(p, q, rho) <= FEASIBLE * (1 + 2 * rho)


def test_kl_agrees_with_bisection_in_2000_random_cases():
    for values, q, rho in oracle.random_cases(2000, seed=2):
        rho = rho if rho > 1e-15 else 0.0
        expected = expected_from(values, q, oracle.kl_value(oracle.unit(values), q, rho))
        error, p = error_and_weights(KLBall(rho), values, q, expected)
        assert error <= OTHER_TOLERANCE
        assert kl_excess(p, q, rho) <= FEASIBLE


def test_total_variation_agrees_with_its_dual_in_2000_random_cases():
    for values, q, rho in oracle.random_cases(2000, seed=3):
        rho = rho / max(1, values.size)
        expected = oracle.total_variation_value(oracle.unit(values), q, rho)
        error, p = error_and_weights(TotalVariationBall(rho), values, q, expected)
        assert error <= SORT_TOLERANCE
        assert 0.5 * np.abs(p - q).sum() <= rho + FEASIBLE


def test_cvar_agrees_with_its_dual_in_2000_random_cases():
    for values, q, rho in oracle.random_cases(2000, seed=4):
        alpha = min(1.0, max(1e-18, rho / values.size))
        expected = oracle.cvar_value(oracle.unit(values), q, alpha)
        error, p = error_and_weights(CVaR(alpha), values, q, expected)
        assert error <= SORT_TOLERANCE
        assert (p <= q / alpha * (1 + FEASIBLE) + FEASIBLE).all()


def test_wasserstein_agrees_with_its_dual_in_1000_random_cases():
    rng = np.random.default_rng(5)
    for values, q, rho in oracle.random_cases(1000, seed=5, n_most=12):
        n = values.size
        points = np.round(rng.normal(size=n), int(rng.integers(0, 4)))
        distances = oracle.line_distances(points)
        rho = rho / n * max(distances.max(), 1.0)
        expected = oracle.wasserstein_value(oracle.unit(values), q, rho, distances)
        error, p = error_and_weights(WassersteinBall(rho, distances), values, q, expected)
        assert error <= OTHER_TOLERANCE
        assert oracle.line_transport(p, q, points) <= rho + FEASIBLE


def test_mmd_is_within_1e_7_of_a_duality_bound_in_500_random_cases():
    rng = np.random.default_rng(6)
    for index, (values, q, _) in enumerate(oracle.random_cases(500, seed=6, n_most=30)):
        n = values.size
        features = rng.normal(size=(n, (n + 2, 2, 1)[index % 3]))
        gram = features @ features.T
        if index % 3 == 2:
            gram = np.exp(-(oracle.line_distances(features[:, 0]) ** 2))
        rho = 10.0 ** rng.uniform(-2, 0.5) * np.sqrt(gram.diagonal().max())
        _, p = error_and_weights(MMDBall(rho, gram), values, q, 0.0)
        x = oracle.unit(values).astype(np.float64)
        size = gram.diagonal().max()
        bound = oracle.mmd_bound(x, q, rho / np.sqrt(size), gram / size, p)
        assert p @ x - bound <= OTHER_TOLERANCE
        assert (p - q) @ gram @ (p - q) <= rho**2 * (1 + FEASIBLE)


@pytest.mark.parametrize("seed", range(40))
def test_linear_sets_agree_with_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    x, q = rng.random(n), rng.dirichlet(np.ones(n))
    points = rng.normal(size=(n, 2))
    distances = np.sqrt(np.square(points[:, None] - points).sum(-1)) ** rng.uniform(0.5, 2)
    rho = rng.uniform(0, 0.6)
    value, p = WassersteinBall(rho, distances).worst_case(x, q)
    assert value == pytest.approx(oracle.wasserstein_program(x, q, rho, distances), abs=1e-7)
    assert oracle.transport_distance(p, q, distances) <= rho + 1e-7
    value, _ = TotalVariationBall(rho).worst_case(x, q)
    assert value == pytest.approx(oracle.total_variation_program(x, q, rho), abs=1e-7)
    value, _ = CVaR(rho + 0.01).worst_case(x, q)
    assert value == pytest.approx(oracle.cvar_program(x, q, rho + 0.01), abs=1e-7)


@pytest.mark.parametrize("seed", range(40))
def test_quadratic_sets_agree_with_a_general_convex_solver(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    x, q = rng.random(n), rng.dirichlet(np.full(n, 3.0))
    features = rng.normal(size=(n, n + 1))
    gram = features @ features.T / n
    rho = rng.uniform(0.05, 1.0)
    value, _ = MMDBall(rho, gram).worst_case(x, q)
    assert value == pytest.approx(oracle.mmd_program(x, q, rho, gram), abs=1e-6)
    value, _ = ChiSquareBall(rho).worst_case(x, q)
    program = oracle.mmd_program(x, q, np.sqrt(2 * rho), np.diag(1 / q))
    assert value == pytest.approx(program, abs=1e-6)


FAMILIES = {
    "chi-square": lambda rho, n: ChiSquareBall(rho),
    "kl": lambda rho, n: KLBall(rho),
    "total-variation": lambda rho, n: TotalVariationBall(rho / 4),
    "cvar": lambda rho, n: CVaR(1 / (1 + rho)),
    "wasserstein": lambda rho, n: WassersteinBall(rho, oracle.line_distances(np.arange(n) ** 1.5)),
    "mmd": lambda rho, n: MMDBall(rho / 4, np.exp(-oracle.line_distances(np.arange(n)))),
}
families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
INSIDE = {
    "chi-square": lambda rho, p, q: np.sum(p**2 / q) <= 1 + 2 * rho,
    "kl": lambda rho, p, q: np.sum(p * np.log(np.maximum(p, 1e-300) / q)) <= rho,
    "total-variation": lambda rho, p, q: np.abs(p - q).sum() / 2 <= rho / 4,
    "cvar": lambda rho, p, q: (p <= q * (1 + rho)).all(),
    "wasserstein": lambda rho, p, q: oracle.line_transport(p, q, np.arange(p.size) ** 1.5) <= rho,
    "mmd": lambda rho, p, q: (
        (p - q) @ np.exp(-oracle.line_distances(np.arange(p.size))) @ (p - q) <= (rho / 4) ** 2
    ),
}


def a_reference(n, seed):
    return np.random.default_rng(seed).dirichlet(np.full(n, 2.0))


@families
@lawful
@given(values=scores, seed=seeds, small=radii, large=radii)
def test_the_value_never_rises_with_the_radius(family, values, seed, small, large):
    small, large = sorted((small, large))
    n = values.size
    q = a_reference(n, seed)
    tolerance = 1e-8 * max(np.ptp(values), 1e-300)
    inner, outer = (family(r, n).worst_case(values, q)[0] for r in (small, large))
    assert outer <= inner + tolerance
    assert values.min() - tolerance <= outer
    assert inner <= Expectation().worst_case(values, q)[0] + tolerance


@families
@lawful
@given(values=scores, seed=seeds, rho=radii)
def test_shift_and_positive_scale_carry_over(family, values, seed, rho):
    n = values.size
    q = a_reference(n, seed)
    ball = family(rho, n)
    value, _ = ball.worst_case(values, q)
    moved, p_moved = ball.worst_case(64.0 * values + 1024.0, q)
    assert moved == pytest.approx(64.0 * value + 1024.0, abs=1e-9)
    assert p_moved @ values == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("kind", ["chi-square", "kl", "total-variation", "cvar"])
@lawful
@given(values=scores, seed=seeds, rho=radii)
def test_the_order_of_contexts_does_not_matter(kind, values, seed, rho):
    n = values.size
    q = a_reference(n, seed)
    ball = FAMILIES[kind](rho, n)
    order = np.random.default_rng(seed).permutation(n)
    value, p = ball.worst_case(values, q)
    turned, p_turned = ball.worst_case(values[order], q[order])
    assert turned == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(p_turned, p[order], atol=1e-6)


@lawful
@given(values=scores, seed=seeds, rho=radii)
def test_the_order_of_contexts_does_not_matter_with_their_matrix(values, seed, rho):
    n = values.size
    q = a_reference(n, seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    points = rng.normal(size=n)
    d = oracle.line_distances(points)
    turned = np.ix_(order, order)
    for ball, other in [
        (WassersteinBall(rho, d), WassersteinBall(rho, d[turned])),
        (MMDBall(rho, np.exp(-d)), MMDBall(rho, np.exp(-d)[turned])),
    ]:
        value = ball.worst_case(values, q)[0]
        assert other.worst_case(values[order], q[order])[0] == pytest.approx(value, abs=1e-8)


@families
@lawful
@given(values=scores, seed=seeds, rho=radii, share=st.floats(0, 1))
def test_the_value_is_concave_in_the_values_and_p_is_a_supergradient(
    family, values, seed, rho, share
):
    n = values.size
    q = a_reference(n, seed)
    ball = family(rho, n)
    other = np.random.default_rng(seed).normal(size=n)
    value, p = ball.worst_case(values, q)
    value_other, _ = ball.worst_case(other, q)
    mixed, _ = ball.worst_case(share * values + (1 - share) * other, q)
    assert mixed >= share * value + (1 - share) * value_other - 1e-7
    assert value_other <= value + p @ (other - values) + 1e-7


@pytest.mark.parametrize("kind", FAMILIES)
@lawful
@given(values=scores, seed=seeds, rho=radii)
def test_no_feasible_weights_reach_lower(kind, values, seed, rho):
    n = values.size
    q = a_reference(n, seed)
    value, p = FAMILIES[kind](rho, n).worst_case(values, q)
    rng = np.random.default_rng(seed)
    corners = rng.dirichlet(np.full(n, 0.3), size=8)
    near = np.maximum(p + rng.normal(size=(8, n)) * 0.05, 0) + 1e-12
    for target in [*corners, *(near / near.sum(axis=1, keepdims=True)), np.eye(n)[values.argmin()]]:
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            if INSIDE[kind](rho, q + middle * (target - q), q):
                low = middle
            else:
                high = middle
        assert (q + low * (target - q)) @ values >= value - 1e-7


@lawful
@given(values=scores, rho=radii, spread=st.floats(0, 20))
def test_theorem_1_bounds_the_gap_to_the_mean(values, rho, spread):
    mean, sd = values.mean(), values.std()
    gap = mean - ChiSquareBall(rho).worst_case(values)[0]
    reach = np.sqrt(2 * rho) * sd
    assert gap <= reach + 1e-9
    assert gap >= max(reach - 2 * rho * (np.ptp(values) + spread), 0.0) - 1e-9
    if np.sqrt(2 * rho) * (values.max() - mean) <= sd:
        assert gap == pytest.approx(reach, abs=1e-9)


def test_theorem_1_is_an_equality_exactly_where_no_weight_reaches_zero():
    rng = np.random.default_rng(7)
    equal = 0
    for _ in range(500):
        values = rng.normal(size=rng.integers(2, 15))
        rho = 10.0 ** rng.uniform(-2, 1)
        gap = values.mean() - ChiSquareBall(rho).worst_case(values)[0]
        reach = np.sqrt(2 * rho) * values.std()
        margin = np.sqrt(2 * rho) * (values.max() - values.mean()) / values.std() - 1
        if margin <= 0:
            equal += 1
            assert gap == pytest.approx(reach, rel=1e-12)
        elif margin > 0.01:
            assert gap < reach * (1 - 1e-9)
    assert 100 < equal < 400


@lawful
@given(values=scores, seed=seeds, rho=st.floats(0, 1.2))
def test_wasserstein_with_the_zero_one_metric_is_total_variation(values, seed, rho):
    n = values.size
    q = a_reference(n, seed)
    value, p = WassersteinBall(rho, 1.0 - np.eye(n)).worst_case(values, q)
    assert value == pytest.approx(TotalVariationBall(rho).worst_case(values, q)[0], abs=1e-9)
    assert np.abs(p - q).sum() / 2 <= rho + 1e-9


@lawful
@given(values=scores, rho=st.floats(0, 1.2))
def test_mmd_with_the_identity_is_the_chi_square_ball(values, rho):
    n = values.size
    value, p = MMDBall(rho, np.eye(n)).worst_case(values)
    expected, weights = ChiSquareBall(n * rho**2 / 2).worst_case(values)
    assert value == pytest.approx(expected, abs=1e-8)
    if np.ptp(values) > 0:
        np.testing.assert_allclose(p, weights, atol=1e-6)


@lawful
@given(values=scores, seed=seeds)
def test_both_ends_of_the_radius_are_the_mean_and_the_minimum(values, seed):
    n = values.size
    assume(n > 1)
    q = a_reference(n, seed)
    mean, low = q @ values, WorstCase().worst_case(values, q)[0]
    assert low == values.min()
    wide = 1e6
    for none, all_ in [
        (ChiSquareBall(0), ChiSquareBall(wide / q.min())),
        (KLBall(0), KLBall(wide)),
        (TotalVariationBall(0), TotalVariationBall(1)),
        (CVaR(1), CVaR(q.min())),
        (WassersteinBall(0, 1 - np.eye(n)), WassersteinBall(1, 1 - np.eye(n))),
        (MMDBall(0, np.eye(n)), MMDBall(2, np.eye(n))),
    ]:
        assert none.worst_case(values, q)[0] == pytest.approx(mean, abs=1e-12)
        assert all_.worst_case(values, q)[0] == pytest.approx(low, abs=1e-12)
