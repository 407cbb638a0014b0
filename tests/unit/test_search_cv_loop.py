"""The loop of a search, with crews that finish their folds in any order."""

from __future__ import annotations

import logging
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.linear_model import Ridge

from drbqo_ray.errors import InvalidInput
from drbqo_ray.search_cv import RobustSearchCV
from drbqo_ray.search_cv.fold_fit import FoldFit
from drbqo_ray.search_cv.fold_search import Search, SearchPlan
from drbqo_ray.space.parameters import Choice, Float
from drbqo_ray.space.space import Space

FOLDS = 3


class Chance:
    """A crew whose folds end in an order, and slots change in a way, that a strategy draws."""

    def __init__(self, data, most, seconds=0.0):
        self.data = data
        self.most = most
        self.slots = most
        self.seconds = seconds
        self.running = []
        self.started = []
        self.busiest = 0

    def start(self, suggestion):
        assert len(self.running) < self.slots
        self.running.append(suggestion)
        self.started.append((suggestion.config["x"], suggestion.context))
        self.busiest = max(self.busiest, len(self.running))

    def finished(self, wait):
        self.slots = self.data.draw(st.integers(1, self.most))
        order = self.data.draw(st.permutations(self.running))
        ended = order[: self.data.draw(st.integers(0, len(order)))]
        if wait and not ended:
            ended = order[:1]
        for suggestion in ended:
            self.running.remove(suggestion)
        return [(s, FoldFit(s.config["x"], fit_time=self.seconds, score_time=0.0)) for s in ended]


def plan(space, budget, method="random", **others):
    options = {"method": method, "uncertainty": 1.0, "seed": 0, **others}
    return SearchPlan(Space(space), options, budget, "raise", verbose=False)


@settings(max_examples=40)
@given(st.data(), st.integers(1, 5), st.integers(1, 30))
def test_the_budget_is_met_whatever_order_folds_end_in(data, most, budget):
    crew = Chance(data, most)
    trained = Search(plan({"x": Choice([1.0, 2.0, 3.0, 4.0])}, budget), FOLDS, crew).run()
    assert len(trained) == min(budget, 4 * FOLDS)
    assert sorted((fold.config["x"], fold.fold) for fold in trained) == sorted(crew.started)
    assert len(set(crew.started)) == len(trained)
    assert crew.running == []


class Slow:
    """A crew of two that trains in the order started, only while it is waited for."""

    slots = 2

    def __init__(self, seconds):
        self.seconds = seconds
        self.running = []

    def start(self, suggestion):
        self.running.append(suggestion)

    def finished(self, wait):
        if not wait or not self.running:
            return []
        first = self.running.pop(0)
        return [(first, FoldFit(first.config["x"], fit_time=self.seconds, score_time=0.0))]


@pytest.mark.parametrize(("seconds", "ahead"), [(1e-4, 1), (1e6, 0)])
def test_a_suggestion_is_made_ahead_only_where_folds_are_short(seconds, ahead, monkeypatch):
    crew = Slow(seconds)
    search = Search(plan({"x": Float(0.0, 1.0)}, 14, "drbqo"), FOLDS, crew)
    most = 0
    ask = search.optimizer.ask

    def noted():
        nonlocal most
        time.sleep(0.001)
        most = max(most, len(search.optimizer.pending))
        return ask()

    monkeypatch.setattr(search.optimizer, "ask", noted)
    assert len(search.run()) == 14
    assert most == 1 + ahead


def test_a_search_with_folds_under_way_says_once_why_it_stops(caplog):
    sure = plan({"x": Float(0.0, 1.0)}, 60, "foldwise", stop_when="loss < 100")
    search = Search(sure, FOLDS, Slow(1e6))
    with caplog.at_level(logging.INFO, "drbqo_ray"):
        trained = search.run()
    assert len(trained) < 30
    (said,) = (record.getMessage() for record in caplog.records)
    assert said == f"The search stops: {search.stop_reason}."
    assert f"after {len(trained) - 1} evaluations" in said


def test_a_search_stops_when_it_is_sure_enough():
    space = {"alpha": Float(1e-3, 1e3, log=True)}
    long = RobustSearchCV(Ridge(), space, cv=3, n_evaluations=60, n_jobs=1, random_state=0)
    short = clone(long).set_params(stop_when="loss < 100")
    X, y = make_regression(60, 4, noise=5.0, random_state=0)
    assert short.fit(X, y).n_evaluations_ < 30
    assert short.stop_reason_.startswith("sure enough after ")
    assert long.fit(X, y).n_evaluations_ == 60
    assert long.stop_reason_ is None
    with pytest.raises(InvalidInput, match="stop rule"):
        clone(long).set_params(stop_when="soon").fit(X, y)
