"""Data frames, sparse data, groups, weights and routed metadata."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
import sklearn
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import drbqo_ray as dr
from drbqo_ray.errors import InvalidInput
from tests.support.quick_search import GRID, X, Y, scores_of, search


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=list("abcd"))
    ours = search(make_pipeline(StandardScaler(), SVC()), {"svc__C": dr.Float(0.1, 10.0)})
    ours.fit(frame, pd.Series(Y, index=frame.index[::-1]))
    np.testing.assert_array_equal(ours.feature_names_in_, list("abcd"))
    assert ours.predict(frame).shape == (150,)


def test_sparse_data_are_searched():
    ours = search(SVC(), GRID, n_evaluations=99).fit(scipy.sparse.coo_array(X), Y)
    assert ours.best_index_ == search(SVC(), GRID, n_evaluations=99).fit(X, Y).best_index_


def test_a_precomputed_kernel_is_cut_in_rows_and_columns():
    grid = {"C": [0.1, 10.0]}
    ours = search(SVC(kernel="precomputed"), grid, n_evaluations=99).fit(X @ X.T, Y)
    theirs = GridSearchCV(SVC(kernel="precomputed"), grid, cv=3).fit(X @ X.T, Y)
    np.testing.assert_array_equal(scores_of(ours.cv_results_, 3), scores_of(theirs.cv_results_, 3))


def test_groups_reach_the_splitter_and_a_fresh_shuffle_is_drawn_only_once():
    groups = np.arange(150) % 4
    ours = search(cv=GroupKFold(4)).fit(X, Y, groups=groups)
    assert ours.n_splits_ == 4
    space = {"C": [1.0, 2.0, 3.0]}
    shuffled = search(SVC(), space, cv=ShuffleSplit(4, test_size=20), n_evaluations=12)
    same = scores_of(shuffled.fit(X[:, :2], Y).cv_results_, 4)
    again = search(SVC(), {"C": [1.0]}, cv=ShuffleSplit(4, test_size=20), n_evaluations=4)
    assert not np.array_equal(same[0], scores_of(again.fit(X[:, :2], Y).cv_results_, 4)[0])
    assert shuffled.n_splits_ == 4


def test_a_single_split_is_a_search_with_one_fold():
    ours = search(cv=ShuffleSplit(1, random_state=0), method="drbqo", n_evaluations=12).fit(X, Y)
    assert ours.worst_case_weights_.tolist() == [1.0]
    assert [step["radius"] for step in ours.robustness_path_] == [0.0]


def test_sample_weights_reach_the_fit_and_the_scorer():
    data, target = make_classification(90, flip_y=0.3, random_state=1)
    weights = np.where(np.arange(90) % 3, 1.0, 25.0)
    grid = {"C": [0.01, 0.1, 1.0, 10.0]}
    ours = search(LogisticRegression(), grid, n_evaluations=99, uncertainty=0)
    theirs = GridSearchCV(LogisticRegression(), grid, cv=3)
    ours.fit(data, target, sample_weight=weights)
    theirs.fit(data, target, sample_weight=weights)
    np.testing.assert_array_equal(scores_of(ours.cv_results_, 3), scores_of(theirs.cv_results_, 3))
    plain = search(LogisticRegression(), grid, n_evaluations=99).fit(data, target)
    assert not np.array_equal(scores_of(ours.cv_results_, 3), scores_of(plain.cv_results_, 3))


class Unweighted:
    """A scorer that takes no sample weights."""

    def __call__(self, estimator, X, y):
        return estimator.score(X, y)


class Weighted:
    """A scorer of one's own that takes sample weights and returns their sum."""

    def __call__(self, estimator, X, y, sample_weight=None):
        return 0.0 if sample_weight is None else float(np.sum(sample_weight))


def rank_correlation(y_true, y_pred):
    return float(np.mean(y_true == y_pred))


@pytest.mark.parametrize(
    ("scoring", "named"),
    [
        (Unweighted(), "score=.*Unweighted"),
        (make_scorer(rank_correlation), "score=make_scorer"),
        ({"plain": make_scorer(rank_correlation), "accuracy": "accuracy"}, "plain=make_scorer"),
    ],
)
def test_a_scorer_that_drops_the_sample_weights_is_warned_of(scoring, named):
    weights = np.where(np.arange(150) % 3, 1.0, 9.0)
    ours = search(SVC(), {"C": [1.0, 2.0]}, scoring=scoring, refit=False, n_evaluations=2)
    with pytest.warns(UserWarning, match=f"{named}.* does not take sample_weight") as caught:
        ours.fit(X, Y, sample_weight=weights)
    assert len(caught) == 1
    ours.fit(X, Y)


def test_a_scorer_of_ones_own_that_takes_weights_gets_them():
    weights = np.full(150, 2.0)
    ours = search(SVC(), {"C": [1.0]}, scoring=Weighted()).fit(X, Y, sample_weight=weights)
    assert ours.best_score_ == 100.0


def test_metadata_are_routed_as_requested():
    weights = np.where(np.arange(150) % 3, 1.0, 9.0)
    grid = {"C": [0.001, 10.0]}
    with sklearn.config_context(enable_metadata_routing=True):
        model = LogisticRegression(max_iter=1000)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        ours = search(model, grid, n_evaluations=99, cv=GroupKFold(3), uncertainty=0)
        theirs = GridSearchCV(model, grid, cv=GroupKFold(3))
        for each in (ours, theirs):
            each.fit(X, Y, sample_weight=weights, groups=np.arange(150) % 3)
        np.testing.assert_array_equal(
            scores_of(ours.cv_results_, 3), scores_of(theirs.cv_results_, 3)
        )
        with pytest.raises(TypeError, match="unknown"):
            ours.fit(X, Y, unknown=1)
    with pytest.raises(InvalidInput, match="metadata routing"):
        ours.score(X, Y, sample_weight=weights)
