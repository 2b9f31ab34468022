"""Maps JSON Schema to Connect schemas.

A oneOf or anyOf becomes a struct with a field for each schema. If it lists only null and one other schema, it becomes
the optional variant of that schema.
Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kraal.converters.json_schema.loaded import Node, References, UnsupportedSchema, load_schema
from kraal.converters.json_schema.names import (
    CONNECT_INDEX,
    CONNECT_PARAMETERS,
    CONNECT_TYPE,
    CONNECT_VERSION,
    ENUM,
    MAP,
    NULL_MARKER,
    ONE_OF,
    TYPES_BY_NAME,
    JsonSchemaOptions,
    order_by_hash,
)
from kraal.converters.json_schema.read import read_default
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import STRING, Field, Schema, Type

_MAX_LEVELS = 64
"""Maximum depth of nested references."""


def connect_schema(
    parsed: Any, references_by_name: Mapping[str, Any], options: JsonSchemaOptions, version: int | None
) -> Schema:
    """Return the Connect schema for a JSON Schema. Raises DataException; UnsupportedSchema for an invalid schema."""
    return _Translator(References(references_by_name), options).translate(
        load_schema(parsed, parsed), version
    )


def has_version(parsed: Any) -> bool:
    """Return whether a schema contains an integer as `connect.version`."""
    return isinstance(parsed, dict) and isinstance(parsed.get(CONNECT_VERSION), int)


class _Translator:
    def __init__(self, references: References, options: JsonSchemaOptions) -> None:
        self._references = references
        self._options = options
        self._level = 0

    def translate(self, node: Node, version: int | None = None, *, optional: bool = False) -> Schema:
        """Return the schema of a node. `optional` makes the schema optional regardless of the node."""
        match node.kind:
            case "ref":
                return self._translate_reference(node, version, optional=optional)
            case "oneOf" | "anyOf":
                return self._translate_choice(node, version, optional=optional)
            case "allOf":
                if len(node.parts) == 1 and self._options.flatten_singletons:
                    return self.translate(node.parts[0])
                return self._translate_all_of(node, version, optional=optional)
            case _:
                return self._add_metadata(node, self._translate_type(node), version, optional=optional)

    def _translate_reference(self, node: Node, version: int | None, *, optional: bool) -> Schema:
        self._level += 1
        if self._level > _MAX_LEVELS:
            raise DataException(
                f"The JSON Schema at {node.parsed['$ref']} contains itself or nests more than {_MAX_LEVELS} "
                "references; recursive schemas are not supported"
            )
        schema = self.translate(self._references.resolve(node), version, optional=optional)
        self._level -= 1
        return schema

    def _translate_choice(self, node: Node, version: int | None, *, optional: bool) -> Schema:
        if len(node.parts) == 1 and self._options.flatten_singletons:
            return self.translate(node.parts[0])
        choices = [part for part in node.parts if part.kind != "null"]
        has_null = len(choices) < len(node.parts)
        if has_null and len(node.parts) == 2:  # noqa: PLR2004 - null and one other schema
            if not choices:
                raise UnsupportedSchema("oneOf and anyOf require a schema other than null")
            return self.translate(choices[0], version, optional=True)
        fields = tuple(
            Field(name=f"{ONE_OF}.field.{index}", schema=self.translate(choice, optional=True))
            for index, choice in enumerate(choices)
        )
        union = Schema(type=Type.STRUCT, name=ONE_OF, optional=has_null, fields=fields)
        return self._add_metadata(node, union, version, optional=optional)

    def _add_metadata(self, node: Node, schema: Schema, version: int | None, *, optional: bool) -> Schema:
        metadata = node.metadata
        title, doc = metadata.get("title"), metadata.get("description")
        declared_version = metadata.get(CONNECT_VERSION)
        declared_parameters = metadata.get(CONNECT_PARAMETERS)
        parameters = (
            {key: str(text) for key, text in declared_parameters.items()}
            if isinstance(declared_parameters, dict)
            else {}
        )
        schema = replace(
            schema,
            name=schema.name if schema.name is not None or title is None else str(title),
            version=declared_version if isinstance(declared_version, int) else version,
            doc=None if doc is None else str(doc),
            parameters={**schema.parameters, **parameters},
        )
        if metadata.get("default") is not None:
            schema = replace(schema, default=read_default(schema, metadata["default"]))
        return replace(schema, optional=schema.optional or optional)

    def _translate_type(self, node: Node) -> Schema:
        connect_type = node.metadata.get(CONNECT_TYPE)
        match node.kind:
            case "boolean":
                return Schema(type=Type.BOOLEAN)
            case "integer" | "number":
                if connect_type is None:
                    return Schema(type=Type.INT64 if node.kind == "integer" else Type.FLOAT64)
                if connect_type not in TYPES_BY_NAME:
                    raise UnsupportedSchema(
                        f"invalid {CONNECT_TYPE} {connect_type!r} of a number; "
                        f"expected one of {', '.join(TYPES_BY_NAME)}"
                    )
                return Schema(type=TYPES_BY_NAME[connect_type])
            case "string":
                return Schema(type=Type.BYTES if connect_type == "bytes" else Type.STRING)
            case "enum" | "const":
                return _translate_symbols(
                    node.parsed["enum"] if node.kind == "enum" else [node.parsed["const"]]
                )
            case "array":
                return self._translate_array(node)
            case "object":
                return self._translate_object(node)
            case "empty":
                raise DataException("A JSON Schema without a type has no Connect schema")
            case other:
                raise DataException(f"A JSON Schema with only {other!r} has no Connect schema")

    def _translate_array(self, node: Node) -> Schema:
        items = node.parsed.get("items")
        if items is None or isinstance(items, list):
            raise DataException("A JSON Schema array without a single `items` schema has no Connect schema")
        inner = load_schema(items, node.document)
        if node.metadata.get(CONNECT_TYPE) == MAP and inner.kind == "object":
            properties = inner.parsed.get("properties", {})
            if not isinstance(properties, dict) or not {"key", "value"} <= set(properties):
                raise UnsupportedSchema("the entries of a map require the properties key and value")
            key, value = (
                self.translate(load_schema(properties[name], node.document)) for name in ("key", "value")
            )
            return Schema(type=Type.MAP, key=key, value=value)
        return Schema(type=Type.ARRAY, value=self.translate(inner))

    def _translate_object(self, node: Node) -> Schema:
        if node.metadata.get(CONNECT_TYPE) == MAP:
            value_schema = node.parsed.get("additionalProperties")
            if not isinstance(value_schema, dict):
                raise UnsupportedSchema("a map requires a schema as additionalProperties")
            return Schema(
                type=Type.MAP, key=STRING, value=self.translate(load_schema(value_schema, node.document))
            )
        return self._translate_struct(self._load_properties(node, {}), ordered=True)

    def _load_properties(
        self, node: Node, nodes: dict[str, tuple[Node, bool]]
    ) -> dict[str, tuple[Node, bool]]:
        """Add the properties of an object to `nodes` in the iteration order of a HashMap, and return `nodes`.

        Each entry contains the schema of a property and whether the property is required.
        """
        properties = node.parsed.get("properties", {})
        if not isinstance(properties, dict):
            raise UnsupportedSchema("expected an object as properties")
        required_names = node.parsed.get("required", [])
        for name in order_by_hash(properties):
            nodes[name] = load_schema(properties[name], node.document), name in required_names
        return nodes

    def _translate_struct(self, properties: Mapping[str, tuple[Node, bool]], *, ordered: bool) -> Schema:
        def get_index(entry: tuple[int, Node]) -> int:
            index = entry[1].metadata.get(CONNECT_INDEX)
            return index if isinstance(index, int) else entry[0]

        names = list(properties)
        if ordered:
            indexes = {
                name: get_index((position, properties[name][0])) for position, name in enumerate(names)
            }
            names.sort(key=lambda name: indexes[name])
        fields = []
        for name in names:
            node, is_required = properties[name]
            optional = self._options.optional_for_nonrequired and not is_required
            fields.append(Field(name=name, schema=self.translate(node, optional=optional)))
        return Schema(type=Type.STRUCT, fields=tuple(fields))

    def _translate_all_of(self, node: Node, version: int | None, *, optional: bool) -> Schema:
        """Return the schema of an allOf: a struct with the properties of all parts.

        If no part has properties, return the schema of the dominant part.
        """
        properties: dict[str, tuple[Node, bool]] = {}
        for part in node.parts:
            self._collect_properties(part, properties, 0)
        if properties:
            return replace(self._translate_struct(properties, ordered=False), optional=optional)
        parts_by_kind = {_find_kind_in_all_of(part): part for part in node.parts}
        string_part, number_part = parts_by_kind.get("string"), parts_by_kind.get("number")
        has_format = string_part is not None and "format" in string_part.parsed
        dominant_part: Node | None = parts_by_kind.get("combined")
        if dominant_part is None and "const" in parts_by_kind:
            dominant_part = string_part or number_part
        elif dominant_part is None and "enum" in parts_by_kind:
            dominant_part = parts_by_kind["enum"] if string_part is not None else number_part
        elif dominant_part is None and has_format:
            dominant_part = number_part or string_part
        elif dominant_part is None:
            dominant_part = parts_by_kind.get("ref")
        if dominant_part is None:
            raise UnsupportedSchema(
                f"allOf without properties or a dominant type has no Connect schema: {json.dumps(node.parsed)[:200]}"
            )
        return self.translate(dominant_part, version, optional=optional)

    def _collect_properties(self, node: Node, properties: dict[str, tuple[Node, bool]], level: int) -> None:
        if level > _MAX_LEVELS:
            return
        if node.kind == "allOf":
            for part in node.parts:
                self._collect_properties(part, properties, level + 1)
        elif node.kind == "object":
            self._load_properties(node, properties)
        elif node.kind == "ref":
            self._collect_properties(self._references.resolve(node), properties, level + 1)


def _find_kind_in_all_of(node: Node) -> str:
    if node.kind in {"oneOf", "anyOf", "allOf"}:
        return "combined"
    return "number" if node.kind == "integer" else node.kind


def _translate_symbols(values: list[Any]) -> Schema:
    """Return the schema of an enum: a string with the symbols as parameters."""
    texts = [
        NULL_MARKER if value is None else value if isinstance(value, str) else json.dumps(value)
        for value in values
    ]
    return Schema(type=Type.STRING, parameters={ENUM: "", **{f"{ENUM}.{text}": text for text in texts}})
