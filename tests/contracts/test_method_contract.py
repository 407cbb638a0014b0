"""What every method keeps on every kind of space, with folds and with sample vectors.

One short run of each case is made once and looked at by many tests: three asks one by one, a
batch of three of which one fails and one stays pending, and two more asks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.core.surrogate import Fit
from drbqo_ray.optimizer.methods import METHODS

ROOT = Path(__file__).parents[2]
SPACES = {
    "continuous": {"a": dr.Float(-1.0, 3.0), "b": dr.Float(1e-3, 1e2, log=True)},
    "mixed": {
        "model": dr.Choice(["svm", "knn", "tree"]),
        "C": dr.Float(1e-2, 1e2, log=True, when={"model": ["svm"]}),
        "neighbors": dr.Int(1, 40, log=True, when={"model": ["knn"]}),
        "share": dr.Float(0.0, 0.9, step=0.1),
        "shrink": dr.Float(0.0, 1.0),
    },
    "finite": {"k": dr.Choice(["p", "q", "r"]), "m": dr.Int(1, 4)},
}
VECTORS = np.random.RandomState(3).randn(3, 2)
CONTEXTS = {"folds": 3, "samples": VECTORS}
CASES = list(product(METHODS, SPACES, CONTEXTS))
every_case = pytest.mark.parametrize(("method", "space", "contexts"), CASES)
# enough for what depends on the method and the space, not on the contexts
EACH_SPACE = [case for case in CASES if (case[1] == "mixed") == (case[2] == "samples")]
each_space = pytest.mark.parametrize(("method", "space", "contexts"), EACH_SPACE)


@dataclass
class Run:
    """A finished short run: what was asked, in order, and the optimizer it left."""

    opt: dr.Optimizer
    asked: list[dr.Suggestion]


def optimizer(method: str, space: str, contexts: str, **options) -> dr.Optimizer:
    return dr.Optimizer(
        SPACES[space],
        CONTEXTS[contexts],
        **{"method": method, "n_initial": 3, "seed": 7, **options},
    )


def score(opt: dr.Optimizer, suggestion: dr.Suggestion) -> float:
    u = opt.space.to_unit(suggestion.config)
    return float(-((u - 0.3) ** 2).sum() + 0.1 * np.sin(5 * u.sum() + 2 * suggestion.context))


def play(opt: dr.Optimizer, sign: float = 1.0) -> Run:
    asked = []
    for _ in range(3):
        asked.append(opt.ask())
        opt.tell(asked[-1].id, sign * score(opt, asked[-1]))
    batch = opt.ask(3)
    opt.tell(batch[2].id, sign * score(opt, batch[2]))
    opt.fail(batch[0].id, "out of memory")
    asked += batch
    asked.append(opt.ask())
    opt.tell(asked[-1].id, sign * score(opt, asked[-1]))
    asked.append(opt.ask())
    return Run(opt, asked)


@cache
def played(method: str, space: str, contexts: str) -> Run:
    return play(optimizer(method, space, contexts))


def plain(suggestion: dr.Suggestion) -> list[object]:
    return [suggestion.id, suggestion.config, suggestion.context, suggestion.seed]


@every_case
def test_every_ask_lies_in_the_space(method, space, contexts):
    run = played(method, space, contexts)
    for suggestion in run.asked:
        valid = run.opt.space.validate(suggestion.config)
        assert valid == suggestion.config
        assert list(valid) == list(suggestion.config)
        assert 0 <= suggestion.context < 3
        for name, value in suggestion.config.items():
            item = run.opt.space.parameters[name]
            if isinstance(item, dr.Int):
                assert type(value) is int
            if isinstance(item, dr.Float) and item.step:
                assert value == round(value, 1)


@every_case
def test_no_pair_is_asked_twice_and_batches_are_distinct(method, space, contexts):
    run = played(method, space, contexts)
    pairs = [(repr(s.config), s.context) for s in run.asked]
    assert len(set(pairs)) == len(pairs)
    assert [s.id for s in run.opt.pending] == [4, 7]


@every_case
def test_the_recommendation_is_an_evaluated_config_without_a_failed_fold(method, space, contexts):
    run = played(method, space, contexts)
    r = run.opt.recommend()
    failed = [repr(o.config) for o in run.opt.observations if o.status == "failed"]
    ok = [repr(o.config) for o in run.opt.observations if o.status == "ok"]
    assert failed
    assert repr(r.config) in set(ok) - set(failed)
    assert r.robust_value <= r.mean_value + 1e-9
    assert sum(r.weights) == pytest.approx(1.0)
    assert len(r.weights) == len(r.context_means) == len(r.context_stds) == 3
    assert np.isfinite([r.robust_value, r.mean_value, r.std, *r.context_stds]).all()


@each_space
def test_minimizing_negated_scores_asks_exactly_the_same(method, space, contexts):
    run = played(method, space, contexts)
    mirror = play(optimizer(method, space, contexts, mode="min"), sign=-1.0)
    assert mirror.asked == run.asked
    there, back = run.opt.recommend(), mirror.opt.recommend()
    assert back.config == there.config
    assert back.robust_value == -there.robust_value
    assert back.context_means == [-mean for mean in there.context_means]
    assert back.context_stds == there.context_stds


@every_case
def test_a_replayed_run_asks_the_same_next(method, space, contexts):
    run = played(method, space, contexts)
    twin = optimizer(method, space, contexts)
    outcomes = {o.id: o for o in run.opt.observations}
    for suggestion in run.asked[:-1]:
        twin.register(suggestion)
    for id in outcomes:
        if outcomes[id].status == "ok":
            twin.tell(id, outcomes[id].score)
        else:
            twin.fail(id, outcomes[id].reason)
    if run.opt.last_fit is not None:
        stored = json.loads(json.dumps(run.opt.last_fit.to_dict()))
        twin.last_fit = Fit.from_dict(stored)
    assert twin.ask() == run.asked[-1]
    assert twin.observations == run.opt.observations
    assert twin.pending == run.opt.pending
    assert twin.recommend() == run.opt.recommend()
    assert twin.ask() == run.opt.ask()


def all_runs() -> dict[str, list[object]]:
    return {" ".join(case): [plain(s) for s in play(optimizer(*case)).asked] for case in EACH_SPACE}


def test_a_fresh_process_asks_the_same_bit_for_bit():
    code = (
        "import json; from tests.contracts.test_method_contract import all_runs;"
        "print(json.dumps(all_runs()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    there = json.loads(done.stdout)
    for case in EACH_SPACE:
        here = [plain(s) for s in played(*case).asked]
        assert there[" ".join(case)] == json.loads(json.dumps(here))


@pytest.mark.parametrize("method", METHODS)
def test_another_seed_asks_something_else(method):
    run = played(method, "continuous", "folds")
    other = play(optimizer(method, "continuous", "folds", seed=8))
    for a, b in zip(run.asked[:5], other.asked[:5], strict=True):
        assert a.config != b.config
        assert a.seed != b.seed


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_a_finite_space_is_asked_through_and_then_goes_on(method, contexts):
    space = dr.Space({"k": dr.Choice(["p", "q"]), "m": dr.Int(1, 2, when={"k": ["p"]})})
    opt = dr.Optimizer(space, contexts, method=method, n_initial=2, seed=1)
    total = 3 * contexts
    pairs = []
    for _ in range(total):
        assert not opt.exhausted
        suggestion = opt.ask()
        pairs.append((repr(suggestion.config), suggestion.context))
        opt.tell(suggestion.id, float(len(suggestion.config)) - 0.1 * suggestion.context)
    assert len(set(pairs)) == total
    assert opt.exhausted
    for suggestion in [*opt.ask(2), opt.ask()]:
        assert (repr(suggestion.config), suggestion.context) in pairs
        opt.tell(suggestion.id, float(len(suggestion.config)))
    assert opt.recommend().config["k"] == "p"


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_a_pending_pair_is_not_asked_again_though_the_best_config_is_a_corner(method, contexts):
    space = dr.Space({"a": dr.Float(0.0, 1.0), "b": dr.Float(1e-5, 3e2, log=True)})
    opt = dr.Optimizer(space, contexts, method=method, n_initial=3, seed=2)
    for _ in range(8):
        suggestion = opt.ask()
        opt.tell(suggestion.id, float(opt.space.to_unit(suggestion.config).sum()))
    batch = opt.ask(6)
    pairs = [(repr(s.config), s.context) for s in batch]
    assert len(set(pairs)) == 6


@pytest.mark.parametrize("context_rule", ["random", "variance", "task-ei"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_every_context_rule(method, context_rule):
    opt = optimizer(method, "continuous", "folds", context_rule=context_rule)
    for _ in range(5):
        suggestion = opt.ask()
        opt.tell(suggestion.id, score(opt, suggestion))
    assert opt.ask().context in (0, 1, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "matern12"},
        {"kernel": "matern32"},
        {"kernel": "matern52"},
        {"sampler": "rff"},
        {"hyperparameters": "mle"},
        {"uncertainty": "auto"},
        {"reference": [0.5, 0.5, 0.0]},
        {"n_initial": 0},
        {"uncertainty": dr.WorstCase()},
        {"uncertainty": dr.CVaR(0.5)},
        {"uncertainty": dr.KLBall(0.3)},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["drbqo", "mtbo"])
def test_the_options_work_with_embedded_and_free_form_contexts(method, options):
    opt = optimizer(method, "mixed", "folds", **options)
    for _ in range(5):
        suggestion = opt.ask()
        opt.tell(suggestion.id, score(opt, suggestion))
    assert opt.space.validate(opt.ask().config)
    assert np.isfinite(opt.recommend().robust_value)


def test_the_variance_rule_spreads_a_batch_over_the_contexts():
    opt = dr.Optimizer({"k": dr.Choice(["only"])}, 5, n_initial=1, seed=0)
    opt.tell(opt.ask().id, 1.0)
    assert len({s.context for s in opt.ask(4)}) == 4
