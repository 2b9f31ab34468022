"""Parses schemas in Spark's DDL without Spark: checks the syntax and returns the columns.

Example: `id BIGINT NOT NULL, name STRING COMMENT 'of a person', tags ARRAY<STRING>, at STRUCT<x: INT, y: INT>`. Spark
parses the text again when a task uses it. Source: `colTypeList` in Spark's SqlBaseParser.g4 (4.2.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<word>[A-Za-z0-9_]+)|'(?P<text>(?:[^'\\]|\\.)*)'|(?P<symbol>[<>(),:]))"
)
_PLAIN_TYPES: Final = frozenset(
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
_TYPES_WITH_LENGTH: Final = frozenset({"char", "character", "varchar"})
_DECIMAL_TYPES: Final = frozenset({"decimal", "dec", "numeric"})
_TYPES_WITHOUT_SCHEMA: Final = frozenset({"interval", "void", "variant"})
_MAX_DIGITS: Final = 38
_MAX_DEPTH: Final = 50
_SUPPORTED_TYPES: Final = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, char(n), varchar(n), binary, date,"
    " timestamp, timestamp_ntz, array<…>, map<…,…>, struct<name: type, …>"
)


@dataclass
class _TokenStream:
    """A sequence of tokens, as pairs of kind and text, with a read position."""

    tokens: list[tuple[str, str]] = field(default_factory=list)
    position: int = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else ("end", "")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.position += 1
        return token

    def consume_if(self, kind: str, *texts: str) -> bool:
        """Consume the next token if it has this kind and one of these texts; return whether it was consumed."""
        token = self.peek()
        if token[0] != kind or token[1].lower() not in texts:
            return False
        self.position += 1
        return True

    def expect(self, symbol: str, where: str) -> None:
        if not self.consume_if("symbol", symbol):
            raise ValueError(f"`{symbol}` is missing {where}, before {_display(self.peek())}")


def parse_columns(ddl: str) -> Mapping[str, str]:
    """Return the type name of each column, without parameters. Raises ValueError with the syntax error."""
    stream = _TokenStream(_tokenize(ddl))
    if stream.peek()[0] == "end":
        raise ValueError("it has no columns")
    columns = _parse_columns(stream, is_nested=False, depth=0)
    if stream.peek()[0] != "end":
        raise ValueError(f"a comma is missing before {_display(stream.peek())}")
    return columns


def _tokenize(ddl: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position, end = 0, len(ddl.rstrip())
    while position < end:
        match = _TOKEN.match(ddl, position)
        if match is None:
            raise ValueError(f"unexpected text {ddl[position:].strip()[:20]!r}")
        kind = match.lastgroup or ""
        value = match[kind]
        tokens.append(("name", value.replace("``", "`")) if kind == "quoted" else (kind, value))
        position = match.end()
    return tokens


def _parse_columns(stream: _TokenStream, *, is_nested: bool, depth: int) -> dict[str, str]:
    columns: dict[str, str] = {}
    while True:
        kind, name = stream.take()
        if kind not in {"word", "name"}:
            raise ValueError(f"a column name is missing before {_display((kind, name))}")
        if name in columns:
            raise ValueError(f"duplicate column {name}")
        if is_nested or stream.peek() == ("symbol", ":"):
            stream.consume_if("symbol", ":")
        columns[name] = _parse_type(stream, name, depth)
        if stream.consume_if("word", "not") and not stream.consume_if("word", "null"):
            raise ValueError(f"NULL is missing after NOT in the column {name}")
        if stream.consume_if("word", "comment") and stream.take()[0] != "text":
            raise ValueError(f"the comment of the column {name} is not a string in single quotes")
        if not stream.consume_if("symbol", ","):
            return columns


def _parse_type(stream: _TokenStream, column: str, depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise ValueError(f"the type of {column} is nested deeper than {_MAX_DEPTH} levels")
    kind, word = stream.take()
    name = word.lower()
    if kind != "word" or name.isdigit():
        raise ValueError(f"the type of the column {column} is missing")
    match name:
        case "array":
            stream.expect("<", f"in the array {column}")
            _parse_type(stream, column, depth + 1)
            stream.expect(">", f"in the array {column}")
        case "map":
            stream.expect("<", f"in the map {column}")
            _parse_type(stream, column, depth + 1)
            stream.expect(",", f"in the map {column}")
            _parse_type(stream, column, depth + 1)
            stream.expect(">", f"in the map {column}")
        case "struct":
            stream.expect("<", f"in the struct {column}")
            if not stream.consume_if("symbol", ">"):
                _parse_columns(stream, is_nested=True, depth=depth + 1)
                stream.expect(">", f"in the struct {column}")
        case _ if name in _PLAIN_TYPES or name in _TYPES_WITH_LENGTH:
            _parse_sizes(stream, name, column)
        case _ if name in _TYPES_WITHOUT_SCHEMA:
            raise ValueError(
                f"the column {column} has type {word}, which has no Connect type; use {_SUPPORTED_TYPES}"
            )
        case _:
            raise ValueError(f"the column {column} has the unknown type {word}; use {_SUPPORTED_TYPES}")
    return name


def _parse_sizes(stream: _TokenStream, name: str, column: str) -> None:
    if not stream.consume_if("symbol", "("):
        if name in _TYPES_WITH_LENGTH:
            raise ValueError(f"the column {column} of type {name} requires a length: {name}(n)")
        return
    sizes = [_parse_number(stream, column)]
    while stream.consume_if("symbol", ","):
        sizes.append(_parse_number(stream, column))
    stream.expect(")", f"in the type of {column}")
    max_sizes = 2 if name in _DECIMAL_TYPES else int(name in _TYPES_WITH_LENGTH)
    if len(sizes) > max_sizes:
        raise ValueError(f"the type {name} of the column {column} does not accept {len(sizes)} numbers")
    if name in _DECIMAL_TYPES and not (
        max(sizes) <= _MAX_DIGITS and sizes[0] >= sizes[-1] * (len(sizes) - 1)
    ):
        raise ValueError(
            f"the column {column} needs a precision of at most {_MAX_DIGITS}, and a scale of at most the precision"
        )


def _parse_number(stream: _TokenStream, column: str) -> int:
    kind, word = stream.take()
    if kind != "word" or not word.isdigit():
        raise ValueError(f"a number is missing in the type of {column}, before {_display((kind, word))}")
    return int(word)


def _display(token: tuple[str, str]) -> str:
    return "the end" if token[0] == "end" else f"`{token[1]}`"
