"""Decodes Avro bytes to Connect values.

As in `write`, an Avro type and a Connect schema are compiled once to functions.
Source: Avro 1.12 specification, "Binary encoding". Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kraal.converters.avro.encode import DOUBLE, FLOAT
from kraal.converters.avro.model import ANYTHING, Node
from kraal.converters.avro.names import AvroOptions, get_node_member
from kraal.converters.avro.to_connect import get_only_branch
from kraal.plugins.model.records import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    DataException,
    Float32,
    Instant,
    Struct,
)
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.logical import narrow, to_date, to_decimal, to_time
from kraal.plugins.values.map_keys import as_key


class MalformedValue(Exception):
    """Raised if bytes do not match their schema."""


class Cursor:
    """Bytes with a read position."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, size: int) -> bytes:
        """Consume and return the next `size` bytes. Raises MalformedValue if fewer remain."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise MalformedValue(
                f"truncated value: expected {size} more bytes, got {len(self.data) - self.at}"
            )
        part = self.data[self.at : end]
        self.at = end
        return part

    def long(self) -> int:
        """Consume and return the next zigzag varint. Raises MalformedValue."""
        data, at, shift, zigzag = self.data, self.at, 0, 0
        try:
            while True:
                byte = data[at]
                at += 1
                zigzag |= (byte & 0x7F) << shift
                if byte < 0x80:  # noqa: PLR2004 - the last byte
                    break
                shift += 7
        except IndexError:
            raise MalformedValue("truncated value: it ends inside a number") from None
        if shift > 63:  # noqa: PLR2004 - bits of a long
            raise MalformedValue("a number has more than ten bytes")
        self.at = at
        return narrow((zigzag >> 1) ^ -(zigzag & 1), 64)


Read = Callable[[Cursor], Any]
"""Reads the next value. Raises MalformedValue and DataException."""


class AvroReader:
    """Compiles Avro types to decoding functions, with the options of a converter."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options

    def compile_reader(self, node: Node, schema: Schema | None) -> Read:
        """Return a function that decodes the values of an Avro type to Connect values."""
        if schema is None:
            return _read_anything
        match node.kind:
            case "union":
                return self._compile_union(node, schema)
            case "record":
                return self._compile_record(node, schema)
            case "array" if schema.type is Type.MAP:
                return self._compile_entries(node, schema)
            case "array":
                return _compile_items(self.compile_reader(node.inner, schema.value))
            case "map":
                return self._compile_map(node, schema)
            case _:
                return _compile_logical(schema, _compile_plain(node, schema))

    def _compile_union(self, node: Node, schema: Schema) -> Read:
        only_branch = get_only_branch(node, self._options)
        readers: list[Read] = []
        members = {field.name: field.schema for field in schema.fields}
        for branch in node.branches:
            if branch.kind == "null":
                readers.append(_read_null)
            elif only_branch is not None:
                readers.append(self.compile_reader(branch, schema))
            else:
                name = get_node_member(branch, self._options)
                readers.append(_wrap_member(schema, name, self.compile_reader(branch, members[name])))

        def read(cursor: Cursor) -> Any:
            return _read_branch(readers, cursor)(cursor)

        return read

    def _compile_record(self, node: Node, schema: Schema) -> Read:
        schemas = {field.name: field.schema for field in schema.fields}
        readers = [
            (field.name, self.compile_reader(field.node, schemas[field.name])) for field in node.fields
        ]

        def read(cursor: Cursor) -> Struct:
            return Struct(schema, {name: read_field(cursor) for name, read_field in readers})

        return read

    def _compile_map(self, node: Node, schema: Schema) -> Read:
        read_item = self.compile_reader(node.inner, schema.value)

        def read(cursor: Cursor) -> dict[Any, Any]:
            entries = {}
            while count := _read_count(cursor):
                for _ in range(count):
                    name = _read_string(cursor)
                    entries[name] = read_item(cursor)
            return entries

        return read

    def _compile_entries(self, node: Node, schema: Schema) -> Read:
        types = {field.name: field.node for field in node.inner.fields}
        readers = {
            "key": self.compile_reader(types["key"], schema.key),
            "value": self.compile_reader(types["value"], schema.value),
        }
        ordered_readers = [(field.name, readers[field.name]) for field in node.inner.fields]

        def read(cursor: Cursor) -> dict[Any, Any]:
            entries = {}
            while count := _read_count(cursor):
                for _ in range(count):
                    entry = {name: read_part(cursor) for name, read_part in ordered_readers}
                    entries[as_key(entry["key"])] = entry["value"]
            return entries

        return read


def _read_null(cursor: Cursor) -> None:
    del cursor


def _read_branch(readers: list[Read], cursor: Cursor) -> Read:
    index = cursor.long()
    if not 0 <= index < len(readers):
        raise MalformedValue(f"invalid index {index} of a union; expected 0 to {len(readers) - 1}")
    return readers[index]


def _wrap_member(schema: Schema, name: str, read_member: Read) -> Read:
    def read(cursor: Cursor) -> Struct:
        return Struct(schema, {name: read_member(cursor)})

    return read


def _read_count(cursor: Cursor) -> int:
    """Return the number of items in the next block; 0 marks the end."""
    count = cursor.long()
    if count < 0:
        count = -count
        cursor.long()  # the block's size in bytes
    if count > len(cursor.data):
        raise MalformedValue(f"invalid number of items {count}: the record has only {len(cursor.data)} bytes")
    return count


def _compile_items(read_item: Read) -> Read:
    def read(cursor: Cursor) -> list[Any]:
        items: list[Any] = []
        while count := _read_count(cursor):
            items += [read_item(cursor) for _ in range(count)]
        return items

    return read


def _compile_logical(schema: Schema, read_plain: Read) -> Read:
    convert: Callable[[Any], Any]
    match schema.name:
        case str() as name if name == DECIMAL:
            convert = _make_decimal_converter(schema)
        case str() as name if name == DATE:
            convert = to_date
        case str() as name if name == TIME:
            convert = to_time
        case str() as name if name == TIMESTAMP:
            convert = Instant
        case _:
            return read_plain

    def read(cursor: Cursor) -> Any:
        return convert(read_plain(cursor))

    return read


def _make_decimal_converter(schema: Schema) -> Callable[[bytes], Any]:
    def convert(data: bytes) -> Any:
        try:
            return to_decimal(schema, data)
        except ValueError as exc:
            raise DataException("Invalid bytes for Decimal field") from exc

    return convert


def _compile_plain(node: Node, schema: Schema) -> Read:
    if node.kind == "enum":
        return _compile_enum(node)
    if node.kind == "fixed":
        size = node.size
        return lambda cursor: cursor.take(size)
    if node.kind == "int":
        bits = {Type.INT8: 8, Type.INT16: 16}.get(schema.type, 32)
        return lambda cursor: narrow(cursor.long(), bits)
    return _READERS[node.kind]


def _compile_enum(node: Node) -> Read:
    symbols = node.symbols

    def read(cursor: Cursor) -> str:
        index = cursor.long()
        if not 0 <= index < len(symbols):
            raise MalformedValue(
                f"invalid index {index} of the enum {node.name}; expected 0 to {len(symbols) - 1}"
            )
        return symbols[index]

    return read


def _read_boolean(cursor: Cursor) -> bool:
    return cursor.take(1) == b"\x01"


def _read_float(cursor: Cursor) -> Float32:
    return Float32(FLOAT.unpack(cursor.take(4))[0])


def _read_double(cursor: Cursor) -> float:
    number: float = DOUBLE.unpack(cursor.take(8))[0]
    return number


def _read_bytes(cursor: Cursor) -> bytes:
    return cursor.take(cursor.long())


def _read_string(cursor: Cursor) -> str:
    return cursor.take(cursor.long()).decode("utf-8", "replace")


_READERS: Final[dict[str, Read]] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "long": Cursor.long,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_string,
}


def _read_anything(cursor: Cursor) -> Any:
    """Read a schemaless value: the value of the first field that is set."""
    result = None
    for field in ANYTHING.fields:
        if _read_branch([_read_null, _ANYTHING_READERS[field.name]], cursor) is not _read_null:
            value = _ANYTHING_READERS[field.name](cursor)
            result = value if result is None else result
    return result


def _read_anything_map(cursor: Cursor) -> dict[Any, Any]:
    entries = {}
    while count := _read_count(cursor):
        for _ in range(count):
            key = _read_anything(cursor)
            entries[as_key(key)] = _read_anything(cursor)
    return entries


_ANYTHING_READERS: Final[dict[str, Read]] = {
    "boolean": _read_boolean,
    "bytes": _read_bytes,
    "double": _read_double,
    "float": _read_float,
    "int": Cursor.long,
    "long": Cursor.long,
    "string": _read_string,
    "array": _compile_items(_read_anything),
    "map": _read_anything_map,
}
