"""A search in the one loop, with executors that finish their folds in any order."""

from __future__ import annotations

import logging
import random
import sys
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.linear_model import Ridge

from drbqo_ray.errors import InvalidInput
from drbqo_ray.runtime import executor as seam
from drbqo_ray.runtime.inline_executor import InlineExecutor
from drbqo_ray.search_cv import RobustSearchCV
from drbqo_ray.search_cv.fold_fit import FoldFit
from drbqo_ray.search_cv.search import SearchPlan, search
from drbqo_ray.space.parameters import Choice, Float
from drbqo_ray.space.space import Space

FOLDS = 3


class Chance(InlineExecutor):
    """An executor that leaves to chance in which order folds end, and how its slots change."""

    def __init__(self, objective, chance, most):
        super().__init__(objective)
        self.chance = chance
        self.most = self.slots = most
        self.busiest = 0

    def poll(self, tickets, seconds):
        self.slots = self.chance.randint(1, self.most)
        running = [ticket for ticket in tickets if ticket in self._waiting]
        self.busiest = max(self.busiest, len(running))
        least = int(len(running) == len(tickets))  # else a call is under way to wait for
        ended = self.chance.sample(running, self.chance.randint(least, max(least, len(running))))
        for ticket in ended if running else []:
            ticket.set_result(self._evaluate(*self._waiting.pop(ticket)))
        return list(wait(tickets, seconds, FIRST_COMPLETED).done)


class Echo:
    """Folds whose score is the parameter x, and that are trained in no time."""

    n_folds = FOLDS
    estimator = Ridge()

    def __init__(self):
        self.trained = []

    def train(self, config, fold):
        self.trained.append((config["x"], fold))
        return FoldFit(config["x"], {"score": config["x"]}, fit_time=0.0, score_time=0.0)

    def target(self, scores):
        return "score"


@contextmanager
def chance_backend(seed, most):
    """A backend "chance" for the time of a block; the executors that were opened."""
    opened = []

    @contextmanager
    def open_executor(objective, resources, in_flight):
        opened.append(Chance(objective, random.Random(seed), most))
        yield opened[-1]

    home = ModuleType("chance_executor")
    home.open_executor = open_executor
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "chance_executor", home)
        patch.setitem(seam.BACKENDS, "chance", "chance_executor")
        yield opened


def searched(space, budget, method="random", **others):
    """What came of a search on the backend "chance", and what was trained in it."""
    options = {"method": method, "uncertainty": 1.0, "seed": 0, **others}
    plan = SearchPlan(Space(space), options, budget, "raise", backend="chance", slots=None)
    folds = Echo()
    nobody = SimpleNamespace(warn_of_workers=lambda: None, started=lambda *_: None, ended=id)
    return *search(plan, folds, nobody, None), folds.trained


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 30))
def test_the_budget_is_met_whatever_order_folds_end_in(seed, most, budget):
    with chance_backend(seed, most) as opened:
        _, trained, _, started = searched({"x": Choice([1.0, 2.0, 3.0, 4.0])}, budget)
    assert len(trained) == min(budget, 4 * FOLDS)
    assert sorted((fold.config["x"], fold.fold) for fold in trained) == sorted(started)
    assert len(set(started)) == len(trained)
    assert opened[0]._waiting == {}
    assert opened[0].busiest <= most


def test_a_search_with_folds_under_way_says_once_why_it_stops(caplog):
    with chance_backend(0, 2), caplog.at_level(logging.INFO, "drbqo_ray"):
        space = {"x": Float(0.0, 1.0)}
        _, trained, reason, _ = searched(space, 60, "foldwise", stop_when="loss < 100")
    assert len(trained) < 30
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.endswith(f" {reason}.")
    assert reason.startswith("sure enough after ")


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
