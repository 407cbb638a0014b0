"""Parameters and the space: exact values, scales, and one clear error for each bad input."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from drbqo_ray.space.foreign import Normal
from drbqo_ray.space.space import as_space
from tests.support.hostile_objects import WithoutEquals, WithoutFloat, WithoutRepr

INF, NAN = float("inf"), float("nan")


def conditional_space() -> dr.Space:
    return dr.Space(
        {
            "degree": dr.Int(2, 5, when={"kernel": ["poly"]}),
            "kernel": dr.Choice(["rbf", "poly"]),
            "C": dr.Float(1e-2, 1e3, log=True),
            "share": dr.Float(0.0, 1.0, step=0.1, when={"degree": [4, 5]}),
        }
    )


POLY = {"kernel": "poly", "C": 1.0, "degree": 4, "share": 0.3}

BAD_PARAMETERS = {
    "float low above high": lambda: dr.Float(2.0, 1.0),
    "float low equal to high": lambda: dr.Float(1.0, 1.0),
    "float nan bound": lambda: dr.Float(NAN, 1.0),
    "float infinite bound": lambda: dr.Float(0.0, INF),
    "float none bound": lambda: dr.Float(None, 1.0),
    "float text bound": lambda: dr.Float("0", 1.0),
    "float true bound": lambda: dr.Float(True, 2.0),
    "float complex bound": lambda: dr.Float(0.0, 1j),
    "float bound beyond float64": lambda: dr.Float(0, 10**400),
    "float log of zero": lambda: dr.Float(0.0, 1.0, log=True),
    "float log of a negative": lambda: dr.Float(-1.0, 1.0, log=True),
    "float step zero": lambda: dr.Float(0.0, 1.0, step=0.0),
    "float step negative": lambda: dr.Float(0.0, 1.0, step=-0.1),
    "float step wider than the range": lambda: dr.Float(0.0, 1.0, step=2.0),
    "float step nan": lambda: dr.Float(0.0, 1.0, step=NAN),
    "float step text": lambda: dr.Float(0.0, 1.0, step="0.1"),
    "float too many steps": lambda: dr.Float(0.0, 1.0, step=1e-20),
    "float range beyond float64": lambda: dr.Float(-1.7e308, 1.7e308),
    "float subnormal range": lambda: dr.Float(0.0, 1e-310),
    "float subnormal range on a log scale": lambda: dr.Float(1e-320, 1e-310, log=True),
    "float subnormal step": lambda: dr.Float(0.0, 1e-307, step=1e-320),
    "float array as bound": lambda: dr.Float(np.array([0.0, 1.0]), 2.0),
    "float array as step": lambda: dr.Float(0.0, 1.0, step=np.array([0.1, 0.2])),
    "float array as log": lambda: dr.Float(1.0, 2.0, log=np.array([True, False])),
    "float text as log": lambda: dr.Float(1.0, 2.0, log="no"),
    "float unreadable bound": lambda: dr.Float(0.0, WithoutFloat(1.0)),
    "float bound without repr": lambda: dr.Float(0.0, WithoutRepr()),
    "float steps finer than its floats": lambda: dr.Float(1e15, 1e15 + 1, step=1e-3),
    "float steps finer than positions": lambda: dr.Float(1e-9, 1e6, log=True, step=1e-9),
    "normal array as mean": lambda: Normal(0.0, 1.0, mean=np.array([0.0, 1.0])),
    "normal sd beyond float64": lambda: Normal(0.0, 1.0, sd=10**400),
    "normal subnormal sd": lambda: Normal(0.0, 1.0, mean=0.5, sd=1e-310),
    "normal steps finer than positions": lambda: Normal(-5.0, 5.0, step=1e-10),
    "int low above high": lambda: dr.Int(5, 1),
    "int fraction": lambda: dr.Int(1.5, 3),
    "int whole float": lambda: dr.Int(1.0, 3),
    "int true": lambda: dr.Int(True, 3),
    "int log of zero": lambda: dr.Int(0, 8, log=True),
    "int step zero": lambda: dr.Int(0, 8, step=0),
    "int step fraction": lambda: dr.Int(0, 8, step=0.5),
    "int step none": lambda: dr.Int(0, 8, step=None),
    "int too many steps": lambda: dr.Int(0, 2**60),
    "int beyond float64": lambda: dr.Int(0, 10**400),
    "int array as bound": lambda: dr.Int(np.array([0, 1]), 8),
    "int array as log": lambda: dr.Int(1, 8, log=np.array([True, False])),
    "int steps finer than positions": lambda: dr.Int(1, 10**15, log=True),
    "choice empty": lambda: dr.Choice([]),
    "choice text": lambda: dr.Choice("rbf"),
    "choice number": lambda: dr.Choice(3),
    "choice none": lambda: dr.Choice(None),
    "choice repeated option": lambda: dr.Choice(["a", "b", "a"]),
    "choice repeated option without repr": lambda: dr.Choice([option := WithoutRepr(), option]),
}

BAD_SPACES = {
    "empty": lambda: dr.Space({}),
    "none": lambda: dr.Space(None),
    "list": lambda: dr.Space([("C", dr.Float(0, 1))]),
    "name not text": lambda: dr.Space({1: dr.Float(0, 1)}),
    "empty name": lambda: dr.Space({"": dr.Float(0, 1)}),
    "bare number": lambda: dr.Space({"C": 1.0}),
    "tuple": lambda: dr.Space({"C": (0.0, 1.0)}),
    "unknown type": lambda: dr.Space({"C": {"type": "real", "low": 0, "high": 1}}),
    "unhashable type": lambda: dr.Space({"C": {"type": ["float"], "low": 0, "high": 1}}),
    "array as type": lambda: dr.Space({"C": {"type": np.array(["float"]), "low": 0, "high": 1}}),
    "type without repr": lambda: dr.Space({"C": {"type": WithoutRepr(), "low": 0, "high": 1}}),
    "without repr": lambda: dr.Space({"C": WithoutRepr()}),
    "no type": lambda: dr.Space({"C": {"low": 0, "high": 1}}),
    "unknown field": lambda: dr.Space({"C": {"type": "float", "low": 0, "high": 1, "lgo": True}}),
    "missing field": lambda: dr.Space({"C": {"type": "float", "low": 0}}),
    "bad field": lambda: dr.Space({"C": {"type": "float", "low": 1, "high": 0}}),
    "unknown parent": lambda: dr.Space({"C": dr.Float(0, 1, when={"k": ["a"]})}),
    "continuous parent": lambda: dr.Space(
        {"C": dr.Float(0, 1), "k": dr.Int(0, 2, when={"C": [0.5]})}
    ),
    "value the parent has not": lambda: dr.Space(
        {"k": dr.Choice(["a", "b"]), "C": dr.Float(0, 1, when={"k": ["c"]})}
    ),
    "condition without values": lambda: dr.Space(
        {"k": dr.Choice(["a", "b"]), "C": dr.Float(0, 1, when={"k": []})}
    ),
    "condition as text": lambda: dr.Space(
        {"k": dr.Choice(["a", "b"]), "C": dr.Float(0, 1, when={"k": "a"})}
    ),
    "condition as a number": lambda: dr.Space(
        {"k": dr.Int(0, 2), "C": dr.Float(0, 1, when={"k": 1})}
    ),
    "condition as a list": lambda: dr.Space(
        {"k": dr.Choice(["a", "b"]), "C": dr.Float(0, 1, when=["k"])}
    ),
    "circle": lambda: dr.Space(
        {"a": dr.Int(0, 2, when={"b": [1]}), "b": dr.Int(0, 2, when={"a": [1]})}
    ),
    "own condition": lambda: dr.Space({"a": dr.Int(0, 2, when={"a": [1]})}),
}

BAD_CONFIGS = {
    "none": None,
    "list": [1],
    "unknown key": POLY | {"gama": 1.0},
    "missing key": {"kernel": "rbf"},
    "missing conditional key": {"kernel": "poly", "C": 1.0},
    "below the range": POLY | {"C": 1e-3},
    "above the range": POLY | {"C": 1001.0},
    "nan": POLY | {"C": NAN},
    "infinite": POLY | {"C": INF},
    "none value": POLY | {"C": None},
    "text value": POLY | {"C": "1"},
    "true": POLY | {"C": True},
    "numpy true": POLY | {"C": np.True_},
    "complex": POLY | {"C": 1 + 0j},
    "array": POLY | {"C": np.array([1.0])},
    "whole number beyond float64": POLY | {"C": 10**400},
    "fraction for an int": POLY | {"degree": 2.5},
    "int outside": POLY | {"degree": 6},
    "off the step": POLY | {"share": 0.25},
    "unknown option": POLY | {"kernel": "sigmoid"},
    "number that cannot be read": POLY | {"C": WithoutFloat(1.0)},
    "without repr": POLY | {"C": WithoutRepr()},
    "option without repr": POLY | {"kernel": WithoutRepr()},
    "option without equals": POLY | {"kernel": WithoutEquals()},
    "array for an option": POLY | {"kernel": np.array(["rbf", "poly"])},
}


def assert_says_rule_got_and_cure(error: InvalidInput) -> None:
    assert error.rule.endswith(".")
    assert error.cure.endswith(".")
    assert str(error).startswith(f"{error.rule} Got ")
    assert str(error).endswith(error.cure)


@pytest.mark.parametrize("make", BAD_PARAMETERS.values(), ids=BAD_PARAMETERS)
def test_a_bad_parameter_is_refused(make):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert_says_rule_got_and_cure(caught.value)


@pytest.mark.parametrize("make", BAD_SPACES.values(), ids=BAD_SPACES)
def test_a_bad_space_is_refused(make):
    with pytest.raises(InvalidInput) as caught:
        make()
    assert_says_rule_got_and_cure(caught.value)


@pytest.mark.parametrize("config", BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_a_bad_config_is_refused_and_the_space_stays_as_it_was(config):
    space = conditional_space()
    before = space.to_dict()
    for call in (space.validate, space.to_unit):
        with pytest.raises(InvalidInput) as caught:
            call(config)
        assert_says_rule_got_and_cure(caught.value)
    assert space.to_dict() == before
    assert space.validate(POLY) == POLY


def test_the_error_names_the_key_the_value_and_the_cure():
    with pytest.raises(InvalidInput, match=r"'C' must lie in \[0\.01, 1000\.0\]\. Got 5000\.0\."):
        conditional_space().validate(POLY | {"C": 5000.0})
    with pytest.raises(InvalidInput, match=r"Got \['gama'\]\. Drop or rename the unknown keys\."):
        conditional_space().validate(POLY | {"gama": 1})
    with pytest.raises(InvalidInput, match=r"Add 'degree'\."):
        conditional_space().validate({"kernel": "poly", "C": 1.0})


def test_keys_that_are_not_active_are_left_out():
    space = conditional_space()
    assert space.validate(POLY | {"kernel": "rbf"}) == {"kernel": "rbf", "C": 1.0}
    assert space.validate(POLY | {"degree": 3}) == {"degree": 3, "kernel": "poly", "C": 1.0}
    assert list(space.validate(POLY)) == ["degree", "kernel", "C", "share"]


def test_values_come_back_as_plain_python_numbers():
    space = conditional_space()
    config = space.validate(
        {"kernel": np.str_("poly"), "C": np.float32(1), "degree": np.int64(4), "share": 0.3}
    )
    assert config == POLY
    assert [type(config[name]) for name in ("C", "degree", "share")] == [float, int, float]
    assert type(config["kernel"]) is str
    assert type(space.validate(POLY | {"C": Fraction(1, 2)})["C"]) is float
    assert type(space.validate(POLY | {"degree": 4.0})["degree"]) is int


def test_steps_are_exact_decimals():
    item = dr.Float(0.0, 1.0, step=0.1)
    values = [item.from_unit(u) for u in np.linspace(0, 1, 101)]
    assert sorted(set(values)) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert item.check("x", 0.1 + 0.2) == 0.3


@pytest.mark.parametrize(
    ("low", "high", "step", "last"),
    [
        (1.2, 1.4, 0.2, 1.4),
        (-0.7, -0.4, 0.1, -0.4),
        (0.1, 0.7, 0.3, 0.7),
        (-3e-3, -1e-3, 5e-4, -1e-3),
        (0.0, 1.5, 0.07500000000000001, 1.425),
        (0.0, 1.0, 0.0010000000000000002, 0.999),
    ],
)
def test_a_stepped_range_ends_at_its_last_step_and_never_past_high(low, high, step, last):
    item = dr.Float(low, high, step=step)
    assert item.from_unit(1.0) == pytest.approx(last, abs=1e-12)
    assert item.from_unit(1.0) <= high
    for u in np.linspace(0, 1, 50):
        assert item.check("x", item.from_unit(u)) == item.from_unit(u)


def test_a_step_that_does_not_meet_high_stops_below_it():
    assert dr.Int(1, 10, step=4).count == 3
    assert [dr.Int(1, 10, step=4).from_unit(u) for u in (0.0, 0.5, 1.0)] == [1, 5, 9]
    assert dr.Float(0.0, 1.0, step=0.3).from_unit(1.0) == 0.9
    with pytest.raises(InvalidInput, match="steps of 4 from 1"):
        dr.Int(1, 10, step=4).check("x", 10)


@pytest.mark.parametrize(
    "item", [dr.Int(1, 5), dr.Float(0.0, 1.0, step=0.25), dr.Choice(list("abcde"))]
)
def test_discrete_values_on_a_linear_scale_are_equally_likely(item):
    drawn = [item.from_unit(u) for u in (np.arange(1000) + 0.5) / 1000]
    counts = [drawn.count(value) for value in dict.fromkeys(drawn)]
    assert counts == [200] * 5


def test_log_scales_give_equal_room_to_equal_ratios():
    item = dr.Float(1e-3, 1e3, log=True)
    drawn = np.array([item.from_unit(u) for u in (np.arange(600) + 0.5) / 600])
    per_decade = np.histogram(np.log10(drawn), bins=6, range=(-3, 3))[0]
    np.testing.assert_array_equal(per_decade, 100)
    assert item.from_unit(0.5) == pytest.approx(1.0)
    whole = dr.Int(1, 1024, log=True)
    drawn_ints = [whole.from_unit(u) for u in (np.arange(1000) + 0.5) / 1000]
    assert 350 < sum(value <= 32 for value in drawn_ints) < 650
    assert drawn_ints[0] == 1
    assert whole.from_unit(1.0) == 1024


def test_the_ends_of_a_range_are_reached_exactly():
    for item in (dr.Float(0.1, 0.7), dr.Float(1e-5, 3e2, log=True), dr.Int(3, 17, log=True)):
        assert item.from_unit(0.0) == item.low
        assert item.from_unit(1.0) == item.high
        assert item.check("x", item.low) == item.low
        assert item.check("x", item.high) == item.high


def test_options_may_be_any_objects_and_keep_their_type():
    item = dr.Choice([1, True, "1", None, (64, 32), math.sqrt])
    for k, option in enumerate(item.options):
        assert item.find("x", option) == k
        assert item.check("x", option) is option
    assert dr.Choice([1, 2]).check("x", 1.0) == 1


def test_neighbors_change_one_discrete_parameter_and_wake_its_children():
    space = conditional_space()
    near = [space.from_unit(u) for u in space.neighbors(space.to_unit({"kernel": "rbf", "C": 1.0}))]
    assert [config["kernel"] for config in near] == ["poly"]
    assert {"degree", "C"} <= set(near[0])


def test_a_space_accepts_plain_data_and_knows_its_equals():
    plain = {
        "C": {"type": "float", "low": 0.01, "high": 10.0, "log": True},
        "k": {"type": "choice", "options": ["a", "b"]},
        "m": {"type": "int", "low": 1, "high": 9, "step": 2, "when": {"k": ["a"]}},
    }
    space = as_space(plain)
    assert space.to_dict() == plain
    assert space == dr.Space(plain)
    assert space != conditional_space()
    assert as_space(space) is space
    assert len(space) == 3


def test_the_grid_counts_only_what_can_be_active_together():
    branches = {
        f"x{k}": dr.Choice(list(range(10)), when={"branch": [option]})
        for k, option in enumerate("abc")
    }
    space = dr.Space({"branch": dr.Choice(list("abc")), **branches})
    assert len(space.grid(30)) == 30
    assert space.grid(29) is None
    assert dr.Space({"x": dr.Float(0.0, 1.0), "branch": dr.Choice(["a"])}).grid(10**6) is None


def test_one_hot_inputs_put_all_other_options_at_one_distance():
    space = dr.Space(
        {"k": dr.Choice(["a", "b", "c"]), "two": dr.Choice([0, 1]), "one": dr.Choice([7])}
    )
    assert space.n_features == 4
    z = space.features(space.grid(100))
    assert len(z) == 6
    gaps = np.abs(z[:, None, :3] - z[None, :, :3]).sum(axis=2)
    assert set(np.unique(gaps)) == {0.0, 2.0}


def test_whole_numbers_beyond_2_to_the_53_stay_themselves():
    linear = dr.Int(2**60, 2**60 + 10)
    assert [linear.from_unit(u) for u in (0.0, 0.5, 1.0)] == [2**60, 2**60 + 5, 2**60 + 10]
    for item in (linear, dr.Int(-(2**70), 2**70, step=2**30), dr.Int(1, 2**60 + 1, True, 2**20)):
        for value in (item.low, item.low + item.step, item.high):
            assert item.check("x", value) == value
            assert item.from_unit(dr.Space({"x": item}).to_unit({"x": value})[0]) == value
    with pytest.raises(InvalidInput, match="steps of"):
        dr.Int(0, 2**60, step=2**20).check("x", 2**60 - 1)


def test_the_largest_grid_tells_all_its_values_apart():
    for item in (dr.Int(0, 2**48 - 1), dr.Int(5, 2**42, log=True), dr.Float(0, 1, step=2.0**-47)):
        k = np.array([0, 1, 2, item.count // 3, item.count // 2, item.count - 2, item.count - 1])
        np.testing.assert_array_equal(item.axis.index(item.axis.position(k)), k)
    near = dr.Space({"n": dr.Int(0, 2**40), "x": dr.Float(0, 1, when={"n": [7]})})
    assert near.validate({"n": 8}) == {"n": 8}
    np.testing.assert_array_equal(near.active(near.to_unit({"n": 8})[None]), [[True, False]])


@pytest.mark.parametrize("item", [dr.Float(0.0, 1.0), dr.Float(-1.0, 1.0), dr.Float(-0.0, 2.0)])
def test_zero_has_no_sign(item):
    space = dr.Space({"x": item})
    assert str(space.validate({"x": -0.0})["x"]) == "0.0"
    assert space.to_unit({"x": -0.0}).tobytes() == space.to_unit({"x": 0.0}).tobytes()
    assert str(item.from_unit(item.to_unit(-0.0))) == "0.0"
    assert space.snap(np.array([[-0.0]])).tobytes() == np.zeros(1).tobytes()


@pytest.mark.parametrize("bounds", [(1e-308, 10.0), (5e-324, 1.7e308), (1e-300, 1e300)])
def test_a_log_range_may_be_wider_than_the_largest_float(bounds):
    item = dr.Float(*bounds, log=True)
    u = np.linspace(0.0, 1.0, 101)
    values = np.array([item.from_unit(position) for position in u])
    assert (values[0], values[-1]) == bounds
    np.testing.assert_allclose(np.diff(np.log10(values))[1:], np.diff(np.log10(values))[1:].mean())
    np.testing.assert_allclose([item.to_unit(value) for value in values], u, atol=2e-3)


def test_a_log_range_of_a_few_floats_reaches_them_all():
    low = 1.9999999999999993
    item = dr.Float(low, 2.0, log=True)
    assert len({item.from_unit(u) for u in np.linspace(0, 1, 50)}) == 4
    assert all(np.isfinite(item.to_unit(item.from_unit(u))) for u in np.linspace(0, 1, 50))


def test_numpy_scalars_in_a_parameter_become_plain_numbers():
    item = dr.Float(np.float16(-60000), np.float16(60000), log=np.False_, step=np.float32(0.5))
    assert [type(part) for part in (item.low, item.high, item.log, item.step)] == [
        float,
        float,
        bool,
        float,
    ]
    whole = dr.Int(np.int8(-100), np.int8(100), step=np.int8(1))
    assert whole.count == 201
    assert "np." not in repr(whole) + repr(item)


def test_the_grid_counts_the_configs_there_are_and_not_the_products():
    space = dr.Space(
        {"model": dr.Choice(range(10))}
        | {f"size{k}": dr.Int(1, 10, when={"model": [k]}) for k in range(10)}
    )
    grid = space.grid(100)
    assert len({repr(space.from_unit(u)) for u in grid}) == len(grid) == 100
    assert space.grid(99) is None


def test_a_continuous_parameter_that_is_never_active_leaves_the_space_finite():
    parents = {"a": dr.Choice([0, 1]), "b": dr.Choice([0, 1], when={"a": [0]})}
    never = dr.Space(parents | {"x": dr.Float(0, 1, when={"a": [1], "b": [1]})})
    assert len(never.grid(10)) == 3
    assert dr.Space(parents | {"x": dr.Float(0, 1, when={"b": [1]})}).grid(10) is None


def test_steps_on_a_log_scale_may_start_at_the_smallest_float():
    item = dr.Float(5e-324, 1.0, log=True, step=0.25)
    assert [item.from_unit(u) for u in (0.0, 1.0)] == [5e-324, 1.0]
    assert item.from_unit(item.to_unit(0.5)) == 0.5


def test_a_step_beside_its_decimal_wakes_what_is_conditional_on_it():
    item = Normal(0.98, 1.02, step=0.007031250000000006, mean=1.0, sd=0.01)
    value = item.from_unit(0.5)
    space = dr.Space({"p": item, "x": dr.Float(0, 1, when={"p": [value]})})
    config = {"p": value, "x": 0.25}
    assert space.active(space.to_unit(config)[None]).all()
    assert space.from_unit(space.to_unit(config)) == config
    assert space.grid(100) is None


def test_a_step_as_wide_as_the_range_may_leave_one_value():
    low, high = 6.066358151036024, 13.361594264315023  # as decimals they lie 1e-15 closer
    item = dr.Float(low, high, log=True, step=high - low)
    assert item.count == 1
    assert [item.from_unit(u) for u in (0.0, 0.5, 1.0)] == [low] * 3
