"""A fitted search as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drbqo_ray.report.about import About, Snippet
from drbqo_ray.report.facts import gather
from drbqo_ray.report.file import write_report

HOW_CHOSEN = (
    "A fold that was trained counts with its own score, one that was not as the model expects."
)
SMOOTHED = " The ranking on this page is the model's alone, which smooths scores, so it may differ."


def write_search_report(search: Any, path: str | Path) -> Path:
    """Write the page of a fitted RobustSearchCV to `path`; returns the path.

    Args:
        search: the search; its `optimizer_` knows every score.
        path: the file to write.
    """
    optimizer = search.optimizer_
    name = type(search.estimator).__name__
    how = HOW_CHOSEN if optimizer.method.report == "completed" else HOW_CHOSEN + SMOOTHED
    details = [("best_params_", repr(search.best_params_)), ("how it was chosen", how)]
    if hasattr(search, "best_score_"):
        details.insert(1, ("best_score_", repr(search.best_score_)))
    if search.stop_reason_ is not None:
        details.append(("stopped", search.stop_reason_))
    about = About(
        name=f"RobustSearchCV of {name}",
        objective=f"{search.n_splits_}-fold cross-validation of {name}",
        method=search.method,
        budget=search.n_evaluations_,
        state="finished",
        details=(*details, ("seed of the optimizer", str(optimizer.seed))),
        reproduce=(Snippet("Best params", f"estimator.set_params(**{search.best_params_!r})"),),
    )
    return write_report(gather(optimizer, about), path)
