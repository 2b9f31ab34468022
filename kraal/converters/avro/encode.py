"""Avro's bytes of what has no parts, of defaults, and of values without a schema.

Source: Avro 1.12's binary encoding; AvroData.ANYTHING_SCHEMA (Confluent Schema Registry 8).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from kraal.converters.avro.model import NO_DEFAULT, AvroField, Node
from kraal.plugins.java_values import java_class
from kraal.plugins.records import DataException, Float32

Write = Callable[[Any, bytearray], None]
"""Appends a value's bytes. Raises DataException."""

FLOAT: Final = struct.Struct("<f")
DOUBLE: Final = struct.Struct("<d")
_INT: Final = (-(1 << 31), (1 << 31) - 1)
_LONG: Final = (-(1 << 63), (1 << 63) - 1)


def put_long(value: int, out: bytearray) -> None:
    """Append a whole number: zigzag, seven bits a byte."""
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:  # noqa: PLR2004 - seven bits
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)


def put_bytes(value: bytes, out: bytearray) -> None:
    """Append a length and bytes."""
    put_long(len(value), out)
    out += value


def utf8(value: str) -> bytes:
    """Return text as UTF-8; halves of pairs become question marks."""
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace")


def _whole(limits: tuple[int, int]) -> Write:
    low, high = limits

    def write(value: Any, out: bytearray) -> None:
        if not low <= value <= high:
            raise DataException(f"{value} is not within {low} to {high}")
        put_long(value, out)

    return write


def _float(value: Any, out: bytearray) -> None:
    out += FLOAT.pack(value)


def _double(value: Any, out: bytearray) -> None:
    out += DOUBLE.pack(value)


def _boolean(value: Any, out: bytearray) -> None:
    out.append(1 if value else 0)


def _string(value: Any, out: bytearray) -> None:
    put_bytes(value if isinstance(value, bytes) else utf8(value), out)


PUTS: Final[dict[str, Write]] = {
    "int": _whole(_INT),
    "long": _whole(_LONG),
    "float": _float,
    "double": _double,
    "boolean": _boolean,
    "string": _string,
    "bytes": _string,
}


def constant(field: AvroField) -> Write:
    """Return what writes a field that values lack: its default, the same bytes each time."""
    if field.default is NO_DEFAULT:
        raise DataException(f"Incompatible schema: the field {field.name} has no default, and no value")
    made = bytearray()
    try:
        _put_json(field.node, field.default, made)
    except (KeyError, TypeError, ValueError, AttributeError, struct.error) as exc:
        raise DataException(f"Invalid default for field {field.name}: {field.default!r}") from exc
    known = bytes(made)

    def write(value: Any, out: bytearray) -> None:
        del value
        out += known

    return write


def _put_json(node: Node, said: Any, out: bytearray) -> None:
    """Append what JSON says a default is."""
    match node.kind:
        case "null":
            pass
        case "union":
            put_long(0, out)  # a default is of the first type
            _put_json(node.branches[0], said, out)
        case "record":
            for field in node.fields:
                _put_json(field.node, said.get(field.name, field.default), out)
        case "array" | "map":
            if said:
                put_long(len(said), out)
                for each in said:
                    if node.kind == "map":
                        put_bytes(utf8(each), out)
                    _put_json(node.inner, said[each] if node.kind == "map" else each, out)
            out.append(0)
        case "enum":
            put_long(node.symbols.index(said), out)
        case "fixed":
            out += said.encode("latin-1")
        case "bytes":
            put_bytes(said.encode("latin-1"), out)
        case kind:
            PUTS[kind](said, out)


_FIELDS: Final = ("boolean", "bytes", "double", "float", "int", "long", "string", "array", "map")
"""Of the record that stands for values without a schema."""


def put_anything(value: Any, out: bytearray) -> None:
    """Append a value without a schema: a record with one field set, or none for null."""
    if value is None:
        out += bytes(len(_FIELDS))
        return
    name, put = _field_of(value)
    at = _FIELDS.index(name)
    out += bytes(at)
    out.append(2)
    put(value, out)
    out += bytes(len(_FIELDS) - at - 1)


def _field_of(value: Any) -> tuple[str, Write]:
    match value:
        case bool():
            return "boolean", _boolean
        case int():
            return "long", PUTS["long"]
        case Float32():
            return "float", _float
        case float():
            return "double", _double
        case str():
            return "string", _string
        case list() | tuple():
            return "array", _anything_array
        case dict():
            return "map", _anything_map
        case _:
            raise DataException(f"Unknown Java type for schemaless data: class {java_class(value, None)}")


def _anything_array(value: Any, out: bytearray) -> None:
    if value:
        put_long(len(value), out)
        for each in value:
            put_anything(each, out)
    out.append(0)


def _anything_map(value: Any, out: bytearray) -> None:
    if value:
        put_long(len(value), out)
        for key, each in value.items():
            put_anything(key, out)
            put_anything(each, out)
    out.append(0)
