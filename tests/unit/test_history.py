"""What has been evaluated: the table of configs, and which of them did well."""

from __future__ import annotations

import numpy as np

import drbqo_ray as dr
from drbqo_ray.optimizer.history import History


def history_of(*evaluations: tuple[float, int, float | None]) -> History:
    """A history of (config, context, score) with one parameter and two contexts."""
    space = dr.Space({"a": dr.Float(0.0, 1.0)})
    history = History(space, 2)
    for a, context, score in evaluations:
        history.add({"a": a}, space.to_unit({"a": a}), context, score)
    return history


def test_the_best_rows_are_those_that_stand_out_in_their_own_context():
    history = history_of((0.1, 0, 10.0), (0.2, 0, 9.0), (0.3, 1, 1.0), (0.4, 1, 0.0))
    assert history.best_rows(2).tolist() == [0, 2]
    assert history.best_rows(4).tolist() == [0, 1, 2, 3]


def test_a_context_without_scores_takes_no_part():
    history = history_of((0.1, 1, 1.0), (0.2, 1, 3.0), (0.3, 1, 2.0))
    assert history.best_rows(1).tolist() == [1]


def test_a_config_is_counted_once_among_the_best():
    history = history_of((0.1, 0, 5.0), (0.1, 1, 5.0), (0.2, 0, 4.0), (0.2, 1, 4.0))
    assert history.best_rows(2).tolist() == [0]


def test_a_failed_evaluation_counts_as_the_worst_score():
    history = history_of((0.1, 0, 5.0), (0.2, 0, None), (0.3, 0, 3.0))
    np.testing.assert_array_equal(history.scores(), [5.0, 3.0, 3.0])
    assert history.usable.tolist() == [0, 2]
    assert history.best_rows(1).tolist() == [0]
