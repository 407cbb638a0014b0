"""Arbitrary spaces, conditions included: configs and points of the unit cube agree."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from drbqo_ray.space.foreign import Normal
from drbqo_ray.space.parameters import Choice, Float, Int, Parameter
from drbqo_ray.space.space import Space

SETTINGS = settings(max_examples=100, deadline=None, derandomize=True)
UNIT = st.floats(0.0, 1.0)
OPTIONS = st.lists(
    st.one_of(st.text("abc", max_size=3), st.integers(-3, 3), st.booleans(), st.none()),
    min_size=1,
    max_size=5,
    unique_by=lambda option: (type(option), option),
)


@st.composite
def floats(draw: st.DrawFn) -> Float:
    log = draw(st.booleans())
    low = draw(st.floats(1e-6, 1e3) if log else st.floats(-1e3, 1e3))
    high = low + draw(st.floats(1e-3, 1e4))
    step = draw(st.none() | st.floats(1e-3, 1.0).map(lambda share: share * (high - low)))
    return Float(low, high, log=log, step=step)


@st.composite
def decimal_steps(draw: st.DrawFn) -> Float:
    """Steps as people write them: 0.1 from 0.3 on, with high on or off the grid."""
    digits = draw(st.integers(0, 3))
    low, step, extra = (
        draw(st.integers(-50, 50)),
        draw(st.integers(1, 30)),
        draw(st.integers(0, 99)),
    )
    scale = 10**digits
    high = low + step * draw(st.integers(1, 40)) + extra
    return Float(low / scale, high / scale, step=step / scale)


@st.composite
def ints(draw: st.DrawFn) -> Int:
    log = draw(st.booleans())
    low = draw(st.integers(1, 100) if log else st.integers(-100, 100))
    high = low + draw(st.integers(1, 10**6))
    return Int(low, high, log=log, step=draw(st.integers(1, min(high - low, 50))))


@st.composite
def normals(draw: st.DrawFn) -> Normal:
    """The whole of a normal, some of it, or steps of it."""
    mean, sd = draw(st.floats(-1e3, 1e3)), draw(st.floats(1e-2, 1e3))
    low, high = mean - sd * draw(st.floats(0.1, 5.0)), mean + sd * draw(st.floats(0.1, 5.0))
    step = draw(st.none() | st.floats(1e-3, 1.0).map(lambda share: share * (high - low)))
    return Normal(low, high, step=step, mean=mean, sd=sd)


@st.composite
def wide_logs(draw: st.DrawFn) -> Float:
    """Log scales over any number of decades, some over next to none."""
    low = 10.0 ** draw(st.floats(-323.0, 290.0))
    high = max(low * 10.0 ** draw(st.floats(1e-12, 16.0)), low + 3e-308)
    return Float(low, draw(st.sampled_from([high, 1e307])), log=True)


@st.composite
def conditions(draw: st.DrawFn, parents: dict[str, Parameter]) -> dict[str, list[object]]:
    """Up to two parents that are not continuous, each with some of its values."""
    names = [name for name, item in parents.items() if item.count]
    if not names or draw(st.booleans()):
        return {}
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    when: dict[str, list[object]] = {}
    for name in chosen:
        positions = draw(st.lists(UNIT, min_size=1, max_size=3))
        when[name] = [parents[name].from_unit(u) for u in positions]
    return when


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    parameters: dict[str, Parameter] = {}
    kinds = st.one_of(
        floats(), decimal_steps(), ints(), OPTIONS.map(Choice), normals(), wide_logs()
    )
    for number in range(draw(st.integers(1, 5))):
        item = draw(kinds)
        when = draw(conditions(parameters))
        fields = {name: getattr(item, name) for name in item.__dataclass_fields__}
        parameters[f"p{number}"] = type(item)(**{**fields, "when": when})
    order = draw(st.permutations(list(parameters)))
    return Space({name: parameters[name] for name in order})


@st.composite
def points(draw: st.DrawFn) -> tuple[Space, np.ndarray]:
    space = draw(spaces())
    return space, np.array(draw(st.lists(UNIT, min_size=len(space), max_size=len(space))))


@SETTINGS
@given(points())
def test_a_config_comes_back_exactly_from_the_unit_cube(case):
    space, u = case
    config = space.from_unit(u)
    back = space.from_unit(space.to_unit(config))
    assert list(back) == list(config)
    for name, value in config.items():
        item = space.parameters[name]
        assert type(back[name]) is type(value)
        if item.count:
            assert back[name] == value
        else:
            width = item.high - item.low
            assert abs(back[name] - value) <= 1e-12 * max(abs(value), width)


@SETTINGS
@given(points())
def test_every_point_of_the_cube_is_a_valid_config_and_validate_is_idempotent(case):
    space, u = case
    config = space.from_unit(u)
    assert space.validate(config) == config
    assert space.validate(space.validate(config)) == config
    for name, value in config.items():
        item = space.parameters[name]
        if not isinstance(item, Choice):
            assert item.low <= value <= item.high


@SETTINGS
@given(points())
def test_snapping_twice_is_snapping_once_and_keeps_the_config(case):
    space, u = case
    snapped = space.snap(u[None])
    np.testing.assert_allclose(space.snap(snapped), snapped, rtol=0, atol=1e-12)
    assert snapped.min() >= 0
    assert snapped.max() <= 1
    once, twice = space.from_unit(u), space.from_unit(snapped[0])
    assert list(once) == list(twice)
    for name, value in once.items():
        if space.parameters[name].count:
            assert twice[name] == value


@SETTINGS
@given(points())
def test_to_unit_gives_a_fixed_point_bit_for_bit(case):
    space, u = case
    config = space.from_unit(u)
    point = space.to_unit(config)
    assert space.from_unit(point) == config
    assert space.to_unit(space.from_unit(point)).tobytes() == point.tobytes()


@SETTINGS
@given(points(), st.integers(1, 17))
def test_a_told_config_settles_after_one_round_trip(case, digits):
    space, u = case
    told = {name: rounded(space, name, v, digits) for name, v in space.from_unit(u).items()}
    once = space.from_unit(space.to_unit(told))
    assert space.from_unit(space.to_unit(once)) == once


def rounded(space: Space, name: str, value: object, digits: int) -> object:
    """A continuous value with few digits, as people write them; any other as it is."""
    item = space.parameters[name]
    if item.count:
        return value
    return min(max(float(f"{value:.{digits}g}"), item.low), item.high)


@SETTINGS
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.integers(-60, 60))
def test_values_next_to_the_mean_of_a_normal_settle(mean, sd, ulps):
    item = Normal.around(mean, sd)
    value = item.from_unit(0.5 + ulps * 2.0**-53)
    assert item.from_unit(item.to_unit(value)) == value
    assert abs(value - mean) <= 1e-9 * sd


@SETTINGS
@given(points())
def test_every_neighbor_is_another_valid_config_that_differs_in_one_choice(case):
    space, u = case
    snapped = space.snap(u[None])[0]
    config = space.from_unit(snapped)
    near = space.neighbors(snapped)
    np.testing.assert_allclose(space.snap(near), near, rtol=0, atol=1e-12)
    for row in near:
        other = space.from_unit(row)
        assert space.validate(other) == other
        shared = [name for name in config if name in other and space.parameters[name].count]
        changed = [name for name in shared if repr(other[name]) != repr(config[name])]
        assert len(changed) == 1


@SETTINGS
@given(points())
def test_inactive_parameters_are_absent_and_rest_in_the_middle(case):
    space, u = case
    config = space.from_unit(u)
    snapped = space.to_unit(config)
    active = space.active(snapped[None])[0]
    assert [name for name, on in zip(space, active, strict=True) if on] == list(config)
    np.testing.assert_array_equal(snapped[~active], 0.5)
    for name in config:
        for parent, values in space.parameters[name].when.items():
            assert config[parent] in values


@SETTINGS
@given(points())
def test_features_lie_in_the_unit_cube_and_are_one_per_config(case):
    space, u = case
    snapped = space.to_unit(space.from_unit(u))[None]
    z = space.features(snapped)
    assert z.shape == (1, space.n_features)
    assert ((z >= 0) & (z <= 1)).all()
    noisy = np.where(space.active(snapped), snapped, np.random.default_rng(0).random(len(space)))
    np.testing.assert_allclose(space.features(space.snap(noisy)), z, rtol=0, atol=1e-12)


@SETTINGS
@given(spaces())
def test_plain_data_through_json_gives_the_same_space(space):
    plain = space.to_dict()
    back = Space(json.loads(json.dumps(plain)))
    assert back.to_dict() == plain
    assert list(back) == list(space)
    u = np.random.default_rng(0).random(len(space))
    assert back.from_unit(u) == space.from_unit(u)


@SETTINGS
@given(spaces())
def test_the_grid_of_a_finite_space_holds_every_config_once(space):
    grid = space.grid(300)
    if grid is None:
        counts = [item.count for item in space.parameters.values()]
        assert 0 in counts or np.prod([float(count) for count in counts]) > 300
        return
    configs = [repr(space.from_unit(u)) for u in grid]
    assert len(set(configs)) == len(configs)
    back = np.array([space.to_unit(space.from_unit(u)) for u in grid])
    np.testing.assert_array_equal(back, grid)
    rng = np.random.default_rng(0)
    assert {repr(space.from_unit(u)) for u in rng.random((50, len(space)))} <= set(configs)
