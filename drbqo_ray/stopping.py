"""Stop rules: when the answer is sure enough, further folds are saved."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from drbqo_ray.certainty import Certainty
from drbqo_ray.errors import InvalidInput

Measure = Literal["loss", "probability"]
RULE = re.compile(r"\s*(loss|probability)\s*([<>])\s*([-+.\w]+)\s*")
CURE = 'Write e.g. "loss < 0.002" or "probability > 0.95".'


@dataclass(frozen=True)
class StopRule:
    """Stop once a measure of `Certainty` has passed a limit twice in a row.

    Attributes:
        measure: "loss" (stop below the limit) or "probability" (stop above it).
        limit: the limit.
    """

    measure: Measure
    limit: float

    @staticmethod
    def parse(text: object) -> StopRule:
        """The rule written as "loss < 0.002" or "probability > 0.95"."""
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
        if self.measure == "loss":
            return certainty.loss < self.limit
        return certainty.probability > self.limit

    def reason(self, certainty: Certainty, evaluations: int) -> str:
        """Why the search stops, as one sentence."""
        value = certainty.loss if self.measure == "loss" else certainty.probability
        sign = "<" if self.measure == "loss" else ">"
        rule = f"{self.measure} {value:.3g} {sign} {self.limit:g}"
        return f"sure enough after {evaluations} evaluations: {rule}"

    def __str__(self) -> str:
        return f"{self.measure} {'<' if self.measure == 'loss' else '>'} {self.limit:g}"
