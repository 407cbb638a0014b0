from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drbqo_ray.errors import JournalError
from drbqo_ray.storage import format as journal_format
from drbqo_ray.storage.journal import Journal, problem_changes, read_journal

# Durability is not at stake here, so spare the disk where memory can be had.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
PROBLEM = {"contexts": 3, "seed": 0}
HEADER = journal_format.encode_header(PROBLEM)

calm = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=10)
)
plain = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
payloads = st.dictionaries(st.text(max_size=8), plain, max_size=5)
kinds = st.sampled_from(["ask", "tell", "fail", "A_1", "_", "z" * 64])
fragments = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([HEADER, HEADER[:-1], b"\n", b'{"crc":"', b'"data":{', b"[" * 40, bytes(9)]),
    st.builds(journal_format.encode_record, st.integers(0, 3), kinds, payloads),
)
files = st.lists(fragments, max_size=6).map(b"".join)


def exactly_equal(left: object, right: object) -> bool:
    """Equal in value and type, floats bit for bit, dicts in the same order."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(exactly_equal, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(map(exactly_equal, left.values(), right.values()))
    return left == right


@settings(calm, max_examples=100)
@given(st.lists(st.tuples(kinds, payloads), max_size=4))
def test_any_plain_data_read_back_exactly(entries):
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        with Journal.create(Path(root) / "run", PROBLEM) as journal:
            journal.append_many(entries)
        records = list(read_journal(Path(root) / "run"))[1:]
    assert [r.kind for r in records] == [kind for kind, _ in entries]
    assert exactly_equal([r.data for r in records], [payload for _, payload in entries])


def check_bytes(content: bytes) -> None:
    """Any file gives records or JournalError, and opening it never loses a byte."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        path = Path(root) / "journal.jsonl"
        path.write_bytes(content)
        try:
            records = list(read_journal(path))
        except JournalError:
            records = None
        assert path.read_bytes() == content
        try:
            Journal.open(root).close()
        except JournalError:
            assert path.read_bytes() == content
            return
        torn = Path(root) / "journal.jsonl.torn"
        assert path.read_bytes() + (torn.read_bytes() if torn.exists() else b"") == content
        assert list(read_journal(path)) == records


@settings(calm, max_examples=300)
@given(files)
def test_any_bytes_give_records_or_a_journal_error(content):
    check_bytes(content)


@settings(calm, max_examples=300)
@given(fragments)
def test_any_bytes_after_a_header_give_records_or_a_journal_error(content):
    check_bytes(HEADER + content)


@pytest.mark.faults
@settings(deadline=None, max_examples=3000)
@given(files, st.booleans())
def test_many_random_files_give_records_or_a_journal_error(content, with_header):
    check_bytes(HEADER + content if with_header else content)


@settings(calm, max_examples=100)
@given(payloads, payloads)
def test_problems_differ_both_ways_or_not_at_all(one, other):
    assert problem_changes(one, one) == []
    assert bool(problem_changes(one, other)) == bool(problem_changes(other, one))
