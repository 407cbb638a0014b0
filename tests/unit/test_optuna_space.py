"""The space of a study, read off its trials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

optuna = pytest.importorskip("optuna", reason="needs the extra: pip install 'drbqo_ray[optuna]'")

from optuna.distributions import (  # noqa: E402
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from drbqo_ray.errors import InvalidInput  # noqa: E402
from drbqo_ray.optuna_sampler.space import SHAPE, StudySpace, as_parameter, merged  # noqa: E402
from drbqo_ray.space.parameters import Choice, Float, Int  # noqa: E402

KERNEL = CategoricalDistribution(["rbf", "poly", "linear"])
DEGREE, LAYERS = IntDistribution(2, 5), IntDistribution(1, 6)
X = FloatDistribution(0.0, 1.0)
KINDS = {"kernel": KERNEL, "degree": DEGREE, "layers": LAYERS, "coef": X, "x": X, "units": DEGREE}


def space_of(*trials, **other):
    kinds = KINDS | other
    return StudySpace.of([(params, {name: kinds[name] for name in params}) for params in trials])


@pytest.mark.parametrize(
    ("distribution", "parameter"),
    [
        (FloatDistribution(-1, 2), Float(-1, 2)),
        (FloatDistribution(1e-3, 2, log=True), Float(1e-3, 2, log=True)),
        (FloatDistribution(0, 1, step=0.25), Float(0, 1, step=0.25)),
        (FloatDistribution(2, 2), Choice((2,))),
        (IntDistribution(-3, 4), Int(-3, 4)),
        (IntDistribution(1, 100, log=True), Int(1, 100, log=True)),
        (IntDistribution(0, 9, step=3), Int(0, 9, step=3)),
        (IntDistribution(7, 7), Choice((7,))),
        (CategoricalDistribution([None, True, 1.5, "a"]), Choice((None, True, 1.5, "a"))),
    ],
)
def test_a_distribution_is_a_parameter(distribution, parameter):
    assert as_parameter(distribution) == parameter


def ints(low, width, step):
    return IntDistribution(low, low + width * step, step=step)


steps = st.builds(ints, st.integers(-50, 50), st.integers(0, 20), st.integers(1, 7))


@given(steps, steps)
def test_merged_ranges_hold_the_values_of_both(one, other):
    both = merged(one, other)
    for old in (one, other):
        for value in range(old.low, old.high + 1, old.step):
            assert both._contains(both.to_internal_repr(value))


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (X, FloatDistribution(0.5, 3.0), FloatDistribution(0.0, 3.0)),
        (
            FloatDistribution(0, 1, step=0.5),
            FloatDistribution(0, 2, step=0.5),
            FloatDistribution(0, 2, step=0.5),
        ),
        (
            FloatDistribution(0, 1, step=0.5),
            FloatDistribution(0, 2, step=0.4),
            FloatDistribution(0, 2),
        ),
        (KERNEL, KERNEL, KERNEL),
    ],
)
def test_merged_ranges_of_floats(one, other, both):
    assert merged(one, other) == both


class TestConditions:
    def test_what_all_trials_have_hangs_on_nothing(self):
        found = space_of({"x": 0.1, "kernel": "rbf"}, {"x": 0.2, "kernel": "poly"})
        assert list(found.space) == ["kernel", "x"]
        assert not any(item.when for item in found.space.parameters.values())

    def test_a_parameter_hangs_on_a_choice(self):
        found = space_of(
            {"kernel": "rbf", "x": 0.1},
            {"kernel": "poly", "x": 0.2, "degree": 3},
            {"kernel": "poly", "x": 0.1, "degree": 2},
        )
        assert found.space.parameters["degree"].when == {"kernel": ["poly"]}
        assert SHAPE not in found.space.parameters

    def test_a_parameter_hangs_on_a_whole_number_and_its_neighbors(self):
        found = space_of(
            {"layers": 1, "x": 0.1},
            {"layers": 2, "x": 0.2},
            {"layers": 4, "x": 0.1, "units": 2},
            {"layers": 6, "x": 0.1, "units": 3},
        )
        assert found.space.parameters["units"].when == {"layers": [4, 5, 6]}

    def test_conditions_may_hang_on_each_other(self):
        found = space_of(
            {"kernel": "rbf", "x": 0.1},
            {"kernel": "poly", "x": 0.1, "degree": 3, "coef": 0.1},
            {"kernel": "poly", "x": 0.1, "degree": 2},
            {"kernel": "poly", "x": 0.9, "degree": 2},
        )
        when = {name: item.when for name, item in found.space.parameters.items()}
        assert when["degree"] == {"kernel": ["poly"]}
        assert when["coef"] == {"degree": [3, 4, 5]}

    def test_two_that_come_together_do_not_hang_on_each_other(self):
        found = space_of({"x": 0.1}, {"x": 0.2, "degree": 3, "units": 3})
        when = {name: item.when for name, item in found.space.parameters.items()}
        assert when["degree"] == when["units"] == {SHAPE: [1]}

    def test_anything_else_hangs_on_the_shape(self):
        found = space_of(
            {"x": 0.1, "kernel": "rbf"},
            {"x": 0.6, "kernel": "rbf", "coef": 0.1},
            {"x": 0.1, "kernel": "poly"},
            {"x": 0.7, "kernel": "poly", "coef": 0.3},
        )
        assert found.space.parameters["coef"].when == {SHAPE: [1]}
        config = found.config({"x": 0.9, "kernel": "rbf", "coef": 0.5})
        assert config[SHAPE] == 1
        assert found.params(config) == {"x": 0.9, "kernel": "rbf", "coef": 0.5}
        with pytest.raises(InvalidInput, match="one before it"):
            found.config({"x": 0.9})

    def test_options_that_are_equal_numbers_are_told_apart(self):
        mixed = CategoricalDistribution([1, True])
        found = space_of({"m": 1, "x": 0.1}, {"m": True, "x": 0.1, "coef": 0.2}, m=mixed)
        (value,) = found.space.parameters["coef"].when["m"]
        assert value is True

    def test_a_range_that_changed_holds_all_and_the_last_one_is_suggested(self):
        wide = FloatDistribution(0.0, 5.0)
        found = StudySpace.of([({"x": 4.0}, {"x": wide}), ({"x": 0.5}, {"x": X})])
        assert found.space.parameters["x"] == Float(0.0, 5.0)
        assert found.distributions["x"] == X

    def test_no_trial_makes_no_space(self):
        assert StudySpace.of([]) is None
        assert StudySpace.of([({}, {})]) is None


def program(kernel, degree, layers, x, coef):
    """What a branching objective suggests, by the values it gets."""
    params = {"kernel": kernel, "x": x}
    if kernel == "poly":
        params |= {"degree": degree}
        if degree > 3 and x > 0.5:
            params |= {"coef": coef}
    elif layers > 2:
        params |= {"layers": layers, "units": degree}
    return params


units = st.floats(0, 1)
programs = st.builds(
    program, st.sampled_from(KERNEL.choices), st.integers(2, 5), st.integers(1, 6), units, units
)


@given(st.lists(programs, min_size=1, max_size=12))
def test_whatever_the_branches_every_trial_is_a_config(trials):
    found = space_of(*trials)
    for params in trials:
        assert found.params(found.config(params)) == params
