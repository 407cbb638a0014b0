"""What came of one evaluation, with how long it took and where it ran."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from drbqo_ray.errors import InvalidInput
from drbqo_ray.records import Observation, Status, Suggestion, read_score

LONGEST_REASON = 20_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one evaluation.

    Attributes:
        id: id of the suggestion it answers.
        score: the score, None when it failed.
        cause: None when ok, else "error" (the objective raised), "value" (it returned no usable
            number), "timeout", "lost" (its worker or node died) or "oom" (out of memory).
        reason: None when ok, else what went wrong; for an error its traceback.
        seconds: how long the evaluation ran.
        node: the node it ran on, None when unknown.
        attempts: how often it was started.
    """

    id: int
    score: float | None = None
    cause: str | None = None
    reason: str | None = None
    seconds: float = 0.0
    node: str | None = None
    attempts: int = 1

    def checked(self) -> Outcome:
        """The same as the journal will hold it; a failed one when the score cannot be used."""
        seconds = round(self.seconds, 6)
        if self.score is None:
            reason = _shortened(self.reason or "no reason given")
            return replace(self, cause=self.cause or "error", reason=reason, seconds=seconds)
        score, wrong = read_score(self.score)
        cause = None if wrong is None else "value"
        return replace(self, score=score, cause=cause, reason=wrong, seconds=seconds)

    def agrees_with(self, other: Outcome) -> bool:
        """Whether both say the same about the evaluation."""
        return (self.score, self.cause) == (other.score, other.cause)

    def entry(self, at: float) -> tuple[str, dict[str, Any]]:
        """Kind and data of its journal record, written `at` seconds into the run."""
        told: dict[str, Any] = {"id": self.id}
        if self.score is not None:
            told["score"] = self.score
        else:
            told |= {"cause": self.cause, "reason": self.reason}
        told |= {"seconds": self.seconds, "at": at}
        told |= {"node": self.node, "attempts": self.attempts}
        return ("tell" if self.score is not None else "fail"), told

    @staticmethod
    def from_record(data: dict[str, Any]) -> Outcome:
        """The outcome in the data of a "tell" or "fail" record."""
        return Outcome(
            id=data["id"],
            score=data.get("score"),
            cause=data.get("cause"),
            reason=data.get("reason"),
            seconds=data.get("seconds", 0.0),
            node=data.get("node"),
            attempts=data.get("attempts", 1),
        )

    def observation(self, suggestion: Suggestion) -> Observation:
        """The outcome as users see it."""
        if suggestion.id != self.id:
            raise InvalidInput("An outcome answers its own suggestion.", suggestion.id, "Look up.")
        status: Status = "failed" if self.score is None else "ok"
        return Observation(
            self.id, dict(suggestion.config), suggestion.context, status, self.score, self.reason
        )


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_REASON:
        return text
    half = LONGEST_REASON // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
