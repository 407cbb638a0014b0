from __future__ import annotations

import io
import itertools
import os
import re
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    PredefinedSplit,
    StratifiedKFold,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import workers.cnn
import workers.svm
from workers.cnn import CNNFolds
from workers.elasticnet import ElasticNetFolds
from workers.folds import FoldObjective
from workers.svm import SVMFolds

ROOT = Path(__file__).parents[2]
needs_mnist = pytest.mark.skipif(
    not os.environ.get("DRBQO_DATA"), reason="set DRBQO_DATA to the folder of MNIST's IDX files"
)


def run_fresh(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_all_three_workers_score_the_same_in_a_fresh_process_with_other_hashes():
    script = (
        "from workers.svm import SVMFolds\n"
        "from workers.elasticnet import ElasticNetFolds\n"
        "from workers.cnn import CNNFolds\n"
        "for w in (SVMFolds('glass'), ElasticNetFolds('digits', subset=500),"
        " CNNFolds('digits', subset=500, epochs=3)):\n"
        "    c = dict(w.default_config)\n"
        "    print([w(c, k, 11) for k in (0, 3)], w.evaluate_final(c, 11), end=' ')\n"
    )
    with redirect_stdout(io.StringIO()) as here:
        exec(script, {})
    assert here.getvalue().count("test_accuracy") == 3
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    assert run_fresh(script, PYTHONHASHSEED=other) == here.getvalue().strip()


def test_the_seed_matters_where_training_is_random():
    for worker in (
        ElasticNetFolds("digits", subset=300),
        CNNFolds("digits", subset=300, epochs=2),
    ):
        config = {**worker.default_config, **({"alpha": 1e-6} if "alpha" in worker.space else {})}
        assert len({worker.evaluate_final(config, seed)["test_accuracy"] for seed in range(4)}) > 1


@pytest.mark.parametrize(("dataset", "least_mean"), [("sonar", 0.8), ("glass", 0.65)])
def test_the_svm_equals_a_pipeline_written_by_hand_to_the_last_digit(dataset, least_mean):
    table = pd.read_csv(ROOT / "workers" / "datasets" / f"{dataset}.csv", comment="#")
    X, X_test, y, y_test = train_test_split(
        table.drop(columns="label").to_numpy(),
        table["label"].to_numpy(),
        test_size=0.2,
        stratify=table["label"],
        random_state=0,
    )
    worker, folds = SVMFolds(dataset), StratifiedKFold(5, shuffle=True, random_state=0)
    best, best_mean = {}, -1.0
    for C, gamma in itertools.product(np.logspace(-1, 3, 5), np.logspace(-4, 0, 5)):
        config = {"C": C, "gamma": gamma}
        by_hand = cross_val_score(make_pipeline(StandardScaler(), SVC(**config)), X, y, cv=folds)
        assert [worker(config, fold, 0) for fold in range(5)] == by_hand.tolist()
        if by_hand.mean() > best_mean:
            best, best_mean = config, by_hand.mean()
    assert best_mean > least_mean
    fitted = make_pipeline(StandardScaler(), SVC(**best)).fit(X, y)
    expected = accuracy_score(y_test, fitted.predict(X_test))
    assert worker.evaluate_final(best, 0)["test_accuracy"] == expected


def test_the_svm_standardizes_by_the_training_rows_of_the_fold():
    worker = workers.svm.glass
    scaler = worker.fit_fold(worker.default_config, 1, 0)[0]
    X, _ = worker.split.training(1)
    np.testing.assert_allclose(scaler.mean_, X.mean(axis=0), rtol=1e-12)
    assert not np.allclose(scaler.mean_, worker.split.data.X.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("kind", [SVMFolds, ElasticNetFolds])
def test_every_corner_of_the_space_gives_a_score(kind):
    worker = kind("digits", subset=150, n_folds=3)
    ends = [(limit["low"], limit["high"]) for limit in worker.space.values()]
    for corner in itertools.product(*ends):
        assert 0 <= worker(dict(zip(worker.space, corner, strict=True)), 0, 0) <= 1


def test_running_out_of_passes_is_no_warning_but_other_warnings_escape(monkeypatch):
    worker = ElasticNetFolds("digits", subset=300)
    config = {"alpha": 1e-6, "l1_ratio": 0.5}
    X, y = worker.split.training(0)
    sgd = SGDClassifier(
        loss="log_loss", penalty="elasticnet", max_iter=20, random_state=0, **config
    )
    with pytest.warns(ConvergenceWarning):
        sgd.fit(X.reshape(len(X), -1), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = worker.fit_fold(config, 0, 0)
    assert np.array_equal(model.coef_, sgd.coef_)

    def grumble(*arguments: object) -> None:
        warnings.warn("something else", UserWarning, stacklevel=1)

    monkeypatch.setattr(SGDClassifier, "fit", grumble)
    with pytest.warns(UserWarning, match="something else"):
        worker.fit_fold(config, 0, 0)


def test_pixels_of_one_byte_are_scaled_and_other_numbers_are_not():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, (60, 8, 8)).astype(np.uint8), np.arange(60) % 2
    for kind, options in ((ElasticNetFolds, {}), (CNNFolds, {"epochs": 1})):
        raw = kind.from_arrays(X, y, n_folds=3, **options)
        scaled = kind.from_arrays((X / 255).astype(np.float32), y, n_folds=3, **options)
        first, second = (
            worker.evaluate_final(worker.default_config, 0) for worker in (raw, scaled)
        )
        assert first == second


def test_a_subset_is_stratified_and_part_of_a_larger_one():
    whole = SVMFolds("digits").split.data
    small, large = (SVMFolds("digits", subset=size).split.data for size in (100, 500))
    shares = np.bincount(whole.y) / len(whole.y)
    assert np.all(np.abs(np.bincount(small.y) - 100 * shares) <= 1)
    assert (len(small.y), len(large.y)) == (100, 500)

    def rows(data):
        return {image.tobytes() for image in data.X}

    assert rows(small) < rows(large) < rows(whole)
    assert np.array_equal(small.X_test, whole.X_test)


@pytest.mark.parametrize("size", [0, 3, 1438])
def test_a_subset_that_cannot_be_is_refused(size):
    with pytest.raises(ValueError, match="subset must be between n_folds=5 and the 1437"):
        SVMFolds("digits", subset=size)(SVMFolds.default_config, 0, 0)


def test_folds_depend_on_the_split_seed_only():
    first, again, other = (SVMFolds("sonar", split_seed=s).split for s in (3, 3, 4))
    assert np.array_equal(first.fold_of, again.fold_of)
    assert not np.array_equal(first.fold_of, other.fold_of)
    by_sklearn = StratifiedKFold(5, shuffle=True, random_state=3)
    expected = PredefinedSplit(first.fold_of).split()
    for (_, ours), (_, theirs) in zip(
        expected, by_sklearn.split(first.data.X, first.data.y), strict=True
    ):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["svm:sonar", "svm:glass", "elasticnet:digits", "cnn:digits"])
def test_ready_made_workers_can_be_named(name):
    module, attribute = name.split(":")
    worker = getattr(__import__(f"workers.{module}", fromlist=[attribute]), attribute)
    assert isinstance(worker, FoldObjective)
    assert worker.dataset == attribute


def tiny_cnn(**options: object) -> CNNFolds:
    return CNNFolds("digits", subset=150, n_folds=3, **{"epochs": 1, **options})


def test_the_network_is_the_one_of_the_paper():
    net = workers.cnn.network((28, 28), 10, {"dropout1": 0.1, "dropout2": 0.2})
    kinds = [type(layer).__name__ for layer in net]
    block = ["Conv2d", "ReLU", "MaxPool2d", "Dropout"]
    assert kinds == [*block, *block, "Flatten", "Linear"]
    assert [tuple(p.shape) for p in net.parameters()] == [
        (32, 1, 5, 5),
        (32,),
        (64, 32, 5, 5),
        (64,),
        (10, 3136),
        (10,),
    ]
    assert [layer.p for layer in net if isinstance(layer, torch.nn.Dropout)] == [0.1, 0.2]
    assert net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    bound = (6 / (25 + 32 * 25)) ** 0.5
    assert 0.95 * bound < net[0].weight.abs().max().item() <= bound
    assert net[0].bias.abs().max().item() == 0


@pytest.mark.parametrize("learning_rate", [1e2, 1e3])
def test_a_diverging_learning_rate_is_a_clear_error(learning_rate):
    worker = tiny_cnn(preset="paper", epochs=2)
    config = {**worker.default_config, "learning_rate": learning_rate}
    with pytest.raises(FloatingPointError, match=r"loss must stay finite .* Lower the learning"):
        worker(config, 0, 0)


def test_a_loss_that_is_not_a_number_is_a_clear_error():
    worker = tiny_cnn()
    X, y = worker.split.training(0)
    X[3, 4, 4] = np.inf
    with pytest.raises(FloatingPointError, match="Got nan in epoch 1"):
        worker.fit(worker.default_config, X, y, 0)


@pytest.mark.parametrize("p", [0.0, 1e-8, 0.9, 1.0])
def test_every_dropout_rate_up_to_one_leaves_finite_weights(p):
    worker = tiny_cnn(preset="paper", epochs=2)
    config = {"learning_rate": 1e-3, "dropout1": p, "dropout2": p}
    net = worker.fit_fold(config, 0, 0)
    assert all(torch.isfinite(value).all() for value in net.parameters())
    assert 0 <= worker(config, 0, 0) <= 1


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_a_dropout_rate_that_is_no_probability_is_refused(p):
    with pytest.raises(ValueError, match="dropout probability"):
        tiny_cnn()({**CNNFolds.default_config, "dropout1": p}, 0, 0)


def test_dropout_drops_at_its_rate_in_training_and_never_in_scoring():
    worker = tiny_cnn()
    net = worker.fit_fold({"learning_rate": 1e-3, "dropout1": 0.2, "dropout2": 0.8}, 0, 0)
    X, _ = worker.split.validation(0)
    net.train()
    torch.manual_seed(0)
    for layer, rate in ((net[3], 0.2), (net[7], 0.8)):
        assert (layer(torch.ones(20000)) == 0).float().mean().item() == pytest.approx(
            rate, abs=0.02
        )
    first, second = (worker.predict(net, X) for _ in range(2))
    assert np.array_equal(first, second)
    assert not net.training


def test_the_last_partial_batch_is_trained_on():
    net = workers.cnn.network((8, 8), 2, {"dropout1": 0.0, "dropout2": 0.0})
    adam = torch.optim.Adam(net.parameters())
    images, labels = torch.rand(130, 8, 8), torch.arange(130) % 2
    seen = []
    net.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    workers.cnn.train_epoch(net, adam, images, labels, torch.arange(130), 128)
    assert seen == [128, 2]


def test_every_epoch_visits_each_row_once_in_an_order_of_its_own(monkeypatch):
    orders: list[list[int]] = []
    train = workers.cnn.train_epoch

    def watched(net, adam, images, labels, rows, batch_size):
        orders.append(rows.tolist())
        return train(net, adam, images, labels, rows, batch_size)

    monkeypatch.setattr(workers.cnn, "train_epoch", watched)
    tiny_cnn(epochs=2).fit_fold(CNNFolds.default_config, 0, 0)
    tiny_cnn(epochs=1).fit_fold(CNNFolds.default_config, 0, 1)
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert len({tuple(order) for order in [*orders, range(100)]}) == 4


def test_epoch_scores_are_told_and_end_in_the_same_score():
    worker = tiny_cnn(epochs=4)
    heard: list[tuple[int, float]] = []
    score = worker.train_fold(
        worker.default_config, 1, 0, lambda epoch, accuracy: heard.append((epoch, accuracy))
    )
    assert [epoch for epoch, _ in heard] == [1, 2, 3, 4]
    assert score == heard[-1][1] == worker(worker.default_config, 1, 0)
    assert worker.train_fold(worker.default_config, 1, 0) == score


def test_the_presets_differ_in_their_ranges():
    default, paper = (CNNFolds("digits", preset=preset).space for preset in ("default", "paper"))
    assert (default["learning_rate"]["low"], default["learning_rate"]["high"]) == (1e-5, 1e-1)
    assert (paper["learning_rate"]["low"], paper["learning_rate"]["high"]) == (1e-8, 1e3)
    assert (default["dropout1"]["low"], default["dropout1"]["high"]) == (0.0, 0.9)
    assert (paper["dropout2"]["low"], paper["dropout2"]["high"]) == (1e-8, 1.0)


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch_size": 0}, {"preset": "fast"}])
def test_wrong_settings_of_the_cnn_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CNNFolds("digits", **wrong)


def test_rows_that_are_no_images_are_refused():
    rows = CNNFolds.from_arrays(np.zeros((30, 5)), np.arange(30) % 2, n_folds=3)
    with pytest.raises(ValueError, match=r"Images must have shape .* Got \(N, 5\)"):
        rows(rows.default_config, 0, 0)


def test_outside_ray_the_number_of_threads_is_left_alone():
    before = torch.get_num_threads()
    seen = []
    tiny_cnn().train_fold(
        CNNFolds.default_config, 0, 0, lambda *_: seen.append(torch.get_num_threads())
    )
    assert seen == [before]
    assert workers.cnn.granted_resources() is None


@needs_mnist
def test_the_cnn_learns_mnist():
    worker = CNNFolds("mnist", subset=1500, epochs=3)
    assert worker(worker.default_config, 0, 0) >= 0.85


@needs_mnist
def test_elasticnet_learns_mnist():
    worker = ElasticNetFolds("mnist", subset=3000)
    final = worker.evaluate_final(worker.default_config, 0)
    assert (final["n_train"], final["n_test"]) == (3000, 10000)
    assert final["test_error"] < 0.16


def readme_blocks() -> list[str]:
    text = (ROOT / "workers" / "README.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_code_in_the_readme_runs(number, capsys):
    exec(compile(readme_blocks()[number], "README.md", "exec"), {"__name__": "readme"})
    assert float(capsys.readouterr().out.split()[0]) > 0.3
