"""Rewrites JSON that Jackson accepts and Spark's parser does not, without changing its value.

Jackson accepts escaped halves of surrogate pairs, leading zeros, text in UTF-16, and anything after the first value. A
half becomes `?`, as when Java encodes a String.
Source: StringCoding.encodeUTF8 (Java 17), UTF8StreamJsonParser (Jackson 2.21).
"""

from __future__ import annotations

from typing import Any

from kraal.converters.json.parse import EXACT, MISSING, Fraction, decode_text, parse
from kraal.converters.json.write import quote
from kraal.plugins.model.records import DataException


def strict(data: bytes) -> bytes:
    """Return JSON of the same value that every parser accepts; `data` itself if it is blank or Jackson refuses it."""
    try:
        node = parse(decode_text(data), EXACT)
        return data if node is MISSING else _text(node).encode()
    except (
        DataException,
        RecursionError,
        ValueError,
    ):  # ValueError: a number with too many digits for Python
        return data


def _text(node: Any) -> str:
    match node:
        case None:
            return "null"
        case bool():
            return "true" if node else "false"
        case Fraction() | int():
            return str(node)
        case dict():
            return "{" + ",".join([f"{_quote(name)}:{_text(item)}" for name, item in node.items()]) + "}"
        case list():
            return "[" + ",".join(map(_text, node)) + "]"
        case _:
            return _quote(node)


def _quote(text: str) -> str:
    return quote(text if text.isascii() else text.encode("utf-8", "replace").decode())
