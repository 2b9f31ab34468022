"""Mapping of JSON Schema to Connect schemas.

A choice of schemas becomes a struct with a field for each; a choice of one schema and null becomes an optional schema.
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
    TYPE_OF,
    JsonSchemaOptions,
    hash_ordered,
)
from kraal.converters.json_schema.read import read_default
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import STRING, Field, Schema, Type

_LEVELS = 64
"""Maximum depth of nested references."""


def connect_schema(
    parsed: Any, named: Mapping[str, Any], options: JsonSchemaOptions, version: int | None
) -> Schema:
    """Return the Connect schema for a JSON Schema. Raises DataException, and UnsupportedSchema if it is invalid."""
    return _Making(References(named), options).schema(load_schema(parsed, parsed), version)


def plain_version(parsed: Any) -> bool:
    """Return whether a schema contains `connect.version`."""
    return isinstance(parsed, dict) and isinstance(parsed.get(CONNECT_VERSION), int)


class _Making:
    def __init__(self, references: References, options: JsonSchemaOptions) -> None:
        self._references = references
        self._options = options
        self._level = 0

    def schema(self, node: Node, version: int | None = None, *, optional: bool = False) -> Schema:
        """Return a node's schema; `optional` makes it optional in any case."""
        match node.kind:
            case "ref":
                return self._named_schema(node, version, optional=optional)
            case "oneOf" | "anyOf":
                return self._choice(node, version, optional=optional)
            case "allOf":
                if len(node.parts) == 1 and self._options.flatten_singletons:
                    return self.schema(node.parts[0])
                return self._all(node, version, optional=optional)
            case _:
                return self._add_metadata(node, self._plain(node), version, optional=optional)

    def _named_schema(self, node: Node, version: int | None, *, optional: bool) -> Schema:
        self._level += 1
        if self._level > _LEVELS:
            raise DataException(
                f"The JSON Schema at {node.parsed['$ref']} contains itself or nests more than {_LEVELS} references; "
                "recursive schemas are not supported"
            )
        schema = self.schema(self._references.resolve(node), version, optional=optional)
        self._level -= 1
        return schema

    def _choice(self, node: Node, version: int | None, *, optional: bool) -> Schema:
        if len(node.parts) == 1 and self._options.flatten_singletons:
            return self.schema(node.parts[0])
        choices = [each for each in node.parts if each.kind != "null"]
        has_null = len(choices) < len(node.parts)
        if has_null and len(node.parts) == 2:  # noqa: PLR2004 - null and one more
            if not choices:
                raise UnsupportedSchema("a choice needs a schema other than null")
            return self.schema(choices[0], version, optional=True)
        fields = tuple(
            Field(name=f"{ONE_OF}.field.{at}", schema=self.schema(each, optional=True))
            for at, each in enumerate(choices)
        )
        union = Schema(type=Type.STRUCT, name=ONE_OF, optional=has_null, fields=fields)
        return self._add_metadata(node, union, version, optional=optional)

    def _add_metadata(self, node: Node, schema: Schema, version: int | None, *, optional: bool) -> Schema:
        facts = node.facts
        title, doc = facts.get("title"), facts.get("description")
        declared = facts.get(CONNECT_VERSION)
        params = facts.get(CONNECT_PARAMETERS)
        more = {key: str(text) for key, text in params.items()} if isinstance(params, dict) else {}
        schema = replace(
            schema,
            name=schema.name if schema.name is not None or title is None else str(title),
            version=declared if isinstance(declared, int) else version,
            doc=None if doc is None else str(doc),
            parameters={**schema.parameters, **more},
        )
        if facts.get("default") is not None:
            schema = replace(schema, default=read_default(schema, facts["default"]))
        return replace(schema, optional=schema.optional or optional)

    def _plain(self, node: Node) -> Schema:
        connect = node.facts.get(CONNECT_TYPE)
        match node.kind:
            case "boolean":
                return Schema(type=Type.BOOLEAN)
            case "integer" | "number":
                if connect is None:
                    return Schema(type=Type.INT64 if node.kind == "integer" else Type.FLOAT64)
                if connect not in TYPE_OF:
                    raise UnsupportedSchema(
                        f"invalid {CONNECT_TYPE} {connect!r} of a number; expected one of {', '.join(TYPE_OF)}"
                    )
                return Schema(type=TYPE_OF[connect])
            case "string":
                return Schema(type=Type.BYTES if connect == "bytes" else Type.STRING)
            case "enum" | "const":
                return _symbols(node.parsed["enum"] if node.kind == "enum" else [node.parsed["const"]])
            case "array":
                return self._array(node)
            case "object":
                return self._object(node)
            case "empty":
                raise DataException("A JSON Schema without a type has no Connect schema")
            case other:
                raise DataException(f"A JSON Schema with only {other!r} has no Connect schema")

    def _array(self, node: Node) -> Schema:
        items = node.parsed.get("items")
        if items is None or isinstance(items, list):
            raise DataException("A JSON array needs one schema as its items to have a Connect schema")
        inner = load_schema(items, node.document)
        if node.facts.get(CONNECT_TYPE) == MAP and inner.kind == "object":
            pair = inner.parsed.get("properties", {})
            if not isinstance(pair, dict) or not {"key", "value"} <= set(pair):
                raise UnsupportedSchema("the entries of a map need the properties key and value")
            key, value = (self.schema(load_schema(pair[each], node.document)) for each in ("key", "value"))
            return Schema(type=Type.MAP, key=key, value=value)
        return Schema(type=Type.ARRAY, value=self.schema(inner))

    def _object(self, node: Node) -> Schema:
        if node.facts.get(CONNECT_TYPE) == MAP:
            values = node.parsed.get("additionalProperties")
            if not isinstance(values, dict):
                raise UnsupportedSchema("a map needs a schema as additionalProperties")
            return Schema(type=Type.MAP, key=STRING, value=self.schema(load_schema(values, node.document)))
        return self._struct(self._properties(node, {}), ordered=True)

    def _properties(self, node: Node, nodes: dict[str, tuple[Node, bool]]) -> dict[str, tuple[Node, bool]]:
        """Add an object's properties and whether they are required, in the order of Java's maps."""
        properties = node.parsed.get("properties", {})
        if not isinstance(properties, dict):
            raise UnsupportedSchema("expected an object as properties")
        required = node.parsed.get("required", [])
        for name in hash_ordered(properties):
            nodes[name] = load_schema(properties[name], node.document), name in required
        return nodes

    def _struct(self, properties: Mapping[str, tuple[Node, bool]], *, ordered: bool) -> Schema:
        def place(entry: tuple[int, Node]) -> int:
            index = entry[1].facts.get(CONNECT_INDEX)
            return index if isinstance(index, int) else entry[0]

        names = list(properties)
        if ordered:
            places = {name: place((at, properties[name][0])) for at, name in enumerate(names)}
            names.sort(key=lambda name: places[name])
        fields = []
        for name in names:
            node, required = properties[name]
            optional = self._options.optional_for_nonrequired and not required
            fields.append(Field(name=name, schema=self.schema(node, optional=optional)))
        return Schema(type=Type.STRUCT, fields=tuple(fields))

    def _all(self, node: Node, version: int | None, *, optional: bool) -> Schema:
        """Return the schema for an allOf: all properties in one struct, or the most specific part."""
        properties: dict[str, tuple[Node, bool]] = {}
        for part in node.parts:
            self._gather(part, properties, 0)
        if properties:
            return replace(self._struct(properties, ordered=False), optional=optional)
        by_kind = {_kind(part): part for part in node.parts}
        text, number = by_kind.get("string"), by_kind.get("number")
        has_format = text is not None and "format" in text.parsed
        chosen: Node | None = by_kind.get("combined")
        if chosen is None and "const" in by_kind:
            chosen = text or number
        elif chosen is None and "enum" in by_kind:
            chosen = by_kind["enum"] if text is not None else number
        elif chosen is None and has_format:
            chosen = number or text
        elif chosen is None:
            chosen = by_kind.get("ref")
        if chosen is None:
            raise UnsupportedSchema(
                f"allOf without properties or a dominant type has no Connect schema: {json.dumps(node.parsed)[:200]}"
            )
        return self.schema(chosen, version, optional=optional)

    def _gather(self, node: Node, properties: dict[str, tuple[Node, bool]], level: int) -> None:
        if level > _LEVELS:
            return
        if node.kind == "allOf":
            for part in node.parts:
                self._gather(part, properties, level + 1)
        elif node.kind == "object":
            self._properties(node, properties)
        elif node.kind == "ref":
            self._gather(self._references.resolve(node), properties, level + 1)


def _kind(node: Node) -> str:
    if node.kind in {"oneOf", "anyOf", "allOf"}:
        return "combined"
    return "number" if node.kind == "integer" else node.kind


def _symbols(values: list[Any]) -> Schema:
    """Return an enum's schema: a string with the symbols as parameters."""
    texts = [
        NULL_MARKER if each is None else each if isinstance(each, str) else json.dumps(each)
        for each in values
    ]
    return Schema(type=Type.STRING, parameters={ENUM: "", **{f"{ENUM}.{each}": each for each in texts}})
