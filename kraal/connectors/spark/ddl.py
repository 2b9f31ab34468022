"""A parser for schemas in Spark's DDL that does not need Spark: checks the syntax and returns the columns.

`id BIGINT NOT NULL, name STRING COMMENT 'of a person', tags ARRAY<STRING>, at STRUCT<x: INT, y: INT>`. Spark itself
parses the same text again when a task uses it. Source: `colTypeList` in Spark's SqlBaseParser.g4 (4.2.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<word>[A-Za-z0-9_]+)|'(?P<text>(?:[^'\\]|\\.)*)'|(?P<sign>[<>(),:]))"
)
_PLAIN: Final = frozenset(
    {
        "boolean",
        "tinyint",
        "byte",
        "smallint",
        "short",
        "int",
        "integer",
        "bigint",
        "long",
        "float",
        "real",
        "double",
        "date",
        "timestamp",
        "timestamp_ntz",
        "timestamp_ltz",
        "string",
        "binary",
        "decimal",
        "dec",
        "numeric",
    }
)
_SIZED: Final = frozenset({"char", "character", "varchar"})
_DECIMALS: Final = frozenset({"decimal", "dec", "numeric"})
_OTHER: Final = frozenset({"interval", "void", "variant"})
_MAX_DIGITS: Final = 38
_MAX_DEPTH: Final = 50
_TYPES: Final = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, char(n), varchar(n), binary, date,"
    " timestamp, timestamp_ntz, array<…>, map<…,…>, struct<name: type, …>"
)


@dataclass
class _Text:
    """The remaining tokens, with their kinds."""

    tokens: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def takes(self, kind: str, *texts: str) -> bool:
        """Consume the next token if it is one of these."""
        token = self.peek()
        if token[0] != kind or token[1].lower() not in texts:
            return False
        self.at += 1
        return True

    def expect(self, sign: str, where: str) -> None:
        if not self.takes("sign", sign):
            raise ValueError(f"`{sign}` is missing {where}, before {_display(self.peek())}")


def parse_columns(ddl: str) -> Mapping[str, str]:
    """Return the column names and the first words of their types. Raises ValueError with the syntax error."""
    text = _Text(_tokens(ddl))
    if text.peek()[0] == "end":
        raise ValueError("it names no column")
    columns = _columns(text, nested=False, depth=0)
    if text.peek()[0] != "end":
        raise ValueError(f"a comma is missing before {_display(text.peek())}")
    return columns


def _tokens(ddl: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at, end = 0, len(ddl.rstrip())
    while at < end:
        match = _TOKEN.match(ddl, at)
        if match is None:
            raise ValueError(f"{ddl[at:].strip()[:20]!r} cannot be read")
        kind = match.lastgroup or ""
        value = match[kind]
        tokens.append(("name", value.replace("``", "`")) if kind == "quoted" else (kind, value))
        at = match.end()
    return tokens


def _columns(text: _Text, *, nested: bool, depth: int) -> dict[str, str]:
    columns: dict[str, str] = {}
    while True:
        kind, name = text.take()
        if kind not in {"word", "name"}:
            raise ValueError(f"a column's name is missing before {_display((kind, name))}")
        if name in columns:
            raise ValueError(f"the column {name} is there twice")
        if nested or text.peek() == ("sign", ":"):
            text.takes("sign", ":")
        columns[name] = _type(text, name, depth)
        if text.takes("word", "not") and not text.takes("word", "null"):
            raise ValueError(f"NULL is missing after NOT, of the column {name}")
        if text.takes("word", "comment") and text.take()[0] != "text":
            raise ValueError(f"the comment of the column {name} is not a text in single quotes")
        if not text.takes("sign", ","):
            return columns


def _type(text: _Text, column: str, depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise ValueError(f"the type of {column} is nested deeper than {_MAX_DEPTH} levels")
    kind, word = text.take()
    name = word.lower()
    if kind != "word" or name.isdigit():
        raise ValueError(f"the type of the column {column} is missing")
    match name:
        case "array":
            text.expect("<", f"in the array {column}")
            _type(text, column, depth + 1)
            text.expect(">", f"in the array {column}")
        case "map":
            text.expect("<", f"in the map {column}")
            _type(text, column, depth + 1)
            text.expect(",", f"in the map {column}")
            _type(text, column, depth + 1)
            text.expect(">", f"in the map {column}")
        case "struct":
            text.expect("<", f"in the struct {column}")
            if not text.takes("sign", ">"):
                _columns(text, nested=True, depth=depth + 1)
                text.expect(">", f"in the struct {column}")
        case _ if name in _PLAIN or name in _SIZED:
            _sizes(text, name, column)
        case _ if name in _OTHER:
            raise ValueError(
                f"the column {column} has type {word}, which has no Connect type; there are {_TYPES}"
            )
        case _:
            raise ValueError(f"the column {column} has the unknown type {word}; there are {_TYPES}")
    return name


def _sizes(text: _Text, name: str, column: str) -> None:
    if not text.takes("sign", "("):
        if name in _SIZED:
            raise ValueError(f"the column {column} of type {name} needs a length: {name}(n)")
        return
    sizes = [_number(text, column)]
    while text.takes("sign", ","):
        sizes.append(_number(text, column))
    text.expect(")", f"in the type of {column}")
    allowed = 2 if name in _DECIMALS else int(name in _SIZED)
    if len(sizes) > allowed:
        raise ValueError(f"the type {name} of the column {column} takes no {len(sizes)} numbers")
    if name in _DECIMALS and not (max(sizes) <= _MAX_DIGITS and sizes[0] >= sizes[-1] * (len(sizes) - 1)):
        raise ValueError(
            f"the column {column} is decimal with digits up to {_MAX_DIGITS}, of which scale is a part"
        )


def _number(text: _Text, column: str) -> int:
    kind, word = text.take()
    if kind != "word" or not word.isdigit():
        raise ValueError(f"a number is missing in the type of {column}, before {_display((kind, word))}")
    return int(word)


def _display(token: tuple[str, str]) -> str:
    return "the end" if token[0] == "end" else f"`{token[1]}`"
