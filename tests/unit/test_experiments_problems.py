"""The problems of the experiments, their optima, and which methods share a trace."""

from __future__ import annotations

import numpy as np
import pytest

from drbqo_ray.core.sets import ChiSquareBall
from drbqo_ray.errors import InvalidInput
from drbqo_ray.experiments.cell import Cell, cells_of, report_label, trace_of
from drbqo_ray.experiments.presets import GROUPS, PAPER, difference, find_preset, members
from drbqo_ray.experiments.problems import ProblemSpec, initial_pairs, open_problem
from drbqo_ray.experiments.synthetic import (
    SURFACES,
    beale,
    eggholder,
    find_optimum,
    hartmann,
    levy,
    robust_values,
)

HARTMANN3 = (0.114614, 0.555649, 0.852547)
HARTMANN6 = (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)


@pytest.mark.parametrize(
    ("function", "place", "maximum"),
    [
        (beale, (3.0, 0.5), 0.0),
        (eggholder, (512.0, 404.2319), 959.6407),
        (hartmann, HARTMANN3, 3.86278),
        (hartmann, HARTMANN6, 3.32237),
        (levy, (1.0, 1.0), 0.0),
    ],
)
def test_a_test_function_has_its_published_maximum(function, place, maximum):
    at = function(np.array(place))
    assert at == pytest.approx(maximum, abs=1e-4)
    nearby = np.array(place) + 0.01 * np.random.default_rng(0).standard_normal((50, len(place)))
    nearby = np.minimum(nearby, 512.0)
    assert (function(nearby) <= at + 1e-4).all()


def test_the_samples_shift_the_point_they_are_added_to():
    surface = SURFACES["beale"]
    x = np.array([[1.0, -2.0]])
    assert surface.values(x).shape == (1, 10)
    assert surface.values(x)[0, 3] == beale(x[0] + surface.samples[3])


def test_the_logistic_instance_is_the_documented_one():
    surface = SURFACES["logistic"]
    np.testing.assert_array_equal(surface.samples, np.random.RandomState(84).randn(10, 2))
    best = np.array([[0.989, 0.428]])
    assert surface.values(best).mean() == pytest.approx(-0.592439, abs=1e-6)
    regrets = {0.1: 0.0956, 0.3: 0.2382, 0.5: 0.3368, 1.0: 0.5167, 3.0: 0.8389}
    for radius, regret in regrets.items():
        value = float(robust_values(surface, best, radius)[0])
        optimum = -0.692507 if radius == 0.1 else -np.log(2)
        assert optimum - value == pytest.approx(regret, abs=1e-3)


def test_initial_pairs_are_the_documented_ones_and_shared_by_all_methods():
    problem = open_problem(ProblemSpec("surface", "logistic"), 7)
    pairs = initial_pairs(problem, 7, 12)
    random = np.random.RandomState(1007)
    points = random.uniform(0, 1, (12, 2))
    contexts = random.randint(0, 10, 12)
    found = np.array([list(config.values()) for config, _ in pairs])
    np.testing.assert_allclose(found, -2 + 4 * points, atol=1e-12)
    assert [context for _, context in pairs] == contexts.tolist()


@pytest.mark.parametrize("radius", [0.1, 1.0])
def test_the_robust_optimum_of_the_logistic_example_is_proven(radius):
    surface = SURFACES["logistic"]
    best = find_optimum(surface, radius)
    assert best.proof == "duality"
    assert -1e-12 <= best.gap <= 1e-8
    grid = np.stack(np.meshgrid(*[np.linspace(-2, 2, 201)] * 2), axis=-1).reshape(-1, 2)
    assert robust_values(surface, grid, radius).max() <= best.value + 1e-12
    if radius == 0.1:
        assert best.x == pytest.approx((0.075, 0.031), abs=1e-3)
    else:
        assert best.x == (0.0, 0.0)


def test_a_wrong_optimum_gets_no_proof():
    from drbqo_ray.experiments.synthetic import _duality_gap

    surface = SURFACES["logistic"]
    x = np.array([0.3, 0.0])
    value = float(robust_values(surface, x[None], 1.0)[0])
    assert _duality_gap(surface, 1.0, x, value) > 1e-3


def test_two_searches_agree_on_the_optimum_of_a_function_that_is_not_concave():
    surface = SURFACES["levy"]
    best = find_optimum(surface, 1.0)
    assert best.proof == "agreement"
    assert best.gap <= 1e-8
    scores = surface.values(np.array([best.x]))[0]
    assert best.value == pytest.approx(ChiSquareBall(1.0).worst_case(scores)[0], abs=1e-12)
    grid = np.stack(np.meshgrid(*[np.linspace(-10, 10, 401)] * 2), axis=-1).reshape(-1, 2)
    assert robust_values(surface, grid, 1.0).max() <= best.value


def test_methods_that_differ_only_in_what_they_report_share_a_trace():
    assert trace_of("maximin-bqo-ts") == trace_of("bqo-ts")
    assert trace_of("emp-drbqo") == trace_of("drbqo")
    assert trace_of("maximin-bqo-ei") == trace_of("bqo-ei") != trace_of("mtbo")
    assert trace_of("bqo-ts-randw") != trace_of("bqo-ts")
    assert trace_of("drbqo-randw").robust
    assert not trace_of("bqo-ts").robust
    assert report_label("maximin-bqo-ts", 0.3) == "robust-0.3"
    assert report_label("emp-drbqo", 0.3) == "mean"
    with pytest.raises(InvalidInput, match="named after a method"):
        trace_of("no-such")


def test_a_trace_without_radius_runs_once_and_reports_for_every_radius():
    preset = find_preset("logistic", "small", seeds=2)
    cells = cells_of(preset)
    plain = [cell for cell in cells if cell.trace.name == "bqo-ts"]
    assert [cell.seed for cell in plain] == [0, 1]
    assert plain[0].reports == ["mean", *(f"robust-{r:g}" for r in (0.1, 0.3, 0.5, 1, 3))]
    robust = [cell for cell in cells if cell.trace.name == "drbqo" and cell.seed == 0]
    assert [cell.radius for cell in robust] == list(preset.radii)
    assert len({cell.name for cell in cells}) == len(cells)
    assert isinstance(cells[0], Cell)


def test_the_paper_presets_have_the_settings_of_the_paper():
    logistic = find_preset("logistic")
    assert (logistic.n_initial, logistic.horizon, logistic.n_seeds) == (12, 100, 30)
    assert logistic.radii == (0.1, 0.3, 0.5, 1.0, 3.0)
    elasticnet, cnn = find_preset("elasticnet"), find_preset("cnn")
    assert (elasticnet.n_initial, elasticnet.horizon, elasticnet.n_seeds) == (6, 60, 20)
    assert (cnn.n_initial, cnn.horizon, cnn.n_seeds) == (9, 90, 20)
    assert dict(find_preset("svm-glass").problem.options) == {"n_folds": 5}


def test_every_difference_from_the_paper_is_put_into_words():
    assert difference(find_preset("logistic")) == "paper preset: the paper's settings"
    words = difference(find_preset("cnn", "small", seeds=3))
    for part in ("seeds 3 (paper 20)", "training images", "epochs 3 (paper 20)", "radii"):
        assert part in words


def test_groups_name_experiments_that_exist():
    assert all(member in PAPER for group in GROUPS for member in members(group))
    assert members("logistic") == ("logistic",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such",), "experiment must be one we know"),
        (("logistic", "huge"), "preset must be one we know"),
        (("logistic", "paper", 1), "at least 2"),
    ],
)
def test_a_name_that_does_not_exist_is_refused_with_those_that_do(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        find_preset(*arguments)


def test_each_seed_of_the_svm_has_a_split_of_its_own():
    spec = find_preset("svm-sonar").problem
    first, second = (open_problem(spec, seed) for seed in (0, 1))
    config = {"C": 1.0, "gamma": 0.02}
    judged = first.judge(config)
    assert judged.contexts is not None
    assert len(judged.contexts) == 5
    assert judged.contexts[2] == first.evaluate(config, 2, 0)
    assert judged.contexts != second.judge(config).contexts
    assert judged.test_error is not None
