"""Any nested space of Tune domains: configs come out resolved, plain, valid, and read back."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as hs
from ray import tune
from ray.tune.search.sample import Domain

from drbqo_ray.tune_searcher.space import TuneSpace

QUICK = settings(deadline=None, max_examples=60, derandomize=True)

floats = hs.floats(-1e3, 1e3).map(lambda v: round(v, 3))
widths = hs.floats(0.01, 1e3).map(lambda v: round(v, 3))
steps = hs.sampled_from([0.1, 0.25, 0.5, 2.0, 3.0])  # older versions of Tune do not round to 1.0
counts = hs.integers(1, 30)
plain = hs.none() | hs.booleans() | hs.integers(-9, 9) | floats | hs.text("abc/_", max_size=4)
of_numpy = hs.one_of(
    floats.map(np.float64),
    floats.map(np.float32),
    hs.integers(-9, 9).map(np.int64),
    hs.booleans().map(np.bool_),
    hs.text("abc", max_size=2).map(np.str_),
)


def on_step(make, lows):
    return hs.builds(
        lambda low, n, q: make(round(low * q, 9), round((low + n) * q, 9), q), lows, counts, steps
    )


numbers = hs.one_of(
    hs.builds(lambda low, width: tune.uniform(low, low + width), floats, widths),
    hs.builds(lambda low, width: tune.loguniform(low, low * (1 + width)), widths, widths),
    on_step(tune.quniform, hs.integers(-20, 20)),
    on_step(tune.qloguniform, hs.integers(1, 20)),
    hs.builds(lambda low, n: tune.randint(low, low + n), hs.integers(-50, 50), counts),
    hs.builds(lambda low, n: tune.lograndint(low, low + n), hs.integers(1, 50), counts),
    hs.builds(
        lambda low, n, q: tune.qrandint(low, low + n * q, q), hs.integers(-50, 50), counts, counts
    ),
    hs.builds(
        lambda low, n, q: tune.qlograndint(low * q, (low + n) * q, q), counts, counts, counts
    ),
    hs.builds(tune.randn, floats, widths),
    hs.builds(tune.qrandn, floats, widths, steps),
)
options = hs.lists(
    plain | of_numpy | hs.tuples(plain, of_numpy) | hs.lists(plain), min_size=1, max_size=4
)
leaves = hs.one_of(numbers, hs.builds(tune.choice, options), plain, of_numpy)
keys = hs.text("abcd", min_size=1, max_size=2)


def containers(inner):
    return hs.one_of(
        hs.dictionaries(keys, inner, max_size=3),
        hs.lists(inner, max_size=3),
        hs.lists(inner, max_size=3).map(tuple),
        hs.lists(inner, min_size=1, max_size=3).map(tune.choice),
    )


spaces = hs.dictionaries(keys, hs.recursive(leaves, containers, max_leaves=6), max_size=4)


def holds_a_domain(value):
    if isinstance(value, dict):
        return any(holds_a_domain(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(holds_a_domain(item) for item in value)
    return isinstance(value, Domain)


@QUICK
@given(spaces, hs.integers(0, 2**32 - 1))
def test_nothing_unresolved_is_handed_out_and_every_config_reads_back(config, seed):
    space = TuneSpace.of(config)
    if space is None:
        assert not holds_a_domain(config)
        return
    rng = np.random.default_rng(seed)
    for _ in range(3):
        values = space.complete({}, rng)
        filled = space.fill(values)
        assert not holds_a_domain(filled)
        assert set(filled) == set(config)
        again = space.space.validate(space.read(filled))
        assert space.fill(again) == filled
        json.dumps(values, allow_nan=False)


@QUICK
@given(spaces)
def test_the_plain_form_gives_the_same_space_back(config):
    space = TuneSpace.of(config)
    if space is not None:
        again = TuneSpace.from_dict(json.loads(json.dumps(space.to_dict())))
        assert again == space
        assert repr(again.root) == repr(space.root)  # of the same types


@QUICK
@given(numbers, hs.integers(0, 2**32 - 1))
def test_samples_of_tune_are_values_of_the_parameter(domain, seed):
    space = TuneSpace.of({"p": domain})
    item = space.space.parameters["p"]
    try:
        samples = domain.sample(size=5, random_state=seed)
    except ValueError:  # older versions of Tune cannot sample a domain of one value
        assert item.count == 1
        return
    for value in samples:
        if getattr(item, "sd", None) and not item.low <= value <= item.high + 1e-9:
            continue
        checked = space.complete(space.read({"p": value}), np.random.default_rng(0))["p"]
        assert abs(checked - value) <= 1e-9 * max(1.0, abs(value))
        assert type(checked) in (int, float)
