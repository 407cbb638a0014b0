"""Nested Tune spaces to flat spaces and back, without a cluster."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.stats as st
from ray import tune

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from drbqo_ray.tune_searcher.space import TuneSpace


class Thing:
    """An object that equals only itself."""


def nested():
    return {
        "lr": tune.loguniform(1e-4, 1e-1),
        "model": {
            "layers": [tune.randint(1, 4), 16, {"drop": tune.quniform(0.0, 0.5, 0.1)}],
            "pair": (tune.choice(["a", "b"]), "fixed"),
            "name": "net",
        },
        "epochs": 3,
    }


def branching():
    return {
        "model": tune.choice(
            [
                {"kind": "svm", "C": tune.loguniform(1e-2, 1e2)},
                {"kind": "tree", "depth": tune.randint(1, 9)},
            ]
        )
    }


def test_parameters_are_named_by_their_path():
    space = TuneSpace.of(nested()).space
    assert space.parameters == {
        "lr": dr.Float(1e-4, 1e-1, log=True),
        "model/layers/0": dr.Int(1, 3),
        "model/layers/2/drop": dr.Float(0.0, 0.5, step=0.1),
        "model/pair/0": dr.Choice(["a", "b"]),
    }


def test_a_step_of_one_is_a_step():
    space = TuneSpace.of({"f": tune.quniform(0, 3, 1), "n": tune.qrandn(0, 0.1, 1)}).space
    assert space.parameters == {"f": dr.Float(0, 3, step=1), "n": dr.Choice([0.0])}


def test_a_filled_config_has_the_structure_and_constants_of_the_space():
    values = {"lr": 1e-2, "model/layers/0": 2, "model/layers/2/drop": 0.3, "model/pair/0": "b"}
    assert TuneSpace.of(nested()).fill(values) == {
        "lr": 1e-2,
        "model": {"layers": [2, 16, {"drop": 0.3}], "pair": ("b", "fixed"), "name": "net"},
        "epochs": 3,
    }


def test_values_are_read_back_from_a_config_with_other_things_in_it():
    space = TuneSpace.of(nested())
    values = {"lr": 1e-2, "model/layers/0": 2, "model/layers/2/drop": 0.3, "model/pair/0": "b"}
    config = {**space.fill(values), "seed": 5, "epochs": 99}
    assert space.read(config) == values


def test_a_partial_config_gives_the_values_it_has():
    assert TuneSpace.of(nested()).read({"model": {"pair": ("a",)}}) == {"model/pair/0": "a"}


def test_a_strict_reading_refuses_unknown_keys_and_says_where():
    with pytest.raises(InvalidInput, match=r"under 'model'.*'layer'"):
        TuneSpace.of(nested()).read({"model": {"layer": [1]}}, strict=True)


def test_missing_values_are_drawn_from_the_space_and_given_ones_kept_exactly():
    space = TuneSpace.of(nested())
    drawn = space.complete({"lr": 0.0123}, np.random.default_rng(0))
    assert drawn["lr"] == 0.0123
    assert space.space.validate(drawn) == drawn


def test_options_that_are_objects_are_searched_by_number_and_handed_out_untouched():
    options = [Thing(), (1, 2), {"a": 1}, [3], np.float64(0.5), Thing]
    space = TuneSpace.of({"o": tune.choice(options)})
    assert space.space.parameters == {"o": dr.Choice(range(6))}
    for k, option in enumerate(options):
        assert space.fill({"o": k})["o"] is option
        assert space.read({"o": option}) == {"o": k}


def test_an_unknown_option_is_refused():
    with pytest.raises(InvalidInput, match="'o'"):
        TuneSpace.of({"o": tune.choice([(1, 2), (3, 4)])}).read({"o": (5, 6)})


def test_domains_inside_an_option_are_active_with_it():
    space = TuneSpace.of(branching())
    assert space.space.parameters["model/0/C"].when == {"model": [0]}
    drawn = space.complete({"model": 1}, np.random.default_rng(0))
    assert set(drawn) == {"model", "model/1/depth"}
    assert space.fill(drawn) == {"model": {"kind": "tree", "depth": drawn["model/1/depth"]}}


def test_a_branch_is_recognized_by_its_constants_and_domains():
    space = TuneSpace.of(branching())
    assert space.read({"model": {"kind": "svm", "C": 1.0}}) == {"model": 0, "model/0/C": 1.0}
    assert space.read({"model": {"kind": "tree", "depth": 4}}) == {"model": 1, "model/1/depth": 4}
    with pytest.raises(InvalidInput):
        space.read({"model": {"kind": "svm", "depth": 4}})


def test_our_own_space_keeps_its_conditions():
    mine = dr.Space(
        {
            "kernel": dr.Choice(["rbf", (1, 2)]),
            "degree": dr.Int(2, 5, when={"kernel": [(1, 2)]}),
        }
    )
    space = TuneSpace.of(mine)
    assert space.fill({"kernel": 0}) == {"kernel": "rbf"}
    assert space.fill({"kernel": 1, "degree": 3}) == {"kernel": (1, 2), "degree": 3}
    assert space.space.from_unit(np.array([0.1, 0.5])) == {"kernel": 0}


def test_domains_of_three_kinds_mix():
    space = TuneSpace.of({"a": tune.uniform(0, 1), "b": st.randint(0, 3), "c": {"d": dr.Int(1, 2)}})
    assert list(space.space) == ["a", "b", "c/d"]


def test_a_space_without_domains_has_nothing_to_search():
    assert TuneSpace.of({"a": 1, "b": [2, {"c": 3}]}) is None
    assert TuneSpace.of({}) is None


@pytest.mark.parametrize(
    "space",
    [
        {"a": tune.grid_search([1, 2])},
        {"a": {"b": [tune.grid_search([1, 2])]}},
        {"a": tune.choice([{"b": tune.grid_search([1, 2])}])},
        {"a": tune.sample_from(lambda: 1)},
        {"a": {"eval": "1"}},
        {"a/b": tune.uniform(0, 1), "a": {"b": tune.uniform(0, 1)}},
        [tune.uniform(0, 1)],
    ],
    ids=["grid", "nested grid", "grid in an option", "function", "eval", "one path twice", "list"],
)
def test_what_cannot_be_searched_is_refused(space):
    with pytest.raises(InvalidInput):
        TuneSpace.of(space)


def test_markers_of_tune_are_constants():
    marked = {
        "x": tune.uniform(0, 1),
        "f": ("__fn_ph", "ab"),
        "o": tune.choice([("__ref_ph", "c")]),
    }
    space = TuneSpace.of(marked)
    filled = space.fill({"x": 0.5, "o": 0})
    assert filled == {"x": 0.5, "f": ("__fn_ph", "ab"), "o": ("__ref_ph", "c")}
    assert isinstance(filled["o"], tuple)


def test_an_answer_has_objects_for_known_markers_and_leaves_out_the_others():
    marked = {
        "x": tune.uniform(0, 1),
        "f": ("__fn_ph", "ab"),
        "o": tune.choice([("__ref_ph", "c")]),
    }
    space, values, thing = TuneSpace.of(marked), {"x": 0.5, "o": 0}, Thing()
    assert space.answer(values, {}) == {"x": 0.5}
    objects = space.marked_options(values, {"x": 0.5, "f": 1, "o": thing})
    assert space.answer(values, objects) == {"x": 0.5, "o": thing}


def test_the_plain_form_gives_the_same_space_back():
    marked = {**nested(), **branching(), "n": tune.randn(1, 2), "f": ("__fn_ph", "ab"), 3: [(4,)]}
    space = TuneSpace.of(marked)
    assert TuneSpace.from_dict(json.loads(json.dumps(space.to_dict()))) == space


def test_numbers_that_json_does_not_know_are_kept_in_the_plain_form():
    space = TuneSpace.of({"x": tune.choice([float("inf"), 1.0]), "clip": [float("-inf")]})
    assert space.space.parameters == {"x": dr.Choice([0, 1])}
    again = TuneSpace.from_dict(json.loads(json.dumps(space.to_dict(), allow_nan=False)))
    assert again.fill({"x": 0}) == {"x": float("inf"), "clip": [float("-inf")]}


def test_the_plain_form_of_objects_is_described_but_not_rebuilt():
    space = TuneSpace.of({"o": tune.choice([Thing(), Thing])})
    plain = json.loads(json.dumps(space.to_dict()))
    assert plain == json.loads(
        json.dumps(TuneSpace.of({"o": tune.choice([Thing(), Thing])}).to_dict())
    )
    with pytest.raises(InvalidInput, match="same space"):
        TuneSpace.from_dict(plain)


@pytest.mark.parametrize(
    "other", [False, 0.0, -1.0, 99.0, float("nan"), 10**400, "a"], ids=lambda v: repr(v)[:9]
)
def test_a_value_that_is_no_number_of_a_domain_is_found_among_the_other_options(other):
    space = TuneSpace.of({"a": tune.choice([tune.choice([tune.qloguniform(1, 2, 0.5), other])])})
    for value in (1.5, other):
        again = space.fill(space.read({"a": value}))["a"]
        assert again is other or again == value
