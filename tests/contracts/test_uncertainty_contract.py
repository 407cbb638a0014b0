"""Every uncertainty set keeps the contract."""

from __future__ import annotations

import pickle

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
)
from drbqo_ray.testing.sets import SetContract
from tests.support.uncertainty_oracles import line_distances


def spread(n):
    return line_distances(np.sqrt(np.arange(n)))


MAKERS = {
    "expectation": lambda n: Expectation(),
    "worst-case": lambda n: WorstCase(),
    "chi-square": lambda n: ChiSquareBall(0.7),
    "kl": lambda n: KLBall(0.4),
    "total-variation": lambda n: TotalVariationBall(0.25),
    "cvar": lambda n: CVaR(0.35),
    "wasserstein": lambda n: WassersteinBall(0.3, spread(n)),
    "mmd": lambda n: MMDBall(0.3, np.exp(-spread(n))),
}
OTHERS = {
    "chi-square": ChiSquareBall(0.8),
    "kl": KLBall(0.5),
    "total-variation": TotalVariationBall(0.2),
    "cvar": CVaR(0.3),
    "wasserstein": WassersteinBall(0.3, 2 * spread(4)),
    "mmd": MMDBall(0.3, np.eye(4)),
}


class TestSets(SetContract):
    @pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
    def make(self, request):
        return request.param

    @pytest.fixture
    def others(self, make):
        kind = make(4).kind
        different = [other(4) for name, other in MAKERS.items() if name != kind]
        return different + ([OTHERS[kind]] if kind in OTHERS else [])

    def test_views_and_integers_give_the_same_digits(self, make, rng):
        table = rng.integers(-5, 5, size=(8, 6))[::2, 1:5]
        expected = make(4).worst_case(np.ascontiguousarray(table, dtype=float))
        for given in (table, table.tolist(), np.asfortranarray(table)):
            np.testing.assert_array_equal(make(4).worst_case(given)[0], expected[0])

    def test_pickles_are_equal_and_work(self, make, rng):
        ball, values = make(4), rng.normal(size=(3, 4))
        again = pickle.loads(pickle.dumps(ball))
        assert again == ball
        np.testing.assert_array_equal(again.worst_case(values)[1], ball.worst_case(values)[1])

    def test_its_code_runs(self, make):
        before, expression = make(4).to_python()
        names = {}
        exec(before, names)
        assert eval(expression, names) == make(4)
