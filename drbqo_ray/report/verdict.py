"""The answer in words: which config, what robustness changed, how sure it is; then the checks: what
may be wrong with the answer, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drbqo_ray.optimizer.certainty import Certainty, Forecast
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import BAND, fold_text
from drbqo_ray.report.panels.failures import Failures
from drbqo_ray.report.panels.parameters import Importance, gain_from
from drbqo_ray.report.panels.ranking import ConfigRow, Ranking
from drbqo_ray.report.panels.weights import FoldWeights
from drbqo_ray.report.posterior import Posterior
from drbqo_ray.report.wording import (
    Decimals,
    config_text,
    count,
    name_text,
    percent,
    short,
    value_text,
    with_band,
)
from drbqo_ray.space.parameters import Choice, Parameter

ROUNDING = 1e-9
BOUND, INSIDE = 0.01, 0.1
IDLE = 0.01
DOMINANT = 0.5
PER_FOLD = 3


@dataclass(frozen=True)
class Answer:
    """The answer.

    Attributes:
        sentences: three of them, after a first one about new contexts where contexts have names.
        certainty: how sure it is, None without a recommendation.
        forecast: what to expect in a new context; None where contexts have no names.
    """

    sentences: tuple[str, ...]
    certainty: Certainty | None = None
    forecast: Forecast | None = None


def reach_answer(
    certainty: Certainty | None,
    ranking: Ranking | None,
    failures: Failures,
    report: str,
    forecast: Forecast | None = None,
) -> Answer:
    """The answer of a run that recommends by "robust" or by "mean" value."""
    chosen = ranking.row(ranking.chosen) if ranking is not None else None
    if certainty is None or ranking is None or chosen is None:
        return _no_answer(failures)
    digits = ranking.digits
    among = "the best" if ranking.ranked > 1 else "the only one"
    first = (
        f"Use config {chosen.number} ({config_text(chosen.config)}): its {report} score is {among}"
        f" of {count(ranking.ranked, 'config')},"
        f" {with_band(digits.text(chosen.robust), BAND * chosen.std)} in the worst case and"
        f" {digits.text(chosen.mean)} on average."
    )
    second = _difference(ranking, chosen, report, digits)
    sentences: tuple[str, ...] = (first, second, f"The choice is {certainty.verdict}.")
    if forecast is not None:
        sentences = (_foreseen(forecast, digits), *sentences)
    return Answer(sentences, certainty, forecast)


def _foreseen(forecast: Forecast, digits: Decimals) -> str:
    low, high = forecast.interval
    return (
        f"In a new environment like these {forecast.n}, expect {digits.text(forecast.expected)};"
        f" with probability {forecast.level:g} it is between {digits.text(low)} and"
        f" {digits.text(high)}."
    )


def _difference(ranking: Ranking, chosen: ConfigRow, report: str, digits: Decimals) -> str:
    by_mean = report == "robust"
    rule = "the plain mean" if by_mean else "the worst case"
    other = ranking.row(ranking.mean_choice if by_mean else ranking.robust_choice)
    if other is None or other.number == chosen.number:
        return f"Ranking by {rule} chooses the same config, so caution costs nothing here."
    mean = digits.text(abs(other.mean - chosen.mean))
    robust = digits.text(abs(other.robust - chosen.robust))
    if by_mean:
        gain = f"{mean} better on average but {robust} worse in the worst case"
    else:
        gain = f"{robust} better in the worst case but {mean} worse on average"
    return f"Ranking by {rule} would choose config {other.number} instead, which is {gain}."


def _no_answer(failures: Failures) -> Answer:
    first = "No config can be recommended yet."
    if not failures.evaluations:
        return Answer((first, "Nothing was evaluated.", "Start the run, or go on with it."))
    if failures.total == failures.evaluations:
        second = f"All {count(failures.total, 'evaluation')} failed."
        if failures.total == 1:
            second = "The only evaluation failed."
    else:
        second = (
            f"Every config has a failed fold: {failures.total:,} of"
            f" {count(failures.evaluations, 'evaluation')} failed."
        )
    return Answer((first, second, "See the failures below, fix the objective, and resume."))


@dataclass(frozen=True)
class HealthCheck:
    """One check.

    Attributes:
        key: what is checked, in one word.
        ok: whether all is well.
        finding: what was found, one sentence.
        advice: what to do next, one sentence; empty when all is well.
    """

    key: str
    ok: bool
    finding: str
    advice: str = ""


def check_health(
    optimizer: Optimizer,
    posterior: Posterior | None,
    ranking: Ranking | None,
    weights: FoldWeights | None,
    importance: Importance | None,
    failures: Failures,
    fold_labels: tuple[str, ...] = (),
) -> tuple[HealthCheck, ...]:
    """All checks that can be made, in the order shown."""
    checks = [_evaluations(optimizer, failures)]
    if posterior is not None and ranking is not None and importance is not None:
        checks += [_coverage(optimizer, posterior, ranking)]
        checks += [_bounds(posterior, ranking, importance), _noise(posterior)]
    if weights is not None:
        checks.append(_dominance(weights, fold_labels))
    return (*checks, _radius(optimizer), _failed(failures, fold_labels))


def _evaluations(optimizer: Optimizer, failures: Failures) -> HealthCheck:
    good = failures.evaluations - failures.total
    need = max(optimizer.n_initial, PER_FOLD * optimizer.n_contexts)
    found = f"{count(good, 'evaluation')} with a score; at least {need} are wanted for "
    found += f"{count(optimizer.n_contexts, 'fold')} and {count(len(optimizer.space), 'parameter')}"
    if good >= need:
        return HealthCheck("evaluations", True, f"{found}.")
    advice = f"Go on with the run: {count(need - good, 'more evaluation')} at least."
    return HealthCheck("evaluations", False, f"Too few evaluations: {found}.", advice)


def _coverage(optimizer: Optimizer, posterior: Posterior, ranking: Ranking) -> HealthCheck:
    row = ranking.row(ranking.chosen)
    assert row is not None
    n, band = optimizer.n_contexts, BAND * row.std
    found = f"The recommended config was trained on {row.folds_seen} of {count(n, 'fold')}"
    if row.folds_seen == n:
        return HealthCheck("coverage", True, f"{found}.")
    found = f"{found}; the model fills in the rest and knows its robust score to ± {short(band, 2)}"
    if band <= _spread(posterior) / 2:
        return HealthCheck("coverage", True, f"{found}.")
    return HealthCheck(
        "coverage",
        False,
        f"{found}, which is too wide to tell configs apart.",
        "Train the missing folds of this config before you rely on it.",
    )


def _bounds(posterior: Posterior, ranking: Ranking, importance: Importance) -> HealthCheck:
    assert ranking.chosen is not None
    config = posterior.configs[ranking.chosen]
    effects = dict(importance.effects)
    drawn: list[str] = []
    idle: list[str] = []
    for name, value in config.items():
        side, inside = _end(posterior.space.parameters[name], value)
        if side is None:
            continue
        draws = effects[name] >= IDLE and gain_from(posterior, config, name, inside) > 0
        words = f"{name_text(name)} = {value_text(value)} at its {side} end"
        (drawn if draws else idle).append(words)
    if drawn:
        return HealthCheck(
            "bounds",
            False,
            f"The optimum lies at a bound: {_listed(drawn)}.",
            "Widen the range there and run again, unless the bound is a real limit.",
        )
    if idle:
        found = f"At a bound, but the model sees nothing to gain there: {_listed(idle)}."
        return HealthCheck("bounds", True, found)
    return HealthCheck("bounds", True, "No parameter of the recommended config is at a bound.")


def _listed(words: list[str]) -> str:
    return "; ".join(words[:4]) + (f"; and {len(words) - 4} more" if len(words) > 4 else "")


def _end(item: Parameter, value: Any) -> tuple[str | None, float]:
    """At which end of its range a value lies, "low" or "high" or None, and the place in [0, 1] of a
    value further inside."""
    if isinstance(item, Choice) or item.count == 1:
        return None, 0.0
    u = item.to_unit(value)
    if not item.count:
        return ("low" if u <= BOUND else "high" if u >= 1 - BOUND else None), abs(u - INSIDE)
    k, step = int(item.axis.index(np.float64(u))), max(1, round(INSIDE * item.count))
    side = "low" if k == 0 else "high" if k == item.count - 1 else None
    return side, float(item.axis.position(np.array([abs(k - step)]))[0])


def _noise(posterior: Posterior) -> HealthCheck:
    spread = _spread(posterior)
    noise = posterior.noise_std
    found = f"noise of one evaluation {short(noise)}, spread between configs {short(spread)}"
    if np.count_nonzero(posterior.usable) < 2 or noise <= spread:
        return HealthCheck("noise", True, f"{found[0].upper()}{found[1:]}.")
    return HealthCheck(
        "noise",
        False,
        f"Noise is larger than the spread: {found}.",
        "Train the best configs on more folds, or average several seeds within one evaluation.",
    )


def _spread(posterior: Posterior) -> float:
    """Deviation of the robust values of the ranked configs, user's scale."""
    values, _ = posterior.robust(posterior.gains[posterior.usable])
    return float(posterior.fit.scale * values.std())


def _dominance(weights: FoldWeights, fold_labels: tuple[str, ...]) -> HealthCheck:
    n = len(weights.weights)
    fold = int(np.argmax(weights.weights))
    share = weights.weights[fold]
    called = name_text(fold_text(fold, fold_labels))
    found = f"{called} carries {percent(share)} of the worst-case weight"
    if n < 2 or share <= max(DOMINANT, 1.5 * weights.reference[fold]):
        return HealthCheck("dominance", True, f"{found[0].upper()}{found[1:]}, the most of all.")
    return HealthCheck(
        "dominance",
        False,
        f"One fold dominates: {found}.",
        f"Look at the data of {called}; if it is sound, a smaller radius hedges more evenly.",
    )


def _radius(optimizer: Optimizer) -> HealthCheck:
    if optimizer.n_contexts == 1:
        return HealthCheck(
            "radius",
            False,
            "There is one fold, so the robust score is the mean score.",
            "Use at least 3 folds to see what robustness changes.",
        )
    set = optimizer.uncertainty
    family = set.family(optimizer.reference)
    if family is None or family.kind != set.kind:
        return HealthCheck("radius", True, f"The set: {set.describe()}; it has no radius.")
    limit = f"the limit at which only the worst fold counts is {short(family.high)}"
    if family.own < family.high * (1 - 1e-12):
        return HealthCheck("radius", True, f"The set: {set.describe()}; {limit}.")
    return HealthCheck(
        "radius",
        False,
        f"The set reaches beyond the simplex: {set.describe()}, but {limit}.",
        "Choose a smaller one to hedge between folds, or WorstCase() to say what you mean.",
    )


def _failed(failures: Failures, fold_labels: tuple[str, ...]) -> HealthCheck:
    found = f"{failures.total:,} of {count(failures.evaluations, 'evaluation')} failed"
    if not failures.total:
        return HealthCheck("failures", True, "No evaluation failed.")
    worst = name_text(fold_text(int(np.argmax(failures.per_fold)), fold_labels))
    return HealthCheck(
        "failures",
        False,
        f"{found}, most of them on {worst}; a config with a failed fold is never recommended.",
        "See the failures below, fix the objective, and resume the run.",
    )
