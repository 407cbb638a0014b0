"""Everything a report shows, as plain numbers and text; nothing here knows of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.report.about import About, Timing
from drbqo_ray.report.health import HealthCheck, check_health
from drbqo_ray.report.panel import Source
from drbqo_ray.report.panels import all_panels
from drbqo_ray.report.panels.failures import Failures
from drbqo_ray.report.panels.parameters import Importance
from drbqo_ray.report.panels.radius import RadiusPath
from drbqo_ray.report.panels.ranking import Ranking
from drbqo_ray.report.panels.weights import FoldWeights
from drbqo_ray.report.score_range import ScoreRange
from drbqo_ray.report.verdict import Verdict, reach_verdict
from drbqo_ray.report.wording import Decimals
from drbqo_ray.threads import one_thread


@dataclass(frozen=True)
class Facts:
    """What a report shows.

    Attributes:
        about: names, limits and how to run it again.
        minimize: whether smaller scores are better.
        report: "robust" or "mean": what the method recommends by.
        filled: whether configs are judged by their scores, filled in by the model, or by its
            posterior means alone.
        set_words: the uncertainty set in words.
        n_folds: number of contexts n.
        reference: reference weights (n,).
        evaluations, pending: numbers of outcomes and of suggestions without one.
        score_range: the range that shown scores are kept to.
        per_fold: number of outcomes of every fold (n,).
        verdict: the answer in words.
        checks: what may be wrong with it.
        parts: data of every panel by its key, None when the run has nothing for it yet. Those that
            others read too have a name of their own below.
    """

    about: About
    minimize: bool
    report: str
    filled: bool
    set_words: str
    n_folds: int
    reference: tuple[float, ...]
    evaluations: int
    pending: int
    score_range: ScoreRange
    per_fold: tuple[int, ...]
    verdict: Verdict
    checks: tuple[HealthCheck, ...]
    parts: Mapping[str, Any]

    @property
    def ranking(self) -> Ranking | None:
        """The configs in order."""
        return self.parts["ranking"]

    @property
    def weights(self) -> FoldWeights | None:
        """The worst-case weights of the recommended config."""
        return self.parts["weights"]

    @property
    def radius_path(self) -> RadiusPath | None:
        """Robust values against the size of the set."""
        return self.parts["radius"]

    @property
    def importance(self) -> Importance | None:
        """Which parameters matter."""
        return self.parts["parameters"]

    @property
    def failures(self) -> Failures:
        """What broke."""
        return self.parts["failures"]

    @property
    def digits(self) -> Decimals:
        """How scores are written."""
        return self.ranking.digits if self.ranking is not None else Decimals(3)

    @property
    def better(self) -> str:
        """Which scores are better, in words."""
        return "smaller is better" if self.minimize else "larger is better"

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
    source = Source(optimizer, about, timings, all_panels())
    parts, posterior = source.parts(), source.posterior
    ranking, failures = parts["ranking"], parts["failures"]
    observations = optimizer.observations
    counts = np.bincount([seen.context for seen in observations], minlength=optimizer.n_contexts)
    return Facts(
        about=about,
        minimize=optimizer.mode == "min",
        report=source.report,
        filled=optimizer.method.report == "completed",
        set_words=optimizer.uncertainty.describe(),
        n_folds=optimizer.n_contexts,
        reference=tuple(float(w) for w in optimizer.reference),
        evaluations=len(observations),
        pending=len(optimizer.pending),
        score_range=posterior.score_range if posterior else ScoreRange(),
        per_fold=tuple(int(count) for count in counts),
        verdict=reach_verdict(posterior, ranking, failures, source.report),
        checks=check_health(
            optimizer, posterior, ranking, parts["weights"], parts["parameters"], failures
        ),
        parts=parts,
    )
