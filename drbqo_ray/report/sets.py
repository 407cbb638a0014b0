"""What the report says of an uncertainty set: its words, its family over sizes, its distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from drbqo_ray.core.sets.base import UncertaintySet
from drbqo_ray.core.sets.catalog import (
    ChiSquareBall,
    CVaR,
    Expectation,
    KLBall,
    MMDBall,
    TotalVariationBall,
    WassersteinBall,
    WorstCase,
)
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.report.wording import short
from drbqo_ray.types import Array


@dataclass(frozen=True)
class Family:
    """Sets of one kind from the reference alone to the worst fold.

    Attributes:
        label: what the size is, for an axis.
        kind: name of the kind of set.
        high: size from which on the set holds every single fold.
        own: size of the run's own set.
        make: the set of a size in [0, high].
    """

    label: str
    kind: str
    high: float
    own: float
    make: Callable[[float], UncertaintySet]


def family_of(set: UncertaintySet, q: Array) -> Family | None:
    """The family a set belongs to given reference weights q (n,); None when it has one member."""
    on = q[q > 0]
    least = float(on.min())
    if len(on) < 2 and getattr(set, "within_support", True):
        return None
    if isinstance(set, (ChiSquareBall, Expectation, WorstCase)):
        high = (1.0 / least - 1.0) / 2
        own = set.radius if isinstance(set, ChiSquareBall) else 0.0
        own = high if isinstance(set, WorstCase) else own
        return Family("radius of the chi-square ball", "chi-square", high, own, ChiSquareBall)
    if isinstance(set, KLBall):
        return Family("radius of the KL ball", "kl", -float(np.log(least)), set.radius, KLBall)
    if isinstance(set, TotalVariationBall):
        high = 1.0 - float(q.min())
        return Family(
            "radius of the total variation ball", set.kind, high, set.radius, TotalVariationBall
        )
    if isinstance(set, CVaR):
        label = "share of the best folds left out (1 - alpha)"
        return Family(label, set.kind, 1 - least, 1 - set.alpha, lambda t: CVaR(max(1 - t, 1e-12)))
    return _resized(set, q)


def _resized(set: UncertaintySet, q: Array) -> Family | None:
    """The family of a ball that carries a matrix."""
    if isinstance(set, WassersteinBall):
        high, name = float((np.asarray(set.distances) @ q).max()), "Wasserstein"
    elif isinstance(set, MMDBall):
        away = np.eye(len(q)) - q
        high = float(np.sqrt(np.einsum("ij,jk,ik->i", away, set.gram, away).max()))
        name = "MMD"
    else:
        return None
    if not high > 0:
        return None

    def make(size: float) -> UncertaintySet:
        return replace(set, radius=size)

    return Family(f"radius of the {name} ball", set.kind, high, set.radius, make)


def divergence(set: UncertaintySet, p: Array, q: Array) -> tuple[str, float, float] | None:
    """Name of the set's distance, that of weights p (n,) from q (n,), and what the set allows."""
    on = q > 0
    ratio = p[on] / q[on]
    if isinstance(set, ChiSquareBall):
        distance = 0.5 * float(np.sum(q[on] * (ratio - 1.0) ** 2))
        return "chi-square divergence", distance, set.radius
    if isinstance(set, KLBall):
        terms = np.where(ratio > 0, ratio * np.log(np.maximum(ratio, 1e-300)), 0.0)
        return "Kullback-Leibler divergence", float(np.sum(q[on] * terms)), set.radius
    if isinstance(set, TotalVariationBall):
        return "total variation", 0.5 * float(np.abs(p - q).sum()), set.radius
    if isinstance(set, CVaR):
        return "largest ratio to the reference", float(ratio.max()), 1.0 / set.alpha
    return None


def describe_set(optimizer: Optimizer) -> str:
    """The uncertainty set in words."""
    plain = optimizer.uncertainty.to_dict()
    size = plain.get("radius", plain.get("alpha"))
    names = {
        "expectation": "the reference weights alone",
        "worst-case": "any weights",
        "chi-square": "chi-square ball of radius",
        "kl": "Kullback-Leibler ball of radius",
        "total-variation": "total variation ball of radius",
        "cvar": "CVaR of the worst share",
        "wasserstein": "Wasserstein ball of radius",
        "mmd": "MMD ball of radius",
    }
    words = names.get(optimizer.uncertainty.kind, optimizer.uncertainty.kind)
    return words if size is None else f"{words} {short(size, 4)}"
