"""The bookkeeping of the comparison with other optimizers, and their drivers where installed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import benchmarks.__main__ as command
from benchmarks.bench_quality import lines
from benchmarks.cells import Answer, Cell, Judge, Look, read_cells, run_missing
from benchmarks.coverage import coverage_lines
from benchmarks.peers import Purse, answers
from benchmarks.problems import GROUPS, PROBLEMS, FoldProblem, open_problem
from benchmarks.quality_page import page
from benchmarks.radii import PLAIN, MeanSearch
from benchmarks.ranking import complete, ranks
from benchmarks.savings import savings, stop_at
from benchmarks.searchers import OWN, SEARCHERS
from benchmarks.table import Line, markdown, mean_interval, publish, ratio, read_lines
from drbqo_ray import ChiSquareBall, Choice, Float, Int

PACKAGES = {"optuna": "optuna", "botorch": "botorch", "smac": "smac"}


def bowl(config, fold):
    return -((config["x"] - 0.1 * fold) ** 2) - 0.1 * abs(np.log10(config["y"]) + 1)


PROBLEM = FoldProblem({"x": Float(0.0, 1.0), "y": Float(1e-3, 1.0, log=True)}, 4, bowl, 0.0)


def steps(config, fold):
    lead = {"a": 0.0, "b": 0.5, "c": 0.2}[config["kind"]]
    return lead - 0.1 * abs(config["count"] - 3) - (config["x"] - 0.1 * fold) ** 2


MIXED_PROBLEM = FoldProblem(
    {"kind": Choice(["a", "b", "c"]), "count": Int(1, 9, log=True), "x": Float(0.0, 1.0)},
    4,
    steps,
    1.0,
)


class Spender:
    """A searcher that spends and remembers how much had been spent at each recommendation."""

    def __init__(self, purse, price):
        self.purse, self.price = purse, price

    def step(self):
        for fold in range(self.price):
            self.purse.fold({"x": 0.5, "y": 0.1}, fold % 4)

    def recommend(self):
        return {"spent": self.purse.spent}


@pytest.mark.parametrize(
    ("price", "spent"), [(1, {30: 30, 7: 7}), (4, {30: 28, 7: 4}), (5, {30: 30, 7: 5})]
)
def test_no_searcher_spends_more_folds_than_its_budget(price, spent):
    purse = Purse(PROBLEM)
    found = answers(Spender(purse, price), purse, [30, 7])
    assert {budget: config["spent"] for budget, config in found.items()} == spent


def test_a_cross_validation_costs_every_fold_and_is_the_robust_value():
    purse, config = Purse(PROBLEM, radius=0.5), {"x": 0.3, "y": 0.1}
    table = [bowl(config, fold) for fold in range(4)]
    assert purse.cross_validate(config, "mean") == pytest.approx(np.mean(table))
    robust = float(ChiSquareBall(0.5).worst_case(table)[0])
    assert purse.cross_validate(config, "robust") == pytest.approx(robust)
    assert purse.spent == 8


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("problem", [PROBLEM, MIXED_PROBLEM], ids=["floats", "mixed"])
@pytest.mark.parametrize("name", SEARCHERS)
def test_a_driver_keeps_to_its_budget_and_its_space(name, problem):
    if name.partition(" ")[0] not in (*OWN, "random", "radius", "matern"):
        pytest.importorskip(PACKAGES[name.partition(" ")[0].partition("-")[0]])
    purse = Purse(problem)
    searcher = SEARCHERS[name](purse, 1, 24)
    found = answers(searcher, purse, [12, 24])
    assert purse.spent == 24
    for by_series in found.values():
        for config in by_series.values():
            valid = problem.space.validate(config)
            assert config == valid
            assert [type(value) for value in config.values()] == [type(v) for v in valid.values()]
    if hasattr(searcher, "close"):
        searcher.close()


@pytest.mark.parametrize(("worst", "safe"), [(0.0, True), (1.0, False)])
def test_a_radius_from_the_spread_is_cautious_where_folds_differ(worst, safe):
    searcher = MeanSearch(Purse(PROBLEM), 0)
    best, even = {"x": 0.2, "y": 0.1}, {"x": 0.8, "y": 0.1}
    for fold in range(4):
        searcher.optimizer.observe(best, fold, worst if fold == 0 else 1.0)
        searcher.optimizer.observe(even, fold, 0.7)
    found = searcher.recommend()
    assert found[PLAIN] == best
    assert found["searched by 0, reported by spread"] == (even if safe else best)
    assert searcher._spread_radius() == pytest.approx(1.5 if safe else 0.0)


def test_the_groups_of_problems_are_equally_many_and_different():
    assert [len(GROUPS[name]) for name in ("development", "held-out", "mixed")] == [6, 6, 6]
    assert len(PROBLEMS) == sum(map(len, GROUPS.values()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_scores_below_its_ceiling_and_the_same_twice(name):
    if "cnn" in name:
        pytest.importorskip("torch")
    problem = open_problem(name, 3)
    config = problem.space.from_unit(np.full(len(problem.parameters), 0.4))
    scores = [problem.score(config, fold) for fold in range(problem.n_folds)]
    assert max(scores) <= problem.ceiling
    assert len(set(scores)) > 1
    assert problem.score(config, 1) == scores[1]
    assert (problem.test is None) == (name == "logistic")


def test_where_training_is_random_a_config_is_judged_by_the_mean_over_other_seeds():
    problem = open_problem("random-forest-sonar", 0)
    config = problem.space.from_unit(np.full(3, 0.5))
    found, again = (Judge(problem).answer("ours", 30, config) for _ in range(2))
    assert found == again
    expected = [problem.expected(config, fold) for fold in range(5)]
    assert found.mean == pytest.approx(np.mean(expected))
    drawn = [problem.score(config, fold) for fold in range(5)]
    np.testing.assert_allclose(drawn, expected, atol=0.3)
    near = {**config, "max_features": config["max_features"] + 1e-12}
    assert drawn != [problem.score(near, fold) for fold in range(5)]


def test_a_judge_gives_the_robust_value_the_mean_and_the_test_score():
    problem = FoldProblem(PROBLEM.parameters, 4, bowl, 0.0, test=lambda config: config["x"])
    config = {"x": 0.3, "y": 0.1}
    table = [bowl(config, fold) for fold in range(4)]
    found = Judge(problem).answer("ours", 30, config)
    assert found.robust == pytest.approx(float(ChiSquareBall(1.0).worst_case(table)[0]))
    assert (found.mean, found.test) == (pytest.approx(np.mean(table)), 0.3)


def cell(searcher, seed, value, problem="logistic", test=None):
    found = [Answer(searcher, budget, {}, value, value, test) for budget in (30, 60, 100)]
    return Cell(problem, searcher, seed, found, [], 0.0, "commit")


def test_differences_are_paired_by_seed():
    pair = ["svm-sonar", "svm-glass"]
    cells = [cell("foldwise", s, 1.0 + s, name, test=s) for s in range(3) for name in pair]
    cells += [cell("smac folds", s, 0.5 + s, name, test=2 * s) for s in range(2) for name in pair]
    cells += [cell("foldwise", 0, 9e9), cell("smac folds", 0, 0.0)]  # logistic has no test set
    found = [x for x in lines(cells, [*pair, "logistic"]) if "less" in x.what]
    assert [x.setting for x in found] == [f"development, {b} folds" for b in (30, 60, 100)] * 2
    assert all(x.value == x.low == x.high == 0.5 and x.kept for x in found[:3])
    assert all(x.value == -0.5 and x.kept is None for x in found[3:])


def test_ranks_share_ties_and_leave_out_seeds_that_a_series_has_not():
    scores = {"a": {0: 1.0, 1: 3.0, 2: 0.0}, "b": {0: 1.0, 1: 2.0}, "c": {0: 0.5, 1: 4.0}}
    assert ranks(scores, ["a", "b", "c"]).tolist() == [[1.5, 1.5, 3.0], [2.0, 3.0, 1.0]]


def test_the_champion_misses_its_bound_when_another_has_a_better_rank():
    cells = [cell("foldwise", 0, 0.0), cell("smac folds", 0, 1.0)]
    found = {x.what: x.kept for x in lines(cells, ["logistic"]) if "rank" in x.what}
    assert found == {"rank by robust, smac folds": None, "rank by robust, foldwise": False}


def looking(problem, seed, *looks):
    found = [Look(spent, loss, 0.5, robust) for spent, loss, robust in looks]
    return Cell(problem, "foldwise", seed, [], found, 0.0, "commit")


def test_a_series_that_lacks_a_problem_or_a_seed_is_not_ranked():
    cells = [cell("foldwise", 0, 0.5), cell("mtbo", 0, 0.6)]
    assert complete(cells, ["logistic"], ["foldwise", "mtbo"], 30) == ["foldwise", "mtbo"]
    cells.append(cell("foldwise", 0, 0.5, "svm-glass"))
    assert complete(cells, ["logistic", "svm-glass"], ["foldwise", "mtbo"], 30) == ["foldwise"]
    cells.append(cell("mtbo", 0, 0.5, "svm-glass"))
    assert len(complete(cells, ["logistic", "svm-glass"], ["foldwise", "mtbo"], 30)) == 2
    cells.append(cell("foldwise", 1, 0.5, "svm-glass"))
    assert complete(cells, ["logistic", "svm-glass"], ["foldwise", "mtbo"], 30) == ["foldwise"]


def test_the_page_ranks_and_counts_clear_differences():
    worth = {"foldwise": 0.9, "drbqo": 0.8, "smac folds": 0.9}
    cells = [
        cell(name, seed, value + 0.01 * seed + 0.001 * (seed * len(name) % 3), "svm-glass", 0.5)
        for name, value in worth.items()
        for seed in range(4)
    ]
    text = "\n".join(page(cells))
    assert "## Development problems" in text
    assert "set aside" not in text
    ranked = [line for line in text.splitlines() if line.startswith("| drbqo")]
    assert ranked[0].startswith("| drbqo | 3.00 |")
    assert ranked[1].startswith("| drbqo | 3 / 0 / 0 |")
    assert "| smac folds | 0 / 3 / 0 | 0 / 3 / 0 |" in text
    assert "| drbqo | +0.1000 ±inf | +0.1000 ±inf | +0.1000 ±inf | +0.0000 ±inf |" in text


def test_a_search_stops_at_the_second_look_in_a_row_that_is_sure():
    cell = looking(
        "x",
        0,
        (20, 0.001, 0.5),
        (40, 0.1, 0.6),
        (60, 0.001, 0.7),
        (80, 0.001, 0.8),
        (100, 0.0, 0.85),
    )
    assert stop_at(cell.looks, 0.002).spent == 80
    assert stop_at(cell.looks, 0.0005).spent == 100
    saved, lost = savings([cell], 0.002)
    assert (saved, lost) == (pytest.approx([20.0]), pytest.approx([0.05]))


def test_the_share_of_intervals_that_hold_is_counted_with_and_without_points():
    looks = [
        Look(20, 0.1, 0.5, 0.6, 0.5, 0.7),
        Look(25, 0.1, 0.5, 0.4, 0.5, 0.7),
        Look(30, 0.1, 0.5, 0.6, 0.6, 0.6),
        Look(35, 0.1, 0.5, 0.6, 0.6, 0.6),
        Look(40, 0.1, 0.5, 0.6),
    ]
    cells = [Cell("x", "foldwise", 0, [], looks, 0.0, "commit")]
    all_looks, wide = coverage_lines(cells, ["x", "y"], "both")
    assert (all_looks.value, all_looks.note) == (75.0, "1 problems, 4 looks")
    assert (wide.value, wide.note) == (50.0, "1 problems, 2 looks")
    assert not list(coverage_lines(cells, ["y"], "none"))


def test_a_cut_off_line_is_run_again(tmp_path):
    path = tmp_path / "cells.jsonl"
    path.write_text(json.dumps(asdict(cell("drbqo", 0, 1.0))) + "\n" + '{"problem": "logi')
    assert list(read_cells(path)) == [("logistic", "drbqo", 0)]


def test_cells_run_in_processes_of_their_own_and_are_kept(tmp_path):
    path = tmp_path / "cells.jsonl"
    path.write_text('{"cut off')
    run_missing([("logistic", "foldwise", 0)], path, 1, [10, 35])
    found = read_cells(path)[("logistic", "foldwise", 0)]
    budgets = [answer.budget for answer in found.answers if answer.series == "foldwise"]
    assert budgets == [10, 35]
    assert max(answer.robust for answer in found.answers) <= -np.log(2) + 1e-9
    assert [look.spent for look in found.looks] == [30, 35]


def test_ratio_is_that_of_the_pairs():
    assert ratio([2.0, 20.0], [1.0, 10.0]) == pytest.approx((2.0, 2.0, 2.0))
    middle, low, high = mean_interval([1.0, 2.0, 3.0])
    assert (middle, high - middle) == pytest.approx((2.0, 4.302653 / np.sqrt(3)))
    assert middle - low == pytest.approx(high - middle)


def test_lines_say_whether_they_kept_their_bound(tmp_path, capsys):
    good = Line("b", "speed", "N = 1", 0.1, "x", 0.05, 0.2, most=0.125)
    bad = Line("b", "use", "W = 2", 98.0, "%", least=99.0)
    assert publish([good, bad, Line("b", "size", "", 1.0, "MB")], tmp_path / "lines") == 1
    assert read_lines(tmp_path / "lines")[:2] == [good, bad]
    assert "MISSED" in capsys.readouterr().out
    page = markdown([good, bad], {"commit": "abc"}, ["simulate"])
    assert "| 0.1 x [0.05, 0.2] | at most 0.125 | yes |" in page
    assert "**no**" in page
    assert "Not run to their end: simulate" in page


def test_the_command_knows_every_benchmark():
    here = Path(command.__file__).parent
    listed = {module for module, *_ in command.JOBS.values()}
    assert listed == {path.stem for path in here.glob("bench_*.py")} | {"simulate"}


def test_the_command_saves_lines_output_and_where_they_come_from(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["benchmarks", "--out", str(tmp_path), "--only", "worst_case"])
    monkeypatch.setitem(command.JOBS, "worst_case", ["table"])
    assert command.main() == 1  # a module without lines has not run to its end
    saved = json.loads((tmp_path / "benchmarks.json").read_text())
    assert saved["missing"] == ["worst_case"]
    assert {"date", "commit", "numpy", "ray", "threads"} <= saved["about"].keys()
    assert (tmp_path / "benchmarks.md").read_text().startswith("# Benchmarks")
