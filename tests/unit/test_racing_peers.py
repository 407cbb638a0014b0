"""Peers that drop configs on the way: the forgiving rule, Wilcoxon's test, and races of irace."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks.quality.irace import IraceFolds, _least_budget, parameter_table, plan
from benchmarks.quality.peers import Forgiving, Purse, Wilcoxon
from benchmarks.quality.problems import FoldProblem
from drbqo_ray import ChiSquareBall, Choice, Float, Int

needs_irace = pytest.mark.skipif(not IraceFolds.is_installed(), reason="irace is not installed")
PARAMETERS = {"x": Float(0.0, 1.0)}


class Script:
    """Scores by config in order of appearance; which folds of which config were trained."""

    def __init__(self, rows):
        self.rows, self.configs, self.trained = rows, [], []

    def __call__(self, config, fold, repeat):
        if config not in self.configs:
            self.configs.append(dict(config))
        number = self.configs.index(config)
        self.trained.append((number, fold))
        return self.rows[number][fold]


def raced(rows, kind, target="mean", steps=100):
    """A race over scripted scores: the script, and the trials that the sampler was told."""
    pytest.importorskip("optuna")
    script = Script(rows)
    problem = FoldProblem(PARAMETERS, len(rows[0]), script, 1.0)
    searcher = kind(Purse(problem), 0, "tpe", target)
    for _ in range(steps):
        searcher.step()
    return script, searcher, [trial.value for trial in searcher._study.trials if trial.value]


ROWS = [
    [0.6, 0.5, 0.7],  # the incumbent: mean 0.6, worst fold 0.5
    [0.4, 0.9, 0.9],  # first fold below the worst: dropped at once
    [0.55, 0.35, 0.9],  # mean 0.45 after two folds: dropped then
    [0.52, 0.50, 0.1],  # never below before its last fold: trained on all, not better
    [0.9, 0.65, 0.7],  # the new incumbent: its worst fold is 0.65
    [0.65, 0.9, 0.9],  # no better than the worst fold: dropped
    [0.7, 0.7, 0.7],  # beyond the budget of this test
]


def test_the_forgiving_rule_drops_a_config_whose_mean_is_no_better_than_the_worst_fold():
    script, searcher, told = raced(ROWS, Forgiving, steps=13)
    assert [sum(n == number for n, _ in script.trained) for number in range(6)] == [
        3,
        1,
        2,
        3,
        3,
        1,
    ]
    assert [fold for number, fold in script.trained if number == 2] == [0, 1]
    assert told == pytest.approx([0.6, 0.4, 0.45, np.mean(ROWS[3]), 0.75, 0.65])
    assert searcher.recommend() == {"optuna-tpe forgiving mean": script.configs[4]}
    assert searcher._purse.spent == 13


def test_the_forgiving_rule_with_the_robust_value_has_another_incumbent():
    rows = [[0.7, 0.7, 0.1], [0.45, 0.45, 0.45], [0.44, 0.9, 0.9], [0.5, 0.5, 0.5]]
    script, searcher, told = raced(rows, Forgiving, "robust", steps=7)
    robust = float(ChiSquareBall(1.0).worst_case(rows[0])[0])
    assert told == pytest.approx([robust, 0.45, 0.44])
    assert searcher.recommend() == {"optuna-tpe forgiving robust": script.configs[1]}
    mean_script, mean_searcher, _ = raced(rows, Forgiving, "mean", steps=9)
    assert mean_searcher.recommend() == {"optuna-tpe forgiving mean": mean_script.configs[2]}


def test_before_any_config_has_all_folds_the_one_at_hand_is_named():
    script, searcher, _ = raced(ROWS, Forgiving, steps=2)
    assert searcher.recommend() == {"optuna-tpe forgiving mean": script.configs[0]}


@pytest.mark.filterwarnings("ignore")
def test_wilcoxon_drops_after_four_worse_folds_in_an_order_of_its_own():
    rows = [[0.9] * 8, [0.5, 0.51, 0.52, 0.53, 0.54, 0.55, 0.56, 0.57], [0.95] * 8]
    script, searcher, told = raced(rows, Wilcoxon, steps=8 + 4 + 8)
    orders = [[fold for n, fold in script.trained if n == number] for number in range(3)]
    assert [len(order) for order in orders] == [8, 4, 8]
    assert sorted(orders[0]) == sorted(orders[2]) == list(range(8))
    assert orders[0] != orders[2]
    assert told[1] == pytest.approx(np.mean([rows[1][fold] for fold in orders[1]]))
    assert searcher.recommend() == {"optuna-tpe wilcoxon mean": script.configs[2]}


def bowl(config, fold, repeat):
    lead = {"a": 0.0, "b": 0.3, "c": 0.1}[config["kind"]]
    far = (np.log10(config["rate"]) + 3) ** 2 + 0.01 * abs(config["count"] - 8)
    return lead - 0.1 * far - 0.02 * fold


SPACE = {
    "kind": Choice(["a", "b", "c"]),
    "rate": Float(1e-6, 1e0, log=True),
    "count": Int(1, 64, log=True),
    "share": Float(0.0, 1.0),
}


@needs_irace
def test_a_race_keeps_to_its_budget_and_its_space_and_finds_the_better_part():
    folds = []

    def noted(config, fold, repeat):
        folds.append(fold)
        return bowl(config, fold, repeat)

    problem = FoldProblem(SPACE, 5, noted, 1.0)
    purse = Purse(problem)
    race = IraceFolds(purse, 0, 200)
    race.step()
    assert set(folds) == set(range(5))
    config = race.recommend()["irace"]
    assert 150 <= purse.spent <= 200
    assert problem.space.validate(config) == config
    assert config["kind"] == "b"
    assert abs(np.log10(config["rate"]) + 3) < 1
    again = IraceFolds(Purse(problem), 0, 200)
    again.step()
    assert again.recommend()["irace"] == config


@needs_irace
def test_an_error_of_the_objective_ends_the_race_and_is_seen():
    def broken(config, fold, repeat):
        raise ArithmeticError("no score")

    with pytest.raises(ArithmeticError, match="no score"):
        IraceFolds(Purse(FoldProblem(SPACE, 5, broken, 1.0)), 0, 60).step()


@needs_irace
def test_a_race_that_r_refuses_is_an_error_with_what_it_said():
    problem = FoldProblem(SPACE, 5, bowl, 1.0)
    with pytest.raises(RuntimeError, match="irace failed"):
        IraceFolds(Purse(problem), 0, 5).step()


def test_the_plan_is_that_of_irace_where_the_budget_allows_it():
    assert plan(1000, 4, 10) == (5, 0, 4)
    assert plan(200, 4, 3)[0] == 3
    for budget in (30, 60, 100, 200):
        for d in (2, 3, 4, 5, 6):
            first, iterations, survivors = plan(budget, d, 5)
            usual = int(2 + np.log2(d))
            assert _least_budget(first, iterations or usual, survivors) <= budget


def test_hyperparameters_are_written_as_irace_reads_them():
    rows = parameter_table(SPACE).splitlines()
    assert rows[0] == 'kind "" c (0,1,2)'
    assert rows[1] == 'rate "" r (-6.0000000000, 0.0000000000)'
    assert rows[2] == 'count "" i,log (1, 64)'
    assert rows[3] == 'share "" r (0.0000000000, 1.0000000000)'


def test_without_r_irace_is_not_installed(monkeypatch):
    monkeypatch.setenv("PATH", str(sys.prefix))
    assert IraceFolds.is_installed.__wrapped__() is False
