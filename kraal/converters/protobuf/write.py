"""Encodes Connect values to Protobuf bytes.

A schema and a message type are compiled to functions once. Fields are matched by name, because the message can be the
latest schema of a subject, which can differ from the translated schema. As in Java, fields are written in the order of
their numbers, so the bytes equal Java's. Default values of fields without presence are not written.
Source: https://protobuf.dev/programming-guides/encoding. Implements
https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign
from typing import Any, Final

from kraal.converters.protobuf.encode import (
    LOGICAL_TYPES,
    SCALAR_ENCODERS,
    GetFields,
    Put,
    get_integer_encoder,
)
from kraal.converters.protobuf.link import FieldType, MessageType
from kraal.converters.protobuf.names import ENUM, ProtobufOptions, is_union, scrub_name
from kraal.converters.protobuf.well_known import WRAPPERS
from kraal.converters.protobuf.wire import BYTES, put_varint, wire_type
from kraal.plugins.model.records import DataException, Struct, getter
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.conformance import has_class
from kraal.plugins.values.java_values import java_class

_INTEGERS: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})
_FLOATS: Final = frozenset({Type.FLOAT32, Type.FLOAT64})


class ProtobufWriter:
    """Compiles schemas to encoding functions, with the options of a converter."""

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def compile_root(self, schema: Schema, message: MessageType) -> Put:
        """Return a function that encodes values as a message. Raises DataException if the types are incompatible."""
        if schema.type is Type.STRUCT:
            return self._compile_struct(schema, message)
        if message.full_name not in WRAPPERS:
            raise DataException(
                f"The Protobuf message {message.full_name} cannot hold {schema.type.name}; expected a struct"
            )
        return self._compile_field(schema, message.fields[0])

    def _compile_struct(self, schema: Schema, message: MessageType) -> Put:
        parts: list[tuple[int, Callable[[Struct], Any], Put]] = []
        for member in schema.fields:
            get = getter(member, ignores_default=self._options.ignore_defaults)
            if is_union(member.schema):
                parts += self._compile_members(member.schema, get, message)
                continue
            field = message.field(scrub_name(member.name, self._options))
            if field is not None:
                parts.append((field.number, get, self._compile_field(member.schema, field)))
        parts.sort(key=lambda part: part[0])
        steps = [(get, put) for _, get, put in parts]

        def write(value: Any, out: bytearray) -> None:
            if not isinstance(value, Struct):
                raise _make_type_error(schema, value)
            if value.schema is not schema and value.schema != schema:
                raise DataException("The struct's own schema differs from the schema of the record")
            for get, put in steps:
                item = get(value)
                if item is not None:
                    put(item, out)

        return write

    def _compile_members(
        self, union: Schema, get: Callable[[Struct], Any], message: MessageType
    ) -> list[tuple[int, Callable[[Struct], Any], Put]]:
        """Return the number, getter and encoder of each member of a oneof. Only the first set member is written."""
        getters = [
            (field.name, getter(field, ignores_default=self._options.ignore_defaults))
            for field in union.fields
        ]
        members = []

        def get_member_value(value: Struct, name: str) -> Any:
            inner = get(value)
            if inner is None:
                return None
            if not isinstance(inner, Struct):
                raise _make_type_error(union, inner)
            for member, get_member in getters:
                item = get_member(inner)
                if item is not None:
                    return item if member == name else None
            raise DataException(f"No field of the union {union.name} is set; expected one")

        for union_field in union.fields:
            field = message.field(scrub_name(union_field.name, self._options))
            if field is not None:
                name = union_field.name
                put_member = self._compile_field(union_field.schema, field)
                members.append(
                    (field.number, lambda value, name=name: get_member_value(value, name), put_member)
                )
        return members  # type: ignore[return-value]

    def _compile_field(self, schema: Schema, field: FieldType) -> Put:
        """Return a function that encodes the non-null values of a field, with the tag."""
        if not field.is_repeated:
            if schema.type in {Type.ARRAY, Type.MAP}:
                raise _make_incompatible_error(schema, field)
            return _add_tag(field, self._compile_value(schema, field))
        if schema.type is Type.MAP:
            return self._compile_map(schema, field)
        if schema.type is not Type.ARRAY or schema.value is None:
            raise _make_incompatible_error(schema, field)
        return _compile_items(schema, field, self._compile_value(schema.value, field))

    def _compile_map(self, schema: Schema, field: FieldType) -> Put:
        fields = [] if field.message is None else field.message.fields
        if (
            [entry_field.name for entry_field in fields] != ["key", "value"]
            or schema.key is None
            or schema.value is None
        ):
            raise _make_incompatible_error(schema, field)
        put_key, put_value = (
            self._compile_field(schema.key, fields[0]),
            self._compile_field(schema.value, fields[1]),
        )
        tag = _encode_tag(field)

        def write(value: Any, out: bytearray) -> None:
            if not isinstance(value, dict):
                raise _make_type_error(schema, value)
            for key, item in value.items():
                body = bytearray()
                if key is not None:
                    put_key(key, body)
                if item is not None:
                    put_value(item, body)
                out += tag
                put_varint(len(body), out)
                out += body

        return write

    def _compile_value(self, schema: Schema, field: FieldType) -> Put:
        """Return a function that encodes one value without a tag."""
        if field.message is not None:
            return _add_size(self._compile_body(schema, field, field.message))
        if field.enum is not None:
            return _compile_enum(schema, field)
        is_compatible = {
            "float": schema.type in _FLOATS,
            "double": schema.type in _FLOATS,
            "bool": schema.type is Type.BOOLEAN,
            "string": schema.type is Type.STRING,
            "bytes": schema.type is Type.BYTES,
        }.get(field.kind, schema.type in _INTEGERS)
        if not is_compatible or schema.name in LOGICAL_TYPES:
            raise _make_incompatible_error(schema, field)
        put = SCALAR_ENCODERS.get(field.kind) or get_integer_encoder(field)

        def write(value: Any, out: bytearray) -> None:
            if not has_class(schema, value):
                raise _make_type_error(schema, value)
            put(value, out)

        return write

    def _compile_body(self, schema: Schema, field: FieldType, message: MessageType) -> Put:
        logical_type = LOGICAL_TYPES.get(schema.name)
        if logical_type is not None:
            type_name, get_fields = logical_type
            if message.full_name != type_name:
                raise _make_incompatible_error(schema, field)
            return _compile_logical(schema, message, get_fields)
        if message.full_name in WRAPPERS and schema.type not in {Type.STRUCT, Type.ARRAY, Type.MAP}:
            return self._compile_field(schema, message.fields[0])
        if schema.type is not Type.STRUCT or is_union(schema):
            raise _make_incompatible_error(schema, field)
        return self._compile_struct(schema, message)


def _make_incompatible_error(schema: Schema, field: FieldType) -> DataException:
    label = "repeated " if field.is_repeated else ""
    kind = field.message.full_name if field.message is not None else field.kind
    name = f" {schema.name}" if schema.name in LOGICAL_TYPES else ""
    return DataException(
        f"The Protobuf field {field.name} ({label}{kind}) cannot hold {schema.type.name}{name}"
    )


def _make_type_error(schema: Schema, value: Any) -> DataException:
    return DataException(f"Invalid type for {schema.type.name}: class {java_class(value, schema)}")


def _encode_tag(field: FieldType) -> bytes:
    out = bytearray()
    put_varint(field.number << 3 | (BYTES if field.is_packed else wire_type(field.kind)), out)
    return bytes(out)


def _add_tag(field: FieldType, put: Put) -> Put:
    tag, has_presence, default = _encode_tag(field), field.has_presence, field.default
    is_float = field.kind in {"float", "double"}

    def write(value: Any, out: bytearray) -> None:
        if has_presence:
            out += tag
            put(value, out)
            return
        body = bytearray()
        put(value, body)
        if value == default and not (is_float and copysign(1.0, value) < 0):
            return
        out += tag
        out += body

    if field.enum is not None and not has_presence:
        return _omit_default_enum(tag, put, field)
    return write


def _omit_default_enum(tag: bytes, put: Put, field: FieldType) -> Put:
    default_bytes = bytearray()
    SCALAR_ENCODERS["enum"](field.default, default_bytes)

    def write(value: Any, out: bytearray) -> None:
        body = bytearray()
        put(value, body)
        if body != default_bytes:
            out += tag
            out += body

    return write


def _compile_items(schema: Schema, field: FieldType, put: Put) -> Put:
    tag, is_packed = _encode_tag(field), field.is_packed

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, (list, tuple)):
            raise _make_type_error(schema, value)
        if None in value:
            raise DataException(f"The repeated Protobuf field {field.name} cannot hold null")
        if not is_packed:
            for item in value:
                out += tag
                put(item, out)
        elif value:
            body = bytearray()
            for item in value:
                put(item, body)
            out += tag
            put_varint(len(body), out)
            out += body

    return write


def _add_size(put: Put) -> Put:
    def write(value: Any, out: bytearray) -> None:
        body = bytearray()
        put(value, body)
        put_varint(len(body), out)
        out += body

    return write


def _compile_enum(schema: Schema, field: FieldType) -> Put:
    enum = field.enum
    assert enum is not None  # noqa: S101 - called only for enums
    numbers = {key: number for key, number in schema.parameters.items() if key.startswith(f"{ENUM}.")}
    if schema.type is not Type.STRING and schema.type not in _INTEGERS:
        raise _make_incompatible_error(schema, field)

    def write(value: Any, out: bytearray) -> None:
        if not has_class(schema, value):
            raise _make_type_error(schema, value)
        number: Any = value
        if schema.type is Type.STRING:
            number_text = numbers.get(f"{ENUM}.{value}")
            number = enum.number(value) if number_text is None else int(number_text)
            if number is None:
                symbols = ", ".join(name for name, _ in enum.values)
                raise DataException(
                    f"{value!r} is not a value of the Protobuf enum {enum.full_name}; expected one of {symbols}"
                )
        SCALAR_ENCODERS["enum"](number, out)

    return write


def _compile_logical(schema: Schema, message: MessageType, get_fields: GetFields) -> Put:
    puts = [
        (field.name, _add_tag(field, SCALAR_ENCODERS.get(field.kind) or get_integer_encoder(field)))
        for field in message.fields
    ]

    def write(value: Any, out: bytearray) -> None:
        if not has_class(schema, value):
            raise _make_type_error(schema, value)
        field_values = get_fields(value)
        for name, put in puts:
            put(field_values[name], out)

    return write
