"""A convolutional network small enough to be trained ten thousand times, on 8 x 8 digits."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from drbqo_ray import Float

CHANNELS, EPOCHS, BATCH = 8, 6, 48
PARAMETERS = {
    "learning_rate": Float(1e-5, 1e0, log=True),
    "dropout": Float(0.0, 0.9),
    "weight_decay": Float(1e-6, 1e0, log=True),
}


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 8, 8), float32 in [0, 1], and their digits (N,)."""
    data = load_digits()
    return (data.images / 16).astype(np.float32), data.target


def trained(config: dict[str, float], X: np.ndarray, y: np.ndarray, seed: int) -> nn.Module:
    """A network fitted on images X (N, 8, 8) and digits y (N,)."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, CHANNELS, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(config["dropout"]),
        nn.Linear(CHANNELS * 9, 10),
    )
    adam = torch.optim.AdamW(
        net.parameters(), lr=config["learning_rate"], weight_decay=config["weight_decay"]
    )
    images, labels = torch.tensor(X), torch.tensor(y)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(y)).split(BATCH):
            adam.zero_grad()
            nn.functional.cross_entropy(net(images[rows]), labels[rows]).backward()
            adam.step()
    return net.eval()


@torch.no_grad()
def accuracy(net: nn.Module, X: np.ndarray, y: np.ndarray) -> float:
    """Share of the images X (M, 8, 8) that are read as their digits y (M,)."""
    return float((net(torch.tensor(X)).argmax(1).numpy() == y).mean())
