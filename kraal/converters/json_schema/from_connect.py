"""Mapping of Connect schemas to JSON Schema.

Members `connect.*` hold what JSON Schema cannot express; an optional schema is a `oneOf` with null. Members have the
order in which Java's library prints them. Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
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
    NAME_OF,
    NAMESPACE,
    NULL_MARKER,
    JsonSchemaOptions,
    hash_copied,
    hash_ordered,
    is_union,
    string_map,
)
from kraal.converters.json_schema.write import JsonSchemaWriter
from kraal.plugins.model.records import DECIMAL, DataException
from kraal.plugins.model.schema import Schema, Type

_INTEGERS: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})
_FLOATS: Final = frozenset({Type.FLOAT32, Type.FLOAT64})
_NULL: Final = {"type": "null"}

Said = dict[str, Any]
"""A schema in its JSON form."""


def schema_text(schema: Schema | None, options: JsonSchemaOptions) -> str:
    """Return the JSON Schema text for a Connect schema. Raises DataException."""
    if schema is None:
        raise DataException("JSON Schema needs a schema: values without one cannot be written")
    return json.dumps(_Making(options).to_json(schema), ensure_ascii=False, separators=(",", ":"))


class _Making:
    def __init__(self, options: JsonSchemaOptions) -> None:
        self._options = options

    def to_json(self, schema: Schema | None, index: int | None = None, *, bare: bool = False) -> Said:
        """Return a schema's JSON; `index` is its position among fields, `bare` leaves out null even if optional."""
        if schema is None:
            raise DataException("An array or map needs a schema for its items")
        place = {} if index is None else {CONNECT_INDEX: index}
        if is_union(schema):
            none = [_NULL] if schema.optional else []
            members = [
                self.to_json(replace(each.schema, optional=False), at, bare=True)
                for at, each in enumerate(schema.fields)
            ]
            return {**place, "oneOf": [*none, *members]}
        if schema.type is Type.STRUCT and schema.optional:
            return {**place, "oneOf": [_NULL, self.to_json(replace(schema, optional=False))]}
        if schema.optional and not bare:
            return {**place, "oneOf": [_NULL, self._one(schema, {})]}
        return self._one(schema, place)

    def _one(self, schema: Schema, place: Said) -> Said:
        """Return a schema's JSON without null, with members in Java's order around Connect's metadata."""
        facts = dict(place)
        if schema.type in NAME_OF:
            facts[CONNECT_TYPE] = NAME_OF[schema.type]
        elif schema.type is Type.MAP:
            facts[CONNECT_TYPE] = MAP
        if schema.version is not None:
            facts[CONNECT_VERSION] = schema.version
        parameters = {key: text for key, text in schema.parameters.items() if not key.startswith(NAMESPACE)}
        if parameters:
            facts[CONNECT_PARAMETERS] = {
                key: parameters[key] for key in hash_ordered(parameters, len(parameters))
            }
        before, after = self._parts(schema)
        common: Said = {}
        if schema.name is not None:
            common["title"] = schema.name
        if schema.doc is not None:
            common["description"] = schema.doc
        if schema.default is not None:
            common["default"] = self._default(schema)
        ordered = {key: facts[key] for key in hash_copied(facts)}
        return {**before, **common, **ordered, **after}

    def _parts(self, schema: Schema) -> tuple[Said, Said]:
        match schema.type:
            case kind if kind in _INTEGERS:
                return {"type": "integer"}, {}
            case kind if kind in _FLOATS:
                return {"type": "number"}, {}
            case Type.BOOLEAN:
                return {}, {"type": "boolean"}
            case Type.STRING:
                return (_enum(schema) if ENUM in schema.parameters else {"type": "string"}), {}
            case Type.BYTES:
                numeric = schema.name == DECIMAL and self._options.numeric_decimals
                return {"type": "number" if numeric else "string"}, {}
            case Type.ARRAY:
                return {"type": "array"}, {"items": self.to_json(schema.value)}
            case Type.MAP if string_map(schema):
                return {"type": "object"}, {"additionalProperties": self.to_json(schema.value)}
            case Type.MAP:
                entry = {"key": self.to_json(schema.key, 0), "value": self.to_json(schema.value, 1)}
                pairs = {name: entry[name] for name in hash_ordered(entry)}
                return {"type": "array"}, {"items": {"type": "object", "properties": pairs}}
            case _:
                return self._struct(schema)

    def _struct(self, schema: Schema) -> tuple[Said, Said]:
        fields = {each.name: self.to_json(each.schema, at) for at, each in enumerate(schema.fields)}
        before: Said = {"type": "object"}
        if not self._options.additional_properties:
            before["additionalProperties"] = False
        ordered = {name: fields[name] for name in hash_ordered(fields)}
        return before, ({"properties": ordered} if ordered else {})

    def _default(self, schema: Schema) -> Any:
        text = JsonSchemaWriter(self._options).text(replace(schema, default=None), schema.default)
        return json.loads(text, parse_float=_number)


def _number(text: str) -> float | int:
    """Return a number as Java's library prints it: an integer if it has no fraction."""
    number = float(text)
    return int(number) if number.is_integer() and "E" not in text else number


def _enum(schema: Schema) -> Said:
    start = f"{ENUM}."
    symbols = [key.removeprefix(start) for key in schema.parameters if key.startswith(start)]
    return {"enum": [None if each == NULL_MARKER else each for each in _enum_order(symbols)]}


def _enum_order(symbols: list[str]) -> list[str]:
    """Return symbols in the iteration order of java.util.HashSet, with null first."""
    ordered = hash_ordered(symbols)
    return sorted(ordered, key=lambda each: each != NULL_MARKER)
