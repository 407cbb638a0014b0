"""Stop rules: when the answer is sure enough, further folds are saved."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from drbqo_ray.errors import InvalidInput
from drbqo_ray.optimizer.certainty import SETTLED, Certainty

Measure = Literal["loss", "probability", "auto"]
AUTO = "auto"
RULE = re.compile(r"\s*(loss|probability)\s*([<>])\s*([-+.\w]+)\s*")
CURE = 'Write "auto", or e.g. "loss < 0.002" or "probability > 0.95".'


@dataclass(frozen=True, slots=True)
class StopCheck:
    """What a stop rule remembers of its last check of the certainty.

    Attributes:
        passed: checks in a row, this one included, at which the limit was passed.
        next: outcomes at which it checks again.
        stop_reason: what it said, None to go on.
    """

    passed: int
    next: int
    stop_reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain-data form."""
        return asdict(self)

    @staticmethod
    def from_dict(plain: Mapping[str, Any]) -> StopCheck:
        """The check with this plain-data form."""
        return StopCheck(plain["passed"], plain["next"], plain["stop_reason"])


@dataclass(frozen=True)
class StopRule:
    """Stop once a measure of `Certainty` has passed a limit twice in a row.

    Attributes:
        measure: "loss" (stop below the limit), "probability" (stop above it), or "auto" (stop when
            the loss is below the limit times the resolution).
        limit: the limit; of "auto" the share of the resolution.
    """

    measure: Measure
    limit: float

    @staticmethod
    def parse(text: object) -> StopRule:
        """The rule written as "auto", "loss < 0.002" or "probability > 0.95"."""
        if isinstance(text, str) and text.strip() == AUTO:
            return StopRule("auto", SETTLED)
        found = RULE.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidInput("A stop rule compares the loss or probability.", text, CURE)
        measure, sign, number = found.groups()
        try:
            limit = float(number)
        except ValueError:
            limit = math.nan
        if not math.isfinite(limit):
            raise InvalidInput("The limit of a stop rule is a finite number.", text, CURE)
        if (measure, sign) not in (("loss", "<"), ("probability", ">")):
            raise InvalidInput("A stop rule is loss < a or probability > a.", text, CURE)
        if limit < 0 or (measure == "probability" and limit >= 1):
            raise InvalidInput("A loss is at least 0, a probability below 1.", text, CURE)
        return StopRule("loss" if measure == "loss" else "probability", limit)

    def reached(self, certainty: Certainty) -> bool:
        """Whether the limit has been passed."""
        if self.measure == "auto":
            return certainty.settled
        if self.measure == "loss":
            return certainty.loss < self.limit
        return certainty.probability > self.limit

    def check(self, certainty: Certainty, evaluations: int, last: StopCheck | None) -> StopCheck:
        """What to remember of a check after so many evaluations; the last one came before it."""
        passed = (last.passed if last else 0) + 1 if self.reached(certainty) else 0
        reason = self.reason(certainty, evaluations) if passed >= 2 else None
        return StopCheck(passed, evaluations + max(1, evaluations // 20), reason)

    def reason(self, certainty: Certainty, evaluations: int) -> str:
        """Why the search stops, as one sentence."""
        if self.measure == "auto":
            return (
                f"sure enough after {evaluations} evaluations: the loss of {certainty.loss:.2g} is"
                f" small beside what these folds can tell apart, {certainty.resolution:.2g}"
            )
        value = certainty.loss if self.measure == "loss" else certainty.probability
        sign = "<" if self.measure == "loss" else ">"
        rule = f"{self.measure} {value:.3g} {sign} {self.limit:g}"
        return f"sure enough after {evaluations} evaluations: {rule}"

    def __str__(self) -> str:
        if self.measure == "auto":
            return AUTO
        return f"{self.measure} {'<' if self.measure == 'loss' else '>'} {self.limit:g}"
