"""Encodes primitive values, defaults and schemaless values to Avro.

Source: Avro 1.12 specification, "Binary encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from kraal.converters.avro.model import NO_DEFAULT, AvroField, Node
from kraal.plugins.model.records import DataException, Float32
from kraal.plugins.values.java_values import java_class

Write = Callable[[Any, bytearray], None]
"""Appends a value's bytes. Raises DataException."""

FLOAT: Final = struct.Struct("<f")
DOUBLE: Final = struct.Struct("<d")
_INT_RANGE: Final = (-(1 << 31), (1 << 31) - 1)
_LONG_RANGE: Final = (-(1 << 63), (1 << 63) - 1)


def put_long(value: int, out: bytearray) -> None:
    """Append an integer as a zigzag varint."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:  # noqa: PLR2004 - seven bits
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def put_bytes(value: bytes, out: bytearray) -> None:
    """Append bytes with a length prefix."""
    put_long(len(value), out)
    out += value


def utf8(value: str) -> bytes:
    """Encode text as UTF-8; unpaired surrogates become question marks."""
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace")


def _make_integer_writer(limits: tuple[int, int]) -> Write:
    low, high = limits

    def write(value: Any, out: bytearray) -> None:
        if not low <= value <= high:
            raise DataException(f"{value} is out of range; expected {low} to {high}")
        put_long(value, out)

    return write


def _put_float(value: Any, out: bytearray) -> None:
    out += FLOAT.pack(value)


def _put_double(value: Any, out: bytearray) -> None:
    out += DOUBLE.pack(value)


def _put_boolean(value: Any, out: bytearray) -> None:
    out.append(1 if value else 0)


def _put_string(value: Any, out: bytearray) -> None:
    put_bytes(value if isinstance(value, bytes) else utf8(value), out)


PRIMITIVE_WRITERS: Final[dict[str, Write]] = {
    "int": _make_integer_writer(_INT_RANGE),
    "long": _make_integer_writer(_LONG_RANGE),
    "float": _put_float,
    "double": _put_double,
    "boolean": _put_boolean,
    "string": _put_string,
    "bytes": _put_string,
}


def make_default_writer(field: AvroField) -> Write:
    """Return a function that writes the default of a field that the records lack. Raises DataException."""
    if field.default is NO_DEFAULT:
        raise DataException(f"The Avro field {field.name} has no default, and the record has no such field")
    buffer = bytearray()
    try:
        _put_default(field.node, field.default, buffer)
    except (KeyError, TypeError, ValueError, AttributeError, struct.error) as exc:
        raise DataException(
            f"The default {field.default!r} of the Avro field {field.name} does not fit its type"
        ) from exc
    encoded_default = bytes(buffer)

    def write(value: Any, out: bytearray) -> None:
        del value
        out += encoded_default

    return write


def _put_default(node: Node, value: Any, out: bytearray) -> None:
    """Append a default. `value` must be in Avro's JSON encoding."""
    match node.kind:
        case "null":
            pass
        case "union":
            put_long(0, out)  # the default of a union has the type of its first branch
            _put_default(node.branches[0], value, out)
        case "record":
            for field in node.fields:
                _put_default(field.node, value.get(field.name, field.default), out)
        case "array" | "map":
            if value:
                put_long(len(value), out)
                for item in value:
                    if node.kind == "map":
                        put_bytes(utf8(item), out)
                    _put_default(node.inner, value[item] if node.kind == "map" else item, out)
            out.append(0)
        case "enum":
            put_long(node.symbols.index(value), out)
        case "fixed":
            out += value.encode("latin-1")
        case "bytes":
            put_bytes(value.encode("latin-1"), out)
        case kind:
            PRIMITIVE_WRITERS[kind](value, out)


_FIELDS: Final = ("boolean", "bytes", "double", "float", "int", "long", "string", "array", "map")
"""Fields of the record that contains a schemaless value."""


def put_anything(value: Any, out: bytearray) -> None:
    """Append a schemaless value as a record with one field set, or no field for null."""
    if value is None:
        out += bytes(len(_FIELDS))
        return
    name, put = _infer_field(value)
    index = _FIELDS.index(name)
    out += bytes(index)
    out.append(2)
    put(value, out)
    out += bytes(len(_FIELDS) - index - 1)


def _infer_field(value: Any) -> tuple[str, Write]:
    match value:
        case bool():
            return "boolean", _put_boolean
        case int():
            return "long", PRIMITIVE_WRITERS["long"]
        case Float32():
            return "float", _put_float
        case float():
            return "double", _put_double
        case str():
            return "string", _put_string
        case list() | tuple():
            return "array", _put_anything_array
        case dict():
            return "map", _put_anything_map
        case _:
            raise DataException(
                f"A value of class {java_class(value, None)} requires a schema; only null, booleans, numbers, strings, "
                "arrays and maps can be written without one"
            )


def _put_anything_array(value: Any, out: bytearray) -> None:
    if value:
        put_long(len(value), out)
        for item in value:
            put_anything(item, out)
    out.append(0)


def _put_anything_map(value: Any, out: bytearray) -> None:
    if value:
        put_long(len(value), out)
        for key, item in value.items():
            put_anything(key, out)
            put_anything(item, out)
    out.append(0)
