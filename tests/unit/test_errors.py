"""Error messages never fail themselves."""

from __future__ import annotations

import pickle

from drbqo_ray.errors import InvalidInput, short_repr
from tests.support.hostile_objects import WithoutRepr


def test_an_object_whose_repr_raises_is_shown_by_its_type():
    assert short_repr(WithoutRepr()) == "an object of type WithoutRepr without a repr"
    assert "WithoutRepr" in str(InvalidInput("A rule.", WithoutRepr(), "A cure."))
    assert short_repr([WithoutRepr()]) == "an object of type list without a repr"


def test_a_long_value_is_shortened():
    assert short_repr("x" * 300) == repr("x" * 300)[:197] + "..."


def test_an_error_survives_pickling():
    error = pickle.loads(pickle.dumps(InvalidInput("A rule.", [1], "A cure.")))
    assert (str(error), error.got) == ("A rule. Got [1]. A cure.", [1])
