"""What a report is told of a run, and everything it shows, as plain numbers and text; nothing here
knows of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drbqo_ray.errors import NothingObserved
from drbqo_ray.optimizer.certainty import Certainty, Forecast
from drbqo_ray.optimizer.optimizer import Optimizer
from drbqo_ray.records import Config, Observation, fold_text
from drbqo_ray.report.panel import Source
from drbqo_ray.report.panels import all_panels
from drbqo_ray.report.panels.failures import Failures
from drbqo_ray.report.panels.parameters import Importance
from drbqo_ray.report.panels.radius import RadiusPath
from drbqo_ray.report.panels.ranking import Ranking
from drbqo_ray.report.panels.weights import FoldWeights
from drbqo_ray.report.posterior import ScoreRange
from drbqo_ray.report.verdict import Answer, HealthCheck, check_health, reach_answer
from drbqo_ray.report.wording import Decimals, config_text, name_text
from drbqo_ray.threads import one_thread

NAMED_PARAMETERS = 8
"""Hyperparameters that are said where a config is named; the others are counted."""


@dataclass(frozen=True)
class Snippet:
    """Text to copy: a title and the code below it."""

    title: str
    text: str


@dataclass(frozen=True)
class About:
    """A run as its storage describes it. All but the name may be left out.

    Attributes:
        name: name of the run.
        objective: name of what scored the folds.
        method: name of the method.
        budget: evaluations the run may use in all.
        state: "finished", "interrupted", "failed", or None while it goes on.
        seconds: how long the run was worked on.
        fold_labels: what to call the contexts; by default their names, or "fold 0", "fold 1", ...
        details: pairs of a word and its text for the block that reproduces the run: versions,
            seed, fingerprint of the data.
        reproduce: code that runs it again.
    """

    name: str = "run"
    objective: str | None = None
    method: str | None = None
    budget: int | None = None
    state: str | None = None
    seconds: float | None = None
    fold_labels: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    reproduce: tuple[Snippet, ...] = ()


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
        verdict: the answer in words.
        checks: what may be wrong with it.
        configs: every evaluated config by its number.
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
    verdict: Answer
    checks: tuple[HealthCheck, ...]
    configs: tuple[Config, ...]
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
        return name_text(fold_text(number, self.about.fold_labels))

    def config(self, number: int) -> str:
        """What a config is called, with its hyperparameters."""
        return f"config {number}: {config_text(self.configs[number], NAMED_PARAMETERS)}"


@one_thread
def gather(
    optimizer: Optimizer,
    about: About,
    observations: Sequence[Observation] = (),
    told_at: Mapping[int, float] | None = None,
) -> Facts:
    """The facts of a run.

    Args:
        optimizer: told everything; it is not changed.
        about: what else is known of the run.
        observations: the outcomes in the order told, where more is known of them than the optimizer
            was told: how long they ran, where, why they failed.
        told_at: when outcomes were told, by id, in seconds into the run, as far as that is known.
    """
    if not about.fold_labels:
        about = replace(about, fold_labels=optimizer.context_names)
    source = Source(optimizer, about, observations, told_at or {}, all_panels())
    parts, posterior = source.parts(), source.posterior
    ranking, failures = parts["ranking"], parts["failures"]
    return Facts(
        about=about,
        minimize=optimizer.mode == "min",
        report=source.report,
        filled=optimizer.method.report == "completed",
        set_words=optimizer.uncertainty.describe(),
        n_folds=optimizer.n_contexts,
        reference=tuple(float(w) for w in optimizer.reference),
        evaluations=len(source.observations),
        pending=len(optimizer.pending),
        score_range=posterior.score_range if posterior else ScoreRange(),
        verdict=reach_answer(
            _how_sure(optimizer), ranking, failures, source.report, _expected(optimizer)
        ),
        checks=check_health(
            optimizer,
            posterior,
            ranking,
            parts["weights"],
            parts["parameters"],
            failures,
            about.fold_labels,
        ),
        configs=tuple(posterior.configs) if posterior else (),
        parts=parts,
    )


def _expected(optimizer: Optimizer) -> Forecast | None:
    """What to expect in a new context, where contexts have names: those of folds are all alike."""
    if not optimizer.context_names or optimizer.n_contexts < 2:
        return None
    try:
        return optimizer.forecast()
    except NothingObserved:
        return None


def _how_sure(optimizer: Optimizer) -> Certainty | None:
    try:
        return optimizer.certainty()
    except NothingObserved:
        return None
