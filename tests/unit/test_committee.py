"""Several fits speak before one recommends."""

from __future__ import annotations

import numpy as np
import pytest

import drbqo_ray as dr
from drbqo_ray.core.committee import DISPUTE, Committee
from drbqo_ray.core.contexts import EmbeddedContexts
from drbqo_ray.core.kernels import SHAPES, KernelFamily
from drbqo_ray.core.likelihood import RESOLUTION, Likelihood
from drbqo_ray.core.surrogate import Fit, Surrogate


class Member:
    """Stands for a process: what it ranks configs by, and what it expects of them."""

    def __init__(self, *values: float) -> None:
        self.values = np.array(values)


def surplus(*members: Member, weights: tuple[float, ...] | None = None) -> np.ndarray:
    shares = weights or tuple(1 / len(members) for _ in members)
    committee = Committee(members, shares)  # type: ignore[arg-type]

    def judge(member: Member, rows: np.ndarray) -> np.ndarray:
        return member.values[rows]

    return committee.surplus(members[0].values, judge, 5)


def test_one_member_disputes_nothing() -> None:
    assert surplus(Member(0.0, 3.0, 1.0)).tolist() == [0.0, 0.0, 0.0]


def test_a_config_that_only_the_first_member_praises_falls_behind() -> None:
    first, other = Member(1.0, 2.0, 0.5), Member(1.0, -4.0, 0.5)
    lowered = first.values - surplus(first, other)
    assert lowered[1] == pytest.approx(-1.0)
    assert lowered[[0, 2]].tolist() == [1.0, 0.5]


def test_a_config_is_compared_with_itself_not_with_what_others_praise() -> None:
    first, other = Member(1.0, 2.0), Member(9.0, 2.0)  # the second is known to both
    assert not surplus(first, other).any()


def test_every_config_that_could_be_named_is_heard() -> None:
    praised = np.linspace(3.0, 2.0, 30)
    first, other = Member(*praised, 1.0), Member(*(praised - 9.0), 1.0)
    lowered = first.values - surplus(first, other)
    assert lowered.argmax() == 30
    assert (lowered[:30] < 0).all()


def test_differences_of_precision_are_no_dispute() -> None:
    first = Member(1.0, 1.0 + DISPUTE / 4)
    other = Member(1.0, 1.0 - DISPUTE / 2)
    assert not surplus(first, other).any()


def likelihood(size: int = 12) -> Likelihood:
    rng = np.random.default_rng(3)
    family = KernelFamily(SHAPES["se"], EmbeddedContexts.folds(3), 2)
    X, c = rng.random((size, 2)), rng.integers(3, size=size)
    return Likelihood(family, X, c, rng.standard_normal(size))


def test_scores_are_foreseen_as_if_each_were_left_out_in_turn() -> None:
    whole = likelihood()
    kernel = whole.family.unpack(whole.prior_mean)
    K = kernel.matrix(whole.X, whole.c, whole.X, whole.c) + kernel.noise * np.eye(12)
    total = 0.0
    for k in range(12):
        rest = np.arange(12) != k
        weights = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, k])
        variance = K[k, k] - weights @ K[rest, k] + RESOLUTION**2
        error = whole.y[k] - weights @ whole.y[rest]
        total += -0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)
    assert whole.predictive(whole.prior_mean) == pytest.approx(total, rel=1e-9)


def test_a_fit_keeps_rivals_that_are_apart_and_their_weights() -> None:
    data = likelihood(40)
    found = Surrogate(data.family).fit(data.X, data.c, data.y)
    assert len(found.weights) == 1 + len(found.rivals)
    assert sum(found.weights) == pytest.approx(1.0)
    modes = [np.array(mode)[:-1] for mode in (found.parameters, *found.rivals)]
    gaps = [np.abs(a - b).max() for k, a in enumerate(modes) for b in modes[:k]]
    assert min(gaps, default=1.0) > 0.5
    assert Fit.from_dict(found.to_dict()) == found


def test_a_fit_from_before_there_were_rivals_is_read() -> None:
    old = {"parameters": [0.0, 1.0], "size": 3, "explored": 3, "value": -1.5}
    found = Fit.from_dict({**old, "center": 0.0, "scale": 1.0})
    assert (found.rivals, found.weights) == ((), ())


@pytest.mark.parametrize("method", ["drbqo", "foldwise"])
def test_no_config_seen_in_one_context_is_recommended_for_a_mode_of_the_fit(method: str) -> None:
    """A jump of the fit once recommended configs that were 1.2 to 3 below the best."""
    rng = np.random.RandomState(5012)
    W, shift = rng.randn(10, 2), rng.uniform(-1.2, 1.2, 2)
    space = {f"x{i}": dr.Float(shift[i] - 2, shift[i] + 2) for i in range(2)}
    opt = dr.Optimizer(space, W, method=method, n_initial=12, seed=12)

    def scores(config: dict[str, float]) -> np.ndarray:
        return -np.logaddexp(0.0, W @ [config["x0"], config["x1"]])

    for t in range(1, 56):
        asked = opt.ask()
        opt.tell(asked.id, float(scores(asked.config)[asked.context]))
        if t >= 45:
            value, _ = dr.ChiSquareBall(1.0).worst_case(scores(opt.recommend().config))
            assert value > -np.log(2) - 0.1, f"after {t}"
