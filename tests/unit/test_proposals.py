"""Rules for x and for w: each is a class, and a method is a rule and a line of the table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.methods import CONTEXT_RULES, METHODS, Method, find_method
from drbqo_ray.optimizer.proposals import (
    ConfigRule,
    ContextRule,
    GainPerFold,
    HighestVariance,
    MeanDraw,
    MeanImprovement,
    Pair,
    RandomContext,
    Rngs,
    RobustDraw,
    Search,
    TaskImprovement,
)

SPACE = {"a": dr.Float(0, 1), "b": dr.Float(0, 1)}
N = 3


def score(config: dict, context: int) -> float:
    return -((config["a"] - 0.3 - 0.1 * context) ** 2) - (config["b"] - 0.6) ** 2


def told(method: str = "drbqo", evaluations: int = 12, space=SPACE, **options) -> dr.Optimizer:
    opt = dr.Optimizer(space, N, method=method, **options)
    rng = np.random.default_rng(0)
    for k in range(evaluations):
        config = opt.space.from_unit(rng.random(len(opt.space)))
        opt.observe(config, k % N, score(config, k % N))
    return opt


class Middle(ConfigRule):
    """A rule of one's own: the middle of the space."""

    name = "middle"

    def pairs(self, search: Search, context_rule: ContextRule, rngs: Rngs) -> Iterator[Pair]:
        U = np.full((len(rngs), len(search.space)), 0.5)
        return context_rule.pairs(search, U, rngs)


class LastContext(ContextRule):
    """A rule of one's own: the last context that is left."""

    name = "last"

    def pairs(self, search: Search, U, rngs: Rngs) -> Iterator[Pair]:
        for u in U:
            yield u, search.design.open_contexts(u)[-1]


def test_a_method_of_ones_own_is_a_rule_and_a_line_of_the_table(monkeypatch):
    monkeypatch.setitem(METHODS, "middle", Method(Middle(), LastContext(), "robust"))
    opt = told("middle")
    asked = [opt.ask() for _ in range(N)] + opt.ask(2)
    assert all(s.config == {"a": 0.5, "b": 0.5} for s in asked)
    assert [s.context for s in asked] == [2, 1, 0, 2, 2]
    for suggestion in asked:
        opt.tell(suggestion.id, score(suggestion.config, suggestion.context))
    assert opt.recommend().config in [o.config for o in opt.observations]


def test_every_rule_has_a_name_of_its_own():
    names = {rule.name: type(rule) for method in METHODS.values() for rule in (method.config_rule,)}
    assert len(names) == len({type(method.config_rule) for method in METHODS.values()})
    assert list(CONTEXT_RULES) == ["variance", "task-ei", "random"]
    for name, rule in CONTEXT_RULES.items():
        assert find_method("drbqo", name).context_rule is rule
    with pytest.raises(InvalidInput, match="task-ei"):
        find_method("drbqo", "task")


def test_draws_are_made_together_and_improvements_one_by_one():
    search = told()._search
    assert RobustDraw().batch_limit(search) == MeanDraw().batch_limit(search) == 512 // N
    assert MeanImprovement().batch_limit(search) == 1
    assert GainPerFold().batch_limit(search) == 512 // N
    small = told(space={"a": dr.Int(0, 1), "b": dr.Choice([0.1, 0.6])}, evaluations=2)._search
    assert RobustDraw().batch_limit(small) == 512 // N
    assert GainPerFold().batch_limit(small) == 1


def test_the_adversary_of_a_plain_draw_may_do_nothing():
    search = told()._search
    assert RobustDraw().adversary(search) is search.uncertainty
    assert MeanDraw().adversary(search) == dr.Expectation()


@pytest.mark.parametrize("rule", [HighestVariance(), TaskImprovement(), RandomContext()])
def test_a_context_is_one_that_the_config_was_not_handed_out_in(rule):
    opt = told()
    search = opt._search
    for context in (0, 2):
        opt.observe({"a": 0.25, "b": 0.75}, context, 0.0)
    U = opt.space.to_unit({"a": 0.25, "b": 0.75})[None]
    (_, context), *_ = rule.pairs(search, U, [np.random.default_rng(0)])
    assert context == 1


def test_the_context_of_highest_variance_counts_pending_evaluations_in():
    opt = told()
    config = {"a": 0.9, "b": 0.1}
    U = opt.space.to_unit(config)[None]
    variances = opt.predict([config])[1][0]
    ((_, first),) = HighestVariance().pairs(opt._search, U, [np.random.default_rng(0)])
    assert first == int(np.argmax(variances))
    near = {"a": 0.9 + 1e-6, "b": 0.1}
    opt.register(dr.Suggestion(100, near, first, 0))
    ((_, second),) = HighestVariance().pairs(opt._search, U, [np.random.default_rng(0)])
    assert second != first


def test_pairs_are_handed_out_one_by_one():
    opt = told()
    U = np.tile(opt.space.to_unit({"a": 0.9, "b": 0.1}), (N, 1))
    rngs = [np.random.default_rng(k) for k in range(N)]
    contexts = []
    for k, (_, context) in enumerate(RandomContext().pairs(opt._search, U, rngs)):
        opt.register(dr.Suggestion(100 + k, {"a": 0.9, "b": 0.1}, context, 0))
        contexts.append(context)
    assert sorted(contexts) == list(range(N))
