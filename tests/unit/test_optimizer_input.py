"""What the optimizer takes and refuses: its options, and the results it is told."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import ConflictingResult, InvalidInput, UnknownSuggestion
from tests.support.hostile_objects import WithoutEquals, WithoutRepr
from tests.support.optimizer_problems import NAN, make, score, spend, state

INF = float("inf")

# construction

BAD_OPTIONS = {
    "no contexts": {"contexts": 0},
    "negative contexts": {"contexts": -1},
    "contexts true": {"contexts": True},
    "contexts none": {"contexts": None},
    "contexts text": {"contexts": "five"},
    "contexts fraction": {"contexts": 2.5},
    "contexts nan": {"contexts": NAN},
    "sample vectors with nan": {"contexts": [[0.0, NAN], [1.0, 2.0]]},
    "sample vectors with infinity": {"contexts": [[0.0, INF]]},
    "one-dimensional samples": {"contexts": [1.0, 2.0]},
    "ragged samples": {"contexts": [[1.0], [1.0, 2.0]]},
    "empty samples": {"contexts": np.empty((0, 2))},
    "samples without columns": {"contexts": np.empty((2, 0))},
    "negative radius": {"uncertainty": -0.1},
    "nan radius": {"uncertainty": NAN},
    "infinite radius": {"uncertainty": INF},
    "unknown uncertainty": {"uncertainty": "chi"},
    "uncertainty none": {"uncertainty": None},
    "uncertainty true": {"uncertainty": True},
    "distances of another size": {"uncertainty": dr.WassersteinBall(0.1, np.zeros((4, 4)))},
    "unknown method": {"method": "drbo"},
    "method none": {"method": None},
    "unhashable method": {"method": ["drbqo"]},
    "unknown kernel": {"kernel": "rbf"},
    "unhashable kernel": {"kernel": ["se"]},
    "unknown mode": {"mode": "minimize"},
    "mode none": {"mode": None},
    "unknown context rule": {"context_rule": "best"},
    "unhashable context rule": {"context_rule": {}},
    "reference too short": {"reference": [0.5, 0.5]},
    "negative reference": {"reference": [0.6, 0.6, -0.2]},
    "reference not summing to 1": {"reference": [1.0, 1.0, 1.0]},
    "nan reference": {"reference": [0.5, 0.5, NAN]},
    "reference text": {"reference": "uniform"},
    "negative n_initial": {"n_initial": -1},
    "fractional n_initial": {"n_initial": 2.5},
    "n_initial true": {"n_initial": True},
    "negative seed": {"seed": -1},
    "seed text": {"seed": "0"},
    "unknown sampler": {"sampler": "exact"},
    "unknown hyperparameters": {"hyperparameters": "mcmc"},
    "mode array": {"mode": np.array(["max", "min"])},
    "method array": {"method": np.array(["drbqo", "random"])},
    "kernel array": {"kernel": np.array(["se", "matern12"])},
    "context rule array": {"context_rule": np.array(["random", "variance"])},
    "sampler array": {"sampler": np.array(["rff", "pathwise"])},
    "hyperparameters array": {"hyperparameters": np.array(["map", "mle"])},
    "mode without equals": {"mode": WithoutEquals()},
    "mode without repr": {"mode": WithoutRepr()},
    "radius beyond float64": {"uncertainty": 10**400},
    "reference beyond float64": {"reference": [10**400, 0, 0]},
    "sample vectors beyond float64": {"contexts": [[10**400], [0]]},
    "sample vectors that cannot be compared": {"contexts": [[-1.7e308], [1.7e308]]},
    "contexts without repr": {"contexts": WithoutRepr()},
    "2**53 contexts": {"contexts": 2**53},
    "contexts beyond float64": {"contexts": 10**400},
    "too many sample vectors": {"contexts": np.zeros((100_000, 1))},
    "n_initial of 2**53": {"n_initial": 2**53},
}


@pytest.mark.parametrize("options", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_a_bad_option_gives_one_clear_error(options):
    with pytest.raises(InvalidInput) as caught:
        make(**options)
    error = caught.value
    assert str(error) == f"{error.rule} Got {str(error)[len(error.rule) + 5 :]}"
    assert str(error).endswith(error.cure)


def test_more_contexts_than_memory_holds_are_refused_with_the_reason():
    with pytest.raises(InvalidInput, match=r"a score of each of them.*10001.*fewer folds"):
        make(contexts=10_001)
    assert make(contexts=np.zeros((3000, 500))).n_contexts == 3000
    assert make(contexts=400).n_contexts == 400


def test_numpy_text_is_text():
    assert make(mode=np.str_("min"), kernel=np.str_("matern32"), method=np.str_("random")).ask()


def test_a_failure_may_be_told_with_any_reason():
    opt = make()
    assert opt.fail(opt.ask().id, ValueError("lost")).reason == "lost"
    assert opt.fail(opt.ask().id, WithoutRepr()).reason.startswith("an object of type WithoutRepr")


@pytest.mark.parametrize("space", [None, {}, {"a": 3}, [dr.Float(0, 1)], "a: float"])
def test_a_bad_space_gives_one_clear_error(space):
    with pytest.raises(InvalidInput):
        dr.Optimizer(space, 3)


def test_unknown_options_are_refused_by_name():
    with pytest.raises(TypeError, match="radius"):
        make(radius=1.0)


def test_auto_uncertainty_is_the_95_percent_ball():
    opt = make(contexts=10, uncertainty="auto")
    assert opt.uncertainty == dr.ChiSquareBall.from_confidence(0.95, 10)
    assert 0 < opt.uncertainty.radius < 4.5


def test_a_number_is_a_chi_square_radius_and_a_set_stays_itself():
    assert make(uncertainty=2).uncertainty == dr.ChiSquareBall(2.0)
    cvar = dr.CVaR(0.4)
    assert make(uncertainty=cvar).uncertainty is cvar


def test_the_sample_vectors_are_copied():
    vectors = np.random.default_rng(0).standard_normal((4, 2))
    first, second = make(contexts=vectors), make(contexts=vectors.copy())
    vectors[:] = 0.0
    spend(first, 5)
    spend(second, 5)
    assert first.ask() == second.ask()


# telling


def test_a_told_score_is_an_observation_with_the_users_sign():
    opt = make(mode="min")
    suggestion = opt.ask()
    outcome = opt.tell(suggestion.id, 2.5)
    assert outcome == dr.Observation(0, suggestion.config, suggestion.context, "ok", 2.5, None)
    assert opt.observations == [outcome]
    assert opt.pending == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (1, 1.0),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        (np.array(0.25), 0.25),
        (Fraction(1, 4), 0.25),
        (-0.0, 0.0),
        (1e99, 1e99),
        (1e-320, 1e-320),
    ],
)
def test_every_finite_number_is_a_score(given, kept):
    opt = make()
    outcome = opt.tell(opt.ask().id, given)
    assert (outcome.status, outcome.score, outcome.reason) == ("ok", kept, None)
    assert type(outcome.score) is float


@pytest.mark.parametrize(
    "given",
    [
        None,
        "0.9",
        1 + 0j,
        True,
        np.True_,
        Decimal("0.5"),
        [0.5],
        {},
        np.array([0.5]),
        np.array([0.5, 0.6]),
        np.array("x"),
        np.datetime64("2020-01-01"),
        np.ma.masked,
        object(),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_score_that_is_no_number_is_refused_and_can_be_corrected(given):
    opt = make()
    asked = opt.ask()
    before = state(opt)
    with pytest.raises(InvalidInput, match="A score is one number"):
        opt.tell(asked.id, given)
    with pytest.raises(InvalidInput, match="A score is one number"):
        opt.observe(asked.config, asked.context, given)
    assert state(opt) == before
    assert opt.pending == [asked]
    assert opt.tell(asked.id, 0.9).score == 0.9


@pytest.mark.parametrize(
    "given",
    [
        NAN,
        INF,
        -INF,
        1e308,
        -1e308,
        10**400,
        Fraction(10**400, 3),
        np.array(NAN),
        np.float32("nan"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_number_that_is_no_usable_score_is_a_recorded_failure_with_a_reason(given):
    opt = make()
    outcome = opt.tell(opt.ask().id, given)
    assert (outcome.status, outcome.score) == ("failed", None)
    assert "score must be" in outcome.reason
    assert opt.tell(0, given) == outcome
    assert opt.ask().id == 1


def test_huge_scores_do_not_break_the_model():
    opt = make()
    for k in range(6):
        opt.tell(opt.ask().id, (-1) ** k * 1e100)
    assert np.isfinite(opt.recommend().robust_value)
    assert opt.ask().id == 6


def test_the_same_result_twice_changes_nothing():
    opt = make()
    spend(opt, 4)
    first = opt.observations[1]
    before = state(opt)
    assert opt.tell(1, first.score) == first
    assert state(opt) == before


def test_the_same_failure_twice_changes_nothing():
    opt = make()
    outcome = opt.fail(opt.ask().id, "lost worker")
    before = state(opt)
    assert opt.fail(0, "lost worker again") == outcome
    assert opt.tell(0, NAN) == outcome
    assert state(opt) == before


@pytest.mark.parametrize("second", [1.5, NAN])
def test_another_result_for_the_same_id_is_an_error(second):
    opt = make()
    opt.tell(opt.ask().id, 1.0)
    before = state(opt)
    with pytest.raises(ConflictingResult, match="Keep the first result"):
        opt.tell(0, second)
    with pytest.raises(ConflictingResult):
        opt.fail(0, "late failure")
    assert state(opt) == before


def test_a_score_after_a_failure_is_an_error():
    opt = make()
    opt.fail(opt.ask().id, "timeout")
    before = state(opt)
    with pytest.raises(ConflictingResult):
        opt.tell(0, 1.0)
    assert state(opt) == before


@pytest.mark.parametrize("id", [7, -1, None, "0", 0.5, [0], {}], ids=repr)
def test_a_result_for_an_id_that_was_never_handed_out_is_an_error(id):
    opt = make()
    opt.ask(2)
    before = state(opt)
    with pytest.raises(UnknownSuggestion, match="observe"):
        opt.tell(id, 1.0)
    with pytest.raises(UnknownSuggestion):
        opt.fail(id, "reason")
    assert state(opt) == before


def test_results_may_come_in_any_order():
    opt = make()
    asked = opt.ask(4)
    for suggestion in reversed(asked):
        opt.tell(suggestion.id, score(suggestion))
    assert [o.id for o in opt.observations] == [3, 2, 1, 0]
    assert opt.pending == []
