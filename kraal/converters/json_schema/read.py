"""Decodes JSON to Connect values by schema.

Nodes are the results of `kraal.converters.json.parse`. Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
Source of the errors: JsonConverter (Kafka 4.4.0).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from kraal.converters.json.parse import EXACT_DECODER, MISSING, Fraction
from kraal.converters.json.read import compile_leaf, get_node_type
from kraal.converters.json_schema.names import is_string_map, is_union
from kraal.plugins.model.records import DataException, Struct
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.conformance import validate
from kraal.plugins.values.map_keys import as_key

Read = Callable[[Any], Any]
"""Returns the value of a node; the node can be MISSING. Raises DataException."""

_INTEGERS: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})
_FLOATS: Final = frozenset({Type.FLOAT32, Type.FLOAT64})


def compile_reader(schema: Schema) -> Read:
    """Return a function that reads a schema's values, including null."""
    read_non_null = _compile_non_null(schema)
    default, optional = schema.default, schema.optional
    null_error = f"Invalid null value for required {schema.type.name} field"

    def read(node: Any) -> Any:
        if node is not None and node is not MISSING:
            return read_non_null(node)
        if default is not None or optional or node is MISSING:
            return default
        raise DataException(null_error)

    return read


def compile_root_reader(schema: Schema) -> Read:
    """Return a function that reads top-level values. Unlike a missing member, MISSING does not become the default."""
    read, read_non_null = compile_reader(schema), _compile_non_null(schema)
    return lambda node: read_non_null(node) if node is MISSING else read(node)


def read_default(schema: Schema, default: Any) -> Any:
    """Convert a default from parsed JSON to a Connect value. Raises DataException."""
    value = _compile_non_null(schema)(EXACT_DECODER.decode(json.dumps(default)))
    validate(schema, value)
    return value


def _compile_non_null(schema: Schema) -> Read:
    read = compile_leaf(schema)
    if read is not None:
        return read
    match schema.type:
        case Type.ARRAY:
            read_item = compile_reader(_make_required(schema.value))
            return lambda node: [read_item(item) for item in _list_members(node)]
        case Type.MAP:
            return _compile_object(schema) if is_string_map(schema) else _compile_pairs(schema)
        case _:
            return _compile_union(schema) if is_union(schema) else _compile_struct(schema)


def _make_required(schema: Schema | None) -> Schema:
    assert schema is not None  # noqa: S101 - arrays and maps have schemas for their items
    return schema


def _list_members(node: Any) -> Any:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def _compile_object(schema: Schema) -> Read:
    read_value = compile_reader(_make_required(schema.value))

    def read(node: Any) -> dict[Any, Any]:
        if not isinstance(node, dict):
            raise DataException(
                f"Maps with string fields should be encoded as JSON objects, but found {get_node_type(node)}"
            )
        return {name: read_value(member) for name, member in node.items()}

    return read


def _compile_pairs(schema: Schema) -> Read:
    read_key, read_value = (
        compile_reader(_make_required(schema.key)),
        compile_reader(_make_required(schema.value)),
    )

    def read(node: Any) -> dict[Any, Any]:
        if not isinstance(node, list):
            raise DataException(
                f"Expected a JSON array of objects for a map with keys other than strings, got {get_node_type(node)}"
            )
        entries = {}
        for entry in node:
            if not isinstance(entry, dict):
                raise DataException(
                    f"Expected a JSON object with key and value as the entry of a map, got {get_node_type(entry)}"
                )
            if len(entry) != 2:  # noqa: PLR2004 - key and value
                raise DataException(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
            entries[as_key(read_key(entry.get("key", MISSING)))] = read_value(entry.get("value", MISSING))
        return entries

    return read


def _compile_struct(schema: Schema) -> Read:
    fields = [(field.name, compile_reader(field.schema)) for field in schema.fields]

    def read(node: Any) -> Struct:
        if not isinstance(node, dict):
            raise DataException(f"Structs should be encoded as JSON objects, but found {get_node_type(node)}")
        values = {name: read_field(node.get(name, MISSING)) for name, read_field in fields}
        return Struct(schema, {name: value for name, value in values.items() if value is not None})

    return read


def _compile_union(schema: Schema) -> Read:
    members = [(field.name, field.schema, compile_reader(field.schema)) for field in schema.fields]

    def read(node: Any) -> Struct:
        best_count, best_member = 0, None
        for name, member, read_member in members:
            if _matches_type(member, node):
                return Struct(schema, {name: read_member(node)})
            count = _count_matching_fields(member, node)
            if count > best_count:
                best_count, best_member = count, (name, read_member)
        if best_member is None:
            raise DataException(f"No schema of the oneOf matches the value of type {get_node_type(node)}")
        name, read_member = best_member
        return Struct(schema, {name: read_member(node)})

    return read


def _matches_type(schema: Schema, node: Any) -> bool:
    """Return whether a node has the type of the schema; False for structs."""
    match schema.type:
        case kind if kind in _INTEGERS:
            return type(node) is int
        case kind if kind in _FLOATS:
            return type(node) is int or isinstance(node, Fraction)
        case Type.BOOLEAN:
            return isinstance(node, bool)
        case Type.STRING:
            return type(node) is str
        case Type.BYTES:
            return isinstance(node, Fraction)
        case Type.ARRAY:
            return isinstance(node, list)
        case Type.MAP:
            return isinstance(node, (dict, list))
        case _:
            return False


def _count_matching_fields(schema: Schema, node: Any) -> int:
    """Return the number of a struct's fields that a node has, counted recursively."""
    if schema.type is not Type.STRUCT or not isinstance(node, dict):
        return 0
    common_fields = [field for field in schema.fields if field.name in node]
    return len(common_fields) + sum(
        _count_matching_fields(field.schema, node[field.name]) for field in common_fields
    )
