"""The data sets of the experiments, each as training rows and held-out test rows.

`glass` and `sonar` ship beside this file, `digits` comes with scikit-learn, `mnist` is read
from IDX files. Rows of the test set are set apart here, before any fold is cut. Labels are
class numbers 0 .. k-1. All arrays are read-only.
"""

from __future__ import annotations

import csv
import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedGroupKFold, train_test_split

from workers.idx import CURE, parse, uncompressed

TEST_PARTS = 5
CSV_SHA256 = {
    "glass": "70d58a2d01a63b6bec146f894560cb66babb4f3c786ee4248f3043de12c84674",
    "sonar": "c02749164ac38e20b7167edae3c05be31b1894ab91d5068b01fd741f209de1a7",
}
MNIST_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
NAMES = ("glass", "sonar", "digits", "mnist")


@dataclass(frozen=True)
class Data:
    """Training rows and test rows of one data set.

    Attributes:
        X: training inputs, (N, ...): feature rows or images. uint8 stands for pixels 0 .. 255.
        y: training classes, (N,), int64 in 0 .. k-1.
        X_test: test inputs, (M, ...).
        y_test: test classes, (M,).
        classes: the labels the class numbers stand for, (k,).
        groups: rows of one group must share a fold, (N,), or None.
    """

    X: NDArray[Any]
    y: NDArray[np.int64]
    X_test: NDArray[Any]
    y_test: NDArray[np.int64]
    classes: NDArray[Any]
    groups: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for array in (self.X, self.y, self.X_test, self.y_test, self.classes, self.groups):
            if array is not None:
                array.flags.writeable = False


def load(name: str, split_seed: int) -> Data:
    """A data set by name; `split_seed` picks the test rows where no test set is published."""
    if name == "mnist":
        return mnist()
    if name == "digits":
        digits = load_digits()
        return hold_out((digits.images / 16).astype(np.float32), digits.target, split_seed)
    if name in CSV_SHA256:
        return hold_out(*read_csv(Path(__file__).parent / "datasets" / f"{name}.csv"), split_seed)
    raise ValueError(
        f"A data set must be one of {', '.join(NAMES)}. Got {name!r}. "
        "For your own data use the worker's from_arrays."
    )


def hold_out(X: ArrayLike, y: ArrayLike, split_seed: int, groups: ArrayLike | None = None) -> Data:
    """Set a stratified fifth of the rows apart as the test set; whole groups where given.

    Args:
        X: inputs, (N, ...).
        y: labels of any kind, (N,).
        split_seed: picks the rows.
        groups: group of each row, (N,), or None.
    """
    X, y = checked_rows(X, y)
    if groups is None:
        train, test = train_test_split(
            np.arange(len(y)), test_size=1 / TEST_PARTS, stratify=y, random_state=split_seed
        )
        train_groups = None
    else:
        groups = checked_groups(groups, len(y))
        splitter = StratifiedGroupKFold(TEST_PARTS, shuffle=True, random_state=split_seed)
        train, test = next(splitter.split(X, y, groups))
        train_groups = groups[train]
    return published(X[train], y[train], X[test], y[test], train_groups)


def published(
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    groups: ArrayLike | None = None,
) -> Data:
    """Data whose test set is already apart; shapes as in `Data`, labels of any kind."""
    X, y = checked_rows(X, y)
    X_test, y_test = checked_rows(X_test, y_test)
    if X.shape[1:] != X_test.shape[1:]:
        raise ValueError(
            "Training and test inputs must agree in shape beyond the first axis. "
            f"Got {X.shape} and {X_test.shape}. Prepare both in the same way."
        )
    classes = np.unique(y)
    unseen = np.setdiff1d(y_test, classes)
    if unseen.size:
        raise ValueError(
            f"Every test label must occur in the training rows. Got {unseen.tolist()} in the "
            "test rows only. Drop these rows or split again."
        )
    return Data(
        X,
        np.searchsorted(classes, y).astype(np.int64),
        X_test,
        np.searchsorted(classes, y_test).astype(np.int64),
        classes,
        None if groups is None else checked_groups(groups, len(y)),
    )


def checked_rows(X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Copies of the inputs (N, ...) and labels (N,), or an error saying what is wrong."""
    X, y = np.array(X), np.array(y)
    if X.ndim < 2 or y.ndim != 1 or len(X) != len(y):
        raise ValueError(
            "Inputs must have shape (N, ...) with at least two axes and labels shape (N,). "
            f"Got {X.shape} and {y.shape}. Reshape them."
        )
    if X.dtype.kind not in "buif" or not np.isfinite(X).all():
        raise ValueError(
            f"Inputs must be finite numbers. Got dtype {X.dtype}"
            f"{' with NaN or infinity' if X.dtype.kind == 'f' else ''}. "
            "Encode categories and fill gaps first."
        )
    return X, y


def checked_groups(groups: ArrayLike, n_rows: int) -> NDArray[Any]:
    """A copy of the groups (N,), or an error when they do not fit the rows."""
    groups = np.array(groups)
    if groups.shape != (n_rows,):
        raise ValueError(
            f"Groups must name one group per row, shape ({n_rows},). Got {groups.shape}. "
            "Pass one entry per row."
        )
    return groups


def read_csv(path: Path) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Inputs (N, d) and labels (N,) of a shipped table, its content checked."""
    lines = path.read_text("utf-8").splitlines()
    table = [line for line in lines if not line.startswith("#")]
    found = hashlib.sha256("".join(f"{line}\n" for line in table).encode()).hexdigest()
    if found != CSV_SHA256.get(path.stem):
        raise RuntimeError(
            f"{path} must be the table this package shipped. Got other content (sha256 {found}). "
            "Install the package again."
        )
    rows = list(csv.reader(table))[1:]
    X = np.array([row[:-1] for row in rows], dtype=np.float64)
    return X, np.array([row[-1] for row in rows])


@lru_cache(maxsize=1)
def mnist() -> Data:
    """MNIST with its published test set, images as uint8 (N, 28, 28)."""
    paths = find_mnist() or download_mnist()
    X, y, X_test, y_test = (read_mnist_file(name, paths[name]) for name in MNIST_MD5)
    return published(X, y, X_test, y_test)


def read_mnist_file(name: str, path: Path) -> NDArray[np.uint8]:
    """One of MNIST's four arrays, its shape and its checksum verified."""
    raw = uncompressed(path)
    array = parse(raw, str(path))
    found = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    if found != MNIST_MD5[name]:
        raise ValueError(
            f"{path} must be MNIST's {name} (MD5 {MNIST_MD5[name]} uncompressed). "
            f"Got MD5 {found}. {CURE}"
        )
    return array


def data_folders() -> list[Path]:
    """Folders that may hold MNIST: those of DRBQO_DATA first, then the download folder."""
    given = os.environ.get("DRBQO_DATA")
    parts = ("", "mnist", "MNIST/raw") if given else ()
    return [*(Path(given or "") / part for part in parts), download_folder() / "mnist"]


def download_folder() -> Path:
    """Where a downloaded data set is kept for the next run."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drbqo_ray"


def find_mnist() -> dict[str, Path] | None:
    """The four files in the first folder that has any of them; None when no folder has."""
    for folder in data_folders():
        found = {
            name: path
            for name in MNIST_MD5
            for path in (folder / f"{name}.gz", folder / name)
            if path.is_file()
        }
        if found.keys() == MNIST_MD5.keys():
            return found
        if found:
            missing = ", ".join(name for name in MNIST_MD5 if name not in found)
            raise RuntimeError(
                f"{folder} must hold all four files of MNIST (each gzipped or not). "
                f"Got no {missing}. Add what is missing."
            )
    return None


def keep(fresh: Path, place: Path) -> None:
    """Move a folder to its place, unless another process was there first."""
    try:
        fresh.rename(place)
    except OSError:
        if not place.exists():
            raise


def download_mnist() -> dict[str, Path]:
    """Fetch MNIST through torchvision, whole or not at all, safe beside other processes."""
    folder = download_folder()
    try:
        from torchvision.datasets import MNIST

        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            MNIST(fresh, download=True)
            keep(Path(fresh) / "MNIST" / "raw", folder / "mnist")
    except Exception as error:
        raise RuntimeError(
            "MNIST must be on disk or within reach of torchvision's downloader. "
            f"Got DRBQO_DATA={os.environ.get('DRBQO_DATA')!r} without its files, and from "
            f"torchvision: {type(error).__name__}: {error}. Either put the four IDX files "
            f"({', '.join(MNIST_MD5)}; gzipped or not) into a folder and set DRBQO_DATA to it, "
            "or install a torchvision that imports and let it download."
        ) from error
    paths = find_mnist()
    if paths is None:
        raise RuntimeError(
            f"The download must leave MNIST's four files in {folder / 'mnist'}. Got none. "
            "Set DRBQO_DATA to a folder that holds them."
        )
    return paths
