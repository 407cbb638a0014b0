"""Callbacks of scikit-learn, told what a search does."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from drbqo_ray.errors import InvalidInput
from drbqo_ray.search_cv import callbacks as told
from tests.support.listening_callback import Listener, NosyListener
from tests.support.picky_estimator import Picky, Refusal
from tests.support.quick_search import X, Y, search

pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
EVALUATION = "candidate-split-evaluation"
REFIT = "refit-with-best-params"
GRID = {"C": [0.1, 1.0]}


@pytest.mark.parametrize("refit", [True, False])
def test_a_search_tells_the_tasks_that_grid_search_tells(refit):
    ours, theirs = Listener(), Listener()
    fitted = search(SVC(), GRID, n_evaluations=99, refit=refit).set_callbacks(ours).fit(X, Y)
    GridSearchCV(SVC(), GRID, cv=3, refit=refit).set_callbacks(theirs).fit(X, Y)
    assert ours.heard == theirs.heard
    assert ours.heard.count(("begin", EVALUATION)) == fitted.n_evaluations_ == 6
    assert ours.heard[0] == ("setup", "fit")
    assert ours.heard[-2:] == [("end", "fit"), ("teardown", "fit")]
    assert all(estimator is fitted for estimator in ours.estimators)


def test_a_callback_that_wants_it_is_handed_on_to_the_estimator_inside():
    model, grid = LogisticRegression(max_iter=1000), {"C": [0.1, 1.0]}
    ours, theirs = NosyListener(), NosyListener()
    search(model, grid, n_evaluations=99).set_callbacks(ours).fit(X, Y)
    GridSearchCV(model, grid, cv=3).set_callbacks(theirs).fit(X, Y)
    assert sorted(ours.heard) == sorted(theirs.heard)
    assert {type(estimator) for estimator in ours.estimators} == {
        type(search()),
        LogisticRegression,
    }


def test_an_estimator_that_supports_no_callbacks_is_warned_of():
    with pytest.warns(UserWarning, match="SVC does not support callbacks"):
        search(SVC(), GRID).set_callbacks(NosyListener()).fit(X, Y)


def test_hooks_are_shown_the_rows_and_weights_in_use():
    weights, hears = np.linspace(1.0, 2.0, 150), Listener()
    search(SVC(), GRID, n_evaluations=2).set_callbacks(hears).fit(X, Y, sample_weight=weights)
    for name, rows in ((EVALUATION, 100), (REFIT, 150)):
        shown = [given for task, given in hears.given if task == name]
        assert shown
        for given in shown:
            assert [len(given["X"]), len(given["y"])] == [rows, rows]
            assert len(given["metadata"]["sample_weight"]) == rows
    assert ("search", {"X": None, "y": None, "metadata": None}) in hears.given


def test_a_failed_fold_is_told_to_the_end_and_a_failed_fit_is_torn_down(tmp_path):
    (tmp_path / "file").touch()
    picky = search(
        Picky(obstacle=str(tmp_path / "file")),
        {"level": [0.5, 0.7]},
        n_evaluations=99,
        error_score=0.0,
    )
    hears = Listener()
    with pytest.warns(FitFailedWarning):
        picky.set_callbacks(hears).fit(X, Y)
    assert hears.heard.count(("end", EVALUATION)) == 6
    hears.heard.clear()
    with pytest.raises(Refusal):
        picky.set_params(error_score="raise").fit(X, Y)
    assert hears.heard[-1] == ("teardown", "fit")
    assert ("end", "fit") not in hears.heard


def test_callbacks_hear_nothing_of_a_search_with_wrong_settings():
    hears = Listener()
    with pytest.raises(InvalidInput):
        search(n_evaluations=0).set_callbacks(hears).fit(X, Y)
    assert hears.heard == []


def test_a_search_with_callbacks_is_cloned_pickled_and_searched_itself():
    ours = search(SVC(), GRID).set_callbacks(Listener())
    assert clone(ours)._skl_callbacks == ours._skl_callbacks
    pickle.loads(pickle.dumps(ours.fit(X, Y))).predict(X)
    outer = NosyListener()
    nested = search(search(SVC(), GRID), {"estimator__gamma": [0.1, 1.0]}, n_evaluations=2)
    with pytest.warns(UserWarning, match="SVC does not support callbacks"):
        nested.set_callbacks(outer).fit(X, Y)
    assert outer.heard.count(("begin", "search")) == 1 + 3  # two folds and the refit
    with pytest.raises(TypeError, match="FitCallback"):
        ours.set_callbacks("loud")


def test_before_scikit_learn_had_callbacks_a_search_tells_nobody(monkeypatch):
    monkeypatch.setattr(told, "theirs", None)
    hears = Listener()
    fitted = search(SVC(), GRID).set_callbacks(hears).fit(X, Y)
    assert fitted.n_evaluations_ == 6
    assert hears.heard == []
