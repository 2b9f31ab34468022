"""Maps Connect schemas to JSON Schema.

Members `connect.*` contain the metadata that JSON Schema cannot express; an optional schema is a `oneOf` with null.
Members have the order in which Java's library prints them.
Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
Source of the order: ToStringVisitor (everit json-schema 1.14).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from kraal.converters.json_schema.names import (
    CONNECT_INDEX,
    CONNECT_PARAMETERS,
    CONNECT_TYPE,
    CONNECT_VERSION,
    ENUM,
    MAP,
    NAMES_BY_TYPE,
    NAMESPACE,
    NULL_MARKER,
    JsonSchemaOptions,
    is_string_map,
    is_union,
    order_as_copied,
    order_by_hash,
)
from kraal.converters.json_schema.write import JsonSchemaWriter
from kraal.plugins.model.records import DECIMAL, DataException
from kraal.plugins.model.schema import Schema, Type

_INTEGERS: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})
_FLOATS: Final = frozenset({Type.FLOAT32, Type.FLOAT64})
_NULL: Final = {"type": "null"}

JsonObject = dict[str, Any]
"""A JSON Schema as parsed JSON."""


def schema_text(schema: Schema | None, options: JsonSchemaOptions) -> str:
    """Return the JSON Schema text for a Connect schema. Raises DataException."""
    if schema is None:
        raise DataException("JSON Schema requires a schema: schemaless values cannot be written")
    return json.dumps(_Translator(options).to_json(schema), ensure_ascii=False, separators=(",", ":"))


class _Translator:
    def __init__(self, options: JsonSchemaOptions) -> None:
        self._options = options

    def to_json(
        self, schema: Schema | None, index: int | None = None, *, omit_null: bool = False
    ) -> JsonObject:
        """Return the JSON of a schema at position `index` in a struct. With `omit_null`, the schema excludes null."""
        if schema is None:
            raise DataException("An array or map requires a schema for its items")
        index_member = {} if index is None else {CONNECT_INDEX: index}
        if is_union(schema):
            null_members = [_NULL] if schema.optional else []
            members = [
                self.to_json(replace(field.schema, optional=False), position, omit_null=True)
                for position, field in enumerate(schema.fields)
            ]
            return {**index_member, "oneOf": [*null_members, *members]}
        if schema.type is Type.STRUCT and schema.optional:
            return {**index_member, "oneOf": [_NULL, self.to_json(replace(schema, optional=False))]}
        if schema.optional and not omit_null:
            return {**index_member, "oneOf": [_NULL, self._translate_non_null(schema, {})]}
        return self._translate_non_null(schema, index_member)

    def _translate_non_null(self, schema: Schema, index_member: JsonObject) -> JsonObject:
        """Return the JSON of a schema that excludes null, with its members in Java's order."""
        metadata = dict(index_member)
        if schema.type in NAMES_BY_TYPE:
            metadata[CONNECT_TYPE] = NAMES_BY_TYPE[schema.type]
        elif schema.type is Type.MAP:
            metadata[CONNECT_TYPE] = MAP
        if schema.version is not None:
            metadata[CONNECT_VERSION] = schema.version
        parameters = {key: text for key, text in schema.parameters.items() if not key.startswith(NAMESPACE)}
        if parameters:
            metadata[CONNECT_PARAMETERS] = {
                key: parameters[key] for key in order_by_hash(parameters, len(parameters))
            }
        type_members, content_members = self._translate_type(schema)
        common_members: JsonObject = {}
        if schema.name is not None:
            common_members["title"] = schema.name
        if schema.doc is not None:
            common_members["description"] = schema.doc
        if schema.default is not None:
            common_members["default"] = self._translate_default(schema)
        ordered_metadata = {key: metadata[key] for key in order_as_copied(metadata)}
        return {**type_members, **common_members, **ordered_metadata, **content_members}

    def _translate_type(self, schema: Schema) -> tuple[JsonObject, JsonObject]:
        match schema.type:
            case kind if kind in _INTEGERS:
                return {"type": "integer"}, {}
            case kind if kind in _FLOATS:
                return {"type": "number"}, {}
            case Type.BOOLEAN:
                return {}, {"type": "boolean"}
            case Type.STRING:
                return (_translate_enum(schema) if ENUM in schema.parameters else {"type": "string"}), {}
            case Type.BYTES:
                is_number = schema.name == DECIMAL and self._options.numeric_decimals
                return {"type": "number" if is_number else "string"}, {}
            case Type.ARRAY:
                return {"type": "array"}, {"items": self.to_json(schema.value)}
            case Type.MAP if is_string_map(schema):
                return {"type": "object"}, {"additionalProperties": self.to_json(schema.value)}
            case Type.MAP:
                entry = {"key": self.to_json(schema.key, 0), "value": self.to_json(schema.value, 1)}
                ordered_entry = {name: entry[name] for name in order_by_hash(entry)}
                return {"type": "array"}, {"items": {"type": "object", "properties": ordered_entry}}
            case _:
                return self._translate_struct(schema)

    def _translate_struct(self, schema: Schema) -> tuple[JsonObject, JsonObject]:
        fields = {
            field.name: self.to_json(field.schema, position) for position, field in enumerate(schema.fields)
        }
        type_members: JsonObject = {"type": "object"}
        if not self._options.additional_properties:
            type_members["additionalProperties"] = False
        properties = {name: fields[name] for name in order_by_hash(fields)}
        return type_members, ({"properties": properties} if properties else {})

    def _translate_default(self, schema: Schema) -> Any:
        text = JsonSchemaWriter(self._options).text(replace(schema, default=None), schema.default)
        return json.loads(text, parse_float=_parse_number)


def _parse_number(text: str) -> float | int:
    """Parse a number so that it is printed as by Java's library: without a fraction if it is an integer."""
    number = float(text)
    return int(number) if number.is_integer() and "E" not in text else number


def _translate_enum(schema: Schema) -> JsonObject:
    prefix = f"{ENUM}."
    symbols = [key.removeprefix(prefix) for key in schema.parameters if key.startswith(prefix)]
    return {"enum": [None if symbol == NULL_MARKER else symbol for symbol in _order_symbols(symbols)]}


def _order_symbols(symbols: list[str]) -> list[str]:
    """Return symbols in the iteration order of java.util.HashSet, with null first."""
    ordered_symbols = order_by_hash(symbols)
    return sorted(ordered_symbols, key=lambda symbol: symbol != NULL_MARKER)
