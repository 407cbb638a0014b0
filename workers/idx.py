"""Reading IDX files, the format MNIST is published in, compressed with gzip or not.

An IDX file holds one array: two zero bytes, one byte for the element type, one byte for
the number of dimensions, one big-endian 32-bit size per dimension, then the elements in
row-major order. MNIST uses unsigned bytes only, and so does this reader.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

UNSIGNED_BYTE = 0x08
GZIP_MAGIC = b"\x1f\x8b"
CURE = "Fetch the file again."


def uncompressed(path: Path) -> bytes:
    """Content of a file, unpacked when it is gzip by content, whatever its name says."""
    raw = path.read_bytes()
    if not raw.startswith(GZIP_MAGIC):
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(
            f"{path} must be a whole gzip file. Got a damaged one ({error}). {CURE}"
        ) from error


def parse(raw: bytes, source: str) -> NDArray[np.uint8]:
    """Array held by the bytes of an IDX file.

    Args:
        raw: the whole file, uncompressed.
        source: what to call the file in an error message.

    Returns:
        A read-only array in the shape the header states.
    """
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != UNSIGNED_BYTE or raw[3] == 0:
        raise ValueError(
            f"{source} must begin with the IDX magic 00 00 08 and a number of dimensions. "
            f"Got {raw[:4].hex(' ') or 'an empty file'}. {CURE}"
        )
    n_dimensions = raw[3]
    start = 4 + 4 * n_dimensions
    if len(raw) < start:
        raise ValueError(
            f"{source} must hold a header of {start} bytes. Got {len(raw)} bytes. {CURE}"
        )
    shape = tuple(int(size) for size in np.frombuffer(raw, ">u4", n_dimensions, offset=4))
    if len(raw) - start != math.prod(shape):
        raise ValueError(
            f"{source} must hold {math.prod(shape)} bytes of data for shape {shape}. "
            f"Got {len(raw) - start}. {CURE}"
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)
