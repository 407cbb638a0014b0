"""Arbitrary searches: every fold of a config is trained with that very config."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.space.foreign import Normal
from drbqo_ray.space.space import Space

FOLDS = 4
TOLD, ASKED = 100, 100


def random_space(rng: np.random.Generator) -> Space:
    """Log scales, normals, steps, whole numbers and choices, some in branches of their own."""
    low = 10.0 ** rng.uniform(-6, 2)
    parameters = {
        "log": dr.Float(low, low * 10.0 ** rng.uniform(0.5, 8), log=True),
        "normal": Normal.around(rng.normal(), 10.0 ** rng.uniform(-2, 2)),
        "linear": dr.Float(-rng.random(), rng.random()),
        "step": dr.Float(0.1, 0.1 + 0.1 * rng.integers(2, 9), step=0.1),
        "whole": dr.Int(1, int(rng.integers(3, 10**6)), log=bool(rng.integers(2))),
    }
    names = rng.permutation(list(parameters))[: rng.integers(1, 6)]
    when = {"kind": ["b", "c"]} if rng.integers(2) else {}
    branched = {
        name: dr.Space({name: parameters[name]}).to_dict()[name] | {"when": when} for name in names
    }
    return dr.Space({"kind": dr.Choice(["a", "b", "c"])} | branched)


def told_config(space: Space, rng: np.random.Generator) -> dict[str, object]:
    """A config as a user has it: round values, all digits, or what was once handed out."""
    config = space.from_unit(rng.random(len(space)))
    digits = int(rng.choice([1, 2, 17]))
    for name, value in config.items():
        item = space.parameters[name]
        if not item.count:
            config[name] = min(max(float(f"{value:.{digits}g}"), item.low), item.high)
    return space.from_unit(space.to_unit(config)) if rng.integers(2) else config


def search(seed: int, method: str) -> tuple[dr.Optimizer, list[dict], list[dr.Suggestion]]:
    """An optimizer that was told and asked, what it was told, and what it answered."""
    rng = np.random.default_rng(seed)
    opt = dr.Optimizer(random_space(rng), FOLDS, method=method, seed=seed, fixed_seed=True)
    pool, told = [], []
    for _ in range(TOLD):
        pool.append(told_config(opt.space, rng))
        told.append(pool[rng.integers(len(pool))] if rng.integers(2) else pool[-1])
        opt.observe(told[-1], int(rng.integers(FOLDS)), float(rng.normal()))
    asked = []
    for _ in range(2):
        batch = opt.ask(ASKED // 2)
        for suggestion in batch[::2]:
            opt.tell(suggestion.id, float(rng.normal()))
        asked += batch
    return opt, told, asked


@pytest.mark.parametrize(("method", "searches"), [("foldwise", 6), ("random", 44)])
def test_every_fold_of_a_row_carries_one_identical_config(method, searches):
    count = again = 0
    for seed in range(searches):
        opt, told, asked = search(seed, method)
        rows = defaultdict(set)
        for config in [o.config for o in opt.observations] + [s.config for s in asked]:
            rows[opt.space.to_unit(config).tobytes()].add(repr(config))
        assert {len(configs) for configs in rows.values()} == {1}
        assert {repr(config) for config in opt._history.configs} <= set.union(*rows.values())
        first = {opt.space.to_unit(c).tobytes(): repr(opt.space.validate(c)) for c in told[::-1]}
        assert all(rows[key] == {config} for key, config in first.items())
        assert_no_pair_twice(opt, asked)
        count += len(told) + len(asked)
        again += sum(opt.space.to_unit(s.config).tobytes() in first for s in asked)
    assert count == (TOLD + ASKED) * searches  # 10,000 for both methods together
    assert again > 0


def assert_no_pair_twice(opt: dr.Optimizer, asked: list[dr.Suggestion]) -> None:
    """Unless there is no other, no fold of a config is asked for that was told or asked before."""
    ids = {suggestion.id for suggestion in asked}
    told = {(repr(o.config), o.context) for o in opt.observations if o.id not in ids}
    pairs = [(repr(s.config), s.context) for s in asked]
    assert opt.exhausted or (len(set(pairs)) == len(pairs) and not told & set(pairs))
