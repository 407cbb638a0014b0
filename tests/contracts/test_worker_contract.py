"""What every worker promises, checked on small data for each of them."""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from workers.cnn import CNNFolds
from workers.elasticnet import ElasticNetFolds
from workers.folds import FoldObjective
from workers.svm import SVMFolds


def numbered_images(n_rows: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 8, 8) whose first pixel is the row's number, three classes."""
    y = np.arange(n_rows) % 3
    X = np.random.default_rng(0).normal(size=(n_rows, 8, 8)) / 4
    X[np.arange(n_rows), 2 + y] += 1
    X[:, 0, 0] = np.arange(n_rows) / n_rows
    return X.astype(np.float32), y


OWN: dict[str, Callable[..., FoldObjective]] = {
    "svm": SVMFolds.from_arrays,
    "elasticnet": ElasticNetFolds.from_arrays,
    "cnn": lambda *arrays, **options: CNNFolds.from_arrays(*arrays, epochs=2, **options),
}
NAMED: dict[str, Callable[[], FoldObjective]] = {
    "svm-sonar": SVMFolds,
    "svm-glass": lambda: SVMFolds("glass"),
    "elasticnet-digits": lambda: ElasticNetFolds("digits", subset=200, n_folds=4),
    "cnn-digits": lambda: CNNFolds("digits", subset=200, n_folds=4, epochs=1),
}


@pytest.fixture(params=list(OWN) + list(NAMED))
def worker(request: pytest.FixtureRequest) -> FoldObjective:
    if request.param in OWN:
        return OWN[request.param](*numbered_images(), n_folds=4)
    return NAMED[request.param]()


@pytest.fixture(params=list(OWN))
def own(request: pytest.FixtureRequest) -> Callable[..., FoldObjective]:
    return OWN[request.param]


@pytest.fixture(params=list(NAMED))
def named(request: pytest.FixtureRequest) -> FoldObjective:
    return NAMED[request.param]()


def fitted_state(model: Any) -> list[np.ndarray]:
    """Everything a model has learnt, as arrays."""
    if isinstance(model, torch.nn.Module):
        return [value.numpy() for value in model.state_dict().values()]
    if hasattr(model, "coef_"):
        return [model.coef_, model.intercept_]
    scaler, svc = (step for _, step in model.steps)
    return [scaler.mean_, scaler.scale_, svc.support_vectors_, svc.dual_coef_, svc.intercept_]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return len(first) == len(second) and all(map(np.array_equal, first, second))


def test_the_score_is_an_accuracy(worker):
    score = worker(worker.default_config, 1, 0)
    assert type(score) is float
    _, y = worker.split.validation(1)
    assert 0.0 <= score <= 1.0
    assert score * len(y) == pytest.approx(round(score * len(y)), abs=1e-9)


def test_the_model_learns_something(worker):
    _, y = worker.split.validation(0)
    most_common = np.bincount(y).max() / len(y)
    config = dict(worker.default_config)
    if isinstance(worker, CNNFolds):
        worker.epochs = 8
        config["learning_rate"] = 5e-3
    assert worker(config, 0, 0) > most_common + 0.05


def test_the_space_is_plain_data_and_holds_the_default_config(worker):
    space = worker.space
    assert json.loads(json.dumps(space)) == space
    assert space.keys() == worker.default_config.keys()
    for name, value in worker.default_config.items():
        assert space[name]["type"] == "float"
        assert space[name]["low"] <= value <= space[name]["high"]
    space.clear()
    assert worker.space


def test_the_same_call_gives_the_same_score(worker):
    config = worker.default_config
    assert [worker(config, k, 7) for k in (0, 1)] == [worker(config, k, 7) for k in (0, 1)]


def test_a_pickled_copy_gives_the_same_score(worker):
    clone = pickle.loads(pickle.dumps(worker))
    assert clone(worker.default_config, 1, 3) == worker(worker.default_config, 1, 3)


def test_a_worker_on_a_named_data_set_pickles_its_settings_only(named):
    assert named.split is not None
    assert len(pickle.dumps(named)) < 300


def test_a_worker_with_data_needs_no_files(named, monkeypatch):
    packed = pickle.dumps(named.with_data())
    expected = named(named.default_config, 0, 0)
    monkeypatch.setattr("workers.folds.load", None)
    monkeypatch.setattr("workers.folds.cut_named", None)
    assert pickle.loads(packed)(named.default_config, 0, 0) == expected


def test_out_of_band_buffers_come_back_read_only_and_still_work(own):
    worker = own(*numbered_images(), n_folds=4)
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(worker, protocol=5, buffer_callback=buffers.append)
    shared = pickle.loads(packed, buffers=[bytes(buffer) for buffer in buffers])
    assert len(packed) < 5000
    assert not shared.split.data.X.flags.writeable
    assert shared(worker.default_config, 0, 0) == worker(worker.default_config, 0, 0)


def test_no_array_is_ever_written_to(worker):
    data = worker.split.data
    before = data.X.copy(), data.y.copy(), data.X_test.copy()
    worker(worker.default_config, 0, 0)
    worker.evaluate_final(worker.default_config, 0)
    assert same([data.X, data.y, data.X_test], list(before))
    assert not any(a.flags.writeable for a in (data.X, data.y, data.X_test, worker.split.fold_of))


def test_folds_are_disjoint_and_cover_the_training_set(worker):
    split = worker.split
    every = np.concatenate([split.validation(k)[0] for k in range(worker.n_folds)])
    assert len(every) == len(split.data.y)
    assert same([np.sort(every, axis=None)], [np.sort(split.data.X, axis=None)])
    for fold in range(worker.n_folds):
        rows = len(split.training(fold)[1]), len(split.validation(fold)[1])
        assert sum(rows) == len(split.data.y)
        assert min(rows) > 0


def test_every_row_is_in_one_fold_or_in_the_test_set(own):
    X, y = numbered_images()
    split = own(X, y, n_folds=4).split

    def numbers(images):
        return set(np.rint(images[:, 0, 0] * len(X)).astype(int).tolist())

    held_out = numbers(split.data.X_test)
    parts = [numbers(split.validation(k)[0]) for k in range(4)]
    assert sorted(itertools.chain(*parts, held_out)) == list(range(len(X)))
    for fold in range(4):
        assert numbers(split.training(fold)[0]) == set(range(len(X))) - held_out - parts[fold]


def test_folds_are_stratified(worker):
    split = worker.split
    for number in range(len(split.data.classes)):
        counts = [np.sum(split.validation(k)[1] == number) for k in range(worker.n_folds)]
        assert max(counts) - min(counts) <= 1


def test_changing_validation_rows_changes_nothing_the_model_was_fitted_on(worker):
    data, fold_of = worker.split.data, worker.split.fold_of
    held_out = fold_of == 2
    X, y = data.X.copy(), data.y.copy()
    X[held_out] = X[held_out][::-1] * 3 + 1
    y[held_out] = (y[held_out] + 1) % len(data.classes)
    expected = fitted_state(worker.fit_fold(worker.default_config, 2, 0))
    tampered = worker.with_data()
    tampered._carried = replace(worker.split, data=replace(data, X=X, y=y))
    assert same(fitted_state(tampered.fit_fold(worker.default_config, 2, 0)), expected)
    assert not same(fitted_state(tampered.fit_fold(worker.default_config, 1, 0)), expected)


def test_changing_test_rows_changes_no_fold(worker):
    data = worker.split.data
    tampered = worker.with_data()
    poisoned = replace(
        data, X_test=data.X_test[::-1] * 2 + 1, y_test=(data.y_test + 1) % len(data.classes)
    )
    tampered._carried = replace(worker.split, data=poisoned)
    config = worker.default_config
    assert same(
        fitted_state(tampered.fit_fold(config, 0, 0)), fitted_state(worker.fit_fold(config, 0, 0))
    )
    assert tampered(config, 0, 0) == worker(config, 0, 0)
    assert tampered.evaluate_final(config, 0) != worker.evaluate_final(config, 0)


def test_a_group_never_straddles_folds_or_the_test_set(own):
    X, y = numbered_images()
    groups = np.arange(len(X)) // 6
    split = own(X, y, groups=groups, n_folds=4).split
    sides = [split.data.X_test, *(split.validation(k)[0] for k in range(4))]
    seen = [set((np.rint(side[:, 0, 0] * len(X)).astype(int) // 6).tolist()) for side in sides]
    assert sum(map(len, seen)) == len(set(groups.tolist())) == len(set.union(*seen))


def test_the_final_evaluation_uses_all_training_and_all_test_rows(worker):
    final = worker.evaluate_final(worker.default_config, 0)
    data = worker.split.data
    assert (final["n_train"], final["n_test"]) == (len(data.y), len(data.y_test))
    assert final["test_accuracy"] + final["test_error"] == pytest.approx(1.0, abs=1e-15)
    model = worker.fit(worker.default_config, data.X, data.y, 0)
    assert final["test_accuracy"] == np.mean(worker.predict(model, data.X_test) == data.y_test)


def test_a_test_set_of_ones_own_is_used_as_it_is(own):
    X, y = numbered_images()
    worker = own(X[:90], y[:90], test=(X[90:], y[90:]), n_folds=3)
    assert np.array_equal(worker.split.data.X, X[:90])
    assert np.array_equal(worker.split.data.X_test, X[90:])


def test_global_random_states_are_left_alone(worker):
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = random.random(), np.random.random(), torch.rand(()).item()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    worker(worker.default_config, 0, 5)
    assert (random.random(), np.random.random(), torch.rand(()).item()) == expected


def test_global_random_states_do_not_matter(worker):
    scores = []
    for seed in (1, 2):
        np.random.seed(seed)
        torch.manual_seed(seed)
        scores.append(fitted_state(worker.fit_fold(worker.default_config, 0, 5)))
    assert same(*scores)


@pytest.mark.parametrize("fold", [-1, 10, 99])
def test_a_fold_that_does_not_exist_is_refused(worker, fold):
    with pytest.raises(ValueError, match=rf"fold must be in 0 \.\. {worker.n_folds - 1}\. Got"):
        worker(worker.default_config, fold, 0)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), "1", True])
def test_a_config_with_a_value_that_is_no_number_is_refused(worker, value):
    name = next(iter(worker.space))
    with pytest.raises(ValueError, match=f"finite number .* Fix '{name}'"):
        worker({**worker.default_config, name: value}, 0, 0)


def test_a_config_without_a_hyperparameter_is_refused(worker):
    with pytest.raises(ValueError, match="finite number"):
        worker({}, 0, 0)


def test_other_keys_of_a_config_and_numpy_numbers_are_accepted(worker):
    config = {name: np.float64(value) for name, value in worker.default_config.items()}
    score = worker(worker.default_config, 1, 0)
    assert worker({**config, "fold": 1}, np.int64(1), np.int64(0)) == score


def test_the_largest_seed_is_accepted(worker):
    assert 0 <= worker(worker.default_config, 0, 2**64 - 1) <= 1


def test_a_worker_shows_its_settings(worker):
    assert f"n_folds={worker.n_folds}" in repr(worker)
    assert "array(" not in repr(worker)


@pytest.mark.parametrize("kind", [SVMFolds, ElasticNetFolds, CNNFolds])
def test_wrong_settings_are_refused_before_any_data_is_read(kind):
    with pytest.raises(ValueError, match=r"dataset must be one of .* Got 'iris'"):
        kind("iris")
    with pytest.raises(ValueError, match="n_folds must be at least 2"):
        kind(n_folds=1)
