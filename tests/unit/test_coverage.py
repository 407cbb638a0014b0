"""What every summary says: folds with a score, evaluations that failed."""

from __future__ import annotations

import pytest

from drbqo_ray.records import Observation
from drbqo_ray.runtime.status import Coverage


def outcomes(*folds: tuple[int, bool]) -> list[Observation]:
    return [Observation(k, {}, f, "ok" if ok else "failed") for k, (f, ok) in enumerate(folds)]


@pytest.mark.parametrize(
    ("folds", "n", "text"),
    [
        ([], 3, "trained on 0 of 3 folds, 0 evaluations failed; no score on fold 0, 1, 2"),
        ([(0, True), (1, True)], 2, "trained on 2 of 2 folds, 0 evaluations failed"),
        ([(0, True), (1, False), (1, True)], 2, "trained on 2 of 2 folds, 1 evaluation failed"),
        (
            [(0, True), (1, False), (1, False)],
            2,
            "trained on 1 of 2 folds, 2 evaluations failed; no score on fold 1",
        ),
        (
            [(3, True)],
            14,
            "trained on 1 of 14 folds, 0 evaluations failed; no score on fold 0, 1, 2, 4, 5, 6, 7,"
            " 8, 9, 10 and 3 more",
        ),
    ],
)
def test_a_summary_says_how_many_folds_have_a_score_and_what_failed(
    folds: list[tuple[int, bool]], n: int, text: str
) -> None:
    assert str(Coverage.of(outcomes(*folds), n)) == text
