"""The notation of `scripts/harness/ConverterCases.java` to Kraal's schemas and values, and back to text to compare."""

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

_SCALARS: dict[str, Callable[[Any], Any]] = {
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


def schema_of(node: Any) -> Schema | None:
    """Return a schema."""
    if node is None:
        return None
    parsed = Schema(
        type=Type[node["type"]],
        optional="optional" in node,
        name=node.get("name"),
        version=node.get("version"),
        doc=node.get("doc"),
        parameters=node.get("parameters", {}),
        fields=tuple(
            Field(name=each["name"], schema=schema)
            for each in node.get("fields", ())
            if (schema := schema_of(each["schema"])) is not None
        ),
        key=schema_of(node.get("key")),
        value=schema_of(node.get("value")),
    )
    if "default" not in node:
        return parsed
    return replace(parsed, default=value_of(parsed, node["default"]))


def value_of(schema: Schema | None, node: Any) -> Any:
    """Return a value."""
    if node is None:
        return None
    name, inner = next(iter(node.items()))
    match name:
        case "list":
            element = schema.value if schema is not None and schema.type is Type.ARRAY else None
            return [value_of(element, each) for each in inner]
        case "map":
            known = schema if schema is not None and schema.type is Type.MAP else None
            key, item = (known.key, known.value) if known else (None, None)
            return {as_key(value_of(key, k)): value_of(item, v) for k, v in inner}
        case "struct":
            own = schema_of(node["of"]) if "of" in node else schema
            assert own is not None
            fields = {field.name: field.schema for field in own.fields}
            return Struct(own, {each: value_of(fields[each], item) for each, item in inner.items()})
        case _:
            return _SCALARS[name](inner)


def shown(value: Any) -> Any:
    """Return a value in the notation; what is an int here is a long there."""
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
            return {"list": [shown(each) for each in value]}
        case dict():
            return {"map": sorted(([shown(k), shown(v)] for k, v in value.items()), key=json.dumps)}
        case _:
            values = {field.name: shown(value.values.get(field.name)) for field in value.schema.fields}
            return {"struct": values}


def widened(node: Any) -> Any:
    """Return Java's answer as Kraal can give it: all whole numbers are longs, a map's entries are in no order."""
    if node is None:
        return None
    name, inner = next(iter(node.items()))
    match name:
        case "byte" | "short" | "int":
            return {"long": inner}
        case "list":
            return {"list": [widened(each) for each in inner]}
        case "map":
            return {"map": sorted(([widened(k), widened(v)] for k, v in inner), key=json.dumps)}
        case "struct":
            return {"struct": {field: widened(item) for field, item in inner.items()}}
        case _:
            return node


def described(schema: Schema | None) -> Any:
    """Return a schema in the notation, members in order."""
    if schema is None:
        return None
    description: dict[str, Any] = {"type": schema.type.name}
    description |= {"optional": True} if schema.optional else {}
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            description[name] = getattr(schema, name)
    description |= {"parameters": dict(schema.parameters)} if schema.parameters else {}
    description |= {"default": shown(schema.default)} if schema.default is not None else {}
    if schema.type is Type.STRUCT:
        description["fields"] = [
            {"name": each.name, "schema": described(each.schema)} for each in schema.fields
        ]
    description |= {"key": described(schema.key)} if schema.key is not None else {}
    description |= {"value": described(schema.value)} if schema.value is not None else {}
    return description


def wide_schema(node: Any) -> Any:
    """Return Java's schema with the numbers among its defaults as Kraal shows them."""
    if node is None:
        return None
    widened_node = dict(node)
    if "default" in node:
        widened_node["default"] = widened(node["default"])
    if "fields" in node:
        widened_node["fields"] = [
            {"name": each["name"], "schema": wide_schema(each["schema"])} for each in node["fields"]
        ]
    for part in ("key", "value"):
        if part in node:
            widened_node[part] = wide_schema(node[part])
    return widened_node
