from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drbqo_ray.errors import InvalidInput
from drbqo_ray.space.file import MAX_BYTES, parse_space, read_space
from drbqo_ray.space.parameters import Choice, Float, Int
from drbqo_ray.space.space import Space

BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 11)
)


def test_long_and_short_forms_give_the_same_space() -> None:
    short = parse_space("C: float 1e-2 1e3 log\ndegree: int 1 5\nkernel: [rbf, poly]\n")
    long = parse_space(
        "C: {type: float, low: 0.01, high: 1000.0, log: true}\n"
        "degree:\n  type: int\n  low: 1\n  high: 5\n"
        "kernel: {type: choice, options: [rbf, poly]}\n"
    )
    expected = Space(
        {"C": Float(1e-2, 1e3, log=True), "degree": Int(1, 5), "kernel": Choice(["rbf", "poly"])}
    )
    assert short == long == expected


def test_conditions_and_steps_are_read() -> None:
    space = parse_space(
        "kernel: [rbf, poly]\n"
        "degree: {type: int, low: 2, high: 8, step: 2, when: {kernel: [poly]}}\n"
    )
    assert space.parameters["degree"] == Int(2, 8, step=2, when={"kernel": ["poly"]})


def test_words_keep_their_plain_meaning() -> None:
    space = parse_space("k: [no, on, 1e3, '5', ~, 010, 2024-01-01, 1:30, true, 'true', .5]")
    options = space.parameters["k"].options  # type: ignore[union-attr]
    assert options == ("no", "on", 1000.0, "5", None, 10, "2024-01-01", "1:30", True, "true", 0.5)
    assert [type(option) for option in options[2:4]] == [float, str]


@pytest.mark.parametrize(
    "space", ["C: float 1e-3 1 log", "C: {type: float, low: 1e-3, high: 1, log: true}"]
)
def test_numbers_with_an_exponent_need_no_dot(space: str) -> None:
    assert parse_space(space).parameters["C"] == Float(1e-3, 1, log=True)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: int 1 5\nb: {type: float, low: 2, high: 1}", 2, "low < high"),
        ("a: int 1 5\n\n\nb: {type: float, low: 0, high: 1, when: {a: [9]}}", 4, "[1, 5]"),
        ("a: int 1 5\nb: {type: int, low: 0, high: 1, when: {c: [9]}}", 2, "`when`"),
        ("a: int 1 5\nb: {type: int, low: 0, high: 1, when: 3}", 2, "`when`"),
        ("a: int 1 5\nb: {type: int, low: 0, high: 1, when: {a: 3}}", 2, "needs a list of values"),
        ("a: int 1 5\nb: [\n", 3, "not YAML"),
        ("a: int 1 5\nb: int 1 5\na: int 1 2", 3, "once"),
        ("a: int 1 5\nb: {type: int, low: 1, low: 2, high: 5}", 2, "once"),
        ("a: int 1 5\nb: int 1", 2, "int LOW HIGH"),
        ("a: int 1 5\nb: float 1 1e999", 2, "finite"),
        ("a: int 1 5\nb: float 1 x", 2, "float LOW HIGH"),
        ("a: int 1 5\nb: real 1 2", 2, "float LOW HIGH"),
        ("a: int 1 5\nb: [1, 1e999]", 2, "finite"),
        ("a: int 1 5\nb: [1, 1]", 2, "differ"),
        ("a: int 1 5\nb: {type: float, low: a, high: 2}", 2, "finite numbers"),
        ("a: int 1 5\nb: {type: float, low: 1, high: 2, step: a}", 2, "needs 0 < step"),
        ("a: int 1 5\nb: {type: float, low: 1, high: 2, log: no}", 2, "true or false"),
        ("a: int 1 5\nb: {type: float, low: 1, hihg: 2}", 2, "hihg"),
        ("a: int 1 5\nb: {type: real, low: 1, high: 2}", 2, "Float, Int or Choice"),
        ("a: int 1 5\nb: 7", 2, "needs a type"),
        ("a: int 1 5\nb:", 2, "needs a type"),
        ("a: int 1 5\n? [b]\n: 7", 2, "Keys"),
        ("a: int 1 5\nb: !!float 7", 2, "Tags"),
        ("a: int 1 5\nb: &b [1, 2]", 2, "aliases"),
        ("a: int 1 5\n---\nb: int 1 5", 2, "not YAML"),
        ("- a\n- b", 1, "mapping"),
        ("", 1, "empty file"),
    ],
)
def test_every_mistake_is_named_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_space(text, "space.yaml")
    assert str(error.value).startswith(f"space.yaml, line {line}: ")
    assert words in str(error.value)


def test_python_tags_are_refused_and_run_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for tag in ("python/object/apply:os.system", "python/name:os.system", "python/module:os"):
        with pytest.raises(InvalidInput, match=r"line 1: Tags are not allowed"):
            parse_space(f"a: !!{tag} ['touch {marker}']")
    assert not marker.exists()


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: " + "[" * (MAX_BYTES - 10),
        "? " * (MAX_BYTES // 2),
        "{" * MAX_BYTES,
        "a: 'x" + "\n" * (MAX_BYTES - 10),
        "x: 1\n" * (MAX_BYTES // 5),
        "a: |\n" + " x\n" * (MAX_BYTES // 3 - 5),
        "a: " + "1" * (MAX_BYTES - 10),
    ],
    ids=["aliases", "brackets", "questions", "braces", "breaks", "keys", "block", "digits"],
)
def test_bombs_are_refused_in_less_than_a_second(text: str) -> None:
    start = time.process_time()
    with pytest.raises(InvalidInput):
        parse_space(text)
    assert time.process_time() - start < 1


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("# " + "x" * MAX_BYTES + "\na: int 1 5\n")
    with pytest.raises(InvalidInput, match=f"{MAX_BYTES} bytes"):
        read_space(path)


@pytest.mark.parametrize("name", ["missing.yaml", ".", "nul\0.yaml", "x" * 300])
def test_a_path_that_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="Check the path"):
        read_space(tmp_path / name)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("a: int 1 5  # a comment\n")
    assert read_space(path) == Space({"a": Int(1, 5)})
    path.write_text("\n\na: int 5 1\n")
    with pytest.raises(InvalidInput, match=r"space\.yaml, line 3"):
        read_space(str(path))


def is_space_or_names_a_line(data: bytes | str) -> bool:
    try:
        return isinstance(parse_space(data), Space)
    except InvalidInput as error:
        return "space, line " in str(error)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=200))
@example(b"\xff\xfe\x00")
@example(b"a: \x00")
def test_any_bytes_give_a_space_or_a_clear_error(data: bytes) -> None:
    assert is_space_or_names_a_line(data)


WORDS = st.sampled_from(
    [
        "a",
        "b",
        "type",
        "float",
        "int",
        "choice",
        "low",
        "high",
        "step",
        "options",
        "when",
        "log",
        "1",
        "-1",
        "0",
        "1e3",
        "1e-3",
        ".5",
        "x",
        "true",
        "~",
        "''",
        "9e999",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "-",
        "?",
        "!",
        "&",
        "*",
        "|",
        ">",
        "'",
        '"',
        "#",
        "%",
        "\n",
        "\n  ",
        ": ",
        "- ",
        " ",
    ]
)


@settings(deadline=None, max_examples=150)
@given(st.lists(WORDS, max_size=40).map("".join))
def test_any_near_yaml_gives_a_space_or_a_clear_error(text: str) -> None:
    assert is_space_or_names_a_line(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text("ab1. ", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(["type", "low", "high", "log", "step", "options", "when", "other"])
ITEMS = st.dictionaries(KEYS, VALUES | st.sampled_from(["float", "int", "choice"]), max_size=5)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.sampled_from("abc"), ITEMS, min_size=1))
def test_any_parameter_data_give_a_space_or_a_clear_error(data: dict[str, object]) -> None:
    import yaml

    assert is_space_or_names_a_line(yaml.safe_dump(data))
