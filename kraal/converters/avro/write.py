"""Encodes Connect values to Avro bytes.

A Connect schema and an Avro type are compiled once to functions, which encode values without an intermediate form.
The Avro type can differ from the translated Connect schema, because it can be the latest schema of a subject. Fields
are then matched by name, and missing fields get the Avro schema's defaults.
Source: Avro 1.12 specification, "Binary encoding". Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

from typing import Any, Final

from kraal.converters.avro.encode import (
    PRIMITIVE_WRITERS,
    Write,
    make_default_writer,
    put_anything,
    put_bytes,
    put_long,
    utf8,
)
from kraal.converters.avro.from_connect import to_underlying
from kraal.converters.avro.model import Node
from kraal.converters.avro.names import (
    AVRO_TYPES,
    ENUM,
    AvroOptions,
    get_node_member,
    get_schema_member,
    is_enum,
    is_map_entry,
    is_union,
    scrub_full_name,
    scrub_name,
)
from kraal.plugins.model.records import DECIMAL, DataException, Struct
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.conformance import has_class
from kraal.plugins.values.java_values import java_class

_COMPATIBLE_TYPES: Final = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
"""Avro types that can hold the values of each Avro type."""

NULL_NOT_ALLOWED_ERROR: Final = "Null is not allowed: the schema is not optional"


class AvroWriter:
    """Compiles schemas to encoding functions, with the options of a converter."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options

    def compile_writer(self, schema: Schema | None, node: Node) -> Write:
        """Return a function that encodes values as an Avro type. Raises DataException for incompatible types."""
        if schema is None:
            return put_anything
        if node.kind == "union":
            return self._compile_union(schema, node)
        return _reject_null(self._compile_non_null(schema, node))

    def _compile_union(self, schema: Schema, node: Node) -> Write:
        if is_union(schema):
            return self._compile_member(schema, node)
        null_index = next(
            (index for index, branch in enumerate(node.branches) if branch.kind == "null"), None
        )
        index = self._find_branch(schema, node)
        write_non_null = self._compile_non_null(schema, node.branches[index])
        if not schema.optional:
            null_index = None

        def write(value: Any, out: bytearray) -> None:
            if value is not None:
                put_long(index, out)
                write_non_null(value, out)
            elif null_index is not None:
                put_long(null_index, out)
            else:
                raise DataException(NULL_NOT_ALLOWED_ERROR)

        return write

    def _find_branch(self, schema: Schema, node: Node) -> int:
        """Return the index of the union branch for a schema.

        Branches with the schema's name are preferred, then branches with its type, then other compatible branches.
        """
        name = None if schema.name is None else scrub_full_name(schema.name, self._options)
        branch_name = schema.parameters.get(ENUM, name) if is_enum(schema) else name
        compatible_indexes = [
            index for index, branch in enumerate(node.branches) if self._fits(schema, branch)
        ]
        same_name_indexes = [
            index
            for index in compatible_indexes
            if node.branches[index].name == branch_name and branch_name is not None
        ]
        if not compatible_indexes:
            raise DataException(
                f"No type of the Avro union can hold {schema.type.name} {schema.name or ''}".rstrip()
            )
        same_type_indexes = [
            index for index in compatible_indexes if node.branches[index].kind == AVRO_TYPES[schema.type]
        ]
        return (same_name_indexes or same_type_indexes or compatible_indexes)[0]

    def _fits(self, schema: Schema, node: Node) -> bool:
        match node.kind:
            case "enum":
                return schema.type is Type.STRING
            case "fixed":
                return schema.type is Type.BYTES
            case "array" if schema.type is Type.MAP:
                return is_map_entry(node.inner)
            case "record":
                return schema.type is Type.STRUCT
            case _:
                kind = AVRO_TYPES[schema.type]
                return node.kind in _COMPATIBLE_TYPES.get(kind, (kind,))

    def _compile_member(self, schema: Schema, node: Node) -> Write:
        """Return a function that encodes the first set field of a struct as the matching member of a union."""
        indexes = {
            get_node_member(branch, self._options): index for index, branch in enumerate(node.branches)
        }
        members = []
        for member in schema.fields:
            index = indexes.get(get_schema_member(member.schema, self._options), indexes.get(member.name))
            if index is None:
                raise DataException(f"No type of the Avro union has the name {member.name}")
            members.append((member, index, self._compile_non_null(member.schema, node.branches[index])))
        null_index, optional, ignores_defaults = (
            indexes.get("null"),
            schema.optional,
            self._options.ignore_defaults,
        )

        def write(value: Any, out: bytearray) -> None:
            for field, index, write_member in () if value is None else members:
                item = value.raw(field.name) if ignores_defaults else value.get(field.name)
                if item is not None:
                    put_long(index, out)
                    write_member(item, out)
                    return
            if null_index is None or not optional:
                raise DataException(NULL_NOT_ALLOWED_ERROR)
            put_long(null_index, out)

        return write

    def _compile_non_null(self, schema: Schema, node: Node) -> Write:
        """Return a function that encodes values other than null."""
        if not self._fits(schema, node):
            raise DataException(
                f"Connect type {schema.type.name} {schema.name or ''}".rstrip()
                + f" cannot be written as Avro {node.branch_name}"
            )
        match schema.type:
            case Type.STRUCT:
                return self._compile_struct(schema, node)
            case Type.ARRAY:
                return _compile_array(schema, self.compile_writer(schema.value, node.inner))
            case Type.MAP if node.kind == "map":
                return self._compile_map(schema, node)
            case Type.MAP:
                return self._compile_entries(schema, node)
            case _:
                return _compile_plain(schema, node)

    def _compile_struct(self, schema: Schema, node: Node) -> Write:
        fields = {scrub_name(field.name, self._options): field for field in schema.fields}
        ignores_defaults = self._options.ignore_defaults
        parts: list[tuple[str | None, Any, Write]] = []
        for field in node.fields:
            member = fields.get(field.name)
            if member is None:
                parts.append((None, None, make_default_writer(field)))
            else:
                default = None if ignores_defaults else member.schema.default
                parts.append((member.name, default, self.compile_writer(member.schema, field.node)))

        def write(value: Any, out: bytearray) -> None:
            if not isinstance(value, Struct):
                raise _make_type_error(schema, value)
            if value.schema is not schema and value.schema != schema:
                raise DataException("The struct's own schema differs from the schema of the record")
            values = value.values
            for name, default, put in parts:
                item = None if name is None else values.get(name)
                put(default if item is None else item, out)

        return write

    def _compile_map(self, schema: Schema, node: Node) -> Write:
        return _compile_pairs(schema, _put_key, self.compile_writer(schema.value, node.inner))

    def _compile_entries(self, schema: Schema, node: Node) -> Write:
        key_part, value_part = node.inner.field("key"), node.inner.field("value")
        if key_part is None or value_part is None:
            raise DataException(
                "Invalid Avro record for the entries of a map; expected the fields key and value"
            )
        return _compile_pairs(
            schema,
            self.compile_writer(schema.key, key_part.node),
            self.compile_writer(schema.value, value_part.node),
        )


def _reject_null(write_non_null: Write) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if value is None:
            raise DataException(NULL_NOT_ALLOWED_ERROR)
        write_non_null(value, out)

    return write


def _make_type_error(schema: Schema, value: Any) -> DataException:
    return DataException(f"Invalid type for {schema.type.name}: class {java_class(value, schema)}")


def _compile_array(schema: Schema, write_item: Write) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, (list, tuple)):
            raise _make_type_error(schema, value)
        if value:
            put_long(len(value), out)
            for item in value:
                write_item(item, out)
        out.append(0)

    return write


def _compile_plain(schema: Schema, node: Node) -> Write:
    put = PRIMITIVE_WRITERS.get(node.kind)
    if node.kind == "enum":
        put = _compile_enum(node)
    elif node.kind == "fixed":
        put = _compile_fixed(schema, node)
    if put is None:
        raise DataException(f"No value can be written as Avro {node.kind}")
    put_value = put

    def write(value: Any, out: bytearray) -> None:
        if not has_class(schema, value):
            raise _make_type_error(schema, value)
        put_value(to_underlying(schema, value), out)

    return write


def _compile_enum(node: Node) -> Write:
    indexes = {symbol: index for index, symbol in enumerate(node.symbols)}

    def write(value: Any, out: bytearray) -> None:
        if value not in indexes:
            raise DataException(
                f"{value!r} is not a symbol of the Avro enum {node.name}; expected one of {', '.join(node.symbols)}"
            )
        put_long(indexes[value], out)

    return write


def _compile_fixed(schema: Schema, node: Node) -> Write:
    size, is_padded = node.size, schema.name == DECIMAL

    def write(value: Any, out: bytearray) -> None:
        if len(value) > size or (len(value) < size and not is_padded):
            raise DataException(
                f"Invalid length of the Avro fixed {node.name}: expected {size} bytes, got {len(value)}"
            )
        sign = b"\xff" if is_padded and value[:1] >= b"\x80" else b"\x00"
        out += sign * (size - len(value)) + value

    return write


def _compile_pairs(schema: Schema, put_key: Write, put_value: Write) -> Write:
    """Return a function that encodes a map's pairs as one block."""

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, dict):
            raise _make_type_error(schema, value)
        if value:
            put_long(len(value), out)
            for key, item in value.items():
                put_key(key, out)
                put_value(item, out)
        out.append(0)

    return write


def _put_key(key: Any, out: bytearray) -> None:
    if not isinstance(key, str):
        raise DataException("The keys of an Avro map must be strings")
    put_bytes(utf8(key), out)
