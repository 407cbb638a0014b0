"""Domains of Ray Tune and frozen distributions of scipy.stats as our parameters, exactly.

Neither package is imported: a domain is known by the module and name of its class, and read
through its public attributes.

| Ray Tune                      | here                                              |
|-------------------------------|---------------------------------------------------|
| uniform, loguniform (lo, hi)  | Float lo to hi                                    |
| quniform, qloguniform (.., q) | Float on the multiples of q from lo to hi         |
| randint, lograndint (lo, hi)  | Int lo to hi - 1                                  |
| qrandint, qlograndint (.., q) | Int on the multiples of q from lo to hi           |
| randn, qrandn (mean, sd)      | Normal, 5 sd to either side of the mean           |
| choice                        | Choice; repeated options count once               |

| scipy.stats                   | here                                              |
|-------------------------------|---------------------------------------------------|
| uniform, loguniform           | Float over the support                            |
| norm                          | Normal, as above                                  |
| randint                       | Int over the support                              |

A domain that holds one value only becomes a Choice of that value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from scipy.special import ndtr, ndtri

from drbqo_ray.errors import InvalidInput
from drbqo_ray.space.parameters import (
    SMALLEST,
    Axis,
    Choice,
    Float,
    Int,
    Parameter,
    check_range,
    is_finite,
    make_plain,
    optional,
    same,
)
from drbqo_ray.types import Array

TUNE_MODULE = "ray.tune.search.sample"
SCIPY_MODULE = "scipy.stats"
REACH = 5.0
"""Standard deviations searched on either side of the mean; 6e-7 of the normal lies beyond."""


def is_tune_domain(value: object) -> bool:
    """Whether a value is a search-space domain of Ray Tune."""
    return _is_a(value, TUNE_MODULE, "Domain")


def is_scipy_distribution(value: object) -> bool:
    """Whether a value is a frozen distribution of scipy.stats."""
    return _is_a(value, SCIPY_MODULE, "rv_frozen")


def _is_a(value: object, module: str, name: str) -> bool:
    return any(
        kind.__name__ == name and kind.__module__.startswith(module) for kind in type(value).__mro__
    )


def convert_space(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A flat space with every foreign domain in it converted, and lists read as choices.

    Values of our own kinds and their plain-data forms are passed through, as is anything
    unknown: `Space` checks what it gets.
    """
    return {name: convert_domain(name, value) for name, value in mapping.items()}


def convert_domain(name: str, value: object) -> Any:
    """The parameter that a foreign domain stands for; any other value unchanged.

    Lists are read as choices, as in RandomizedSearchCV. Tuples are not: (0.1, 1.0) may be meant as
    a range.
    """
    if is_tune_domain(value):
        return from_tune(name, value)
    if is_scipy_distribution(value):
        return from_scipy(name, value)
    if isinstance(value, list) and value:
        return Choice(distinct(value))
    return value


def distinct(options: Sequence[Any]) -> list[Any]:
    """The options in order, without repeats."""
    kept: list[Any] = []
    for option in options:
        if not any(same(option, other) for other in kept):
            kept.append(option)
    return kept


# Ray Tune


def from_tune(name: str, domain: Any) -> Parameter:
    """The parameter that a Ray Tune domain stands for.

    Raises:
        InvalidInput: the domain is a grid or a function, is unbounded, or holds no value.
    """
    return _converted(name, domain, _from_tune)


def _converted(name: str, domain: Any, convert: Callable[[str, Any], Parameter]) -> Parameter:
    """What `convert` makes of a domain, which may have been built from anything."""
    try:
        return convert(name, domain)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            f"The domain of {name!r} must be made of plain numbers.", error, "Pass int or float."
        ) from error


def _from_tune(name: str, domain: Any) -> Parameter:
    if _is_a(domain, TUNE_MODULE, "Categorical"):
        if domain.is_grid():
            refuse_grid(name, domain.categories)
        return Choice(distinct(domain.categories))
    sampler, q = domain.get_sampler(), None
    if _is_a(sampler, TUNE_MODULE, "Quantized"):
        sampler, q = sampler.sampler, sampler.q
    log = _is_a(sampler, TUNE_MODULE, "LogUniform")
    if _is_a(domain, TUNE_MODULE, "Integer"):
        return _from_integers(name, domain, log, 1 if q is None else q)
    if _is_a(domain, TUNE_MODULE, "Float"):
        if _is_a(sampler, TUNE_MODULE, "Normal"):
            return _normal(float(sampler.mean), float(sampler.sd), q)
        return _float(name, domain.lower, domain.upper, log, q)
    raise InvalidInput(
        f"The domain of {name!r} must be one that can be searched.",
        domain,
        "Use tune.uniform, randint, choice and the like; pass tune.sample_from in the param_space "
        "of tune.Tuner, which resolves it itself.",
    )


def refuse_grid(name: str, values: object) -> NoReturn:
    """Raise for a grid search, which leaves nothing to search."""
    raise InvalidInput(
        f"grid_search cannot be combined with a searcher, as for {name!r}.",
        values,
        "Use tune.choice with the same values.",
    )


def _float(name: str, low: float, high: float, log: bool, q: float | None) -> Parameter:
    low, high = float(low), float(high)
    if q is not None:
        first, last = _on_grid(low, q, math.ceil), _on_grid(high, q, math.floor)
        low, high = _multiple(first, q), _multiple(last, q)
    if low == high and math.isfinite(low):
        return Choice([low])
    if not low <= high:
        _refuse_empty(name, (low, high, q))
    while q is not None and high - low < q:  # 0.3 - 0.2 is a little less than 0.1
        high = math.nextafter(high, math.inf)
    return Float(low, high, log=log, step=None if q is None else float(q))


def _from_integers(name: str, domain: Any, log: bool, q: float) -> Parameter:
    low, high, step = _whole(name, domain.lower), _whole(name, domain.upper), _whole(name, q)
    if step == 1:
        high -= 1
    first, last = -(-low // step) * step, high // step * step
    if first > last:
        _refuse_empty(name, (low, high, step))
    return Choice([first]) if first == last else Int(first, last, log=log, step=step)


def _normal(mean: float, sd: float, q: float | None) -> Parameter:
    if q is None:
        return Normal.around(mean, sd)
    low, high = (_multiple(round((mean + side * REACH * sd) / q), q) for side in (-1, 1))
    return Choice([low]) if low == high else Normal(low, high, step=float(q), mean=mean, sd=sd)


def _on_grid(bound: float, q: float, inwards: Any) -> int:
    """Number of the multiple of q at a bound, else of the next one inside."""
    if not math.isfinite(bound):
        raise InvalidInput("A uniform domain needs finite bounds.", bound, "Pass both.")
    nearest = round(bound / q)
    return nearest if math.isclose(bound / q, nearest) else inwards(bound / q)


def _multiple(k: int, q: float) -> float:
    """k * q without the rounding error of binary fractions: 3 * 0.1 is 0.3."""
    return float(k * Decimal(str(q)))


def _whole(name: str, value: Any) -> int:
    if value != int(value):
        raise InvalidInput(f"{name!r} takes whole numbers.", value, "Pass int values.")
    return int(value)


def _refuse_empty(name: str, bounds: object) -> NoReturn:
    raise InvalidInput(f"The domain of {name!r} holds no value.", bounds, "Widen its bounds.")


# scipy.stats


def from_scipy(name: str, frozen: Any) -> Parameter:
    """The parameter that a frozen distribution of scipy.stats stands for.

    Raises:
        InvalidInput: the distribution is not one of those in the table above.
    """
    return _converted(name, frozen, _from_scipy)


def _from_scipy(name: str, frozen: Any) -> Parameter:
    kind = str(getattr(frozen.dist, "name", ""))
    low, high = (float(end) for end in frozen.support())
    if kind == "uniform":
        return _float(name, low, high, False, None)
    if kind in ("loguniform", "reciprocal"):
        return _float(name, low, high, True, None)
    if kind == "randint":
        first, last = int(low), int(high)
        return Choice([first]) if first == last else Int(first, last)
    if kind == "norm":
        return _normal(float(frozen.mean()), float(frozen.std()), None)
    raise InvalidInput(
        f"{name!r} must be a uniform, loguniform, norm or randint distribution.",
        kind,
        "Use one of these, or a list of options.",
    )


@dataclass(frozen=True)
class NormalAxis(Axis):
    """A range laid on [0, 1] by the normal distribution cut off at its ends.

    Equal steps of u are equal shares of probability, so a spread of points that is even in u is a
    normal sample of values.

    Attributes:
        mean, sd: of the normal distribution before it is cut off.
    """

    mean: float = 0.0
    sd: float = 1.0

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Probability below the low and below the high end."""
        low, high = ndtr(self._deviations(np.array([self.low, self.high])))
        return float(low), float(high)

    def _deviations(self, values: Array | np.float64) -> Array:
        """How many standard deviations each value lies above the mean, any shape."""
        with np.errstate(over="ignore"):  # infinitely many, for all that ndtr can tell
            return np.asarray((values - self.mean) / self.sd)

    def warp(self, values: Array | np.float64) -> Array:
        """Position in [0, 1] of each value, any shape."""
        low, high = self.ends
        return np.asarray((ndtr(self._deviations(values)) - low) / (high - low))

    def unwarp(self, u: Array | np.float64) -> Array:
        """Value at each position u in [0, 1], any shape, not rounded to the grid."""
        low, high = self.ends
        inside = np.clip(low + u * (high - low), low, high)
        values = self.mean + self.sd * ndtri(inside)
        return np.asarray(np.clip(values, self.low, self.high))


@dataclass(frozen=True)
class Normal(Float):
    """A real hyperparameter that is normal a priori, between `low` and `high`, both included.

    Args:
        low, high: the bounds; must hold some of the probability.
        step: only low, low + step, low + 2 step, ... are used.
        when: active only when the named parameters have one of the listed values.
        mean, sd: of the normal distribution before it is cut off at the bounds.
    """

    mean: float = 0.0
    sd: float = 1.0

    def __post_init__(self) -> None:
        make_plain(self, "low", "high", "log", "step", "mean", "sd")
        check_range("Normal", self.low, self.high, self.log, self.step)
        if self.log:
            raise InvalidInput("Normal has no log scale.", self.log, "Drop log=True.")
        if not (is_finite(self.mean) and is_finite(self.sd) and self.sd >= SMALLEST):
            raise InvalidInput(
                "Normal needs a finite mean and sd > 0.", (self.mean, self.sd), "Change them."
            )
        low, high = self.axis.ends
        if not high - low > 1e-9:
            raise InvalidInput(
                "The bounds of Normal must hold some of its probability.",
                (self.low, self.high, self.mean, self.sd),
                "Move the bounds towards the mean, or use Float.",
            )
        self.axis.check_cells("Normal")

    @staticmethod
    def around(mean: float, sd: float) -> Normal:
        """The whole normal distribution, as far as REACH standard deviations from its mean."""
        return Normal(mean - REACH * sd, mean + REACH * sd, mean=mean, sd=sd)

    @cached_property
    def axis(self) -> NormalAxis:
        """How the range lies on [0, 1]."""
        plain = Float(self.low, self.high, step=self.step).axis
        return NormalAxis(
            plain.low,
            plain.high,
            False,
            plain.start,
            plain.step,
            plain.count,
            float(self.mean),
            float(self.sd),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form, as written in a YAML space or a journal."""
        plain = {"type": "normal", "low": float(self.low), "high": float(self.high)}
        shape = {"mean": float(self.mean), "sd": float(self.sd)}
        return plain | shape | optional(self.when, step=self.step)
