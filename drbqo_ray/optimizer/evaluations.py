"""Who was asked what, and what came of it: suggestions, the pending ones, and outcomes, by id."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Literal, TypeVar

from drbqo_ray.errors import ConflictingResult, UnknownSuggestion
from drbqo_ray.records import Config, Observation, Suggestion
from drbqo_ray.types import Array

Record = TypeVar("Record", Suggestion, Observation)


class Evaluations:
    """Every suggestion and every outcome of one search.

    Attributes:
        pending: suggestions without an outcome, in the order handed out.
        outcomes: in the order told.
        points: snapped point (p,) of each suggestion.
        next_id: id of the next suggestion.
        n_asked: suggestions handed out so far.
    """

    def __init__(self) -> None:
        self._suggestions: dict[int, Suggestion] = {}
        self.pending: dict[int, Suggestion] = {}
        self.outcomes: dict[int, Observation] = {}
        self.points: dict[int, Array] = {}
        self.next_id = 0
        self.n_asked = 0

    def hand_out(self, suggestion: Suggestion, u: Array) -> None:
        """Take note of a suggestion at the snapped point u (p,)."""
        self._suggestions[suggestion.id] = self.pending[suggestion.id] = own_copy(suggestion)
        self.points[suggestion.id] = u
        self.next_id = max(self.next_id, suggestion.id + 1)
        self.n_asked += 1

    def add(self, config: Config, context: int, u: Array) -> int:
        """Id for an evaluation that was made without a suggestion."""
        id = self.next_id
        self._suggestions[id] = Suggestion(id, config, context, 0)
        self.points[id] = u
        self.next_id += 1
        return id

    def record(
        self, id: object, score: float | None, reason: str | None
    ) -> tuple[Observation, bool]:
        """The outcome of a suggestion and whether it is news; no score: it failed."""
        if not isinstance(id, numbers.Integral) or id not in self._suggestions:
            raise UnknownSuggestion(
                "A result must answer a suggestion of this optimizer.",
                id,
                "Pass the id of an asked suggestion, or use observe(config, context, score).",
            )
        suggestion = self._suggestions[int(id)]
        status: Literal["ok", "failed"] = "failed" if score is None else "ok"
        outcome = Observation(
            suggestion.id, suggestion.config, suggestion.context, status, score, reason
        )
        earlier = self.outcomes.setdefault(suggestion.id, outcome)
        if (earlier.status, earlier.score) != (status, score):
            raise ConflictingResult(
                f"Suggestion {id} already has the result {earlier.score} ({earlier.status}).",
                score if score is not None else reason,
                "Keep the first result; use observe(...) to add a repeated measurement.",
            )
        self.pending.pop(suggestion.id, None)
        return earlier, earlier is outcome


def own_copy(record: Record) -> Record:
    """The record with a config of its own, so that changing it changes nothing elsewhere."""
    return replace(record, config=dict(record.config))
