"""Maps Protobuf messages to Connect schemas.

Parameters contain the number of a field and properties of its type that Connect cannot express. A oneof becomes a
struct with a field for each member. Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from kraal.converters.protobuf.link import FieldType, MessageType
from kraal.converters.protobuf.model import map_field_name
from kraal.converters.protobuf.names import (
    CONNECT_TYPE,
    ENUM,
    PRECISION,
    TAG,
    TYPE,
    UNION,
    WRAPPER,
    ProtobufOptions,
)
from kraal.converters.protobuf.well_known import DATE_TYPE, DECIMAL_TYPE, TIME_TYPE, TIMESTAMP_TYPE, WRAPPERS
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException
from kraal.plugins.model.schema import Field, Schema, Type

_INT32: Final = frozenset({"int32", "sint32", "sfixed32"})
_PLAIN_TYPES: Final = {
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "bool": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
}
_NARROW_TYPES: Final = {"int8": Type.INT8, "int16": Type.INT16}
_TIME_TYPES: Final = {
    DATE_TYPE: (Type.INT32, DATE),
    TIME_TYPE: (Type.INT32, TIME),
    TIMESTAMP_TYPE: (Type.INT64, TIMESTAMP),
}


def connect_schema(message: MessageType, options: ProtobufOptions, version: int | None) -> Schema:
    """Return the Connect schema for a message. Raises DataException if the message contains itself."""
    translator = _Translator(options)
    if options.wrapper_for_raw and message.full_name in WRAPPERS:
        return replace(get_wrapped_schema(message), version=version)
    return replace(translator.translate(message), version=version)


def get_wrapped_schema(message: MessageType) -> Schema:
    """Return the schema of the value in a wrapper message."""
    kind = WRAPPERS[message.full_name]
    return Schema(type=_PLAIN_TYPES.get(kind, Type.INT32 if kind in _INT32 else Type.INT64))


def make_union_field_name(message: MessageType, oneof: str, options: ProtobufOptions) -> str:
    """Return the name of the struct field for a oneof."""
    return f"{oneof}_{message.oneofs.index(oneof)}" if options.index_for_unions else oneof


class _Translator:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._enclosing_messages: list[MessageType] = []
        self._schemas: dict[MessageType, Schema] = {}

    def translate(self, message: MessageType) -> Schema:
        """Return the schema of a message; each message is translated once."""
        if message in self._schemas:
            return self._schemas[message]
        if message in self._enclosing_messages:
            raise DataException(
                f"The Protobuf message {message.full_name} contains itself; recursive schemas are not supported"
            )
        self._enclosing_messages.append(message)
        fields = []
        for oneof in message.oneofs:
            members = [field for field in message.fields if field.oneof == oneof]
            member_fields = [
                Field(name=member.name, schema=self._translate_field(member, is_member=True))
                for member in members
            ]
            if self._options.flatten_unions:
                fields += member_fields
            elif member_fields:
                name = f"{message.full_name}.{oneof}" if self._options.enhanced else oneof
                union = Schema(
                    type=Type.STRUCT, name=f"{UNION}.{name}", optional=True, fields=tuple(member_fields)
                )
                fields.append(Field(name=make_union_field_name(message, oneof, self._options), schema=union))
        fields += [
            Field(name=field.name, schema=self._translate_field(field, is_member=False))
            for field in message.fields
            if field.oneof is None
        ]
        self._enclosing_messages.pop()
        struct = Schema(
            type=Type.STRUCT, name=self._make_schema_name(message.full_name), fields=tuple(fields)
        )
        self._schemas[message] = struct
        return struct

    def _make_schema_name(self, full_name: str) -> str:
        return full_name if self._options.enhanced else full_name.rpartition(".")[2]

    def _translate_field(self, field: FieldType, *, is_member: bool) -> Schema:
        options = self._options
        schema = self._translate_value(field)
        if field.is_repeated and schema.type is not Type.MAP:
            schema = Schema(type=Type.ARRAY, optional=True, value=replace(schema, optional=True))
        params = {}
        optional = schema.optional or is_member
        if is_member:
            if options.wrapper_for_nullables and field.message and field.message.full_name in WRAPPERS:
                params[WRAPPER] = "true"
        elif options.optional_for_nullables:
            optional = optional or (field.has_optional_label and field.oneof is None)
        elif not options.wrapper_for_nullables:
            optional = True
        params[TAG] = str(field.number)
        return replace(schema, optional=optional, parameters={**schema.parameters, **params})

    def _translate_value(self, field: FieldType) -> Schema:
        """Return the schema of a single value of a field."""
        if field.enum is not None:
            enum = field.enum
            params = {ENUM: enum.name, **{f"{ENUM}.{name}": str(number) for name, number in enum.values}}
            return Schema(
                type=Type.INT32 if self._options.int_for_enums else Type.STRING,
                name=self._make_schema_name(enum.full_name),
                parameters=params,
                optional=True,
            )
        if field.message is not None:
            return replace(self._translate_message(field, field.message), optional=True)
        plain_type = _PLAIN_TYPES.get(field.kind)
        if plain_type is None:
            integer_type = Type.INT32 if field.kind in _INT32 else Type.INT64
            narrow_type = (
                _NARROW_TYPES.get(field.meta.get(CONNECT_TYPE, "")) if integer_type is Type.INT32 else None
            )
            if narrow_type is not None:
                return Schema(type=narrow_type)
            return Schema(
                type=integer_type, parameters={} if field.kind in {"int32", "int64"} else {TYPE: field.kind}
            )
        return Schema(type=plain_type)

    def _translate_message(self, field: FieldType, message: MessageType) -> Schema:
        full_name = message.full_name
        if full_name == DECIMAL_TYPE:
            params = {"scale": _parse_integer(field.meta.get("scale")) or "0"}
            precision = _parse_integer(field.meta.get("precision"))
            if precision is not None:
                params[PRECISION] = precision
            return Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters=params)
        if full_name in _TIME_TYPES:
            kind, name = _TIME_TYPES[full_name]
            return Schema(type=kind, name=name, version=1)
        if full_name in WRAPPERS and (self._options.wrapper_for_nullables or self._options.wrapper_for_raw):
            return get_wrapped_schema(message)
        if field.is_repeated and message.is_map_entry:
            key, value = (
                self._translate_field(entry_field, is_member=False) for entry_field in message.fields
            )
            name = map_field_name(self._make_schema_name(full_name))
            return Schema(type=Type.MAP, name=name, key=key, value=value)
        return self.translate(message)


def _parse_integer(text: str | None) -> str | None:
    """Return an integer parameter in Java's format; None if `text` is not an integer."""
    with contextlib.suppress(ValueError):
        return None if text is None else str(int(text))
    return None
