"""A search space in a YAML file.

    C: float 0.01 1000 log            # short for {type: float, low: 0.01, high: 1000, log: true}
    degree: int 1 5
    kernel: [rbf, poly]               # short for {type: choice, options: [rbf, poly]}
    coef0: {type: float, low: 0, high: 1, when: {kernel: [poly]}}

The file is read by PyYAML's SafeLoader with the plain words of YAML 1.2: `1e-3` is a number, and
only `true` and `false` are truth values. Tags, anchors and aliases are refused, as are keys that
stand twice. Every error names the line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from drbqo_ray.errors import InvalidInput, short_repr
from drbqo_ray.space.space import Space

MAX_BYTES = 1 << 16
MAX_DEPTH = 16
MAX_NODES = 10_000

_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INT = re.compile(r"[-+]?[0-9]+")
_CURE = "Write e.g. `C: float 0.01 1000 log`, `degree: int 1 5` or `kernel: [rbf, poly]`."


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader with the plain scalars of YAML 1.2 and nothing else."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"(~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)
_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def read_space(path: str | Path) -> Space:
    """The space in a YAML file.

    Raises:
        InvalidInput: the file cannot be read or is no space; the message names the line.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise InvalidInput("The space must be a YAML file.", str(path), "Check the path.")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"The space file must be readable ({error}).", str(path), "Check the path."
        ) from None
    return parse_space(data, path.name)


def parse_space(data: bytes | str, source: str = "space") -> Space:
    """The space in YAML text; `source` names it in errors.

    Raises:
        InvalidInput: the text is no space; the message names the line.
    """
    file = _SpaceFile(source)
    items, lines = file.load(data)
    plain = {name: file.plain(name, item, lines[name]) for name, item in items.items()}
    return file.build(plain, lines)


class _SpaceFile:
    """One file being read; knows its name for the errors."""

    def __init__(self, source: str) -> None:
        self.source = source

    def refuse(self, line: int, rule: str, got: object, cure: str) -> NoReturn:
        raise InvalidInput(f"{self.source}, line {line}: {rule}", got, cure) from None

    def load(self, data: bytes | str) -> tuple[dict[str, Any], dict[str, int]]:
        """The parameters as plain data, and the line of each."""
        if len(data) > MAX_BYTES:
            self.refuse(1, f"A space may take {MAX_BYTES} bytes.", f"{len(data)} or more", _CURE)
        try:
            self._check_events(data)
            root = yaml.compose(data, Loader=_PlainLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = " ".join(str(error.problem or error.context).split())
            self.refuse(mark.line + 1 if mark else 1, "This is not YAML.", problem, _CURE)
        except (yaml.YAMLError, UnicodeError, ValueError, RecursionError) as error:
            if isinstance(error, InvalidInput):
                raise
            self.refuse(1, "This is not YAML.", " ".join(str(error).split()), _CURE)
        if not isinstance(root, yaml.MappingNode) or not root.value:
            got = "an empty file" if root is None else root.id
            self.refuse(1, "A space is a mapping of name -> parameter.", got, _CURE)
        items = self._value(root)
        return items, {key.value: _line(key) for key, _ in root.value}

    def _check_events(self, data: bytes | str) -> None:
        """Refuse what could take long or name Python objects, before anything is built."""
        depth = nodes = 0
        for event in yaml.parse(data, Loader=_PlainLoader):
            line = _line(event)
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                self.refuse(line, "Anchors and aliases are not allowed.", "one", "Write it out.")
            if isinstance(event, yaml.NodeEvent):
                nodes += 1
                tag = getattr(event, "tag", None)
                if tag:
                    self.refuse(line, "Tags are not allowed.", tag, "Drop the tag.")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH or nodes > MAX_NODES:
                self.refuse(
                    line,
                    f"A space may nest {MAX_DEPTH} levels and hold {MAX_NODES} values.",
                    "more",
                    "Shorten it.",
                )

    def _value(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            found: dict[str, Any] = {}
            for key, item in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else None
                if not isinstance(name, str) or not name:
                    self.refuse(_line(key), "Keys must be words.", key.id, "Name the parameter.")
                if name in found:
                    self.refuse(_line(key), "A key may stand once.", name, "Drop one of them.")
                found[name] = self._value(item)
            return found
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text: str = node.value
        if node.tag.endswith(":null"):
            return None
        if node.tag.endswith(":bool"):
            return text.lower() == "true"
        if node.style is not None:
            return text
        value = self._read_number(text, _line(node))
        return text if value is None else value

    def _read_number(self, text: str, line: int) -> int | float | None:
        """The number that a word stands for, None when it is no number."""
        if not _NUMBER.fullmatch(text):
            return None
        try:
            value = int(text) if _INT.fullmatch(text) else float(text)
            float(value)
        except (ValueError, OverflowError):
            value = math.inf
        if not math.isfinite(value):
            self.refuse(line, "Numbers must be finite.", text, "Use an ordinary number.")
        return value

    def plain(self, name: str, item: Any, line: int) -> dict[str, Any]:
        """The plain-data form of a parameter, short forms written out."""
        if isinstance(item, list):
            return {"type": "choice", "options": item}
        if isinstance(item, str):
            return self._words(name, item.split(), line)
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            self.refuse(line, f"Parameter {name!r} needs a type.", item, _CURE)
        if not isinstance(item.get("log", False), bool):
            self.refuse(line, "`log` is true or false.", item["log"], "Write log: true.")
        return item

    def _words(self, name: str, words: list[str], line: int) -> dict[str, Any]:
        kind, *rest = words or [""]
        log = rest[2:] == ["log"]
        ends = [self._read_number(word, line) for word in rest[:2]]
        if kind not in ("float", "int") or len(rest) != 2 + log or None in ends:
            rule = f"Parameter {name!r} must be `float LOW HIGH`, `int LOW HIGH`, with or without"
            self.refuse(line, f"{rule} `log`.", " ".join(words), _CURE)
        return {"type": kind, "low": ends[0], "high": ends[1], "log": log}

    def build(self, plain: dict[str, dict[str, Any]], lines: Mapping[str, int]) -> Space:
        """The space; the parameter that breaks a rule is found by building them in turn."""
        free = {name: _unconditional(item) for name, item in plain.items()}
        for name, item in free.items():
            self._space({name: item}, lines[name])
        for name, item in plain.items():
            if "when" in item:
                self._space({**free, name: item}, lines[name])
        conditional = [lines[name] for name, item in plain.items() if "when" in item]
        return self._space(plain, min(conditional, default=1))

    def _space(self, plain: Mapping[str, Any], line: int) -> Space:
        try:
            return Space(plain)
        except InvalidInput as error:
            self.refuse(line, error.rule, error.got, error.cure)
        except (TypeError, ValueError, ArithmeticError) as error:
            self.refuse(line, f"The parameter cannot be used: {error}.", short_repr(plain), _CURE)


def _line(place: Any) -> int:
    return int(place.start_mark.line) + 1 if place.start_mark else 1


def _unconditional(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "when"}
