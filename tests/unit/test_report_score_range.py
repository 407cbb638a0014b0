"""What the report shows is kept to the range of the scores; what it ranks by is not."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drbqo_ray.cli.saved_run import SavedRun
from drbqo_ray.report.facts import Facts
from drbqo_ray.report.page import render_page
from drbqo_ray.report.posterior import ScoreRange, implied_range
from drbqo_ray.runtime.run_report import journal_facts
from tests.support.report_runs import write_run

INF = math.inf


def auc(config: dict[str, Any], fold: int) -> float:
    """Rises to 1 and cannot go on."""
    return min(1.0, 0.9 + 0.16 * math.exp(-(((config["x"] - 0.6) / 0.4) ** 2)) - 0.02 * fold)


@pytest.fixture(scope="module", params=["max", "min"])
def mode(request) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["foldwise", "drbqo", "bqo-ei"])
def run(request, mode, tmp_path_factory) -> Path:
    return write_run(
        tmp_path_factory.mktemp(mode) / "run",
        auc if mode == "max" else lambda config, fold: 1 - auc(config, fold),
        method=request.param,
        mode=mode,
    )


@pytest.fixture(scope="module")
def facts(run) -> Facts:
    return journal_facts(run, "auc")


def shown_scores(facts: Facts) -> Iterator[float]:
    """Every score of the facts, ends of bands included."""
    assert facts.ranking and facts.weights  # noqa: PT018
    assert facts.importance and facts.radius_path  # noqa: PT018
    heat_map, incumbent, pareto = (facts.parts[key] for key in ("heat_map", "incumbent", "pareto"))
    assert heat_map and incumbent and pareto  # noqa: PT018
    for row in facts.ranking.rows:
        yield from (row.robust, row.mean, row.worst, *row.fold_means)
    yield from (cell.value for row in heat_map.cells for cell in row)
    yield from (*heat_map.fold_means, *facts.weights.fold_means, *facts.radius_path.best)
    yield from (value for curve in facts.radius_path.curves.values() for value in curve)
    yield from (point.mean for point in pareto.points)
    for point in incumbent.checkpoints:
        yield from (point.value, point.low, point.high)
    for part in facts.parts["slices"]:
        for place in part.points:
            yield from (place.robust, place.low, place.high)


def test_no_score_is_shown_that_cannot_be(facts, mode):
    assert facts.ranking is not None
    estimates = [value for row in facts.ranking.rows for value in row.estimates]
    assert (max(estimates) > 1) if mode == "max" else (min(estimates) < 0)
    low, high = (0, 1) if mode == "max" else (0, INF)
    assert all(low <= value <= high for value in shown_scores(facts))


def test_no_text_of_a_cell_is_beyond_the_range(facts):
    cells = re.findall(r'<text[^>]*class="value[^>]*>([^<]*)</text></g>', render_page(facts))
    assert len(cells) > 50
    assert all(0 <= float(words) <= 1 for words in cells)
    assert not any(words.startswith("-") for words in cells)


def test_cells_that_show_an_end_in_place_of_an_estimate_are_counted(facts, mode):
    assert facts.parts["heat_map"] and facts.ranking  # noqa: PT018
    limit = 1 if mode == "max" else 0
    beyond = [cell for row in facts.parts["heat_map"].cells for cell in row if cell.beyond]
    assert beyond
    for cell in beyond:
        row = facts.ranking.row(cell.config)
        assert row is not None
        assert cell.observed == 0
        assert cell.value == limit
        assert (row.estimates[cell.fold] - limit) * (1 if mode == "max" else -1) > 0
    words = "between 0 and 1" if mode == "max" else "at least 0"
    text = render_page(facts)
    assert f"All scores of this run are {words}, which the model does not know:" in text
    assert f" {len(beyond)} hatched cell{'' if len(beyond) == 1 else 's'} with an estimate" in text


def test_the_ranking_is_that_of_the_optimizer(run, facts):
    best = SavedRun.read(str(run)).run.optimizer.recommend()
    assert facts.ranking is not None
    chosen = facts.ranking.row(facts.ranking.chosen)
    assert chosen is not None
    assert chosen.config == best.config
    assert chosen.estimates == pytest.approx(best.context_means, abs=1e-9)
    assert chosen.robust == pytest.approx(facts.score_range.keep(best.robust_value), abs=1e-9)


@pytest.mark.parametrize(
    ("scores", "low", "high"),
    [
        ([0.2, 0.97], 0, 1),
        ([0.0, 1.0], 0, 1),
        ([-0.3, 0.97], -INF, 1),
        ([-3.0, -0.1], -INF, 0),
        ([12.0, 99.2], 0, 100),
        ([-12.0, 99.2], -INF, INF),
        ([3.0, 170.0], 0, INF),
        ([-2.0, 1.5], -INF, INF),
    ],
)
def test_the_range_that_scores_imply(scores, low, high):
    given_scores = np.array([*scores, math.nan])
    assert implied_range(given_scores, 1.0) == ScoreRange(low, high)
    assert implied_range(-given_scores, -1.0) == ScoreRange(-high, -low)


@pytest.mark.parametrize("loss", [[0.2, 0.9], [3.0, 170.0], [0.0, 0.4]])
def test_a_loss_has_no_upper_end(loss):
    assert implied_range(np.array(loss), -1.0) == ScoreRange(0, INF)


finite = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8).map(np.array)


@given(finite, finite, st.sampled_from([1.0, -1.0]))
def test_scores_stay_and_all_others_are_kept_to_their_range(scores, values, sign):
    kept = implied_range(scores, sign)
    assert (kept.keep(scores) == scores).all()
    moved = kept.keep(values)
    assert ((kept.low <= moved) & (moved <= kept.high)).all()
    assert not np.signbit(moved[moved == 0]).any()
    inside = (kept.low <= values) & (values <= kept.high)
    assert (moved[inside] == values[inside]).all()


def test_a_range_in_words():
    assert ScoreRange(0, 1).words == "between 0 and 1"
    assert ScoreRange(0).words == "at least 0"
    assert ScoreRange(high=100).words == "at most 100"
