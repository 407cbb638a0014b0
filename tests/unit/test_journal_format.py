from __future__ import annotations

import json
import math
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from drbqo_ray.errors import JournalCorrupt, JournalError
from drbqo_ray.storage import format as journal_format
from drbqo_ray.storage.journal import Journal, read_journal

GOLDEN = Path(__file__).parent.parent / "golden"
PROBLEM = {"contexts": 3, "seed": 0}


def crafted(body: str) -> bytes:
    """A line with the right checksum, whatever its body says."""
    raw = body.encode()
    return b'{"crc":"%08x",%s\n' % (crc32(raw), raw)


def header_line() -> bytes:
    """The header of a journal of format 1."""
    return journal_format.encode_header(PROBLEM)


def write_run(directory: Path, content: bytes) -> Path:
    directory.mkdir()
    (directory / "journal.jsonl").write_bytes(content)
    return directory


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('"seq":1,"kind":"tell","data":{"score":NaN}}', "NaN"),
        ('"seq":1,"kind":"tell","data":{"score":-Infinity}}', "-Infinity"),
        ('"seq":1,"kind":"tell","data":{"score":1e999}}', "too large"),
        ('"seq":1,"kind":"tell","data":{"a":1,"a":2}}', "key twice"),
        ('"seq":1,"seq":1,"kind":"tell","data":{}}', "key twice"),
        ('"seq":1,"kind":"tell","data":' + '{"a":' * 33 + "1" + "}" * 34, "32 levels"),
        ('"seq":1,"kind":"tell","data":{"a":' + "[" * 100000 + "]" * 100000 + "}}", "too deeply"),
        ('"seq":1,"kind":"tell","data":[]}', "not an object"),
        ('"seq":1,"kind":"a b","data":{}}', "identifier"),
        ('"seq":1,"kind":7,"data":{}}', "identifier"),
        ('"seq":true,"kind":"tell","data":{}}', "not a count"),
        ('"seq":1.0,"kind":"tell","data":{}}', "not a count"),
        ('"seq":-1,"kind":"tell","data":{}}', "not a count"),
        ('"seq":1,"kind":"tell","data":{"a":' + "9" * 5000 + "}}", "breaks the"),
        ('"seq":1,"kind":"tell","data":{},"more":1}', "fields"),
        ('"seq":1,"kind":"tell"}', "fields"),
        ('"seq":1,"kind":"tell","data":{}', "breaks the"),
        ("", "breaks the"),
        ('"seq":1,"kind":"header","data":{}}', "Only record 0"),
        ('"seq":3,"kind":"tell","data":{}}', "missing"),
    ],
)
def test_a_record_that_breaks_a_rule_is_refused_even_with_the_right_checksum(
    tmp_path, body, reason
):
    content = header_line() + crafted(body)
    run = write_run(tmp_path / "run", content)
    for read in (lambda: list(read_journal(run)), lambda: Journal.open(run)):
        with pytest.raises(JournalCorrupt, match=reason):
            read()
    assert (run / "journal.jsonl").read_bytes() == content


def test_a_line_of_bytes_that_are_no_text_is_refused_even_with_the_right_checksum(tmp_path):
    body = b'"seq":1,"kind":"tell","data":{"a":"\xff"}}'
    line = b'{"crc":"%08x",%s\n' % (crc32(body), body)
    run = write_run(tmp_path / "run", header_line() + line)
    with pytest.raises(JournalCorrupt, match="byte"):
        list(read_journal(run))


@pytest.mark.parametrize(
    "first",
    [
        '"seq":0,"kind":"note","data":{}}',
        '"seq":0,"kind":"header","data":{"format":1}}',
        '"seq":0,"kind":"header","data":{"format":true,"problem":{}}}',
        '"seq":0,"kind":"header","data":{"format":1,"problem":[]}}',
        '"seq":0,"kind":"header","data":{"format":1,"run":"0123456789abcdef","problem":{}}}',
        '"seq":0,"kind":"header","data":{"format":2,"problem":{}}}',
        '"seq":0,"kind":"header","data":{"format":2,"run":"one","problem":{}}}',
        '"seq":0,"kind":"header","data":{"format":2,"run":7,"problem":{}}}',
        '"seq":0,"kind":"header","data":{"format":3,"problem":{}}}',
    ],
)
def test_a_journal_whose_first_record_is_no_header_is_refused(tmp_path, first):
    run = write_run(tmp_path / "run", crafted(first))
    with pytest.raises(JournalCorrupt, match="header"):
        Journal.open(run)
    with pytest.raises(JournalCorrupt, match="header"):
        Journal.attach(run, PROBLEM)


def test_the_golden_journal_of_format_1_reads_exactly_and_is_still_written_so(tmp_path):
    path = GOLDEN / "journal-format-1.jsonl"
    records = list(read_journal(path))
    assert [r.kind for r in records] == [
        "header",
        "ask",
        "ask",
        "tell",
        "fail",
        "conflict",
        "observe",
        "fit",
        "note",
    ]
    assert records[0].data["problem"]["space"]["kernel"]["options"] == ["rbf", "poly", None, True]
    assert records[2].data == {
        "id": 1,
        "config": {"C": 0.1 + 0.2, "kernel": None},
        "context": 0,
        "seed": 7,
    }
    assert math.copysign(1, records[3].data["score"]) == -1
    assert records[3].data["worker"] == {"host": "node-é", "pid": 17}
    assert records[4].data["reason"] == 'ValueError: "quoted"\n\tline two </script> \U0001f600'
    assert records[5].data["score"] == 5e-324
    assert records[6].data["config"]["C"] == float(np.finfo(float).max)
    assert records[6].data["score"] == 123456789012345678901234567890
    assert records[7].data["nothing"] == {}
    written = b"".join(journal_format.encode_record(r.seq, r.kind, r.data) for r in records)
    assert written == path.read_bytes()
    run = write_run(tmp_path / "run", path.read_bytes())
    with Journal.open(run) as opened:
        assert opened.append("note", {}) == 9


@pytest.mark.parametrize(
    "content",
    [
        (GOLDEN / "journal-format-4.jsonl").read_bytes(),
        crafted('"seq":0,"kind":"header","data":{"format":4,"problem":{}}}'),
        crafted('"seq":0,"kind":"header","data":{"format":0,"problem":{}}}'),
    ],
)
def test_a_journal_of_another_format_is_refused_and_left_untouched(tmp_path, content):
    run = write_run(tmp_path / "run", content)
    for opening in (
        lambda: Journal.open(run),
        lambda: Journal.create(run, PROBLEM),
        lambda: Journal.attach(run, PROBLEM),
        lambda: list(read_journal(run)),
    ):
        with pytest.raises(JournalError, match=r"reads journals of format 1 to 3.*Upgrade"):
            opening()
    assert (run / "journal.jsonl").read_bytes() == content
    assert not (run / "journal.jsonl.torn").exists()


def test_a_line_is_valid_json_for_any_other_tool(tmp_path):
    with Journal.create(tmp_path / "run", PROBLEM) as run:
        run.append("note", {"text": "é\n\u2028"})
        lines = run.path.read_bytes().split(b"\n")
    assert lines[-1] == b""
    assert [json.loads(line)["seq"] for line in lines[:-1]] == [0, 1]
    assert all(line.isascii() for line in lines)


def spliced(directory: Path, *places: int) -> bytes:
    """A journal whose records at these places come from another run of the same problem."""
    lines = []
    for name in ("one", "other"):
        with Journal.create(directory / name, PROBLEM) as run:
            for score in (0.25, 0.5, 0.75):
                run.append("tell", {"score": score if name == "one" else -score})
            lines.append(run.path.read_bytes().splitlines(keepends=True))
    mine, others = lines
    content = b"".join(others[k] if k in places else line for k, line in enumerate(mine))
    (directory / "one" / "journal.jsonl").write_bytes(content)
    return content


@pytest.mark.parametrize("places", [(1,), (2,), (1, 2), (2, 3), (1, 2, 3), (0,)])
def test_records_of_another_run_are_refused_although_they_are_intact(tmp_path, places):
    content = spliced(tmp_path, *places)
    run = tmp_path / "one"
    for read in (lambda: list(read_journal(run)), lambda: Journal.open(run)):
        with pytest.raises(JournalCorrupt, match="another run"):
            read()
    assert (run / "journal.jsonl").read_bytes() == content
    assert not (run / "journal.jsonl.torn").exists()


def test_a_last_record_of_another_run_is_not_read_and_the_loss_of_ours_is_noted(tmp_path):
    spliced(tmp_path, 3)
    assert [r.data.get("score") for r in read_journal(tmp_path / "one")] == [None, 0.25, 0.5]
    with Journal.open(tmp_path / "one") as opened:
        assert opened.recovery.lost_records == 1
        assert [r.kind for r in opened.records()] == ["header", "tell", "tell", "note"]


def test_a_damaged_header_with_records_after_it_is_no_new_run(tmp_path):
    with Journal.create(tmp_path / "run", PROBLEM) as run:
        run.append("tell", {"score": 0.25})
        content = run.path.read_bytes().replace(b'"contexts":3', b'"contexts":4')
    (tmp_path / "run" / "journal.jsonl").write_bytes(content)
    (tmp_path / "run" / "acked").unlink()
    with pytest.raises(JournalCorrupt, match="byte 0"):
        Journal.attach(tmp_path / "run", PROBLEM)
    assert (tmp_path / "run" / "journal.jsonl").read_bytes() == content


def test_the_golden_journal_of_format_2_reads_exactly_and_is_still_written_so(tmp_path):
    path = GOLDEN / "journal-format-2.jsonl"
    header, *records = read_journal(path)
    assert header.data == {"format": 2, "run": "0123456789abcdef", "problem": PROBLEM}
    assert [(r.kind, r.data) for r in records] == [
        ("ask", {"id": 0, "config": {"C": 0.1 + 0.2}, "context": 2, "seed": 7}),
        ("tell", {"id": 0, "score": -5e-324}),
    ]
    key = journal_format.key_of(header)
    lines = [journal_format.encode_record(r.seq, r.kind, r.data, key) for r in records]
    first = journal_format.encode_header(PROBLEM, "0123456789abcdef", version=2)
    written = first + b"".join(lines)
    assert written == path.read_bytes()
    with Journal.open(write_run(tmp_path / "run", written)) as opened:
        assert opened.append("note", {}) == 3
    assert [r.kind for r in read_journal(tmp_path / "run")][-1] == "note"


def test_the_golden_journal_of_format_3_reads_exactly_and_is_still_written_so(tmp_path):
    path = GOLDEN / "journal-format-3.jsonl"
    header, *records = read_journal(path)
    assert header.data == {"format": 3, "run": "fedcba9876543210", "problem": PROBLEM}
    assert [(r.kind, r.data) for r in records] == [
        ("ask", {"id": 0, "config": {"C": 0.1 + 0.2}, "context": 2, "seed": 7}),
        ("tell", {"id": 0, "score": -5e-324}),
        ("note", {"text": "é"}),
    ]
    key = journal_format.key_of(header)
    written = [journal_format.encode_header(PROBLEM, "fedcba9876543210")]
    for r in records:
        after = journal_format.checksum_of(written[-1])
        written.append(journal_format.encode_record(r.seq, r.kind, r.data, key, after))
    assert b"".join(written) == path.read_bytes()
    with Journal.open(write_run(tmp_path / "run", path.read_bytes())) as opened:
        assert opened.append("note", {}) == 4
    assert [r.kind for r in read_journal(tmp_path / "run")][-1] == "note"


@pytest.mark.parametrize("version", [1, 2])
def test_a_journal_of_an_earlier_format_is_written_on_without_a_chain(tmp_path, version):
    path = GOLDEN / f"journal-format-{version}.jsonl"
    run = write_run(tmp_path / "run", path.read_bytes())
    with Journal.open(run) as opened:
        opened.append_many([("note", {}), ("note", {})])
    content = (run / "journal.jsonl").read_bytes()
    assert content.startswith(path.read_bytes())
    assert b"after" not in content
    assert [r.kind for r in read_journal(run)][-2:] == ["note", "note"]


def chained(count: int = 4) -> list[bytes]:
    """The lines of a journal of format 3, header first."""
    lines = [journal_format.encode_header(PROBLEM, "0123456789abcdef")]
    return lines + continued(lines, 1, [0.25 * k for k in range(count)])


def continued(lines: list[bytes], first: int, scores: list[float]) -> list[bytes]:
    """What a writer adds that knows the lines before record `first`."""
    key = crc32(b"0123456789abcdef")
    known = lines[:first]
    for seq, score in enumerate(scores, first):
        after = journal_format.checksum_of(known[-1])
        data = {"score": score}
        known.append(journal_format.encode_record(seq, "tell", data, key, after))
    return known[first:]


@pytest.mark.parametrize("fork", [1, 3, 4])
@pytest.mark.parametrize("torn", [b"", b'{"crc":"01'])
def test_what_a_second_writer_added_is_set_aside_and_counted(tmp_path, fork, torn):
    lines = chained()
    rivals = continued(lines, fork, [9.0, 9.5, 9.75])
    content = b"".join([*lines, *rivals]) + torn
    run = write_run(tmp_path / "run", content)
    assert [r.data.get("score") for r in read_journal(run)] == [None, 0.0, 0.25, 0.5, 0.75]
    with Journal.open(run) as opened:
        assert opened.recovery.rival_records == 3
        assert opened.recovery.lost_records == 0
        assert opened.append("note", {}) == 5
    assert (run / "journal.jsonl.torn").read_bytes() == b"".join(rivals) + torn


def test_records_of_two_writers_in_turns_are_refused_and_nothing_is_cut(tmp_path):
    lines = chained()
    rivals = continued(lines, 3, [9.0])
    content = b"".join([*lines[:4], *rivals, *lines[4:]])
    run = write_run(tmp_path / "run", content)
    with pytest.raises(JournalCorrupt, match="record 3 stands there a second time"):
        Journal.open(run)
    assert (run / "journal.jsonl").read_bytes() == content


def test_a_record_that_follows_another_one_is_not_read_although_its_number_is_next(tmp_path):
    lines = chained(3)
    replaced = continued(lines, 2, [7.0])
    run = write_run(tmp_path / "last", b"".join([*lines[:2], *replaced, lines[3]]))
    assert [r.data.get("score") for r in read_journal(run)] == [None, 0.0, 7.0]
    replaced = continued(lines, 1, [7.0])
    run = write_run(tmp_path / "middle", b"".join([lines[0], *replaced, *lines[2:]]))
    with pytest.raises(JournalCorrupt, match="second writer"):
        list(read_journal(run))


def test_a_record_of_format_3_without_a_link_is_not_read(tmp_path):
    lines = chained(2)
    bare = journal_format.encode_record(3, "tell", {"score": 1.0}, crc32(b"0123456789abcdef"))
    run = write_run(tmp_path / "run", b"".join([*lines, bare]))
    assert len(list(read_journal(run))) == 3


def test_a_journal_of_format_1_is_written_on_in_its_own_format(tmp_path):
    run = write_run(tmp_path / "run", header_line())
    with Journal.open(run, PROBLEM) as opened:
        opened.append("note", {})
    expected = header_line() + journal_format.encode_record(1, "note", {})
    assert (run / "journal.jsonl").read_bytes() == expected
