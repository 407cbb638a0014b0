"""The answer in three sentences: which config, what robustness changed, how sure it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drbqo_ray.records import BAND
from drbqo_ray.report.panels.failures import Failures
from drbqo_ray.report.panels.ranking import ConfigRow, Ranking
from drbqo_ray.report.posterior import Posterior
from drbqo_ray.report.wording import Decimals, config_text, count, short, with_band

ROUNDING = 1e-9


@dataclass(frozen=True)
class Verdict:
    """The answer.

    Attributes:
        sentences: three of them.
        lead: by how much the recommended config leads the next one, by the rule of the method and
            on the user's scale, never negative; None without a next one.
        lead_band: half the width of its 95 % band; None without a next one.
        clear: whether the lead is beyond its band.
    """

    sentences: tuple[str, str, str]
    lead: float | None = None
    lead_band: float | None = None
    clear: bool = False


def reach_verdict(
    posterior: Posterior | None, ranking: Ranking | None, failures: Failures, report: str
) -> Verdict:
    """The verdict on a run that recommends by "robust" or by "mean" value."""
    chosen = ranking.row(ranking.chosen) if ranking is not None else None
    if posterior is None or ranking is None or chosen is None:
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
    next_one = ranking.row(ranking.runner_up)
    if next_one is None:
        return Verdict((first, second, "No other config can be compared yet: go on with the run."))
    lead = abs(_value(chosen, report) - _value(next_one, report))
    weights = np.array([chosen.weights, next_one.weights])
    if report == "mean":
        weights = np.tile(posterior.reference, (2, 1))
    band = BAND * posterior.gap_std(chosen.number, next_one.number, weights)
    tie = max(lead, band) <= ROUNDING * posterior.fit.scale
    clear = lead > band and not tie
    third = _lead_sentence(next_one.number, lead, band, clear, tie)
    return Verdict((first, second, third), lead, band, clear)


def _lead_sentence(other: int, lead: float, band: float, clear: bool, tie: bool) -> str:
    if tie:
        return f"Config {other} has the same score, and nothing is left to train: either will do."
    how = (
        "beyond what the model is unsure of, so the choice is clear."
        if clear
        else "within what the model is unsure of, so train more folds before you rely on the order."
    )
    return f"Its lead over config {other} is {with_band(short(lead, 2), band)}, {how}"


def _value(row: ConfigRow, report: str) -> float:
    return row.robust if report == "robust" else row.mean


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


def _no_answer(failures: Failures) -> Verdict:
    first = "No config can be recommended yet."
    if not failures.evaluations:
        return Verdict((first, "Nothing was evaluated.", "Start the run, or go on with it."))
    if failures.total == failures.evaluations:
        second = f"All {count(failures.total, 'evaluation')} failed."
        if failures.total == 1:
            second = "The only evaluation failed."
    else:
        second = (
            f"Every config has a failed fold: {failures.total:,} of"
            f" {count(failures.evaluations, 'evaluation')} failed."
        )
    return Verdict((first, second, "See the failures below, fix the objective, and resume."))
