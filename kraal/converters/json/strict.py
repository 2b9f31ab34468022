"""Rewrites JSON that Jackson accepts but Spark's parser rejects, without changing its value.

Jackson accepts escaped unpaired surrogates, leading zeros, UTF-16, and any text after the first value. An unpaired
surrogate becomes `?`, as when Java encodes a String.
Source: StringCoding.encodeUTF8 (Java 17), UTF8StreamJsonParser (Jackson 2.21).
"""

from __future__ import annotations

from typing import Any

from kraal.converters.json.parse import EXACT_DECODER, MISSING, Fraction, decode_text, parse
from kraal.converters.json.write import quote
from kraal.plugins.model.records import DataException


def to_strict_json(data: bytes) -> bytes:
    """Return strict JSON with the same value. Blank data and data that Jackson rejects are returned unchanged."""
    try:
        node = parse(decode_text(data), EXACT_DECODER)
        return data if node is MISSING else _to_json(node).encode()
    except (DataException, RecursionError, ValueError):
        return data  # Python raises ValueError for a number with too many digits


def _to_json(node: Any) -> str:
    match node:
        case None:
            return "null"
        case bool():
            return "true" if node else "false"
        case Fraction() | int():
            return str(node)
        case dict():
            members = [f"{_quote_replacing_surrogates(name)}:{_to_json(item)}" for name, item in node.items()]
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(map(_to_json, node)) + "]"
        case _:
            return _quote_replacing_surrogates(node)


def _quote_replacing_surrogates(text: str) -> str:
    return quote(text if text.isascii() else text.encode("utf-8", "replace").decode())
