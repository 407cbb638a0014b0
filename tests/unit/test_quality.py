"""The bookkeeping of the comparison with other optimizers, and their drivers where installed."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import benchmarks.__main__ as command
from benchmarks.quality import environments
from benchmarks.quality.__main__ import usual_budgets, wanted_cells
from benchmarks.quality.cells import Answer, Cell, Judge, Look, file_of, read_cells, run_missing
from benchmarks.quality.measures import (
    complete,
    coverage_lines,
    folds_needed,
    lines,
    needed_lines,
    overtuning_lines,
    ranks,
    regret_curves,
    savings,
    stop_at,
    verdicts,
)
from benchmarks.quality.page import page, save_figure
from benchmarks.quality.peers import Purse
from benchmarks.quality.problems import GROUPS, PROBLEMS, FoldProblem, is_here, open_problem
from benchmarks.quality.searchers import PLAIN, SEARCHERS, MeanSearch, answers
from benchmarks.table import Line, markdown, mean_interval, publish, ratio, read_lines
from drbqo_ray import ChiSquareBall, Choice, Float, Int


def bowl(config, fold, repeat=0):
    return -((config["x"] - 0.1 * fold) ** 2) - 0.1 * abs(np.log10(config["y"]) + 1)


PROBLEM = FoldProblem({"x": Float(0.0, 1.0), "y": Float(1e-3, 1.0, log=True)}, 4, bowl, 0.0)


def steps(config, fold, repeat=0):
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
    assert purse.worth(purse.folds(config), "mean") == pytest.approx(np.mean(table))
    robust = float(ChiSquareBall(0.5).worst_case(table)[0])
    assert purse.worth(purse.folds(config), "robust") == pytest.approx(robust)
    assert (purse.spent, purse.first) == (8, config)


def test_a_purse_counts_how_often_the_same_fold_was_trained():
    problem = FoldProblem(PROBLEM.parameters, 2, lambda config, fold, repeat: repeat, 9.0)
    purse, config = Purse(problem), {"x": 0.3, "y": 0.1}
    assert [purse.fold(config, fold) for fold in (0, 1, 0, 0)] == [0, 0, 1, 2]
    assert purse.fold({**config, "x": 0.4}, 0) == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("problem", [PROBLEM, MIXED_PROBLEM], ids=["floats", "mixed"])
@pytest.mark.parametrize("name", SEARCHERS)
def test_a_driver_keeps_to_its_budget_and_its_space(name, problem):
    if not SEARCHERS[name].is_here:
        pytest.skip(f"{SEARCHERS[name].needs} is not installed")
    purse = Purse(problem)
    searcher = SEARCHERS[name].make(purse, 1, 24)
    found = answers(searcher, purse, [24] if SEARCHERS[name].planned else [12, 24])
    assert purse.spent <= 24 if name == "irace" else purse.spent == 24
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


def test_the_groups_of_problems_are_different_and_fresh_ones_have_data_of_their_own():
    assert len(PROBLEMS) == sum(map(len, GROUPS.values()))
    fresh = {task.data for g in ("fresh", "fresh-random") for task in GROUPS[g].values()}
    seen = {t.data for g, tasks in GROUPS.items() if "fresh" not in g for t in tasks.values()}
    assert not fresh & seen
    assert all(task.random for task in GROUPS["fresh-random"].values())
    assert {task.folds for task in GROUPS["fresh"].values()} >= {3, 10}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_scores_below_its_ceiling_and_the_same_twice(name):
    if "cnn" in name:
        pytest.importorskip("torch")
    if not is_here(name):
        pytest.skip(f"no table of {PROBLEMS[name].data} under DRBQO_DATA")
    problem = open_problem(name, 3)
    config = problem.space.from_unit(np.full(len(problem.parameters), 0.4))
    scores = [problem.score(config, fold, 0) for fold in range(problem.n_folds)]
    assert max(scores) <= problem.ceiling
    assert len(set(scores)) > 1
    assert problem.score(config, 1, 0) == scores[1]
    again = [problem.score(config, fold, 1) for fold in range(problem.n_folds)]
    assert (again == scores) == (problem.expected is None)
    assert (problem.test is None) == (name == "logistic")
    if problem.default is not None:
        assert problem.space.validate(problem.default) == problem.default


def test_environments_that_are_folds_are_not_in_the_test_set(monkeypatch):
    from benchmarks.quality import problems

    places = np.repeat(np.arange(5), 40)
    y = np.tile(np.arange(40) < 4, 5).astype(float)
    task = problems.Task("tree", "toy", 3, rows=10)
    train, test, cuts = problems._environment_cut(task, y, places, True, 0)
    assert len(set(places[train])) == 3
    assert not set(places[train]) & set(places[test])
    for rows, held in cuts:
        assert len(set(places[train[held]])) == 1
        assert not set(places[train[rows]]) & set(places[train[held]])
        assert y[train[held]].sum() == 1  # a tenth, as in the environment
    other = problems._environment_cut(task, y, places, True, 1)[0]
    assert set(other) != set(train)


def test_where_training_is_random_a_config_is_judged_by_the_mean_over_other_seeds():
    problem = open_problem("random-forest-sonar", 0)
    config = problem.space.from_unit(np.full(3, 0.5))
    found, again = (Judge(problem).answer("ours", 30, config) for _ in range(2))
    assert found == again
    expected = [problem.expected(config, fold) for fold in range(5)]
    assert found.mean == pytest.approx(np.mean(expected))
    drawn = [problem.score(config, fold, 0) for fold in range(5)]
    np.testing.assert_allclose(drawn, expected, atol=0.3)
    near = {**config, "max_features": config["max_features"] + 1e-12}
    assert drawn != [problem.score(near, fold, 0) for fold in range(5)]


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
    every = lines(cells, {"development": [*pair, "logistic"]})
    found = [x for x in every if " less " in x.what]
    assert [x.setting for x in found] == [f"development, {b} folds" for b in (30, 60, 100)] * 2
    assert all(x.value == x.low == x.high == 0.5 and x.kept for x in found[:3])
    assert all(x.value == -0.5 and x.kept is None for x in found[3:])


def test_ranks_share_ties_and_leave_out_seeds_that_a_series_has_not():
    scores = {"a": {0: 1.0, 1: 3.0, 2: 0.0}, "b": {0: 1.0, 1: 2.0}, "c": {0: 0.5, 1: 4.0}}
    assert ranks(scores, ["a", "b", "c"]).tolist() == [[1.5, 1.5, 3.0], [2.0, 3.0, 1.0]]


def test_the_champion_misses_its_bound_when_another_has_a_better_rank():
    cells = [cell("foldwise", 0, 0.0), cell("smac folds", 0, 1.0)]
    found = {
        x.what: x.kept for x in lines(cells, {"development": ["logistic"]}) if "rank" in x.what
    }
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
    saved, lost, lost_test = savings([cell], 0.002)
    assert (saved, lost) == (pytest.approx([20.0]), pytest.approx([0.05]))
    assert lost_test == []


def test_intervals_are_counted_by_whether_folds_were_missing():
    looks = [
        Look(20, 0.1, 0.5, 0.6, 0.5, 0.7),
        Look(25, 0.1, 0.5, 0.4, 0.5, 0.7),
        Look(30, 0.1, 0.5, 0.6, 0.6, 0.6),
        Look(35, 0.1, 0.5, 0.6, 0.6, 0.6),
        Look(40, 0.1, 0.5, 0.6),
        Look(45, 0.1, 0.5, 0.6, 0.5, 0.9, missing=0),  # random training: width without a gap
    ]
    cells = [Cell("x", "foldwise", 0, [], looks, 0.0, "commit")]
    found = {line.what: line for line in coverage_lines(cells, ["x", "y"], "both")}
    shares = {what: line.value for what, line in found.items() if "holds" in what}
    assert shares == {
        "interval holds": 80.0,
        "interval holds, folds missing": 50.0,
        "interval holds, all folds trained": 100.0,
    }
    assert found["interval holds"].note == "1 problems, 5 looks"
    assert found["interval width, folds missing"].value == pytest.approx(0.2)
    assert found["interval width, all folds trained"].value == pytest.approx(0.4 / 3)
    assert not list(coverage_lines(cells, ["y"], "none"))


def test_overtuning_is_a_test_score_below_that_of_no_search():
    def tuned(seed, test):
        answer = Answer("foldwise", 100, {}, 0.5, 0.5, test)
        base = {"default": 0.7, "first": 0.6}
        return Cell("svm-glass", "foldwise", seed, [answer], [], 0.0, "commit", base)

    cells = [tuned(0, 0.5), tuned(1, 0.65), tuned(2, 0.7), tuned(3, 0.9)]
    found = {line.what: line.value for line in overtuning_lines(cells, ["svm-glass"], "g", 100)}
    assert found == {
        "worse in test than the default config, foldwise": 50.0,
        "worse in test than the first config, foldwise": 25.0,
    }
    assert not list(overtuning_lines(cells, ["svm-glass"], "g", 60))


def test_the_folds_a_peer_needs_are_read_from_its_curve():
    curve = {30: 0.8, 60: 0.4, 100: 0.2}
    assert folds_needed(curve, 0.9) == 30
    assert folds_needed(curve, 0.4) == pytest.approx(60)
    assert folds_needed(curve, 0.6) == pytest.approx(np.sqrt(30 * 60))
    assert folds_needed(curve, 0.1) == np.inf


def reaching(series, seed, values, problem="svm-glass"):
    found = [Answer(series, b, {}, v, v, v) for b, v in zip((30, 60, 100), values, strict=True)]
    return Cell(problem, series, seed, found, [], 0.0, "commit")


def test_regret_is_measured_to_the_best_known_and_scaled_by_problem():
    cells = [reaching("foldwise", 0, (0.7, 0.9, 1.0)), reaching("irace", 0, (0.5, 0.7, 0.9))]
    curves = regret_curves(cells, ["svm-glass"], "robust")
    assert curves["foldwise"] == pytest.approx({30: 0.75, 60: 0.25, 100: 0.0})  # of 0.4, the mean
    assert curves["irace"] == pytest.approx({30: 1.25, 60: 0.75, 100: 0.25})
    (needed,) = needed_lines(cells, ["svm-glass"], "g")
    assert (needed.value, needed.unit) == (pytest.approx(100), "folds")
    cells[1] = reaching("irace", 0, (0.5, 0.7, 0.8))
    (needed,) = needed_lines(cells, ["svm-glass"], "g")
    assert (needed.value, needed.unit) == (100, "folds are not enough")


def test_verdicts_count_pairs_of_problem_and_budget():
    cells = [reaching("foldwise", s, (0.7 + 0.01 * s, 0.5, 0.5 * s)) for s in range(4)]
    cells += [reaching("irace", s, (0.5, 0.6, 0.5 * (3 - s))) for s in range(4)]
    assert verdicts(cells, ["svm-glass"], "irace", "robust") == (1, 1, 1)


def test_the_figure_is_drawn_from_cells(tmp_path):
    cells = [reaching("foldwise", 0, (0.7, 0.9, 1.0)), reaching("irace", 0, (0.5, 0.7, 0.9))]
    save_figure(cells, tmp_path / "new" / "figure.svg")
    drawn = (tmp_path / "new" / "figure.svg").read_text()
    assert drawn.startswith("<?xml")


def test_slow_searchers_have_fewer_cuts_and_no_budget_of_200():
    found = wanted_cells(["svm-glass", "qda-wine"], ["random", "foldwise"], None, None)
    assert len(found) == 80
    assert found[0] == (("svm-glass", "random", 0), [30, 60, 100])
    assert found[1] == (("qda-wine", "random", 0), [30, 60, 100, 200])
    assert usual_budgets("qda-wine", "botorch cvar") == [30, 60, 100]
    assert wanted_cells(["svm-glass"], ["random"], 1, [12]) == [(("svm-glass", "random", 0), [12])]


def test_what_is_missing_here_is_left_out_and_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("DRBQO_DATA", str(tmp_path))
    monkeypatch.setattr("benchmarks.quality.searchers.shutil.which", lambda name: None)
    found = wanted_cells(["svm-glass", "svr-ames"], ["random", "irace"], 1, None)
    assert [key for key, _ in found] == [("svm-glass", "random", 0)]
    said = capsys.readouterr().out
    assert "svr-ames is left out: no DRBQO_DATA/shift/ames.csv.gz" in said
    assert "irace is left out: irace is not installed" in said


def test_a_cut_off_line_is_run_again(tmp_path):
    path = tmp_path / "cells.jsonl"
    path.write_text(json.dumps(asdict(cell("drbqo", 0, 1.0))) + "\n" + '{"problem": "logi')
    assert list(read_cells(tmp_path)) == [("logistic", "drbqo", 0)]


def test_the_file_of_a_searcher_replaces_what_the_first_file_says(tmp_path):
    for name, value in (("cells.jsonl", 1.0), ("a-b.jsonl", 2.0)):
        (tmp_path / name).write_text(json.dumps(asdict(cell("a b", 0, value))) + "\n")
    assert file_of(tmp_path, "a b") == tmp_path / "a-b.jsonl"
    assert read_cells(tmp_path)[("logistic", "a b", 0)].answers[0].robust == 2.0


def test_cells_run_in_processes_of_their_own_and_are_kept(tmp_path):
    path = tmp_path / "foldwise.jsonl"
    path.write_text('{"cut off')
    left = run_missing([(("logistic", "foldwise", 0), [10, 35])], tmp_path, 1)
    found = read_cells(tmp_path)[("logistic", "foldwise", 0)]
    budgets = [answer.budget for answer in found.answers if answer.series == "foldwise"]
    assert (budgets, left) == ([10, 35], 0)
    assert max(answer.robust for answer in found.answers) <= -np.log(2) + 1e-9
    assert [look.spent for look in found.looks] == [30, 35]
    assert all(look.missing is not None for look in found.looks)


def test_no_cell_is_begun_when_time_is_over(tmp_path):
    wanted = [(("logistic", "random", seed), [20]) for seed in range(3)]
    assert run_missing(wanted, tmp_path, 1, minutes=0.0) == 3
    assert not read_cells(tmp_path)


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
    runnable = {
        str(path.relative_to(here).with_suffix("")).replace("/", ".").removesuffix(".__main__")
        for path in here.rglob("*.py")
        if '__name__ == "__main__"' in path.read_text() and path.parent.name != "__pycache__"
    }
    assert listed == runnable - {"__main__"}


def test_the_command_saves_lines_output_and_where_they_come_from(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["benchmarks", "--out", str(tmp_path), "--only", "worst_case"])
    monkeypatch.setitem(command.JOBS, "worst_case", ["table"])
    assert command.main() == 1  # a module without lines has not run to its end
    saved = json.loads((tmp_path / "benchmarks.json").read_text())
    assert saved["missing"] == ["worst_case"]
    assert {"date", "commit", "numpy", "ray", "threads"} <= saved["about"].keys()
    assert (tmp_path / "benchmarks.md").read_text().startswith("# Benchmarks")


def test_environments_are_left_out_and_forecasts_counted(tmp_path, monkeypatch):
    """A table as small as can be: the score left out is that of a model that never saw its rows."""
    rng = np.random.default_rng(0)
    lines = ["env,y,a,b"]
    for town in ("x", "y", "z", "w"):
        for a in rng.normal(size=12):
            lines.append(f"{town},{2 * a + 0.1 * rng.normal()},{a},{'u' if a > 0 else ''}")
    (tmp_path / "shift").mkdir()
    with gzip.open(tmp_path / "shift" / "tiny.csv.gz", "wt") as file:
        file.write("\n".join(lines))
    monkeypatch.setenv("DRBQO_DATA", str(tmp_path))
    table = environments.Table.read("tiny", 10)
    assert table.names == ["w", "x", "y", "z"]
    assert np.bincount(table.env).tolist() == [10] * 4
    assert not table.classes
    trained: list[tuple[set[int], set[int]]] = []
    score = environments.Table.score

    def noting(self, model, config, train, test):
        trained.append((set(self.env[train]), set(self.env[test])))
        return score(self, model, config, train, test)

    monkeypatch.setattr(environments.Table, "score", noting)
    monkeypatch.setattr(environments, "TRAININGS", 15)
    for searcher in ("radius 0.3", "worst fold", "optuna", "grid"):
        trained.clear()
        cell = environments.run_cell(table, "tiny", "linear", 2, searcher, 0)
        assert trained[-1] == ({0, 1, 3}, {2})
        assert all(2 not in train | test for train, test in trained[:-1])
        assert cell.low <= cell.promised <= cell.high
        if searcher.startswith(("radius", "worst")):
            assert all(not train & test for train, test in trained)
            assert len(trained) == 16
    inside, outside = replace(cell, score=cell.promised), replace(cell, score=cell.high + 1)
    _, held, width, error = list(environments.lines("grid", [inside, outside]))
    assert held.value == 50
    assert width.value == pytest.approx(100 * (cell.high - cell.low))
    assert error.value == pytest.approx(50 * (cell.promised - outside.score))
    file = tmp_path / "cells.jsonl"
    line = json.dumps(asdict(cell))
    file.write_text(f"{line}\n{line[:40]}")  # a line that was cut off
    assert environments.read_cells(file) == {cell.key: cell}
