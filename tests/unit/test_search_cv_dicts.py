"""A list of dicts as the space of a search: every config fills one of them."""

from __future__ import annotations

import pickle
from html import unescape

import numpy as np
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray.search_cv.search_space import DICT, SearchSpace
from tests.support.quick_search import X, Y, search

GRIDS = [
    {"kernel": ["rbf"], "gamma": [0.1, 1.0], "C": [1, 10]},
    {"kernel": ["poly"], "degree": [2, 3], "C": [1, 10]},
    {"kernel": ["linear"]},
]


def test_a_list_of_grids_trained_in_full_is_judged_as_grid_search_judges_it():
    ours = search(SVC(), GRIDS, uncertainty=0, n_evaluations=500).fit(X, Y)
    grid = GridSearchCV(SVC(), GRIDS, cv=3).fit(X, Y)
    assert ours.n_evaluations_ == (4 + 4 + 1) * 3
    assert ours.best_params_ == grid.best_params_
    assert ours.cv_results_["params"] == grid.cv_results_["params"]
    for key, column in grid.cv_results_.items():
        if "time" not in key and key != "params":
            np.testing.assert_array_equal(ours.cv_results_[key], column, err_msg=key)
            if key.startswith("param_"):
                np.testing.assert_array_equal(ours.cv_results_[key].mask, column.mask, key)
    assert not [key for key in ours.cv_results_ if "dict" in key]


@pytest.mark.parametrize("method", ["foldwise", "drbqo"])
def test_dicts_of_ranges_give_configs_that_fill_one_dict_each(method):
    space = [
        {"kernel": ["rbf"], "gamma": scipy.stats.loguniform(1e-3, 1e1)},
        {"kernel": ["poly"], "gamma": dr.Float(1.0, 2.0), "degree": dr.Int(2, 3)},
    ]
    ours = search(SVC(), space, n_evaluations=30, method=method).fit(X, Y)
    seen = set()
    for params in ours.cv_results_["params"]:
        seen.add(params["kernel"])
        if params["kernel"] == "rbf":
            assert set(params) == {"kernel", "gamma"}
            assert 1e-3 <= params["gamma"] <= 1e1
        else:
            assert set(params) == {"kernel", "gamma", "degree"}
            assert 1.0 <= params["gamma"] <= 2.0
    assert seen == {"rbf", "poly"}
    assert ours.best_params_ == ours.cv_results_["params"][ours.best_index_]
    for name, value in ours.best_params_.items():
        assert ours.best_estimator_.get_params()[name] == value
    assert ours.robustness_path_[0]["params"] in ours.cv_results_["params"]


def test_dicts_may_choose_between_models_and_an_empty_one_is_the_estimator_as_it_is():
    pipe = Pipeline([("scale", StandardScaler()), ("model", SVC())])
    space = [
        {"model": [SVC(), SVC(kernel="linear")], "model__C": [0.1, 10.0]},
        {"model": [LogisticRegression()], "model__max_iter": [200]},
        {},
    ]
    ours = search(clone(pipe), space, n_evaluations=99, return_train_score=True).fit(X, Y)
    assert ours.n_evaluations_ == (4 + 1 + 1) * 3
    assert ours.cv_results_["params"][-1] == {}
    np.testing.assert_array_equal(
        np.ma.getmaskarray(ours.cv_results_["param_model__C"]), [False] * 4 + [True] * 2
    )


def test_conditions_hold_inside_the_dict_they_are_written_in():
    degree = dr.Int(2, 3, when={"kernel": ["poly"]})
    space = [
        {"kernel": ["rbf", "poly"], "degree": degree, "C": [1.0]},
        {"kernel": ["poly", "sigmoid"], "degree": degree, "C": [2.0]},
    ]
    ours = search(SVC(), space, n_evaluations=99).fit(X, Y)
    found = [tuple(sorted(params.items())) for params in ours.cv_results_["params"]]
    assert len(found) == len(set(found)) == 6
    for params in ours.cv_results_["params"]:
        assert ("degree" in params) == (params["kernel"] == "poly")


def test_a_list_of_one_dict_is_that_dict():
    one = search(SVC(), [{"C": dr.Float(0.1, 10.0)}]).fit(X, Y)
    assert (
        one.cv_results_["params"]
        == (search(SVC(), {"C": dr.Float(0.1, 10.0)}).fit(X, Y).cv_results_["params"])
    )


def test_a_search_over_dicts_survives_clone_and_pickle_and_writes_its_report(tmp_path):
    ours = search(SVC(), GRIDS, n_evaluations=12, method="foldwise")
    ours = pickle.loads(pickle.dumps(clone(ours).fit(X, Y)))
    page = ours.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"set_params(**{ours.best_params_!r})" in unescape(page)
    means, _ = ours.optimizer_.predict([{DICT: 2, "kernel of dict 2": "linear"}])
    assert means.shape == (1, 3)


# how the dicts become one space


def test_what_dicts_hold_alike_is_one_parameter_and_all_else_is_not():
    low, high = dr.Float(0.0, 1.0), dr.Float(1.0, 2.0)
    space = SearchSpace([{"a": low, "b": [1]}, {"a": low, "b": [True]}, {"a": high, "b": [1]}])
    assert list(space.space) == [DICT, "a of dict 0", "b of dict 0", "b of dict 1", "a of dict 2"]
    assert space.space.parameters["a of dict 0"].when == {DICT: [0, 1]}
    assert space.space.parameters["b of dict 0"].when == {DICT: [0, 2]}
    config = {DICT: 1, "a of dict 0": 0.5, "b of dict 1": True}
    assert space.params(space.space.validate(config)) == {"a": 0.5, "b": True}
    shared = SearchSpace([{"a": low, "c": [1, 2]}, {"a": low}]).space
    assert list(shared) == [DICT, "a", "c"]
    assert shared.parameters["a"].when == {}


def test_many_small_dicts_make_a_small_space():
    dicts = [{f"p{k}": [1, 2, 3], f"q{k}": [1, 2, 3, 4]} for k in range(12)]
    grid = SearchSpace(dicts).space.grid(200)
    assert grid is not None
    assert len(grid) == 12 * 12
