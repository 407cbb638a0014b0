"""What ask, observe and recommend promise."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput, NothingObserved
from tests.support.optimizer_problems import NAN, make, score, spend, state

LOG = {"C": dr.Float(1e-3, 1e3, log=True), "gamma": dr.Float(1e-5, 1e1, log=True)}
BRANCHED = {
    "model": dr.Choice(["bayes", "svm"]),
    "C": dr.Float(1e-3, 1e3, log=True, when={"model": ["svm"]}),
}
METHODS = ("random", "foldwise", "drbqo", "bqo-ei", "mtbo")

# asking


def test_suggestions_count_from_zero_and_carry_a_seed():
    asked = make().ask(5)
    assert [s.id for s in asked] == [0, 1, 2, 3, 4]
    assert len({s.seed for s in asked}) == 5
    assert all(0 <= s.seed < 2**31 and type(s.seed) is int for s in asked)
    assert all(type(s.context) is int for s in asked)


def test_ask_of_a_count_gives_a_list_and_refuses_what_is_no_count():
    opt = make()
    assert opt.ask(0) == []
    assert len(opt.ask(1)) == 1
    before = state(opt)
    for q in (-1, 1.5, "2", True):
        with pytest.raises(InvalidInput):
            opt.ask(q)
    assert state(opt) == before


def test_the_initial_design_takes_the_contexts_in_turn():
    opt = make(contexts=4, n_initial=8)
    contexts = [s.context for s in opt.ask(8)]
    assert sorted(contexts[:4]) == sorted(contexts[4:]) == [0, 1, 2, 3]


def test_evaluations_that_still_run_count_as_initial_ones():
    opt = make(contexts=4, n_initial=8)
    first = opt.ask(8)
    opt.tell(first[0].id, 1.0)
    assert opt.last_fit is None
    opt.ask()
    assert opt.last_fit is not None, "the ninth is chosen by the model, seven still running"


def test_one_evaluation_short_of_the_initial_ones_the_model_is_not_asked():
    opt = make(contexts=4, n_initial=8)
    first = opt.ask(7)
    opt.tell(first[0].id, 1.0)
    opt.ask()
    assert opt.last_fit is None


def test_changing_a_suggested_config_does_not_change_the_optimizer():
    opt = make()
    suggestion = opt.ask()
    kept = dict(suggestion.config)
    suggestion.config["a"] = 77.0
    suggestion.config.pop("b")
    assert opt.pending[0].config == kept
    assert opt.tell(0, 1.0).config == kept


def test_changing_an_observed_config_does_not_change_the_optimizer():
    opt = make()
    spend(opt, 2)
    kept = copy.deepcopy(opt.observations)
    opt.observations[0].config["a"] = 77.0
    assert opt.observations == kept


def test_asking_works_with_every_outcome_still_pending():
    opt = make()
    pairs = {(repr(s.config), s.context) for s in opt.ask(12)}
    assert len(pairs) == 12


def test_asking_goes_on_when_everything_fails():
    opt = make()
    for _ in range(10):
        opt.fail(opt.ask().id, "no memory")
    assert opt.ask().id == 10


# observing


def test_an_observed_pair_counts_like_a_told_one():
    opt = make()
    outcome = opt.observe({"a": 0.5, "b": 2}, np.int64(1), 0.7)
    assert (outcome.id, outcome.context, outcome.status) == (0, 1, "ok")
    assert opt.ask().id == 1
    assert opt.observations == [outcome]
    assert opt.recommend().config == {"a": 0.5, "b": 2}


def test_the_same_pair_may_be_observed_again():
    opt = make()
    for value in (0.5, 0.7):
        opt.observe({"a": 0.5, "b": 2}, 0, value)
    assert len(opt.observations) == 2
    assert 0.5 <= opt.recommend().context_means[0] <= 0.7


@pytest.mark.parametrize(
    ("config", "context"),
    [
        ({"a": 0.5}, 0),
        ({"a": 0.5, "b": 2, "c": 1}, 0),
        ({"a": 1.5, "b": 2}, 0),
        ({"a": NAN, "b": 2}, 0),
        (None, 0),
        ({"a": 0.5, "b": 2}, 3),
        ({"a": 0.5, "b": 2}, -1),
        ({"a": 0.5, "b": 2}, 0.0),
        ({"a": 0.5, "b": 2}, True),
        ({"a": 0.5, "b": 2}, None),
        ({"a": 0.5, "b": 2}, "0"),
    ],
)
def test_a_bad_observation_is_refused_and_nothing_changes(config, context):
    opt = make()
    spend(opt, 4)
    before = state(opt)
    with pytest.raises(InvalidInput):
        opt.observe(config, context, 1.0)
    assert state(opt) == before


def test_an_observed_score_that_is_no_number_is_a_failure():
    outcome = make().observe({"a": 0.5, "b": 2}, 0, NAN)
    assert outcome.status == "failed"


# recommending


def test_nothing_can_be_recommended_before_a_score_is_told():
    opt = make()
    with pytest.raises(NothingObserved, match="Tell some scores first"):
        opt.recommend()
    opt.fail(opt.ask().id, "broken")
    with pytest.raises(NothingObserved):
        opt.recommend()


def test_a_config_with_a_failed_fold_is_never_recommended():
    opt = make(contexts=2, method="random", context_rule="random")
    good, better = {"a": 0.2, "b": 1}, {"a": 0.8, "b": 1}
    for context in (0, 1):
        opt.observe(good, context, 0.1)
    opt.observe(better, 0, 0.9)
    assert opt.recommend().config == better
    opt.observe(better, 1, NAN)
    assert opt.recommend().config == good


def test_a_failed_fold_counts_as_the_worst_score_so_far():
    opt = make(contexts=2)
    for a, value in ((0.0, 0.5), (0.5, 0.9), (1.0, 0.7)):
        opt.observe({"a": a, "b": 1}, 0, value)
    opt.observe({"a": 0.5, "b": 1}, 1, NAN)
    scores = opt._history.scores()
    assert scores.tolist() == [0.5, 0.9, 0.7, 0.5]
    opt.observe({"a": 0.2, "b": 1}, 0, -3.0)
    assert opt._history.scores()[3] == -3.0


def test_only_failed_configs_leave_nothing_to_recommend():
    opt = make(contexts=2)
    opt.observe({"a": 0.5, "b": 1}, 0, 0.9)
    opt.observe({"a": 0.5, "b": 1}, 1, NAN)
    with pytest.raises(NothingObserved):
        opt.recommend()


def test_a_recommendation_is_an_evaluated_config_with_consistent_figures():
    opt = make(contexts=4, uncertainty=0.5, reference=[0.1, 0.2, 0.3, 0.4])
    spend(opt, 12)
    r = opt.recommend()
    assert r.config in [o.config for o in opt.observations]
    weights, means = np.array(r.weights), np.array(r.context_means)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights.min() >= 0
    assert r.robust_value == pytest.approx(weights @ means, abs=1e-9)
    assert r.mean_value == pytest.approx(np.array([0.1, 0.2, 0.3, 0.4]) @ means, abs=1e-9)
    assert r.robust_value <= r.mean_value + 1e-12
    value, _ = dr.ChiSquareBall(0.5).worst_case(means, [0.1, 0.2, 0.3, 0.4])
    assert r.robust_value == pytest.approx(float(value), abs=1e-9)
    assert 0 <= r.std <= max(r.context_stds) + 1e-12


def test_for_losses_the_robust_value_is_the_larger_one():
    opt = make(mode="min")
    for _ in range(10):
        suggestion = opt.ask()
        opt.tell(suggestion.id, 5.0 - score(suggestion))
    r = opt.recommend()
    assert r.robust_value >= r.mean_value
    assert r.robust_value == pytest.approx(np.dot(r.weights, r.context_means), abs=1e-9)
    best = min(o.score for o in opt.observations)
    assert r.mean_value == pytest.approx(best, abs=0.2)


def test_the_robust_and_the_plain_report_differ_where_they_should():
    steady, uneven = {"a": 0.2, "b": 1}, {"a": 0.8, "b": 5}
    answers = {}
    for method in ("drbqo", "bqo-ts"):
        opt = make(contexts=3, method=method, uncertainty=1.0)
        for context, (low, high) in enumerate([(0.5, 0.9), (0.5, 0.9), (0.5, 0.0)]):
            for _ in range(3):
                opt.observe(steady, context, low)
                opt.observe(uneven, context, high)
        answers[method] = opt.recommend().config
    assert answers == {"drbqo": steady, "bqo-ts": uneven}


def test_one_score_is_enough_to_recommend():
    opt = make(contexts=1)
    opt.tell(opt.ask().id, 0.4)
    assert opt.recommend().robust_value == pytest.approx(0.4)


def test_constant_scores_are_handled():
    opt = make()
    for _ in range(8):
        opt.tell(opt.ask().id, 0.25)
    r = opt.recommend()
    assert r.robust_value == pytest.approx(0.25)
    assert r.mean_value == pytest.approx(0.25)


def test_200_identical_observations_are_handled():
    opt = make()
    for _ in range(200):
        opt.observe({"a": 0.5, "b": 2}, 0, 1.0)
    assert opt.recommend().context_means[0] == pytest.approx(1.0)
    assert opt.ask().id == 200


def test_a_recommendation_does_not_change_what_is_asked_next():
    quiet, curious = make(), make()
    for opt in (quiet, curious):
        for _ in range(4):
            for suggestion in opt.ask(2):
                opt.tell(suggestion.id, score(suggestion))
                if opt is curious:
                    opt.recommend()
    assert curious.observations == quiet.observations
    assert curious.ask() == quiet.ask()


def test_a_copy_goes_its_own_way():
    opt = make()
    spend(opt, 5)
    twin = copy.deepcopy(opt)
    assert twin.ask() == opt.ask()
    twin.tell(5, 1.0)
    assert [s.id for s in opt.pending] == [5]


# one config in all its folds


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_missing_folds_of_a_told_config_are_trained_with_that_very_config(seed):
    opt = dr.Optimizer(
        {"C": dr.Float(1e-4, 1e2, log=True)}, 5, method="foldwise", seed=seed, fixed_seed=True
    )
    assert opt.space.from_unit(opt.space.to_unit({"C": 0.0006})) != {"C": 0.0006}
    opt.observe({"C": 0.0006}, 0, 2.0)
    asked = []
    for _ in range(80):
        asked.append(opt.ask())
        C = asked[-1].config["C"]
        opt.tell(asked[-1].id, -((np.log10(C / 0.0006)) ** 2) - 0.01 * asked[-1].context)
    twins = [s for s in asked if abs(s.config["C"] / 0.0006 - 1) < 1e-9]
    assert {s.config["C"] for s in twins} == {0.0006}
    assert sorted(s.context for s in twins) == [1, 2, 3, 4]


def test_round_values_on_log_scales_come_back_as_they_were_told():
    opt = dr.Optimizer(LOG, 3, method="foldwise", n_initial=1)
    told = [{"C": C, "gamma": g} for C in (0.01, 0.1, 1.0, 100.0) for g in (1e-4, 0.01, 0.3)]
    for k, config in enumerate(told):
        opt.observe(config, 0, -0.01 * k)
    again = [s.config for s in opt.ask(24) if opt.space.to_unit(s.config).tobytes() in keys(opt)]
    assert again
    assert all(config in told for config in again)


def keys(opt: dr.Optimizer) -> set[bytes]:
    return {opt.space.to_unit(o.config).tobytes() for o in opt.observations}


def test_values_that_share_a_position_are_one_config_the_one_told_first():
    opt = dr.Optimizer(LOG, 3)
    other = {"C": 100.00000000000001, "gamma": 0.01}
    assert (
        opt.space.to_unit(other).tobytes()
        == opt.space.to_unit({"C": 100.0, "gamma": 0.01}).tobytes()
    )
    opt.observe({"C": 100.0, "gamma": 0.01}, 0, 0.5)
    assert opt.observe(other, 1, 0.6).config == {"C": 100.0, "gamma": 0.01}
    assert opt.recommend().config == {"C": 100.0, "gamma": 0.01}


def test_zero_and_minus_zero_are_one_config():
    opt = dr.Optimizer({"x": dr.Float(0.0, 1.0)}, 2)
    for context, zero in enumerate((-0.0, 0.0)):
        assert str(opt.observe({"x": zero}, context, 1.0).config["x"]) == "0.0"
    assert len(opt._history.configs) == 1


def test_a_replayed_suggestion_keeps_the_config_that_was_trained():
    opt = dr.Optimizer(LOG, 3)
    opt.register(dr.Suggestion(0, {"C": 100.0, "gamma": 0.01}, 0, 1))
    opt.register(dr.Suggestion(1, {"C": 100.00000000000001, "gamma": 0.01}, 1, 2))
    assert [s.config["C"] for s in opt.pending] == [100.0, 100.00000000000001]


@pytest.mark.parametrize("method", METHODS)
def test_a_config_without_a_continuous_parameter_is_trained_once_in_every_fold(method):
    opt = dr.Optimizer(BRANCHED, 3, method=method, n_initial=10, fixed_seed=True)
    pairs = []
    for k in range(30):
        suggestion = opt.ask()
        pairs.append((repr(suggestion.config), suggestion.context))
        opt.tell(suggestion.id, -0.01 * k)
    assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("method", ["random", "drbqo"])
def test_a_batch_trains_no_fold_of_such_a_config_twice(method):
    opt = dr.Optimizer(BRANCHED, 3, method=method, n_initial=4, fixed_seed=True)
    spend_any(opt, 4)
    pairs = [(repr(s.config), s.context) for s in opt.ask(40)]
    assert len(set(pairs)) == len(pairs)


def test_where_no_candidate_is_open_another_config_is_drawn(monkeypatch):
    monkeypatch.setattr("drbqo_ray.optimizer.proposals.candidates", lambda space, near, rng: near)
    opt = dr.Optimizer(BRANCHED, 3, n_initial=6)
    pairs = []
    for _ in range(15):
        suggestion = opt.ask()
        pairs.append((repr(suggestion.config), suggestion.context))
        opt.tell(suggestion.id, float(suggestion.config["model"] == "bayes"))
    assert len(set(pairs)) == len(pairs)


def spend_any(opt: dr.Optimizer, count: int) -> None:
    for k in range(count):
        opt.tell(opt.ask().id, -0.1 * k)


@pytest.mark.parametrize("method", ["random", "drbqo"])
def test_a_finite_space_of_many_branches_is_exhausted_before_a_fold_is_repeated(method):
    space = {"model": dr.Choice(range(6))} | {
        f"size{k}": dr.Int(1, 6, when={"model": [k]}) for k in range(6)
    }
    opt = dr.Optimizer(space, 2, method=method, n_initial=4)
    pairs = []
    while not opt.exhausted:
        suggestion = opt.ask()
        pairs.append((repr(suggestion.config), suggestion.context))
        opt.tell(suggestion.id, 0.0)
    assert len(set(pairs)) == len(pairs) == 6 * 6 * 2
