"""Every error this package raises on purpose, under one root.

A message says the rule, then what was got, then the cure, so that the reader
can act without opening the source.
"""

from __future__ import annotations


class DrbqoError(Exception):
    """Root of all errors of drbqo_ray."""


class InvalidInput(DrbqoError, ValueError):
    """An argument breaks a rule. Nothing has changed; fix the argument and call again.

    Args:
        rule: the rule, as a sentence.
        got: what was passed instead; shown with `repr`, shortened when long.
        cure: what to do about it, as a sentence.
    """

    def __init__(self, rule: str, got: object, cure: str) -> None:
        super().__init__(f"{rule} Got {short_repr(got)}. {cure}")
        self.rule = rule
        self.got = got
        self.cure = cure

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, object, str]]:
        return type(self), (self.rule, self.got, self.cure)


class UnknownSuggestion(InvalidInput):
    """A result was told for an id that was never handed out."""


class ConflictingResult(InvalidInput):
    """A second, different result was told for an id that already has one."""


class NothingObserved(DrbqoError):
    """A recommendation was asked for before any usable score was told."""


class ObjectiveError(DrbqoError):
    """The objective cannot be loaded, or does not behave as a fold objective."""


class RunFailed(DrbqoError):
    """A run was stopped because it cannot make progress, e.g. every fold fails."""


class JournalError(DrbqoError):
    """The journal of a run cannot be read or written."""


class JournalCorrupt(JournalError):
    """A record in the middle of a journal is damaged; the message names its byte offset."""


class JournalLocked(JournalError):
    """Another process has the journal open; the message names its pid and host."""


class ProblemChanged(JournalError):
    """The journal was written for another problem (space, contexts, objective or method)."""


def short_repr(value: object, limit: int = 200) -> str:
    """`repr` of a value, at most `limit` characters, for error messages. Never fails itself."""
    try:
        text = repr(value)
    except Exception:  # a user's object may do anything
        text = f"an object of type {type(value).__name__} without a repr"
    return text if len(text) <= limit else text[: limit - 3] + "..."
