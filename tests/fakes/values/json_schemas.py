"""Conversions of schemas and values with JsonSchemaConverter's format, without a registry."""

from __future__ import annotations

import json
from typing import Any

from kraal.converters.json_schema.converter import JsonSchemaFormat
from kraal.converters.json_schema.names import JsonSchemaOptions
from kraal.converters.schema_registry.client import SchemaText
from kraal.plugins.model.schema import Schema

PLAIN = JsonSchemaOptions()


def to_json_schema(schema: Schema, options: JsonSchemaOptions = PLAIN) -> str:
    """Return the JSON Schema of a Connect schema."""
    return JsonSchemaFormat(options).describe(schema).schema.text


def encode_json(schema: Schema, value: Any, options: JsonSchemaOptions = PLAIN) -> str:
    """Return a value as JSON."""
    json_format = JsonSchemaFormat(options)
    return json_format.encoder(schema, json_format.describe(schema).schema, {})(value).decode()


def decode_json(
    schema: Any, node: Any, options: JsonSchemaOptions = PLAIN, **schemas: Any
) -> tuple[Any, Any]:
    """Decode JSON with a JSON Schema that may refer to `schemas`; return the Connect schema and the value."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    data = node.encode() if isinstance(node, str) else json.dumps(node).encode()
    references = {
        name.replace("_", "."): SchemaText("JSON", json.dumps(referenced_schema))
        for name, referenced_schema in schemas.items()
    }
    decode = JsonSchemaFormat(options).decoder(SchemaText("JSON", text), references, lambda _: None)
    return decode(b"\0\0\0\0\1" + data)
