"""What every uncertainty set promises, as tests to inherit; needs pytest.

A set is checked by one class in a test file::

    class TestMySet(SetContract):
        @pytest.fixture
        def make(self):
            return lambda n: MySet(0.3)
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from drbqo_ray.core.sets import (
    Expectation,
    UncertaintySet,
    WorstCase,
    as_uncertainty,
    from_dict,
    reference_weights,
)
from drbqo_ray.errors import InvalidInput

Make = Callable[[int], UncertaintySet]
Rng = np.random.Generator
OFFSET_TOLERANCE = 1e-6  # of the range, which is 1e9 times smaller than the offset


class SetContract:
    """The contract of `UncertaintySet`; a subclass says by `make` which set is meant."""

    @pytest.fixture
    def make(self) -> Make:
        """Makes the set for a number of contexts; the same set each time."""
        raise NotImplementedError("Give the fixture `make` in the subclass.")

    @pytest.fixture
    def others(self, make: Make) -> Sequence[UncertaintySet]:
        """Sets for 4 contexts that differ from make(4); add one of the same kind."""
        return [other for other in (Expectation(), WorstCase()) if other.kind != make(4).kind]

    @pytest.fixture
    def rng(self) -> Rng:
        """Random numbers, the same for every test."""
        return np.random.default_rng(11)

    @pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0), (1, 1, 4)])
    def test_any_leading_shape_is_kept(self, make: Make, shape: tuple[int, ...], rng: Rng) -> None:
        value, weights = make(5).worst_case(rng.normal(size=(*shape, 5)))
        assert np.shape(value) == shape
        assert weights.shape == (*shape, 5)
        assert np.asarray(value).dtype == weights.dtype == np.float64

    def test_one_row_gives_a_number(self, make: Make) -> None:
        value, _ = make(3).worst_case([1, 2, 4])
        assert isinstance(value, np.float64)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_a_batch_is_its_rows(self, make: Make, weighted: bool, rng: Rng) -> None:
        values = rng.normal(size=(40, 6))
        values[:10] = np.round(values[:10])
        reference = rng.dirichlet(np.ones(6)) if weighted else None
        value, weights = make(6).worst_case(values, reference)
        for row, v, p in zip(values, value, weights, strict=True):
            alone, p_alone = make(6).worst_case(row, reference)
            assert alone == pytest.approx(v, abs=1e-13)
            np.testing.assert_allclose(p_alone, p, atol=1e-10)

    def test_a_batch_larger_than_a_block_is_its_parts(self, make: Make, rng: Rng) -> None:
        ball = make(7)
        values = rng.normal(size=(300, 7))
        value, weights = ball.worst_case(values)
        object.__setattr__(ball, "_block_elements", 7 * 16)
        value_in_blocks, weights_in_blocks = ball.worst_case(values)
        np.testing.assert_allclose(value_in_blocks, value, atol=1e-13)
        np.testing.assert_allclose(weights_in_blocks, weights, atol=1e-10)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_weights_lie_on_the_simplex_and_give_the_value(
        self, make: Make, weighted: bool, rng: Rng
    ) -> None:
        values = rng.normal(size=(200, 9)) * 10.0 ** rng.uniform(-12, 12, size=(200, 1))
        reference = rng.dirichlet(np.full(9, 0.5)) if weighted else None
        value, p = make(9).worst_case(values, reference)
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=-1), 1.0, atol=1e-12)
        np.testing.assert_allclose(
            (np.sum(p * values, axis=-1) - value) / np.ptp(values, axis=-1), 0.0, atol=1e-13
        )

    def test_solve_is_worst_case_without_checks(self, make: Make, rng: Rng) -> None:
        values, q = rng.normal(size=(5, 4)), rng.dirichlet(np.ones(4))
        checked = make(4).worst_case(values, q)
        direct = make(4).solve(values, reference_weights(q, 4))
        np.testing.assert_array_equal(checked[0], direct[0])
        np.testing.assert_array_equal(checked[1], direct[1])

    def test_an_equal_reference_is_the_default(self, make: Make, rng: Rng) -> None:
        values = rng.normal(size=(5, 4))
        np.testing.assert_array_equal(
            make(4).worst_case(values)[1], make(4).worst_case(values, np.full(4, 0.25))[1]
        )

    def test_a_nearly_equal_reference_gives_nearly_the_same_answer(
        self, make: Make, rng: Rng
    ) -> None:
        values = rng.normal(size=(50, 6))
        q = np.full(6, 1 / 6) + 1e-13 * np.arange(6)
        default, given = make(6).worst_case(values)[0], make(6).worst_case(values, q)[0]
        np.testing.assert_allclose(given, default, atol=1e-10)

    def test_arguments_are_left_alone(self, make: Make, rng: Rng) -> None:
        values, q = rng.normal(size=(5, 4)), rng.dirichlet(np.ones(4))
        before = values.copy(), q.copy()
        _, weights = make(4).worst_case(values, q)
        weights += 1.0
        np.testing.assert_array_equal(values, before[0])
        np.testing.assert_array_equal(q, before[1])
        make(4).worst_case(values)[1][...] = 7.0
        assert make(4).worst_case(values)[1].max() <= 1.0

    def test_views_and_integers_are_fine(self, make: Make, rng: Rng) -> None:
        table = rng.integers(-5, 5, size=(8, 6))
        expected = make(4).worst_case(np.ascontiguousarray(table[::2, 1:5], dtype=float))
        for given in (
            table[::2, 1:5],
            table[::2, 1:5].tolist(),
            np.asfortranarray(table[::2, 1:5]),
        ):
            np.testing.assert_allclose(make(4).worst_case(given)[0], expected[0], rtol=1e-13)

    @pytest.mark.parametrize("constant", [0.0, -3.5, 1e12, 1e-300])
    def test_constant_values_keep_the_reference(self, make: Make, constant: float) -> None:
        q = np.array([0.1, 0.2, 0.3, 0.4])
        value, p = make(4).worst_case(np.full((2, 4), constant), q)
        assert (value == constant).all()
        np.testing.assert_allclose(p, [q, q], atol=1e-15)

    @pytest.mark.parametrize("reference", [None, [1.0]])
    def test_one_context_takes_all_weight(self, make: Make, reference: Any) -> None:
        value, p = make(1).worst_case([[3.0], [-2e9]], reference)
        assert value.tolist() == [3.0, -2e9]
        assert p.tolist() == [[1.0], [1.0]]

    @pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6, 1e12, 1e-250, 1e250])
    def test_scale_does_not_cost_digits(self, make: Make, scale: float, rng: Rng) -> None:
        values = rng.normal(size=(20, 5))
        plain, scaled = make(5).worst_case(values), make(5).worst_case(values * scale)
        np.testing.assert_allclose(scaled[0] / scale, plain[0], atol=1e-12)
        np.testing.assert_allclose(scaled[1], plain[1], atol=1e-9)

    def test_an_offset_costs_no_more_than_storing_it(self, make: Make, rng: Rng) -> None:
        values = np.round(rng.normal(size=(20, 5)), 6)
        shifted = values + 1e9
        exact = shifted - 1e9
        plain, moved = make(5).worst_case(exact), make(5).worst_case(shifted)
        np.testing.assert_allclose(moved[0] - 1e9, plain[0], atol=OFFSET_TOLERANCE)
        np.testing.assert_allclose(moved[1], plain[1], atol=1e-12)

    @pytest.mark.parametrize("gap", [1e-300, 1e-160, 1e-144, 1e-100, 1e-17, 3e-16, 1e-15, 1e-9])
    def test_near_ties_move_the_value_no_more_than_themselves(self, make: Make, gap: float) -> None:
        values = np.array([[0.0, gap, 2 * gap, 1.0, 1.0 + gap], [1.0, 0.0, 0.0, gap, 0.5]])
        value, p = make(5).worst_case(values)
        tied, _ = make(5).worst_case(
            np.where(values < 0.1, 0.0, np.where(values < 0.9, values, 1.0))
        )
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=-1), 1.0, atol=1e-12)
        np.testing.assert_allclose(value, tied, atol=max(3 * gap, 1e-9))

    def test_zero_reference_weights_are_allowed(self, make: Make, rng: Rng) -> None:
        values = rng.normal(size=(30, 6))
        q = np.array([0.5, 0.0, 0.25, 0.0, 0.25, 0.0])
        ball = make(6)
        value, p = ball.worst_case(values, q)
        np.testing.assert_allclose(np.sum(p * values, axis=-1), value, atol=1e-12)
        if ball.within_support:
            assert (p[:, q == 0] == 0).all()
            smaller, _ = make(3).worst_case(values[:, q > 0], q[q > 0])
            np.testing.assert_allclose(value, smaller, atol=1e-12)

    def test_plain_data_survives_json(self, make: Make) -> None:
        ball = make(4)
        again = from_dict(json.loads(json.dumps(ball.to_dict())))
        assert again == ball
        assert hash(again) == hash(ball)
        assert ball.to_dict()["set"] == ball.kind

    def test_copies_are_equal_and_work(self, make: Make, rng: Rng) -> None:
        ball, values = make(4), rng.normal(size=(3, 4))
        again = copy.deepcopy(ball)
        assert again == ball
        np.testing.assert_array_equal(again.worst_case(values)[1], ball.worst_case(values)[1])

    def test_sets_are_equal_by_value_and_never_to_others(
        self, make: Make, others: Sequence[UncertaintySet]
    ) -> None:
        ball = make(4)
        assert ball == make(4)
        assert len({ball, make(4)}) == 1
        assert all(ball != other for other in others)
        stranger: object = "a set"
        assert ball != stranger

    def test_sets_cannot_be_changed(self, make: Make) -> None:
        ball = make(4)
        for field in dataclasses.fields(ball):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(ball, field.name, 1.0)

    def test_repr_names_the_set_and_stays_short(self, make: Make) -> None:
        text = repr(make(30))
        assert text.startswith(type(make(30)).__name__ + "(")
        assert len(text) < 80

    def test_as_uncertainty_passes_sets_through(self, make: Make) -> None:
        ball = make(4)
        assert as_uncertainty(ball, 4) is ball

    @pytest.mark.parametrize(
        "values",
        [
            [1.0, np.nan, 0.0],
            [np.inf, 1.0, 0.0],
            [[1.0, 2.0, 3.0], [0.0, -np.inf, 0.0]],
            [1e308, -1e308, 0.0],
            [],
            [[], []],
            1.0,
            ["a", "b", "c"],
            [1j, 0.0, 1.0],
            [None, 1.0, 2.0],
            [[1.0, 2.0, 3.0], [1.0, 2.0]],
            [10**400, 1.0, 2.0],
        ],
    )
    def test_bad_values_are_refused(self, make: Make, values: Any) -> None:
        with pytest.raises(InvalidInput):
            make(3).worst_case(values)

    @pytest.mark.parametrize(
        "reference",
        [
            [0.5, 0.5],
            [[0.2, 0.3, 0.5]],
            [0.5, 0.6, -0.1],
            [0.2, 0.3, 0.4],
            [np.nan, 0.5, 0.5],
            [np.inf, 0.5, 0.5],
            ["a", "b", "c"],
            [10**400, 0, 0],
        ],
    )
    def test_bad_references_are_refused(self, make: Make, reference: Any) -> None:
        with pytest.raises(InvalidInput):
            make(3).worst_case([1.0, 2.0, 3.0], reference)

    def test_a_reference_that_almost_sums_to_one_is_normalized(self, make: Make) -> None:
        values, q = [1.0, 2.0, 3.0], np.array([0.2, 0.3, 0.5])
        value, p = make(3).worst_case(values, q * (1 + 5e-7))
        assert value == pytest.approx(make(3).worst_case(values, q)[0], abs=1e-12)
        assert p.sum() == pytest.approx(1.0, abs=1e-12)

    def test_it_describes_itself_in_a_few_words(self, make: Make) -> None:
        assert re.fullmatch(r"\S.{0,98}\S", make(4).describe())

    def test_its_label_is_fit_for_a_directory(self, make: Make) -> None:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.+-]{0,60}", make(4).label())

    def test_its_code_is_a_call_of_its_class_that_makes_it_again(self, make: Make) -> None:
        before, expression = make(4).to_python()
        ast.parse(before)
        call = ast.parse(expression, mode="eval").body
        assert isinstance(call, ast.Call)
        assert ast.unparse(call.func).removeprefix("dr.") == type(make(4)).__name__
        given = [ast.literal_eval(argument) for argument in call.args]
        named = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        assert type(make(4))(*given, **named) == make(4)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_worst_weights_lie_within_its_divergence(
        self, make: Make, weighted: bool, rng: Rng
    ) -> None:
        q = rng.dirichlet(np.ones(5)) if weighted else np.full(5, 0.2)
        for values in rng.normal(size=(20, 5)):
            found = make(5).divergence(make(5).worst_case(values, q)[1], q)
            nearest = make(5).divergence(q, q)
            if found is None or nearest is None:
                assert found is nearest
                continue
            assert found.name == nearest.name
            assert nearest.distance - 1e-9 <= found.distance <= found.limit * (1 + 1e-6) + 1e-9

    @pytest.mark.parametrize("weighted", [False, True])
    def test_its_family_runs_from_the_mean_through_itself_to_the_worst_context(
        self, make: Make, weighted: bool, rng: Rng
    ) -> None:
        q = rng.dirichlet(np.ones(5)) if weighted else np.full(5, 0.2)
        values = rng.normal(size=(20, 5))
        family = make(5).family(q)
        if family is None:
            return
        mean, itself, low, worst = (
            set.worst_case(values, q)[0]
            for set in (
                family.make(0.0),
                make(5),
                family.make(min(family.own, family.high)),
                family.make(family.high),
            )
        )
        np.testing.assert_allclose(mean, values @ q, atol=1e-6)
        np.testing.assert_allclose(low, itself, atol=1e-9)
        np.testing.assert_allclose(worst, values.min(axis=1), atol=1e-6)
        assert family.make(0.0).kind == family.kind
        assert family.label

    def test_one_context_has_no_family(self, make: Make) -> None:
        assert make(1).family(np.ones(1)) is None
