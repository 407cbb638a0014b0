"""The pictures for notebooks show the numbers of the report."""

from __future__ import annotations

from dataclasses import replace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from drbqo_ray import Float, Optimizer, plots
from drbqo_ray.errors import InvalidInput, NothingObserved
from drbqo_ray.report.facts import About, gather

PICTURES = (
    plots.ranking,
    plots.heat_map,
    plots.fold_weights,
    plots.radius_path,
    plots.pareto,
    plots.incumbent,
    plots.importance,
    plots.slices,
    plots.parallel,
)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def searched() -> Optimizer:
    opt = Optimizer({"a": Float(0, 1), "b": Float(0, 1)}, 4, seed=0)
    for _ in range(20):
        s = opt.ask()
        opt.tell(s.id, -((s.config["a"] - 0.2 * s.context) ** 2) - (s.config["b"] - 0.5) ** 2)
    return opt


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.__name__)
def test_a_picture_is_drawn_into_given_or_new_axes(picture, searched):
    facts = plots.facts_of(searched)
    own = plt.subplots()[1]
    assert picture(facts, own) is own
    assert own.get_title()
    assert picture(searched).figure is not own.figure


def test_the_bars_are_the_worst_case_weights(searched):
    ax = plots.fold_weights(searched)
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, searched.recommend().weights, atol=1e-12)


def test_the_curve_ends_at_the_recommended_value(searched):
    ax = plots.incumbent(searched)
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(searched.recommend().robust_value, abs=1e-6)


def test_untrained_cells_are_hatched_and_trained_ones_hold_their_score(searched):
    facts = plots.facts_of(searched)
    ax = plots.heat_map(facts)
    cells = [cell for row in facts.parts["heat_map"].cells for cell in row]
    assert len(ax.patches) == sum(not cell.observed for cell in cells)
    np.testing.assert_allclose(ax.images[0].get_array().ravel(), [cell.value for cell in cells])


def test_the_timeline_names_the_utilization(searched):
    outcomes = [replace(o, seconds=2.0, node="node") for o in searched.observations]
    facts = gather(searched, About(), outcomes, {o.id: 3.0 * o.id + 2.0 for o in outcomes})
    ax = plots.timeline(facts)
    assert f"{100 * facts.parts['timeline'].utilization:.1f} %" in ax.get_title()
    assert len(ax.patches) == 20


def test_what_cannot_be_drawn_is_said():
    empty = Optimizer({"a": Float(0, 1)}, 3)
    with pytest.raises(NothingObserved, match="Got 0 evaluations"):
        plots.ranking(empty)
    with pytest.raises(InvalidInput, match="Pass a Result"):
        plots.ranking(3)


def test_a_run_directory_can_be_drawn(tmp_path):
    with pytest.raises(InvalidInput, match="holds a"):
        plots.ranking(tmp_path)
