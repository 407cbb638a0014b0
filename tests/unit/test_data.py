from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from workers import data

ROOT = Path(__file__).parents[2]
DATASETS = ROOT / "workers" / "datasets"


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("glass", (214, 9), {"1": 70, "2": 76, "3": 17, "5": 13, "6": 9, "7": 29}),
        ("sonar", (208, 60), {"M": 111, "R": 97}),
    ],
)
def test_the_shipped_tables_are_complete(name, shape, counts):
    X, labels = data.read_csv(DATASETS / f"{name}.csv")
    assert X.shape == shape
    assert dict(zip(*np.unique(labels, return_counts=True), strict=True)) == counts


@pytest.mark.parametrize("name", ["glass", "sonar"])
def test_the_shipped_tables_name_their_origin_and_licence(name):
    header = [
        line for line in (DATASETS / f"{name}.csv").read_text().splitlines() if line.startswith("#")
    ]
    assert "UCI" in header[0]
    assert any("CC BY 4.0" in line for line in header)


def test_one_changed_digit_in_a_table_is_refused(tmp_path: Path):
    text = (DATASETS / "glass.csv").read_text()
    (tmp_path / "glass.csv").write_text(text.replace("13.64", "13.65", 1))
    with pytest.raises(RuntimeError, match=r"Got other content .* Install the package again"):
        data.read_csv(tmp_path / "glass.csv")


def test_a_table_with_dos_line_ends_reads_the_same(tmp_path: Path):
    raw = (DATASETS / "glass.csv").read_bytes()
    (tmp_path / "glass.csv").write_bytes(raw.replace(b"\n", b"\r\n"))
    X, _ = data.read_csv(tmp_path / "glass.csv")
    assert np.array_equal(X, data.read_csv(DATASETS / "glass.csv")[0])


@pytest.mark.parametrize(
    ("name", "n_train", "n_test"), [("glass", 171, 43), ("sonar", 166, 42), ("digits", 1437, 360)]
)
def test_a_stratified_fifth_is_held_out(name, n_train, n_test):
    got = data.load(name, 0)
    assert (len(got.X), len(got.y), len(got.X_test), len(got.y_test)) == (
        n_train,
        n_train,
        n_test,
        n_test,
    )
    share = np.bincount(got.y_test) / np.bincount(np.concatenate([got.y, got.y_test]))
    assert np.all(np.abs(share - 0.2) < 0.06)
    assert not got.X.flags.writeable


def test_the_split_seed_picks_the_test_rows():
    first, again, other = (data.load("sonar", seed).X_test for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_digits_are_images_in_the_unit_interval():
    X = data.load("digits", 0).X
    assert X.shape[1:] == (8, 8)
    assert (X.min(), X.max()) == (0.0, 1.0)


def test_labels_become_class_numbers():
    got = data.hold_out(np.arange(40.0)[:, None], ["b", "a"] * 20, 0)
    assert got.classes.tolist() == ["a", "b"]
    odd = got.X[:, 0].astype(int) % 2
    assert np.array_equal(got.y, 1 - odd)


def test_held_out_groups_are_whole():
    groups = np.repeat(np.arange(20), 5)
    X = np.column_stack([groups, np.arange(100)]).astype(float)
    got = data.hold_out(X, np.arange(100) % 2, 0, groups)
    assert not set(got.X[:, 0]) & set(got.X_test[:, 0])
    assert np.array_equal(got.groups, got.X[:, 0])
    assert len(got.y_test) == 20


def test_the_callers_arrays_stay_theirs():
    X, y = np.zeros((20, 2)), np.arange(20) % 2
    got = data.published(X, y, X, y)
    X += 1
    assert got.X.max() == 0
    assert got.X_test.max() == 0


@pytest.mark.parametrize(
    ("X", "y", "groups", "says"),
    [
        (np.zeros(4), [0, 1, 0, 1], None, "at least two axes"),
        (np.zeros((4, 1)), [0, 1, 0], None, r"\(4, 1\) and \(3,\)"),
        (np.full((4, 1), np.nan), [0, 1, 0, 1], None, "finite numbers"),
        (np.array([["a"]] * 4), [0, 1, 0, 1], None, "finite numbers"),
        (np.zeros((4, 1)), [0, 1, 0, 1], [1, 2], "one group per row"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(X, y, groups, says):
    with pytest.raises(ValueError, match=says):
        data.hold_out(X, y, 0, groups)


def test_a_label_seen_only_in_the_test_rows_is_refused():
    with pytest.raises(ValueError, match="Got \\[2\\] in the test rows only"):
        data.published(np.zeros((2, 1)), [0, 1], np.zeros((1, 1)), [2])


def test_test_rows_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="agree in shape"):
        data.published(np.zeros((2, 1)), [0, 1], np.zeros((1, 3)), [1])


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="glass, sonar, digits, mnist"):
        data.load("iris", 0)


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def tiny_mnist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, bytes]:
    """Files in MNIST's form, known to the loader by their checksums; none on disk yet."""
    rng = np.random.default_rng(0)
    files = {}
    for part, rows in (("train", 30), ("t10k", 10)):
        pixels = rng.integers(0, 256, (rows, 28, 28)).astype(np.uint8)
        files[f"{part}-images-idx3-ubyte"] = idx_bytes(pixels)
        files[f"{part}-labels-idx1-ubyte"] = idx_bytes((np.arange(rows) % 10).astype(np.uint8))
    sums = {name: hashlib.md5(files[name]).hexdigest() for name in data.MNIST_MD5}
    monkeypatch.setattr(data, "MNIST_MD5", sums)
    monkeypatch.setenv("DRBQO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    return files


def write(folder: Path, files: dict[str, bytes], packed: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in files.items():
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(raw) if packed else raw)


def fresh_mnist() -> data.Data:
    return data.mnist.__wrapped__()


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("inside", ["", "mnist", "MNIST/raw"])
def test_mnist_is_read_from_its_files(tiny_mnist, tmp_path, inside, packed):
    write(tmp_path / "data" / inside, tiny_mnist, packed)
    got = fresh_mnist()
    assert (got.X.shape, got.X.dtype, got.X_test.shape) == ((30, 28, 28), np.uint8, (10, 28, 28))
    assert np.array_equal(got.y, np.arange(30) % 10)


def test_mnist_with_other_content_is_refused(tiny_mnist, tmp_path):
    name = "train-labels-idx1-ubyte"
    tiny_mnist[name] = tiny_mnist[name][:-1] + b"\x03"
    write(tmp_path / "data", tiny_mnist)
    with pytest.raises(ValueError, match=f"must be MNIST's {name} .* Got MD5"):
        fresh_mnist()


def test_mnist_cut_short_is_refused(tiny_mnist, tmp_path):
    name = "t10k-images-idx3-ubyte"
    tiny_mnist[name] = tiny_mnist[name][:-1]
    write(tmp_path / "data", tiny_mnist)
    with pytest.raises(ValueError, match=f"{name} must hold 7840 bytes of data"):
        fresh_mnist()


def test_a_folder_with_some_of_the_files_is_refused_naming_the_others(tiny_mnist, tmp_path):
    del tiny_mnist["t10k-labels-idx1-ubyte"]
    write(tmp_path / "data", tiny_mnist)
    with pytest.raises(RuntimeError, match="Got no t10k-labels-idx1-ubyte"):
        fresh_mnist()


def broken_torchvision(error: Exception) -> types.ModuleType:
    module = types.ModuleType("torchvision.datasets")

    def refuse(*args: object, **options: object) -> None:
        raise error

    module.MNIST = refuse
    return module


@pytest.mark.parametrize(
    "installed",
    [
        None,
        broken_torchvision(RuntimeError("operator torchvision::nms does not exist")),
        broken_torchvision(OSError("no route to host")),
    ],
    ids=["absent", "does not import", "offline"],
)
@pytest.mark.parametrize("given", ["set", "unset"])
def test_without_files_or_downloader_one_error_names_both_ways(
    tiny_mnist, monkeypatch, installed, given
):
    if given == "unset":
        monkeypatch.delenv("DRBQO_DATA")
    if installed is not None:
        monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
        monkeypatch.setitem(sys.modules, "torchvision.datasets", installed)
    with pytest.raises(RuntimeError) as caught:
        fresh_mnist()
    message = str(caught.value)
    assert "set DRBQO_DATA" in message
    assert "install a torchvision" in message
    assert "train-images-idx3-ubyte" in message


def test_a_download_is_kept_whole_for_the_next_time(tiny_mnist, tmp_path, monkeypatch):
    calls = []

    class Downloader:
        def __init__(self, root: str, download: bool) -> None:
            calls.append(root)
            write(Path(root) / "MNIST" / "raw", tiny_mnist)

    module = types.ModuleType("torchvision.datasets")
    module.MNIST = Downloader
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.datasets", module)
    assert len(fresh_mnist().y) == 30
    assert len(fresh_mnist().y) == 30
    assert len(calls) == 1
    assert os.listdir(tmp_path / "cache" / "drbqo_ray") == ["mnist"]


def test_a_download_gives_way_to_one_that_was_faster(tmp_path):
    place, late = tmp_path / "mnist", tmp_path / "late"
    for folder in (place, late):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    data.keep(late, place)
    assert (place / "file").read_text() == "mnist"
    shutil.rmtree(place)
    data.keep(late, place)
    assert (place / "file").read_text() == "late"


@pytest.mark.skipif(
    not os.environ.get("DRBQO_DATA"), reason="set DRBQO_DATA to the folder of MNIST's IDX files"
)
def test_the_real_mnist_passes_its_checksums():
    got = data.mnist()
    assert got.X.shape == (60000, 28, 28)
    assert got.X_test.shape == (10000, 28, 28)
    assert got.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(got.y_test).tolist() == [
        980,
        1135,
        1032,
        1010,
        982,
        892,
        958,
        1028,
        974,
        1009,
    ]


def test_importing_workers_reads_no_data_and_loads_neither_torch_nor_the_optimizer():
    script = (
        "import sys, workers.svm, workers.elasticnet, workers.folds, workers.data\n"
        "assert not {'torch', 'ray', 'drbqo_ray'} & set(sys.modules)\n"
        "import workers.cnn\n"
        "assert not {'ray', 'drbqo_ray'} & set(sys.modules)\n"
        "assert workers.folds.cut_named.cache_info().misses == 0\n"
        "assert workers.data.mnist.cache_info().misses == 0\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
