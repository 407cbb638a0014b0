"""What a report knows of a run besides its optimizer: names, limits, how to run it again."""

from __future__ import annotations

from dataclasses import dataclass


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
        fold_labels: what to call the contexts; "fold 0", "fold 1", ... by default.
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
class Timing:
    """What is known of the time of one evaluation.

    Attributes:
        id: its suggestion.
        seconds: how long it ran.
        node: where it ran, None when unknown.
        asked_at: when it was suggested, seconds into the run; None when unknown.
        told_at: when its outcome was recorded, seconds into the run; None when unknown.
        attempts: how often it was started.
        ok: whether it gave a score.
        context: its fold.
        cause: why it failed, in one word, None when it did not.
    """

    id: int
    seconds: float
    node: str | None = None
    asked_at: float | None = None
    told_at: float | None = None
    attempts: int = 1
    ok: bool = True
    context: int = 0
    cause: str | None = None
