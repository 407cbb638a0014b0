"""RobustSearchCV with groups: folds have their names, and folds that mislead are warned of."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, LeavePGroupsOut

import drbqo_ray as dr
from drbqo_ray.errors import ProblemChanged
from drbqo_ray.search_cv import RobustSearchCV
from drbqo_ray.search_cv.groups import group_names, torn_groups

TOWNS = ["Zug", "Basel", "Chur", "Bern"]
SPACE = {"alpha": dr.Float(1e-3, 1e3, log=True)}


def data(sizes: tuple[int, ...] = (20, 20, 20, 20), seed: int = 0) -> tuple[Any, Any, Any]:
    rng, N = np.random.default_rng(seed), sum(sizes)
    X = rng.normal(size=(N, 3))
    towns = np.repeat(TOWNS[: len(sizes)], sizes)
    lift = dict(zip(TOWNS, rng.normal(size=4), strict=True))
    y = X @ [1.0, -2.0, 0.5] + [lift[town] for town in towns] + 0.3 * rng.normal(size=N)
    order = rng.permutation(N)
    return X[order], y[order], towns[order]


def search(cv: Any, **options: Any) -> RobustSearchCV:
    given = {"n_evaluations": 12, "uncertainty": 0.3, "random_state": 0} | options
    return RobustSearchCV(Ridge(), SPACE, cv=cv, **given)


def said(cv: Any, sizes: tuple[int, ...] = (20, 20, 20, 20), **options: Any) -> list[str]:
    """The warnings of a search with groups; each points to the line that called `fit`."""
    X, y, towns = data(sizes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search(cv, n_evaluations=4, **options).fit(X, y, groups=towns)
    ours = [one for one in caught if "sklearn" not in one.filename]
    assert {one.filename for one in ours} <= {__file__}
    return [str(one.message) for one in ours]


@pytest.mark.parametrize("cv", [LeaveOneGroupOut(), GroupKFold(4)], ids=str)
def test_folds_of_single_groups_have_their_names(cv: Any, tmp_path: Any) -> None:
    X, y, towns = data()
    found = search(cv).fit(X, y, groups=towns)
    names = found.optimizer_.context_names
    assert sorted(names) == sorted(TOWNS)
    for name, (_, test) in zip(names, cv.split(X, y, towns), strict=True):
        assert set(towns[test]) == {name}
    assert found.forecast_ == found.optimizer_.forecast()
    assert "forecast" in found._answer_html()
    page = found.report(tmp_path / "page.html").read_text()
    assert "In a new environment like these 4, expect" in page
    assert all(town in page for town in TOWNS)
    assert "fold 0" not in page


def test_folds_without_groups_are_counted_and_have_a_forecast_all_the_same() -> None:
    X, y, _ = data()
    found = search(KFold(4)).fit(X, y)
    assert found.optimizer_.context_names == ()
    assert found.forecast_ == found.optimizer_.forecast()
    assert "forecast" not in found._answer_html()


def test_names_change_nothing_that_is_chosen() -> None:
    X, y, towns = data()
    named = search(LeaveOneGroupOut()).fit(X, y, groups=towns)
    counted = search(list(LeaveOneGroupOut().split(X, y, towns))).fit(X, y)
    assert named.best_params_ == counted.best_params_
    assert named.best_score_ == counted.best_score_
    assert named.forecast_ == counted.forecast_


def test_a_choice_of_the_users_own_has_its_own_forecast() -> None:
    X, y, towns = data()
    found = search(LeaveOneGroupOut(), refit=lambda results: 0).fit(X, y, groups=towns)
    first = {"alpha": found.best_params_["alpha"]}
    assert found.forecast_ == found.optimizer_.forecast(config=first)


def test_groups_are_routed_to_a_splitter_that_asks_for_them() -> None:
    X, y, towns = data()
    with sklearn.config_context(enable_metadata_routing=True):
        found = search(LeaveOneGroupOut()).fit(X, y, groups=towns)
    assert sorted(found.optimizer_.context_names) == sorted(TOWNS)


def test_a_search_in_storage_goes_on_with_its_groups_only(tmp_path: Any) -> None:
    X, y, towns = data()
    kept = {"storage": tmp_path / "kept", "random_state": None}
    search(LeaveOneGroupOut(), **kept).fit(X, y, groups=towns)
    again = search(LeaveOneGroupOut(), **kept, n_evaluations=14).fit(X, y, groups=towns)
    assert again.n_evaluations_ == 14
    assert dr.load(tmp_path / "kept").context_names == again.optimizer_.context_names
    other = np.char.add(towns, " town")
    with pytest.raises(ProblemChanged):
        search(LeaveOneGroupOut(), **kept, n_evaluations=16).fit(X, y, groups=other)


@given(st.lists(st.integers(0, 4), min_size=6, max_size=30), st.integers(2, 4))
def test_a_group_is_torn_exactly_if_it_is_on_both_sides(groups: list[int], n: int) -> None:
    splits = list(KFold(n).split(groups))
    labels = np.array(groups)
    torn = {
        g
        for train, test in splits
        for g in range(5)
        if (labels[train] == g).any() and (labels[test] == g).any()
    }
    words = torn_groups(splits, groups)
    assert (words is None) == (not torn)
    assert words is None or words.startswith(f"{len(torn)} of {len(set(groups))} groups")


def test_folds_of_several_groups_or_of_one_twice_have_no_names() -> None:
    X, y, towns = data()
    for cv in (LeavePGroupsOut(2), GroupKFold(2)):
        assert group_names(list(cv.split(X, y, towns)), towns) == ()
    assert group_names(list(KFold(4).split(X)), towns) == ()
    twice = [(np.arange(4), np.array([5])), (np.arange(4), np.array([6]))]
    assert group_names(twice, ["a"] * 4 + ["b"] * 4) == ()
    blank = [(np.array([0]), np.array([1])), (np.array([1]), np.array([0]))]
    assert group_names(blank, ["", "a"]) == ()
    assert group_names(blank, [3, 4]) == ("4", "3")


def test_folds_that_ignore_groups_are_warned_of() -> None:
    (words,) = said(KFold(4, shuffle=True, random_state=0))
    assert words.startswith("4 of 4 groups have rows in both training and validation")
    assert "LeaveOneGroupOut" in words


def test_folds_by_group_of_a_kind_are_not() -> None:
    assert said(LeaveOneGroupOut()) == []
    assert said(GroupKFold(2)) == []


def test_too_few_groups_for_the_radius() -> None:
    sizes = (20, 20, 20)
    (words,) = said(LeaveOneGroupOut(), sizes, uncertainty=1.0)
    assert words.startswith("3 groups are too few for this uncertainty set")
    assert said(LeaveOneGroupOut(), sizes, uncertainty=0.9) == []
    assert said(LeaveOneGroupOut(), sizes, uncertainty=dr.WorstCase()) == []


def test_very_unequal_groups() -> None:
    (words,) = said(LeaveOneGroupOut(), (40, 20, 3, 20))
    assert "'Chur' has 3 rows and 'Zug' has 40" in words
    assert said(LeaveOneGroupOut(), (40, 20, 4, 20)) == []
