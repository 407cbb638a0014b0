"""Uncertainty sets: the worst-case weights of a row of scores, batched and exact; one file a set.

Sign: **we maximize score, the adversary minimizes**. Every set answers with the *lowest*
weighted mean its weights can reach.

=========  =======================================================  ==========
symbol     meaning                                                  shape
=========  =======================================================  ==========
n          number of contexts
m          number of rows solved at once
l, values  scores of one config over the contexts                   (..., n)
x          one row of values, shifted and scaled to [0, 1]          (m, n)
q          reference weights, 1/n each unless told                  (n,)
p          weights of the adversary                                 (..., n)
rho        radius of a set
T          reference mass of the contexts tied at the lowest value
Q, M, V    of the k lowest contexts: reference mass, mean of x,     (m, n)
           and sum of q (x - M)^2
tau, lam   level and scale in p = q (tau - x)_+ / lam               (m,)
=========  =======================================================  ==========

The value is concave and positively homogeneous in the values, follows a shift of them, and
falls as the radius grows. Its supergradient with respect to the values is p itself.

A set is a class with a `kind` and a `_solve_rows` in a module of its own here, and nothing else
need know of it: the modules of this package are all loaded, a set makes itself known to
`from_dict` by its kind, and `drbqo_ray` offers it by the name of its class. A set that lives
elsewhere is known once its module is imported.
"""

from __future__ import annotations

import numbers
from importlib import import_module
from pkgutil import iter_modules

from drbqo_ray.core.sets.base import (
    UncertaintySet,
    checked_radius,
    from_dict,
    is_set,
    reference_weights,
)
from drbqo_ray.core.sets.chi_square import ChiSquareBall
from drbqo_ray.core.sets.cvar import CVaR
from drbqo_ray.core.sets.expectation import Expectation
from drbqo_ray.core.sets.kl import KLBall
from drbqo_ray.core.sets.mmd import MMDBall
from drbqo_ray.core.sets.total_variation import TotalVariationBall
from drbqo_ray.core.sets.wasserstein import WassersteinBall
from drbqo_ray.core.sets.worst_case import WorstCase
from drbqo_ray.errors import InvalidInput

__all__ = [
    "CVaR",
    "ChiSquareBall",
    "Expectation",
    "KLBall",
    "MMDBall",
    "TotalVariationBall",
    "UncertaintySet",
    "WassersteinBall",
    "WorstCase",
    "as_uncertainty",
    "from_dict",
    "reference_weights",
]

for _module in iter_modules(__path__):
    _found = vars(import_module(f"{__name__}.{_module.name}"))
    globals().update({name: each for name, each in _found.items() if is_set(each)})


def as_uncertainty(value: object, n: int) -> UncertaintySet:
    """The set a user means.

    Args:
        value: a set; a number, the radius of a chi-square ball; or "auto", the chi-square
            ball of 95 % confidence.
        n: number of contexts.
    """
    if isinstance(value, UncertaintySet):
        value.check_contexts(n)
        return value
    if isinstance(value, str) and value == "auto":
        return ChiSquareBall.from_confidence(0.95, n)
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return ChiSquareBall(checked_radius(value))
    raise InvalidInput(
        "The uncertainty must be a set, a chi-square radius of at least 0, or 'auto'.",
        value,
        "Use 1.0, 'auto', or a set such as CVaR(0.3).",
    )
