"""The paper's logistic problem, short; benchmarks/quality/logistic.py runs all of it.

The robust optimum is a kink at x = 0 where all contexts tie, the center of the square: nothing is
seeded there, and one run is made in a shifted square.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.quality.logistic import SHIFTED, Case, optimum, regrets, robust_value


def test_the_instance_has_the_published_optima():
    assert optimum(1.0) == pytest.approx(-math.log(2), abs=1e-9)
    assert optimum(3.0) == pytest.approx(-math.log(2), abs=1e-9)
    assert optimum(0.1) == pytest.approx(-0.692507, abs=1e-6)
    empirical = np.array([0.989, 0.428])
    assert robust_value(empirical, 0.0) == pytest.approx(-0.592439, abs=1e-6)
    assert optimum(1.0) - robust_value(empirical, 1.0) == pytest.approx(0.5167, abs=2e-3)


def test_drbqo_reaches_a_regret_of_1e_4_after_50_and_1e_5_after_100_evaluations():
    # seed 7 refits from several starts just at t = 50, where a wrong basin shows at once
    runs = [regrets(Case("drbqo", 1.0), seed, (50, 100)) for seed in (0, 1, 7)]
    assert np.log10(np.mean([run[50] for run in runs])) <= -4
    assert np.log10(np.mean([run[100] for run in runs])) <= -5


def test_drbqo_does_so_in_a_shifted_square_too():
    run = regrets(Case("drbqo", 1.0, SHIFTED), 0, (50, 100))
    assert math.log10(run[50]) <= -4
    assert math.log10(run[100]) <= -5


def test_bqo_ts_stays_at_the_regret_of_the_plain_mean():
    run = regrets(Case("bqo-ts", 1.0), 0, (50,))
    assert math.log10(run[50]) > -1
