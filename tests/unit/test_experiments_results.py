"""CSV, metrics, tables and figures of the experiments."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from drbqo_ray.errors import InvalidInput
from drbqo_ray.experiments.cell import FinishedCell, cells_of, read_cell, run_cell
from drbqo_ray.experiments.command import draw, main, run_experiment
from drbqo_ray.experiments.figures import true_mean
from drbqo_ray.experiments.presets import find_preset
from drbqo_ray.experiments.problems import Judgment
from drbqo_ray.experiments.results import _series_rows, read_results
from drbqo_ray.experiments.table import (
    best_so_far,
    caption,
    interval,
    latex,
    log_regret,
    markdown,
    paired,
    rows_of,
    write_tables,
)
from drbqo_ray.experiments.theory import (
    NOISE,
    RADIUS,
    ball_subset,
    bound,
    finite_problem,
    greedy_gain,
    late_slope,
    play,
)

TINY = replace(
    find_preset("logistic", "small"),
    n_initial=4,
    horizon=3,
    n_seeds=2,
    radii=(0.3, 1.0),
    methods=(
        "drbqo",
        "emp-drbqo",
        "bqo-ts",
        "maximin-bqo-ts",
        "bqo-ts-randw",
        "drbqo-randw",
        "bqo-ei",
        "bqo-ei-randw",
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("experiment")
    for cell in cells_of(TINY):
        run_cell(cell, root / "storage")
    run_experiment(TINY, root / "storage", root / "out", "drbqo experiment logistic")
    draw([TINY], [root / "out"], root / "out")
    return root / "out"


def test_the_interval_is_that_of_students_t():
    samples = np.random.default_rng(0).normal(size=(30, 4))
    found = interval(samples)
    low, high = stats.t.interval(0.96, 29, samples.mean(0), stats.sem(samples))
    np.testing.assert_allclose(found.mean - found.half, low)
    np.testing.assert_allclose(found.mean + found.half, high)


def test_pairing_removes_what_the_seeds_share():
    rng = np.random.default_rng(1)
    shared = 10 * rng.normal(size=30)
    first, second = shared + 0.1 * rng.normal(size=30) + 0.5, shared
    assert paired(first, second).excludes_zero
    assert not interval(first).excludes_zero
    assert paired(first, second).mean == pytest.approx(0.5, abs=0.1)


def test_the_best_so_far_never_gets_worse():
    values = np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 0.5]])
    np.testing.assert_array_equal(best_so_far(values, False), [[3, 1, 1], [1, 1, 0.5]])
    np.testing.assert_array_equal(best_so_far(values, True), [[3, 3, 3], [1, 2, 2]])


def test_a_regret_of_zero_or_below_has_a_finite_logarithm():
    np.testing.assert_array_equal(log_regret(np.array([0.0, -1e-17, 0.1])), [-10, -10, -1])


def test_a_row_is_written_for_each_change_and_for_the_last_step():
    judgments = {k: Judgment((float(k), 2.0 * k), None) for k in (3, 5)}
    cell = FinishedCell({"mean": [3, 3, 5, 5, 5]}, judgments, {}, "a commit")
    rows = list(_series_rows(cell, "mean", 0.0, 10.0, TINY))
    assert [row[0] for row in rows] == ["0", "2", "4"]
    assert rows[0] == ["0", "4.5", "4.5", "5.5", ""]


def test_the_csv_gives_back_every_step_of_every_series(folder):
    results = read_results(folder)
    cell = next(c for c in cells_of(TINY) if c.trace.name == "bqo-ts" and c.seed == 1)
    finished = read_cell(cell, folder.parent / "storage")
    expected = [np.mean(finished.judgments[k].contexts) for k in finished.reports["robust-1"]]
    found = results.values["maximin-bqo-ts", 1.0, "mean"][1]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert not any(np.isnan(values).any() for values in results.values.values())


def test_the_code_that_ran_the_cells_is_recorded(folder):
    run = read_results(folder).run
    assert run["commits of cells"] == [run["commit"]]
    cell = cells_of(TINY)[0]
    assert read_cell(cell, folder.parent / "storage").commit == run["commit"]


def test_regret_and_robust_value_add_up_to_the_optimum(folder):
    results = read_results(folder)
    optima = {best["radius"]: best["value"] for best in results.run["optima"]}
    for (method, radius, metric), values in results.values.items():
        if metric == "regret":
            total = values + results.values[method, radius, "robust"]
            np.testing.assert_allclose(total, optima[radius], atol=1e-8)
            assert (values > -1e-9).all()


def test_a_non_robust_report_is_the_same_at_every_radius(folder):
    values = read_results(folder).values
    np.testing.assert_array_equal(values["bqo-ts", 0.3, "mean"], values["bqo-ts", 1.0, "mean"])
    assert (values["bqo-ts", 0.3, "robust"] >= values["bqo-ts", 1.0, "robust"] - 1e-12).all()


def test_tables_hold_the_difference_to_the_paper_and_the_paired_intervals(folder):
    results = read_results(folder)
    rows = rows_of(results, "regret")
    assert len(rows) == len(TINY.methods) * len(TINY.radii)
    assert [row.difference is None for row in rows[:2]] == [True, False]
    ours, theirs = (log_regret(results.values[m, 0.3, "regret"][:, -1]) for m in TINY.methods[:2])
    assert rows[1].difference.mean == pytest.approx(np.mean(theirs - ours))
    for text in (markdown(results, "regret"), latex(results, "regret")):
        assert "seeds 2 (paper 30)" in text
        assert "horizon 3 (paper 100)" in text
    assert "duality" in (folder / "summary.md").read_text()


def test_a_difference_of_rounding_errors_is_shown_as_zero(folder):
    results = read_results(folder)
    ours = np.full((2, 4), 5.0)
    for shift, shown in ((1e-11, "0 ±"), (1e-3, "0.001 ±")):
        theirs = ours + np.array([[0.1], [-0.1]]) + shift
        values = {("drbqo", 0.3, "mean"): ours, ("bqo-ts", 0.3, "mean"): theirs}
        row = markdown(replace(results, values=values), "mean").splitlines()[3]
        assert row.split("|")[-2].strip().startswith(shown)


def test_the_mean_of_a_single_seed_is_shown_without_an_interval(folder):
    results = read_results(folder)
    values = {("drbqo", 0.3, "mean"): np.full((1, 4), 0.93)}
    row = markdown(replace(results, values=values), "mean").splitlines()[2]
    assert row.split("|")[3].strip() == "0.93"


@pytest.mark.parametrize(
    ("commits", "said"), [(["new", "old"], ["new, old"]), (["old"], ["old"]), (["new"], [])]
)
def test_the_summary_names_the_code_of_cells_that_other_code_ran(folder, tmp_path, commits, said):
    results = read_results(folder)
    run = {**results.run, "commit": "new", "commits of cells": commits}
    write_tables(replace(results, run=run, folder=tmp_path))
    lines = (tmp_path / "summary.md").read_text().splitlines()
    assert "- Commit: new" in lines
    start = "- Cells were run by: "
    assert [line.removeprefix(start) for line in lines if line.startswith(start)] == said


def test_figures_are_written_as_vectors_and_as_pixels(folder):
    for number in (1, 2, 3, 4, 5):
        assert (folder / f"figure{number}.pdf").read_bytes().startswith(b"%PDF")
        assert (folder / f"figure{number}.png").read_bytes().startswith(b"\x89PNG")
    assert "seeds 2 (paper 30)" in caption(read_results(folder))


def test_drawing_anew_needs_the_csv_alone_and_gives_the_same_bytes(folder, tmp_path):
    wanted = ("results.csv.gz", "trajectory.csv", "run.json")
    for name in wanted:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert main("logistic", "small", out=tmp_path, redraw=True) == tmp_path
    for name in ("figure3.pdf", "summary.md", "table-regret.tex"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_drawing_without_results_says_what_is_missing(tmp_path):
    with pytest.raises(InvalidInput, match=r"results\.csv\.gz"):
        main("logistic", "small", out=tmp_path, redraw=True)


def test_the_run_says_how_it_came_about_and_the_csv_has_no_date(folder):
    run = json.loads((folder / "run.json").read_text())
    assert {"command", "commit", "date", "seeds", "difference", "optima"} <= set(run)
    assert run["date"] not in gzip.decompress((folder / "results.csv.gz").read_bytes()).decode()


def test_missing_mnist_is_noticed_before_anything_is_started(tmp_path, monkeypatch):
    from workers import data

    def unreachable():
        raise RuntimeError("MNIST must be on disk or within reach of the downloader.")

    monkeypatch.setattr(data, "find_mnist", lambda: None)
    monkeypatch.setattr(data, "download_mnist", unreachable)
    data.mnist.cache_clear()
    from workers.folds import cut_named

    cut_named.cache_clear()
    with pytest.raises(InvalidInput, match=r"elasticnet needs its data(.|\n)*MNIST must be"):
        main("elasticnet", "small", storage=tmp_path / "storage")
    assert not (tmp_path / "storage").exists()


def test_the_true_mean_of_the_logistic_example_agrees_with_sampling():
    x = np.array([[0.0, 0.0], [1.0, 0.5]])
    w = np.random.default_rng(0).standard_normal((200_000, 2))
    sampled = -np.logaddexp(0, x @ w.T).mean(axis=1)
    np.testing.assert_allclose(true_mean(x), sampled, atol=4e-3)
    assert true_mean(x)[0] == pytest.approx(-np.log(2), abs=1e-12)


def test_the_finite_weights_lie_in_the_ball_and_reach_its_boundary():
    weights = ball_subset(200, 5, RADIUS)
    distance = 0.5 * 5 * np.sum((weights - 0.2) ** 2, axis=1)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert (weights >= 0).all()
    assert distance.max() == pytest.approx(RADIUS)
    assert (distance <= RADIUS + 1e-12).all()


def test_regret_on_functions_of_the_prior_falls_below_the_bound():
    problem = finite_problem()
    regret, variance, norm = play(problem, 40, seed=0)
    assert regret.min() >= 0
    assert regret[-10:].mean() < regret[:10].mean()
    gain = greedy_gain(problem.K, 40)
    taken = 0.5 * np.sum(np.log1p(variance / NOISE))
    assert taken <= gain[-1] / (1 - 1 / np.e)
    fixed = bound(problem, gain / (1 - 1 / np.e), norm, 1 / np.log1p(1 / NOISE))
    assert regret.sum() < fixed[-1]


def test_the_greedy_gain_is_that_of_the_determinant():
    K = np.array([[1.0, 0.5], [0.5, 1.0]])
    expected = 0.5 * np.linalg.slogdet(np.eye(2) + K / NOISE)[1]
    assert greedy_gain(K, 2)[-1] == pytest.approx(expected)


def test_the_slope_of_a_square_root_is_one_half():
    T = np.arange(1.0, 200.0)
    assert late_slope(T, 3 * np.sqrt(T)) == pytest.approx(0.5)
