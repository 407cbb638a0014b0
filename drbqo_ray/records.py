"""The frozen records that travel between the optimizer, the journal and the workers.

They hold plain data only (numbers, strings, lists, dicts), so that a record can be
written as JSON and read back without loss.
"""

from __future__ import annotations

import html
import json
import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from drbqo_ray.errors import InvalidInput, short_repr
from drbqo_ray.types import check_plain, plain

Config = dict[str, Any]
Status = Literal["ok", "failed"]
LARGEST_SCORE = 1e100
LARGEST_INFO = 100_000
LONGEST_REASON = 20_000
LONGEST_CELL = 300
BAND = 1.96  # deviations in half of a 95 % interval: what we print after a ±


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One evaluation that was handed out: train `config` on `context` with `seed`.

    Attributes:
        id: number of the suggestion within its run, counted from 0.
        config: hyperparameters by name; inactive conditional ones are absent.
        context: index of the fold or sample, 0 <= context < n.
        seed: seed for the random numbers of this evaluation, 0 <= seed < 2**31.
    """

    id: int
    config: Config
    context: int
    seed: int


@dataclass(frozen=True, slots=True)
class Scored:
    """What an objective may return instead of a number: the score, and plain data to keep with it.
    A pair (value, info) means the same, for code that does not import this package.

    Attributes:
        value: the score, one number.
        info: a dict of plain data (see `types`), such as times and further metrics. It is kept in
            the journal and given back as `Observation.info`; the search makes no use of it.

    Raises:
        InvalidInput: `info` is not plain, or longer than `LARGEST_INFO` characters of JSON.
    """

    value: Any
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "info", _own_info(self.info))


@dataclass(frozen=True, slots=True)
class Failed:
    """What an objective may return when there is no score: why, and plain data to keep with that.

    Attributes:
        reason: why there is no score.
        info: see `Scored`.
        raised: an object for whoever started the run, such as the exception. It travels with the
            outcome, pickled between processes, and is not kept in the journal.
    """

    reason: str
    info: dict[str, Any] = field(default_factory=dict)
    raised: object = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "info", _own_info(self.info))


def _scored(returned: object) -> Scored:
    """A score that came alone, or as a pair with its info from code that does not know us."""
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
        return Scored(*returned)
    return Scored(returned)


def _own_info(given: Any) -> dict[str, Any]:
    """A copy of what an objective returned beside its score, checked to be plain and not long."""
    info = plain(given)
    check_plain({"info": info})
    if not isinstance(info, dict):
        raise InvalidInput("The info of a score is a dict.", info, "Pass a dict.")
    text = json.dumps(info, allow_nan=False)
    if len(text) > LARGEST_INFO:
        raise InvalidInput(
            f"The info of a score may take {LARGEST_INFO} characters of JSON.",
            f"{len(text)} characters",
            "Keep large data in files and their names here.",
        )
    own: dict[str, Any] = json.loads(text)
    return own


@dataclass(frozen=True, slots=True)
class Observation:
    """The outcome of one evaluation.

    Two are equal when they say the same of the same config and context; how the evaluation ran,
    from `cause` on, is not compared.

    Attributes:
        id: id of the suggestion it answers.
        config: hyperparameters by name.
        context: index of the fold or sample.
        status: "ok" with a finite score, or "failed" with a reason.
        score: the score as it was told (the user's sign), None when failed.
        reason: why it failed, None when ok; for an error of the objective its traceback.
        cause: None when ok, else "error" (the objective raised), "value" (it returned no usable
            number), "timeout", "lost" (its worker or node died) or "oom" (out of memory). A
            failure that was told to an `Optimizer` has none.
        seconds: how long the evaluation ran, 0 when that is not known.
        node: the node it ran on, None when that is not known.
        attempts: how often it was started.
        info: what the objective returned along with the score, see `Scored`.
        raised: what a failed objective sent home, see `Failed`; None in a run that is read from
            its journal.
    """

    id: int
    config: Config
    context: int
    status: Status
    score: float | None = None
    reason: str | None = None
    cause: str | None = field(default=None, compare=False)
    seconds: float = field(default=0.0, compare=False)
    node: str | None = field(default=None, compare=False)
    attempts: int = field(default=1, compare=False)
    info: dict[str, Any] = field(default_factory=dict, compare=False)
    raised: object = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(suggestion: Suggestion, returned: object, **details: Any) -> Observation:
        """The outcome of an objective that returned a number, `Scored`, a pair or `Failed`.

        It is a failed one with cause "value" when that is no usable score.

        Args:
            suggestion: what was evaluated.
            returned: what the objective returned.
            details: seconds, node and attempts.
        """
        if isinstance(returned, Failed):
            told = {"info": returned.info, "raised": returned.raised}
            return Observation.failure(suggestion, "error", returned.reason, **told, **details)
        scored = returned if isinstance(returned, Scored) else _scored(returned)
        score, wrong = read_score(scored.value)
        if score is None:
            return Observation.failure(suggestion, "value", wrong, info=scored.info, **details)
        return _observation(suggestion, "ok", score=score, info=scored.info, **details)

    @staticmethod
    def failure(
        suggestion: Suggestion, cause: str, reason: str | None, **details: Any
    ) -> Observation:
        """The outcome of an evaluation that failed; a very long reason loses its middle."""
        text = _shortened(reason or "no reason given")
        return _observation(suggestion, "failed", cause=cause, reason=text, **details)

    def agrees_with(self, other: Observation) -> bool:
        """Whether both say the same about the evaluation."""
        return (self.score, self.cause) == (other.score, other.cause)


def _observation(
    suggestion: Suggestion, status: Status, seconds: float = 0.0, **fields: Any
) -> Observation:
    s = suggestion
    return Observation(s.id, s.config, s.context, status, seconds=round(seconds, 6), **fields)


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_REASON:
        return text
    half = LONGEST_REASON // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The evaluated config with the best posterior value, and how sure we are.

    All values have the user's sign (`mode="min"` gives losses back as losses).

    Attributes:
        config: the recommended hyperparameters.
        robust_value: posterior mean of the score under the worst weights of the set.
        mean_value: posterior mean of the score under the reference weights.
        weights: the worst-case weights, length n.
        context_means: posterior mean per context, length n.
        context_stds: posterior standard deviation per context, length n.
        std: posterior standard deviation of the score averaged with `weights`.
    """

    config: Config
    robust_value: float
    mean_value: float
    weights: list[float] = field(repr=False)
    context_means: list[float] = field(repr=False)
    context_stds: list[float] = field(repr=False)
    std: float

    def describe(self, context_names: Sequence[str] = ()) -> list[tuple[str, object]]:
        """What a notebook shows of it: pairs of a word and its value."""
        band = f" ± {BAND * self.std:.2g}" if self.std else ""
        worst = max(range(len(self.weights)), key=self.weights.__getitem__)
        called = context_names[worst] if context_names else worst
        return [
            ("robust value", f"{self.robust_value:.6g}{band}"),
            ("mean value", self.mean_value),
            ("heaviest fold", f"{called}, weight {self.weights[worst]:.3g}"),
            *self.config.items(),
        ]

    def _repr_html_(self) -> str:
        return html_card("Recommendation", self.describe())


def fold_text(number: int, context_names: Sequence[str] = ()) -> str:
    """What a fold is called: its name, or "fold" and its number."""
    return context_names[number] if number < len(context_names) else f"fold {number}"


def html_card(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A small table for notebooks. Every word is escaped, and long ones are cut."""
    lines = [f"<table><caption>{_html(title)}</caption><tbody>"]
    for word, value in rows:
        text = f"{value:.6g}" if isinstance(value, float) else value
        head = f'<th scope="row" style="text-align:left">{_html(word)}</th>'
        lines.append(f'<tr>{head}<td style="text-align:left">{_html(text)}</td></tr>')
    return "".join([*lines, "</tbody></table>"])


def _html(value: object) -> str:
    text = value if isinstance(value, str) else short_repr(value, LONGEST_CELL)
    text = text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 3] + "..."
    return html.escape(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def read_score(value: object) -> tuple[float | None, str | None]:
    """(score, None) for a usable number, else (None, what is wrong with it).

    Scalars of numpy and PyTorch count as numbers; booleans, strings and None do not.
    """
    number = _number(value)
    if number is None:
        return None, f"a score must be one number, got {_kind(value)}"
    try:
        score = float(number)
    except (OverflowError, ValueError, TypeError):
        return None, f"a score must be a number that fits a float, got {_kind(value)}"
    if not math.isfinite(score) or abs(score) > LARGEST_SCORE:
        return None, f"a score must be finite and at most {LARGEST_SCORE:g} in size, got {score}"
    return score, None


def told_score(value: object) -> tuple[float | None, str | None]:
    """The same for a score that a caller passes: what is no number at all is his mistake.

    Raises:
        InvalidInput: the value is no number.
    """
    score, wrong = read_score(value)
    if score is None and _number(value) is None:
        raise InvalidInput(
            "A score is one number.", value, "Pass a float, or record a failure with fail(...)."
        )
    return score, wrong


def _number(value: object) -> numbers.Real | None:
    """The number that a value is or holds, None when it is none."""
    try:
        value = _plain(value)
    except Exception:  # a user's object may do anything
        return None
    return None if isinstance(value, bool) or not isinstance(value, numbers.Real) else value


def _plain(value: object) -> object:
    """The number inside a scalar of numpy or PyTorch; anything else as it is."""
    if getattr(value, "shape", None) != () or not callable(getattr(value, "item", None)):
        return value
    masked = bool(getattr(value, "mask", False))
    return None if masked else value.item()  # type: ignore[attr-defined]


def _kind(value: object) -> str:
    text, kind = short_repr(value, 60), f"of type {type(value).__name__}"
    return text if kind in text else f"{text} {kind}"  # what has no repr is named by its type
