"""Parser for the schema in an envelope. Source: JsonConverter.asConnectSchema, SchemaBuilder (Kafka 4.4.0)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kraal.converters.json.parse import Fraction
from kraal.plugins.model.records import DataException, Struct
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.plugins.values.conformance import validate
from kraal.plugins.values.logical import narrow

ConvertDefault = Callable[[Schema, Any], Any]
"""Converts the parsed JSON of a default to a value of a schema."""

_TYPES: Final = {kind.value: kind for kind in Type}


def parse_schema(node: Any, convert_default: ConvertDefault) -> Schema | None:
    """Return the schema that parsed JSON describes; None for null. Raises DataException."""
    if node is None:
        return None
    kind = node.get("type") if isinstance(node, dict) else None
    if not _is_text(kind):
        raise DataException("Schema must contain 'type' field")
    if kind not in _TYPES:
        raise DataException(f"Unknown schema type: {kind}")
    schema = replace(
        _parse_type(_TYPES[kind], node, convert_default),
        optional=node.get("optional") is True,
        name=_text_or_none(node.get("name")),
        version=narrow(node["version"], 32) if type(node.get("version")) is int else None,
        doc=_text_or_none(node.get("doc")),
        parameters=_parse_parameters(node.get("parameters")),
    )
    if "default" not in node:
        return schema
    default = convert_default(schema, node["default"])
    try:
        if isinstance(default, Struct):  # the schema of the struct lacks the default
            raise DataException("Struct schemas do not match.")
        validate(schema, default)
    except DataException as exc:
        raise DataException("Invalid default value") from exc
    return replace(schema, default=default)


def _parse_type(kind: Type, node: dict[str, Any], convert_default: ConvertDefault) -> Schema:
    """Return the schema with its nested schemas, without metadata."""
    match kind:
        case Type.ARRAY:
            if node.get("items") is None:
                raise DataException("Array schema did not specify the element type")
            return Schema(type=kind, value=parse_schema(node["items"], convert_default))
        case Type.MAP:
            if "keys" not in node:
                raise DataException("Map schema did not specify the key type")
            if "values" not in node:
                raise DataException("Map schema did not specify the value type")
            key, value = (
                parse_schema(node["keys"], convert_default),
                parse_schema(node["values"], convert_default),
            )
            if key is None or value is None:
                raise DataException(f"{'keySchema' if key is None else 'valueSchema'} cannot be null.")
            return Schema(type=kind, key=key, value=value)
        case Type.STRUCT:
            if not isinstance(node.get("fields"), list):
                raise DataException('Struct schema\'s "fields" argument is not an array.')
            fields: dict[str, Field] = {}
            for field_node in node["fields"]:
                field = _parse_field(field_node, convert_default)
                if field.name in fields:
                    raise DataException(f"Cannot create field because of field name duplication {field.name}")
                fields[field.name] = field
            return Schema(type=kind, fields=tuple(fields.values()))
        case _:
            return Schema(type=kind)


def _parse_field(node: Any, convert_default: ConvertDefault) -> Field:
    name = node.get("field") if isinstance(node, dict) else None
    if not _is_text(name):
        raise DataException("Struct schema's field name not specified properly")
    schema = parse_schema(node, convert_default)
    if not name or schema is None:
        raise DataException("fieldName cannot be null.")
    return Field(name=name, schema=schema)


def _parse_parameters(node: Any) -> dict[str, str]:
    if not isinstance(node, dict):
        return {}
    if not all(map(_is_text, node.values())):
        raise DataException("Schema parameters must have string values.")
    return dict(node)


def _is_text(node: Any) -> bool:
    return isinstance(node, str) and not isinstance(node, Fraction)


def _text_or_none(node: Any) -> str | None:
    return node if _is_text(node) else None
