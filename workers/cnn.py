"""A small convolutional network on single folds, in plain torch.

Two convolutions, each followed by pooling and dropout, and one dense layer; Adam. Tuned are
the learning rate and the two dropout rates: probabilities of dropping, off when scoring.

A call uses what its Ray task was given: as many threads as CPUs, and a GPU when it has one.
Scores are a function of (config, fold, seed) on the same kind of machine and number of
threads; torch's global random state is left as it was.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workers.folds import FoldObjective

DIVERGED_LOSS = 1e6
"""Mean loss per image, in nats, beyond which training has blown up; guessing costs log k."""

LEARNING_RATES = {"default": (1e-5, 1e-1), "paper": (1e-8, 1e3)}
DROPOUTS = {"default": (0.0, 0.9), "paper": (1e-8, 1.0)}
SCORING_BATCH = 512


class CNNFolds(FoldObjective):
    """Convolutional network on images (N, height, width).

    Args:
        dataset: as `n_folds`, `split_seed` and `subset` described in `FoldObjective`.
        epochs: passes over the training rows.
        batch_size: images a step; the last, smaller batch of an epoch is kept.
        preset: ranges of the space, "default" or "paper".
    """

    datasets: ClassVar[tuple[str, ...]] = ("mnist", "digits")
    default_config: ClassVar[Mapping[str, float]] = {
        "learning_rate": 1e-3,
        "dropout1": 0.25,
        "dropout2": 0.5,
    }

    def __init__(
        self,
        dataset: str = "mnist",
        n_folds: int = 10,
        split_seed: int = 0,
        subset: int | None = None,
        *,
        epochs: int = 20,
        batch_size: int = 128,
        preset: str = "default",
    ) -> None:
        super().__init__(dataset, n_folds, split_seed, subset)
        if min(operator.index(epochs), operator.index(batch_size)) < 1:
            raise ValueError(
                "epochs and batch_size must be at least 1. "
                f"Got {epochs} and {batch_size}. Pass positive numbers."
            )
        if preset not in LEARNING_RATES:
            raise ValueError(
                f"preset must be one of {', '.join(LEARNING_RATES)}. Got {preset!r}. "
                "Leave it out for the default ranges."
            )
        self.epochs = operator.index(epochs)
        self.batch_size = operator.index(batch_size)
        self.preset = preset

    @property
    def space(self) -> dict[str, dict[str, Any]]:
        """Learning rate on a log scale, dropout rates on a linear one."""
        low, high = LEARNING_RATES[self.preset]
        least, most = DROPOUTS[self.preset]
        dropout = {"type": "float", "low": least, "high": most, "log": False}
        return {
            "learning_rate": {"type": "float", "low": low, "high": high, "log": True},
            "dropout1": dict(dropout),
            "dropout2": dict(dropout),
        }

    def train_fold(
        self,
        config: Mapping[str, Any],
        fold: int,
        seed: int,
        on_epoch: Callable[[int, float], None] | None = None,
    ) -> float:
        """The same score as a plain call; `on_epoch(epoch, accuracy)` hears the way there.

        Made for schedulers that stop a trial early: hand each epoch's accuracy on the fold
        to Ray Tune's `report`. Epochs count from 1.
        """
        if on_epoch is None:
            return self(config, fold, seed)
        X, y = self.split.training(self.checked_fold(fold))
        held_out = self.split.validation(fold)
        scores: list[float] = []

        def score(model: nn.Module) -> None:
            scores.append(self.accuracy(model, *held_out))
            on_epoch(len(scores), scores[-1])

        self.fit(config, X, y, seed, score)
        return scores[-1]

    def fit(
        self,
        config: Mapping[str, Any],
        X: NDArray[Any],
        y: NDArray[Any],
        seed: int,
        after_epoch: Callable[[nn.Module], None] | None = None,
    ) -> nn.Module:
        """A network trained on X (N, height, width), y (N,); `after_epoch` sees it each epoch."""
        values = self.checked_config(config)
        device = granted_device()
        with granted_threads(), seeded(operator.index(seed) % 2**63):
            order = torch.Generator().manual_seed(operator.index(seed) % 2**63)
            net = network(X.shape[1:], len(self.split.data.classes), values).to(device)
            adam = torch.optim.Adam(net.parameters(), lr=values["learning_rate"])
            images, labels = torch.tensor(X, device=device), torch.tensor(y, device=device)
            for epoch in range(1, self.epochs + 1):
                rows = torch.randperm(len(y), generator=order).to(device)
                loss = train_epoch(net, adam, images, labels, rows, self.batch_size)
                if not loss < DIVERGED_LOSS:
                    raise FloatingPointError(
                        f"The training loss must stay finite and below {DIVERGED_LOSS:g}. "
                        f"Got {loss:g} in epoch {epoch} with {values}. Lower the learning rate."
                    )
                if after_epoch is not None:
                    after_epoch(net)
        return net

    def predict(self, model: nn.Module, X: NDArray[Any]) -> NDArray[np.int64]:
        """Class numbers (M,) for images X (M, height, width), dropout off."""
        device = next(model.parameters()).device
        model.eval()
        with granted_threads(), torch.inference_mode():
            images = torch.tensor(X, device=device)
            parts = [
                model(pixels(images[start : start + SCORING_BATCH])).argmax(1).cpu()
                for start in range(0, len(images), SCORING_BATCH)
            ]
        return np.asarray(torch.cat(parts))


def network(shape: tuple[int, ...], n_classes: int, values: Mapping[str, float]) -> nn.Sequential:
    """Freshly initialized network for images of `shape` (height, width)."""
    if len(shape) != 2 or min(shape) < 4:
        raise ValueError(
            "Images must have shape (N, height, width) with sides of at least 4. "
            f"Got (N, {', '.join(map(str, shape))}). Reshape the inputs."
        )
    net = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(values["dropout1"]),
        nn.Conv2d(32, 64, 5, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(values["dropout2"]),
        nn.Flatten(),
        nn.Linear(64 * (shape[0] // 4) * (shape[1] // 4), n_classes),
    )
    for layer in net:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return net


def train_epoch(
    net: nn.Module,
    adam: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
    rows: Tensor,
    batch_size: int,
) -> float:
    """One pass over images (N, height, width), labels (N,) in the order `rows` (N,); mean loss."""
    net.train()
    total = torch.zeros((), device=images.device)
    starts = range(0, len(rows), batch_size)
    for start in starts:
        batch = rows[start : start + batch_size]
        loss = nn.functional.cross_entropy(net(pixels(images[batch])), labels[batch])
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
        total += loss.detach()
    return float(total) / len(starts)


def pixels(images: Tensor) -> Tensor:
    """Images (B, height, width) as the network's input (B, 1, height, width); uint8 over 255."""
    planes = images.unsqueeze(1).to(torch.float32)
    return planes / 255 if images.dtype == torch.uint8 else planes


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch seeded and deterministic inside; its random state put back outside."""
    devices = list(range(torch.cuda.device_count()))
    with (
        torch.random.fork_rng(devices=devices),
        torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        ),
    ):
        torch.manual_seed(seed)
        yield


def granted_resources() -> dict[str, float] | None:
    """What Ray gave the task running here, or None outside a Ray task."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    try:
        return dict(ray.get_runtime_context().get_assigned_resources())
    except AssertionError:  # the driver holds no resources
        return None


def granted_device() -> torch.device:
    """The GPU when the task has one (or, outside Ray, when there is one), else the CPU."""
    granted = granted_resources()
    wanted = granted is None or granted.get("GPU", 0) > 0
    return torch.device("cuda" if wanted and torch.cuda.is_available() else "cpu")


@contextmanager
def granted_threads() -> Iterator[None]:
    """As many threads as the task has CPUs, at least one; outside Ray nothing changes."""
    granted = granted_resources()
    if granted is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, int(granted.get("CPU", 1))))
    try:
        yield
    finally:
        torch.set_num_threads(before)


mnist = CNNFolds("mnist")
digits = CNNFolds("digits")
