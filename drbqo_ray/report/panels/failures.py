"""What broke: the failed evaluations, and the first of each kind in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from drbqo_ray.records import Config, Observation
from drbqo_ray.report.draw import fill
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.wording import config_text, count
from drbqo_ray.runtime.terminal import error_line, printable_lines

if TYPE_CHECKING:
    from drbqo_ray.report.facts import Facts

SHOWN = 100
WHOLE_TEXT = 4000
TABLE = """
<div class="scroll">
<table id="failed">
<thead><tr><th scope="col" class="number">Evaluation</th><th scope="col">Fold</th>{#
#}<th scope="col">Cause</th><th scope="col">What went wrong</th></tr></thead>
<tbody>
{% for failure in failures %}<tr><td class="number">{{ failure.id }}</td>{#
#}<td>{{ fold(failure.fold) }}</td><td>{{ failure.cause or "–" }}</td>{#
#}<td><details><summary>{{ failure.summary }}</summary><p>{{ config_text(failure.config) }}</p>{#
#}<pre>{{ failure.text }}</pre></details></td></tr>
{% endfor %}</tbody>
</table>
</div>
"""


@dataclass(frozen=True)
class Failure:
    """One failed evaluation.

    Attributes:
        id, config, fold: what was evaluated.
        cause: in one word, None when it was not recorded.
        summary: the line that says what went wrong.
        text: the whole reason, shortened.
    """

    id: int
    config: Config
    fold: int
    cause: str | None
    summary: str
    text: str


@dataclass(frozen=True)
class Failures:
    """The failed evaluations.

    Attributes:
        shown: the first ones.
        total: number of failed evaluations.
        evaluations: number of all evaluations.
        per_fold: failures of every fold (n,).
    """

    shown: tuple[Failure, ...]
    total: int
    evaluations: int
    per_fold: tuple[int, ...]


class FailuresPanel(Panel[Failures]):
    """The failed evaluations as a table."""

    key, order = "failures", 90
    title, question = "Failures", "What broke?"

    def gather(self, source: Source) -> Failures:
        """The failures, also when there are none."""
        failed = [seen for seen in source.observations if seen.status == "failed"]
        counts = [0] * source.optimizer.n_contexts
        for seen in failed:
            counts[seen.context] += 1
        return Failures(
            shown=tuple(_failure(seen) for seen in failed[:SHOWN]),
            total=len(failed),
            evaluations=len(source.observations),
            per_fold=tuple(counts),
        )

    def reading(self, facts: Facts, data: Failures) -> Sequence[str]:
        """How many failed and on which folds."""
        if not data.total:
            return ("No evaluation failed.",)
        folds = ", ".join(
            f"{facts.fold(fold)}: {failed}" for fold, failed in enumerate(data.per_fold) if failed
        )
        words = (
            f"{data.total:,} of {count(data.evaluations, 'evaluation')} failed ({folds[:400]})."
            " A config with a failed fold is never recommended."
        )
        left = data.total - len(data.shown)
        if left:
            words += f" The first {len(data.shown)} are listed, {left:,} are left out."
        return (words,)

    def below(self, facts: Facts) -> Markup:
        """The table."""
        shown = facts.failures.shown
        if not shown:
            return Markup("")
        return fill(TABLE, failures=shown, fold=facts.fold, config_text=config_text)


PANEL = FailuresPanel()


def _failure(seen: Observation) -> Failure:
    reason = seen.reason or "no reason given"
    return Failure(
        id=seen.id,
        config=dict(seen.config),
        fold=seen.context,
        cause=seen.cause,
        summary=error_line(reason),
        text=printable_lines(reason, WHOLE_TEXT),
    )
