from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from workers.idx import parse, uncompressed

small_arrays = arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5))


def encode(array: np.ndarray) -> bytes:
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.tobytes()


@given(small_arrays)
@settings(deadline=None)
def test_every_array_comes_back_as_it_was_written(array):
    read = parse(encode(array), "x")
    assert read.dtype == np.uint8
    assert read.shape == array.shape
    assert np.array_equal(read, array)


@given(small_arrays, st.data())
@settings(deadline=None)
def test_a_file_cut_short_anywhere_is_refused(array, data):
    raw = encode(array)
    kept = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(ValueError, match=r"x must .* Got .* Fetch the file again"):
        parse(raw[:kept], "x")


@given(small_arrays, st.binary(min_size=1, max_size=9))
@settings(deadline=None)
def test_bytes_after_the_end_are_refused(array, tail):
    with pytest.raises(ValueError, match="bytes of data for shape"):
        parse(encode(array) + tail, "x")


@given(st.binary(max_size=40) | st.binary(max_size=20).map(lambda tail: b"\0\0\x08" + tail))
@settings(deadline=None)
def test_any_bytes_are_either_refused_or_exactly_an_array(raw):
    try:
        array = parse(raw, "x")
    except ValueError:
        return
    assert encode(array) == raw


@given(st.lists(st.integers(2**31, 2**32 - 1), min_size=1, max_size=8))
@settings(deadline=None)
def test_absurd_sizes_are_refused_without_reserving_memory(shape):
    raw = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
    with pytest.raises(ValueError, match=str(math.prod(shape))):
        parse(raw, "x")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0\0\x08",
        b"\0\0\x08\0",
        b"\0\0\x0d\x01\0\0\0\0",
        b"\x01\0\x08\x01\0\0\0\0",
        b"<html>",
    ],
)
def test_a_wrong_magic_is_named(raw):
    with pytest.raises(ValueError, match="must begin with the IDX magic"):
        parse(raw, "x")


def test_the_array_is_read_only():
    assert not parse(encode(np.zeros((2, 2), np.uint8)), "x").flags.writeable


@pytest.mark.parametrize("name", ["a.gz", "a"])
@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_gzip_is_told_by_content_not_by_name(tmp_path: Path, name, pack):
    raw = encode(np.arange(6, dtype=np.uint8).reshape(2, 3))
    path = tmp_path / name
    path.write_bytes(pack(raw))
    assert uncompressed(path) == raw


@given(data=st.data())
@settings(deadline=None, max_examples=200)
def test_a_damaged_gzip_file_is_refused_or_unharmed_but_never_another_array(tmp_path_factory, data):
    raw = encode(np.arange(200, dtype=np.uint8))
    packed = bytearray(gzip.compress(raw, mtime=0))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    kept = data.draw(st.integers(0, len(packed)))
    path = tmp_path_factory.getbasetemp() / "damaged.gz"
    path.write_bytes(packed[:kept] if data.draw(st.booleans()) else packed)
    try:
        array = parse(uncompressed(path), "x")
    except ValueError:
        return
    assert np.array_equal(array, np.arange(200, dtype=np.uint8))


def test_a_gzip_file_cut_short_is_named(tmp_path: Path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(encode(np.zeros(100, np.uint8)))[:-9])
    with pytest.raises(ValueError, match=r"cut\.gz must be a whole gzip file"):
        uncompressed(path)
