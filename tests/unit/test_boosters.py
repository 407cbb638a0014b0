"""`workers.boosters`: early stopping inside the training part of a fold."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.svm import SVC

import drbqo_ray as dr
from workers.boosters import BoosterFolds, rounds_of

WHY = "needs the extra: pip install 'drbqo_ray[boosters]'"
X, y = make_classification(240, 6, n_informative=4, flip_y=0.2, random_state=0)
FOLDS = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))
CONFIG = {"learning_rate": 0.3}


@pytest.fixture(params=["lightgbm", "xgboost"])
def library(request):
    return pytest.importorskip(request.param, reason=WHY)


def classifier(library, **settings):
    kind = library.LGBMClassifier if library.__name__ == "lightgbm" else library.XGBClassifier
    return kind(n_jobs=1, **settings)


def worker_of(library, inputs=X, targets=y, folds=FOLDS, **settings):
    small = {"rounds": 150, "patience": 10}
    return BoosterFolds(classifier(library), inputs, targets, folds, **(small | settings))


def test_it_scores_one_fold_and_says_how_long_it_trained(library):
    worker = worker_of(library)
    score, info = worker(CONFIG, fold=1, seed=0)
    assert 0.5 < score <= 1
    assert 1 <= info["rounds"] < 150
    assert info["stopped"] is True


def test_without_patience_to_lose_all_rounds_are_trained(library):
    worker = worker_of(library, rounds=5, patience=50)
    assert worker(CONFIG, fold=0, seed=0)[1]["stopped"] is False


def test_the_rows_of_the_fold_change_the_score_and_nothing_of_the_model(library):
    """The labels of the fold turned around: the same model, and the opposite score."""
    _, scored = FOLDS[2]
    turned = y.copy()
    turned[scored] = 1 - turned[scored]
    honest, lying = (worker_of(library, targets=each)(CONFIG, 2, 0) for each in (y, turned))
    assert lying[1] == honest[1]
    assert lying[0] == pytest.approx(1 - honest[0])


def test_watched_rows_stop_the_training_but_are_not_fitted_on(library):
    """With their labels turned around, stopping comes at once. Every row is a group of its own, so
    that the cut does not hang on labels."""
    worker = worker_of(library, groups=np.arange(240))
    fitted, watched = worker.cut(FOLDS[0][0], 0)
    assert set(fitted) | set(watched) == set(FOLDS[0][0])
    assert not set(fitted) & set(watched)
    assert len(watched) == pytest.approx(0.2 * len(FOLDS[0][0]), abs=1)
    turned = y.copy()
    turned[watched] = 1 - turned[watched]
    wrong = worker_of(library, targets=turned, groups=np.arange(240))
    assert wrong(CONFIG, 0, 0)[1]["rounds"] <= 3
    assert worker(CONFIG, 0, 0)[1]["rounds"] > 3


def test_classes_keep_their_shares_among_the_watched_rows(library):
    few = (np.arange(240) % 8 == 0).astype(int)
    _, watched = worker_of(library, targets=few).cut(np.arange(240), 0)
    assert few[watched].mean() == pytest.approx(1 / 8, abs=0.02)


def test_groups_are_not_torn_apart(library):
    groups = np.arange(240) // 6
    folds = list(GroupKFold(4).split(X, y, groups))
    worker = worker_of(library, folds=folds, groups=groups)
    for fold, (train, _) in enumerate(folds):
        fitted, watched = worker.cut(train, fold)
        assert not set(groups[fitted]) & set(groups[watched])


def test_a_fold_trained_again_scores_the_same_unless_the_seed_may_speak(library):
    config = CONFIG | {"colsample_bytree": 0.4}
    fixed, free = worker_of(library), worker_of(library, fixed_seed=False)
    assert fixed.deterministic
    assert not free.deterministic
    assert len({fixed(config, 0, seed)[1]["rounds"] for seed in range(4)}) == 1
    told = {(free(config, 0, seed)[0], free(config, 0, seed)[1]["rounds"]) for seed in range(6)}
    assert len(told) > 1


def test_tables_of_pandas_and_regression(library):
    inputs, targets = make_regression(160, 5, noise=5, random_state=0)
    kind = library.LGBMRegressor if library.__name__ == "lightgbm" else library.XGBRegressor
    worker = BoosterFolds(
        kind(n_jobs=1),
        pd.DataFrame(inputs, columns=list("abcde")),
        targets,
        KFold(4).split(inputs),
        scoring="neg_mean_absolute_error",
        rounds=100,
        patience=10,
    )
    score, info = worker({"learning_rate": 0.2}, fold=3, seed=0)
    assert -targets.std() < score < 0
    assert info["rounds"] > 10


def test_a_run_keeps_the_rounds_and_the_model_to_use_is_trained_on_all_rows(library):
    worker = worker_of(library)
    result = dr.run(
        pickle.loads(pickle.dumps(worker)),
        worker.space,
        worker.n_folds,
        n_evaluations=6,
        backend="inline",
    )
    assert all(seen.info["rounds"] >= 1 for seen in result.observations)
    model = worker.fit_all(result.recommendation.config)
    assert rounds_of(model) >= 1
    assert model.score(X, y) > 0.7


def test_overlapping_rows_are_an_error(library):
    with pytest.raises(ValueError, match="fold 1 with 2 rows in both"):
        worker_of(library, folds=[FOLDS[0], (np.arange(100), np.arange(98, 130))])


@pytest.mark.parametrize(
    "settings", [{"folds": []}, {"watched": 0.0}, {"watched": 1.0}, {"rounds": 0}, {"patience": 0}]
)
def test_a_bad_argument_is_an_error(library, settings):
    with pytest.raises(ValueError, match="Got"):
        worker_of(library, **settings)


def test_a_fold_that_is_not_there_is_an_error(library):
    with pytest.raises(ValueError, match=r"in 0 \.\. 3"):
        worker_of(library)(CONFIG, 4, 0)


def test_other_estimators_are_an_error():
    with pytest.raises(ValueError, match="LightGBM or XGBoost"):
        BoosterFolds(SVC(), X, y, FOLDS)
