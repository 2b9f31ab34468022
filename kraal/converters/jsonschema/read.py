"""JSON to Connect's values, by their schema.

Nodes are what `json_parse` gives. Source: JsonSchemaData.toConnectData (Confluent Schema Registry 8).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from kraal.converters.json_parse import EXACT, MISSING, Fraction
from kraal.converters.json_read import leaf, node_type
from kraal.converters.jsonschema.names import is_union, string_map
from kraal.plugins.map_keys import as_key
from kraal.plugins.records import DataException, Struct
from kraal.plugins.schema import Schema, Type
from kraal.plugins.valid import validate

Read = Callable[[Any], Any]
"""Returns a node's value; MISSING is what is not there. Raises DataException."""

_WHOLE: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})
_FLOATS: Final = frozenset({Type.FLOAT32, Type.FLOAT64})


def reads(schema: Schema) -> Read:
    """Return what reads a schema's values, null among them."""
    present = _present(schema)
    default, optional = schema.default, schema.optional
    refused = f"Invalid null value for required {schema.type.name} field"

    def read(node: Any) -> Any:
        if node is not None and node is not MISSING:
            return present(node)
        if default is not None or optional or node is MISSING:
            return default
        raise DataException(refused)

    return read


def read_root(schema: Schema) -> Read:
    """Return what reads values that stand alone: no JSON at all is none of them."""
    inner, present = reads(schema), _present(schema)
    return lambda node: present(node) if node is MISSING else inner(node)


def read_default(schema: Schema, said: Any) -> Any:
    """Return the default that a schema's JSON says. Raises DataException."""
    found = _present(schema)(EXACT.decode(json.dumps(said)))
    validate(schema, found)
    return found


def _present(schema: Schema) -> Read:
    read = leaf(schema)
    if read is not None:
        return read
    match schema.type:
        case Type.ARRAY:
            item = reads(_known(schema.value))
            return lambda node: [item(each) for each in _members(node)]
        case Type.MAP:
            return _object(schema) if string_map(schema) else _pairs(schema)
        case _:
            return _union(schema) if is_union(schema) else _struct(schema)


def _known(schema: Schema | None) -> Schema:
    assert schema is not None  # noqa: S101 - a list's or a map's own
    return schema


def _members(node: Any) -> Any:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def _object(schema: Schema) -> Read:
    item = reads(_known(schema.value))

    def read(node: Any) -> dict[Any, Any]:
        if not isinstance(node, dict):
            raise DataException(
                f"Maps with string fields should be encoded as JSON objects, but found {node_type(node)}"
            )
        return {name: item(each) for name, each in node.items()}

    return read


def _pairs(schema: Schema) -> Read:
    key, item = reads(_known(schema.key)), reads(_known(schema.value))

    def read(node: Any) -> dict[Any, Any]:
        if not isinstance(node, list):
            raise DataException(
                "Maps with non-string fields should be encoded as JSON array of objects, but found "
                + node_type(node)
            )
        found = {}
        for each in node:
            if not isinstance(each, dict):
                raise DataException(f"Found invalid map entry instead of object: {node_type(each)}")
            if len(each) != 2:  # noqa: PLR2004 - key and value
                raise DataException(f"Found invalid map entry, expected length 2 but found :{len(each)}")
            found[as_key(key(each.get("key", MISSING)))] = item(each.get("value", MISSING))
        return found

    return read


def _struct(schema: Schema) -> Read:
    fields = [(each.name, reads(each.schema)) for each in schema.fields]

    def read(node: Any) -> Struct:
        if not isinstance(node, dict):
            raise DataException(f"Structs should be encoded as JSON objects, but found {node_type(node)}")
        values = {name: of(node.get(name, MISSING)) for name, of in fields}
        return Struct(schema, {name: value for name, value in values.items() if value is not None})

    return read


def _union(schema: Schema) -> Read:
    members = [(each.name, each.schema, reads(each.schema)) for each in schema.fields]

    def read(node: Any) -> Struct:
        most, found = 0, None
        for name, member, of in members:
            if _is_one(member, node):
                return Struct(schema, {name: of(node)})
            matching = _matching(member, node)
            if matching > most:
                most, found = matching, (name, of)
        if found is None:
            raise DataException("Did not find matching oneof field for data")
        name, of = found
        return Struct(schema, {name: of(node)})

    return read


def _is_one(schema: Schema, node: Any) -> bool:
    """Tell whether a node is of a type that has no fields."""
    match schema.type:
        case kind if kind in _WHOLE:
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


def _matching(schema: Schema, node: Any) -> int:
    """Return how many of a struct's fields a node has, and those of its fields."""
    if schema.type is not Type.STRUCT or not isinstance(node, dict):
        return 0
    common = [each for each in schema.fields if each.name in node]
    return len(common) + sum(_matching(each.schema, node[each.name]) for each in common)
