"""Domains of Ray Tune and scipy.stats become parameters with the same values."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats as st
from ray import tune
from ray.tune.search.sample import Categorical, Float, Integer

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from drbqo_ray.space.foreign import Normal, convert_domain, convert_space

EXACT = {
    "uniform": (tune.uniform(-1, 2), dr.Float(-1.0, 2.0)),
    "quniform": (tune.quniform(0.2, 1.0, 0.2), dr.Float(0.2, 1.0, step=0.2)),
    "loguniform": (tune.loguniform(1e-4, 1e-1), dr.Float(1e-4, 1e-1, log=True)),
    "qloguniform": (tune.qloguniform(0.5, 4, 0.5), dr.Float(0.5, 4.0, log=True, step=0.5)),
    "randint excludes its upper bound": (tune.randint(2, 10), dr.Int(2, 9)),
    "qrandint includes its upper bound": (tune.qrandint(2, 10, 2), dr.Int(2, 10, step=2)),
    "qrandint moves inwards to multiples": (tune.qrandint(1, 10, 3), dr.Int(3, 9, step=3)),
    "qrandint of step 1 excludes its upper bound": (tune.qrandint(2, 10, 1), dr.Int(2, 9)),
    "lograndint": (tune.lograndint(1, 100), dr.Int(1, 99, log=True)),
    "qlograndint": (tune.qlograndint(5, 100, 5), dr.Int(5, 100, log=True, step=5)),
    "choice": (tune.choice(["a", None, True, 1]), dr.Choice(["a", None, True, 1])),
    "choice counts repeats once": (tune.choice([1, 2, 1]), dr.Choice([1, 2])),
    "a bare float domain": (Float(0, 3), dr.Float(0.0, 3.0)),
    "a bare integer domain": (Integer(0, 5), dr.Int(0, 4)),
    "a bare categorical domain": (Categorical([3, 4]), dr.Choice([3, 4])),
    "a range of one whole number": (tune.randint(3, 4), dr.Choice([3])),
    "a range of one number": (tune.uniform(2, 2), dr.Choice([2.0])),
    "randn": (tune.randn(10, 2), Normal(0.0, 20.0, mean=10.0, sd=2.0)),
    "qrandn": (tune.qrandn(0, 1, 0.5), Normal(-5.0, 5.0, step=0.5, mean=0.0, sd=1.0)),
    "qrandn with one value in reach": (tune.qrandn(0, 0.01, 1), dr.Choice([0.0])),
    "scipy uniform": (st.uniform(1, 4), dr.Float(1.0, 5.0)),
    "scipy uniform by keyword": (st.uniform(loc=1, scale=4), dr.Float(1.0, 5.0)),
    "scipy loguniform": (st.loguniform(1e-3, 10), dr.Float(1e-3, 10.0, log=True)),
    "scipy reciprocal": (st.reciprocal(1e-3, 10), dr.Float(1e-3, 10.0, log=True)),
    "scipy randint": (st.randint(2, 10), dr.Int(2, 9)),
    "scipy norm": (st.norm(10, 2), Normal(0.0, 20.0, mean=10.0, sd=2.0)),
    "a list": (["a", "b"], dr.Choice(["a", "b"])),
    "a tuple, which may be meant as a range, stays": ((1, 2), (1, 2)),
}


@pytest.mark.parametrize("case", EXACT)
def test_a_foreign_domain_becomes_the_parameter_with_the_same_values(case):
    foreign, ours = EXACT[case]
    assert convert_domain("p", foreign) == ours


@pytest.mark.parametrize(
    "domain",
    [
        tune.quniform(0.1, 0.9, 0.1),
        tune.qloguniform(0.1, 0.9, 0.1),
        tune.randint(-3, 3),
        tune.qrandint(1, 20, 4),
        tune.lograndint(1, 9),
        tune.qlograndint(2, 9, 2),
        tune.qrandn(0, 0.3, 0.5),
    ],
)
def test_the_values_are_those_that_tune_samples(domain):
    ours = convert_domain("p", domain)
    sampled = {round(float(v), 9) for v in domain.sample(size=4000, random_state=0)}
    held = {round(float(ours.from_unit(u)), 9) for u in np.linspace(0, 1, 4001)}
    assert sampled <= held
    assert len(held - sampled) <= 2 + 16 * isinstance(ours, Normal)


REFUSED = {
    "a grid": Categorical([1, 2]).grid(),
    "a function": tune.sample_from(lambda config: 1),
    "no multiple in the bounds": Integer(1, 2).quantized(5),
    "an empty range": tune.randint(5, 5),
    "an unbounded float": Float(None, None),
    "an unknown distribution": st.beta(2, 3),
    "an array as bound": tune.randint(np.zeros(2), 5),
    "an array as step": tune.qrandn(0.0, 1.0, np.ones(2)),
    "text as bound": tune.randint("0", 5),
    "an array of distributions": st.uniform(np.zeros(2), 1.0),
    "a whole number beyond float64": st.norm(10**400, 1),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_domain_that_cannot_be_searched_is_refused(case):
    with pytest.raises(InvalidInput):
        convert_domain("p", REFUSED[case])


def test_the_error_for_a_grid_names_the_cure():
    with pytest.raises(InvalidInput, match=r"'p'.*tune\.choice"):
        convert_domain("p", REFUSED["a grid"])


def test_our_own_parameters_and_plain_data_pass_through_unchanged():
    mine = {"a": dr.Float(0, 1), "b": {"type": "int", "low": 0, "high": 3}, "c": 7}
    assert convert_space(mine) == mine


def test_a_converted_space_can_be_searched():
    space = convert_space(
        {"C": tune.loguniform(1e-2, 1e2), "n": st.randint(1, 4), "x": tune.randn()}
    )
    optimizer = dr.Optimizer(space, 3)
    for _ in range(12):
        s = optimizer.ask()
        optimizer.tell(s.id, -abs(s.config["x"]))
    assert set(optimizer.recommend().config) == {"C", "n", "x"}


def test_neither_ray_nor_scipy_stats_is_imported():
    code = (
        "import sys, drbqo_ray.space.foreign as f; f.convert_space({'a': [1, 2]});"
        "sys.exit(any(m in sys.modules for m in ('ray', 'scipy.stats')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestNormal:
    def test_even_positions_give_a_normal_sample(self):
        item = Normal.around(3.0, 2.0)
        values = [item.from_unit(u) for u in (np.arange(2000) + 0.5) / 2000]
        assert st.kstest(values, st.norm(3, 2).cdf).statistic < 1e-3

    def test_values_come_back_from_their_position(self):
        item = Normal.around(-1.0, 0.5)
        for value in np.linspace(-3.4, 1.4, 41):
            assert item.from_unit(item.to_unit(value)) == pytest.approx(value, abs=1e-8)

    def test_positions_stay_on_the_unit_interval_and_keep_the_order(self):
        item = Normal.around(0.0, 1.0)
        u = [item.to_unit(v) for v in np.linspace(-5, 5, 101)]
        assert u[0] == 0.0
        assert u[-1] == 1.0
        assert all(a < b for a, b in itertools.pairwise(u))

    def test_a_step_gives_the_rounding_cells_of_the_normal(self):
        item = Normal(-1.0, 1.0, step=1.0, mean=0.0, sd=1.0)
        at = np.array([item.from_unit(u) for u in (np.arange(6000) + 0.5) / 6000])
        inside = st.norm.cdf(1.5) - st.norm.cdf(-1.5)
        middle = (st.norm.cdf(0.5) - st.norm.cdf(-0.5)) / inside
        assert np.mean(at == 0.0) == pytest.approx(middle, abs=1e-3)

    @pytest.mark.parametrize(
        "wrong", [{"sd": 0.0}, {"sd": float("nan")}, {"mean": 100.0}, {"log": True}], ids=str
    )
    def test_a_wrong_argument_is_refused(self, wrong):
        with pytest.raises(InvalidInput):
            Normal(1.0, 2.0, **wrong)

    def test_the_plain_form_holds_every_argument(self):
        item = Normal(0.0, 2.0, step=0.5, mean=1.0, sd=3.0)
        plain = item.to_dict()
        assert plain.pop("type") == "normal"
        assert Normal(**plain) == item
