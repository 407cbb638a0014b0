"""Everything a report shows, as plain numbers and text; nothing here knows of HTML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.report.about import About
from drbqo_ray.report.failures import Failures, list_failures
from drbqo_ray.report.fold_weights import FoldWeights, weigh_folds
from drbqo_ray.report.health import HealthCheck, check_health
from drbqo_ray.report.heat_map import HeatMap, map_heat
from drbqo_ray.report.importance import Importance, weigh_parameters
from drbqo_ray.report.incumbent import Incumbent, follow_incumbent
from drbqo_ray.report.pareto import Pareto, weigh_trade_off
from drbqo_ray.report.posterior import Posterior, minimizes, read_posterior
from drbqo_ray.report.radius_path import RadiusPath, trace_radius
from drbqo_ray.report.ranking import Ranking, choices, rank
from drbqo_ray.report.score_range import ScoreRange
from drbqo_ray.report.timeline import Timeline, Timing, draw_up
from drbqo_ray.report.verdict import Verdict, reach_verdict
from drbqo_ray.threads import one_thread


@dataclass(frozen=True)
class Facts:
    """What a report shows. A part is None when the run has nothing for it yet.

    Attributes:
        about: names, limits and how to run it again.
        minimize: whether smaller scores are better.
        report: "robust" or "mean": what the method recommends by.
        filled: whether configs are judged by their scores, filled in by the model, or by its
            posterior means alone.
        set_words: the uncertainty set in words.
        set_kind: its kind.
        n_folds: number of contexts n.
        reference: reference weights (n,).
        evaluations, pending: numbers of outcomes and of suggestions without one.
        score_range: the range that shown scores are kept to.
        per_fold: number of outcomes of every fold (n,).
        noise_std: deviation of the noise of one evaluation, None before there is a model.
        verdict, checks, ranking, heat_map, weights, radius_path, pareto, incumbent, importance,
            timeline, failures: the panels.
    """

    about: About
    minimize: bool
    report: str
    filled: bool
    set_words: str
    set_kind: str
    n_folds: int
    reference: tuple[float, ...]
    evaluations: int
    pending: int
    score_range: ScoreRange
    per_fold: tuple[int, ...]
    noise_std: float | None
    verdict: Verdict
    checks: tuple[HealthCheck, ...]
    ranking: Ranking | None
    heat_map: HeatMap | None
    weights: FoldWeights | None
    radius_path: RadiusPath | None
    pareto: Pareto | None
    incumbent: Incumbent | None
    importance: Importance | None
    timeline: Timeline | None
    failures: Failures

    def fold(self, number: int) -> str:
        """What a fold is called."""
        labels = self.about.fold_labels
        return labels[number] if number < len(labels) else f"fold {number}"


@one_thread
def gather(optimizer: Optimizer, about: About, timings: Iterable[Timing] = ()) -> Facts:
    """The facts of a run.

    Args:
        optimizer: told everything; it is not changed.
        about: what else is known of the run.
        timings: times of the evaluations, as far as they are known.
    """
    timings = list(timings)
    observations = optimizer.observations
    posterior = read_posterior(optimizer)
    report = "mean" if optimizer.method.report == "mean" else "robust"
    failures = list_failures(observations, {t.id: t for t in timings}, optimizer.n_contexts)
    ranking, path = _rank(posterior, report)
    weights = weigh_folds(posterior, ranking) if posterior and ranking else None
    importance = (
        weigh_parameters(posterior, ranking, optimizer.seed) if posterior and ranking else None
    )
    told = {t.id: t.told_at for t in timings if t.told_at is not None}
    in_order = {place: told[seen.id] for place, seen in enumerate(observations) if seen.id in told}
    counts = np.bincount([seen.context for seen in observations], minlength=optimizer.n_contexts)
    return Facts(
        about=about,
        minimize=minimizes(optimizer),
        report=report,
        filled=optimizer.method.report == "completed",
        set_words=optimizer.uncertainty.describe(),
        set_kind=optimizer.uncertainty.kind,
        n_folds=optimizer.n_contexts,
        reference=tuple(float(w) for w in optimizer.reference),
        evaluations=len(observations),
        pending=len(optimizer.pending),
        score_range=posterior.score_range if posterior else ScoreRange(),
        per_fold=tuple(int(count) for count in counts),
        noise_std=posterior.noise_std if posterior else None,
        verdict=reach_verdict(posterior, ranking, failures, report),
        checks=check_health(optimizer, posterior, ranking, weights, importance, failures),
        ranking=ranking,
        heat_map=map_heat(posterior, ranking) if posterior and ranking else None,
        weights=weights,
        radius_path=path,
        pareto=weigh_trade_off(posterior) if posterior else None,
        incumbent=follow_incumbent(posterior, report, in_order) if posterior else None,
        importance=importance,
        timeline=draw_up(timings),
        failures=failures,
    )


def _rank(posterior: Posterior | None, report: str) -> tuple[Ranking | None, RadiusPath | None]:
    """The ranking and the radius path; every winner along the path is in the ranking."""
    if posterior is None:
        return None, None
    path = trace_radius(posterior, choices(posterior, report))
    keep = sorted(path.curves) if path is not None else choices(posterior, report)
    return rank(posterior, report, np.array(keep, dtype=np.int64)), path
