"""Maps Connect schemas to .proto files.

A struct becomes a message, which contains the declarations of its structs, maps and enums. Values other than structs
use Google's wrapper messages. Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

from typing import Final

from kraal.converters.protobuf.model import (
    FIELD_META,
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    map_entry_name,
)
from kraal.converters.protobuf.names import (
    CONNECT_TYPE,
    DEFAULT_NAME,
    ENUM,
    PRECISION,
    TAG,
    TYPE,
    UNION,
    WRAPPER,
    ProtobufOptions,
    check_name,
    full_name,
    is_union,
    scrub_name,
    split_name,
)
from kraal.converters.protobuf.render import WRAPPERS_TEXT, render_file
from kraal.converters.protobuf.well_known import (
    DATE_TYPE,
    DECIMAL_TYPE,
    FILES_BY_TYPE,
    TIME_TYPE,
    TIMESTAMP_TYPE,
)
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException
from kraal.plugins.model.schema import Schema, Type

_LOGICAL_TYPES: Final = {DECIMAL: DECIMAL_TYPE, DATE: DATE_TYPE, TIME: TIME_TYPE, TIMESTAMP: TIMESTAMP_TYPE}
_PLAIN_TYPES: Final = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_WRAPPER_TYPES: Final = {
    "int32": "Int32Value",
    "int64": "Int64Value",
    "uint32": "UInt32Value",
    "fixed32": "UInt32Value",
    "uint64": "UInt64Value",
    "fixed64": "UInt64Value",
    "float": "FloatValue",
    "double": "DoubleValue",
    "bool": "BoolValue",
    "string": "StringValue",
    "bytes": "BytesValue",
}
_NARROW_TYPES: Final = {Type.INT8: "int8", Type.INT16: "int16"}


def to_proto(schema: Schema | None, options: ProtobufOptions) -> tuple[str, str]:
    """Return the .proto text for a Connect schema and the full name of its message. Raises DataException."""
    if schema is None:
        raise DataException("Protobuf requires a schema: schemaless values cannot be written")
    if schema.type is Type.STRUCT and not is_union(schema):
        package, name = split_name(schema.name, options)
        file = ProtoFile("proto3", package)
        translator = _Translator(options, file)
        if not schema.name:
            translator.unnamed_count = 1
        file.messages.append(translator.message(name, schema))
        return render_file(file), full_name(schema, options)
    if schema.type not in _PLAIN_TYPES:
        raise DataException(
            f"A schema of type {schema.type.name} has no Protobuf message; expected a struct or a primitive type"
        )
    if schema.name in _LOGICAL_TYPES:
        raise DataException(
            f"{schema.name} cannot be a top-level value in Protobuf; use it as a field of a struct"
        )
    return WRAPPERS_TEXT, f"google.protobuf.{_WRAPPER_TYPES[_PLAIN_TYPES[schema.type]]}"


class _Translator:
    """Translates one schema to a file."""

    def __init__(self, options: ProtobufOptions, file: ProtoFile) -> None:
        self._options = options
        self._file = file
        self.unnamed_count = 0

    def message(self, name: str, schema: Schema) -> ProtoMessage:
        message = ProtoMessage(check_name(name))
        index = 1
        for field in schema.fields:
            tag = field.schema.parameters.get(TAG)
            number, index = (index, index + 1) if tag is None else (int(tag), index)
            self._add_field(message, field.schema, scrub_name(field.name, self._options), number)
        return message

    def _add_field(
        self, owner: ProtoMessage, schema: Schema, name: str, number: int, oneof: int | None = None
    ) -> None:
        """Add a field, and the declarations that it requires, to a message."""
        label = (
            self._choose_field_label(schema) if oneof is None or schema.type in {Type.ARRAY, Type.MAP} else ""
        )
        if schema.type is Type.ARRAY and schema.value is not None:
            schema = schema.value
            if schema.type is Type.MAP:
                raise DataException(f"The field {name} is an array of maps, which Protobuf cannot represent")
        if is_union(schema):
            self._add_oneof(owner, schema)
            return
        if number <= 0:
            raise DataException(
                f"Invalid number {number} of the field {name} (parameter {TAG}); expected a positive integer"
            )
        params: dict[str, str] = {}
        kind = self._translate_field_type(schema, name, params, is_member=oneof is not None)
        self._add_declaration(owner, schema, kind)
        field = ProtoField(check_name(name), number, kind, label, oneof)
        if params:
            pairs = [{"key": key, "value": value} for key, value in params.items()]
            field.options[FIELD_META] = {"params": pairs}
        owner.fields.append(field)

    def _add_oneof(self, owner: ProtoMessage, schema: Schema) -> None:
        owner.oneofs.append(check_name(self._make_unqualified_name((schema.name or "")[len(UNION) + 1 :])))
        index = len(owner.oneofs) - 1
        for field in schema.fields:
            number = int(field.schema.parameters.get(TAG, "0"))
            self._add_field(owner, field.schema, scrub_name(field.name, self._options), number, index)

    def _choose_field_label(self, schema: Schema) -> str:
        if schema.type in {Type.ARRAY, Type.MAP}:
            return "repeated"
        return "optional" if self._options.optional_for_nullables and schema.optional else ""

    def _add_declaration(self, owner: ProtoMessage, schema: Schema, kind: str) -> None:
        names = {message.name for message in owner.messages} | {owner.name}
        if schema.type is Type.STRUCT:
            if kind not in names:
                message = self.message(kind, schema)
                owner.messages.append(message)
        elif schema.type is Type.MAP and schema.key is not None and schema.value is not None:
            entry = ProtoMessage(kind)
            self._add_field(entry, schema.key, "key", 1)
            self._add_field(entry, schema.value, "value", 2)
            owner.messages.append(entry)
        elif ENUM in schema.parameters:
            name = self._make_unqualified_name(schema.name)
            if name not in {enum.name for enum in owner.enums}:
                prefix = f"{ENUM}."
                values = [
                    (key.removeprefix(prefix), int(number))
                    for key, number in schema.parameters.items()
                    if key.startswith(prefix)
                ]
                owner.enums.append(ProtoEnum(check_name(name), values))
        elif kind in FILES_BY_TYPE and FILES_BY_TYPE[kind] not in self._file.imports:
            self._file.imports.append(FILES_BY_TYPE[kind])

    def _translate_field_type(
        self, schema: Schema, name: str, params: dict[str, str], *, is_member: bool
    ) -> str:
        """Return the type of a field, and add to `params` the metadata that Protobuf cannot express."""
        if schema.name in _LOGICAL_TYPES:
            if schema.name == DECIMAL:
                decimal_params = {
                    "precision": schema.parameters.get(PRECISION),
                    "scale": schema.parameters.get("scale"),
                }
                params |= {key: text for key, text in decimal_params.items() if text is not None}
            return _LOGICAL_TYPES[schema.name]
        match schema.type:
            case Type.ARRAY:
                raise DataException(
                    f"The field {name} is an array of arrays, which Protobuf cannot represent"
                )
            case Type.MAP:
                return map_entry_name(self._make_unqualified_name(schema.name))
            case Type.STRUCT:
                message_name = self._make_unqualified_name(schema.name)
                return f"{message_name}Message" if message_name == name else message_name
            case Type.STRING | Type.INT32 if ENUM in schema.parameters:
                return schema.parameters[ENUM]
            case kind:
                if kind in _NARROW_TYPES:
                    params[CONNECT_TYPE] = _NARROW_TYPES[kind]
                scalar = _PLAIN_TYPES[kind]
                if kind in {Type.INT32, Type.INT64}:
                    scalar = schema.parameters.get(TYPE, scalar)
                if not (self._options.wrapper_for_nullables and schema.optional):
                    return scalar
                if is_member and schema.parameters.get(WRAPPER) != "true":
                    return scalar
                return f"google.protobuf.{_WRAPPER_TYPES.get(scalar, _WRAPPER_TYPES[_PLAIN_TYPES[kind]])}"

    def _make_unqualified_name(self, name: str | None) -> str:
        """Return a name without its package; missing names become numbered default names."""
        if not name:
            self.unnamed_count += 1
            name = f"{DEFAULT_NAME}{self.unnamed_count}"
        return scrub_name(name.rpartition(".")[2], self._options)
