"""Converts the notation of `scripts/harness/ConverterCases.java` to schemas and values, and back for comparisons."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from kraal.plugins.model.records import Float32, Instant, Struct
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.plugins.values.java_values import double_text, float32, float_text
from kraal.plugins.values.map_keys import as_key

_SCALAR_PARSERS: dict[str, Callable[[Any], Any]] = {
    "byte": int,
    "short": int,
    "int": int,
    "long": int,
    "float": lambda text: float32(float(text)),
    "double": float,
    "boolean": bool,
    "string": str,
    "bytes": b64decode,
    "decimal": Decimal,
    "date": Instant,
}


def parse_schema(node: Any) -> Schema | None:
    """Parse a schema."""
    if node is None:
        return None
    schema_without_default = Schema(
        type=Type[node["type"]],
        optional="optional" in node,
        name=node.get("name"),
        version=node.get("version"),
        doc=node.get("doc"),
        parameters=node.get("parameters", {}),
        fields=tuple(
            Field(name=field_node["name"], schema=schema)
            for field_node in node.get("fields", ())
            if (schema := parse_schema(field_node["schema"])) is not None
        ),
        key=parse_schema(node.get("key")),
        value=parse_schema(node.get("value")),
    )
    if "default" not in node:
        return schema_without_default
    default = parse_value(schema_without_default, node["default"])
    return replace(schema_without_default, default=default)


def parse_value(schema: Schema | None, node: Any) -> Any:
    """Parse a value of a schema."""
    if node is None:
        return None
    name, inner = next(iter(node.items()))
    match name:
        case "list":
            element = schema.value if schema is not None and schema.type is Type.ARRAY else None
            return [parse_value(element, element_node) for element_node in inner]
        case "map":
            map_schema = schema if schema is not None and schema.type is Type.MAP else None
            key, item = (map_schema.key, map_schema.value) if map_schema else (None, None)
            return {as_key(parse_value(key, k)): parse_value(item, v) for k, v in inner}
        case "struct":
            struct_schema = parse_schema(node["of"]) if "of" in node else schema
            assert struct_schema is not None
            fields = {field.name: field.schema for field in struct_schema.fields}
            return Struct(
                struct_schema,
                {field_name: parse_value(fields[field_name], item) for field_name, item in inner.items()},
            )
        case _:
            return _SCALAR_PARSERS[name](inner)


def format_value(value: Any) -> Any:
    """Return a value in the notation. All integers become longs."""
    match value:
        case None:
            return None
        case bool():
            return {"boolean": value}
        case int():
            return {"long": value}
        case Float32():
            return {"float": float_text(value)}
        case float():
            return {"double": double_text(value)}
        case str():
            return {"string": value}
        case bytes():
            return {"bytes": b64encode(value).decode("ascii")}
        case Decimal():
            return {"decimal": str(value)}
        case Instant():
            return {"date": value.ms}
        case list() | tuple():
            return {"list": [format_value(item) for item in value]}
        case dict():
            return {
                "map": sorted(([format_value(k), format_value(v)] for k, v in value.items()), key=json.dumps)
            }
        case _:
            values = {field.name: format_value(value.values.get(field.name)) for field in value.schema.fields}
            return {"struct": values}


def widen_integers(node: Any) -> Any:
    """Return Java's result in Kraal's form: all integers are longs, and map entries are sorted."""
    if node is None:
        return None
    name, inner = next(iter(node.items()))
    match name:
        case "byte" | "short" | "int":
            return {"long": inner}
        case "list":
            return {"list": [widen_integers(item) for item in inner]}
        case "map":
            return {"map": sorted(([widen_integers(k), widen_integers(v)] for k, v in inner), key=json.dumps)}
        case "struct":
            return {"struct": {field: widen_integers(item) for field, item in inner.items()}}
        case _:
            return node


def format_schema(schema: Schema | None) -> Any:
    """Return a schema in the notation, with members in order."""
    if schema is None:
        return None
    description: dict[str, Any] = {"type": schema.type.name}
    description |= {"optional": True} if schema.optional else {}
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            description[name] = getattr(schema, name)
    description |= {"parameters": dict(schema.parameters)} if schema.parameters else {}
    description |= {"default": format_value(schema.default)} if schema.default is not None else {}
    if schema.type is Type.STRUCT:
        description["fields"] = [
            {"name": field.name, "schema": format_schema(field.schema)} for field in schema.fields
        ]
    description |= {"key": format_schema(schema.key)} if schema.key is not None else {}
    description |= {"value": format_schema(schema.value)} if schema.value is not None else {}
    return description


def widen_defaults(node: Any) -> Any:
    """Return Java's schema with the integers in its defaults as longs."""
    if node is None:
        return None
    result = dict(node)
    if "default" in node:
        result["default"] = widen_integers(node["default"])
    if "fields" in node:
        result["fields"] = [
            {"name": field_node["name"], "schema": widen_defaults(field_node["schema"])}
            for field_node in node["fields"]
        ]
    for part in ("key", "value"):
        if part in node:
            result[part] = widen_defaults(node[part])
    return result
