"""Loads JSON Schemas, and classifies each schema like Java's library.

A schema of several kinds, such as an enum of strings, is loaded as an allOf of these kinds.
Source: SchemaLoader and SchemaExtractor (everit json-schema 1.14), draft 7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

ARRAY_KEYWORDS: Final = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains")
OBJECT_KEYWORDS: Final = (
    "properties",
    "required",
    "additionalProperties",
    "minProperties",
    "maxProperties",
    "dependencies",
    "patternProperties",
    "propertyNames",
)
NUMBER_KEYWORDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
STRING_KEYWORDS: Final = ("minLength", "maxLength", "pattern", "format")
_COMBINATORS: Final = ("allOf", "anyOf", "oneOf")
_KEYWORDS: Final = {
    "array": ARRAY_KEYWORDS,
    "object": OBJECT_KEYWORDS,
    "number": NUMBER_KEYWORDS,
    "integer": NUMBER_KEYWORDS,
    "string": STRING_KEYWORDS,
    "boolean": (),
    "null": (),
}


class UnsupportedSchema(ValueError):
    """Raised if a text is not a valid JSON Schema, or has a reference that cannot be resolved."""


@dataclass(slots=True, eq=False)
class Node:
    """A loaded JSON Schema."""

    kind: str
    """The name of a type, or one of `enum`, `const`, `ref`, `empty`, `not`, `if`, `allOf`, `anyOf` and `oneOf`."""
    parsed: Mapping[str, Any]
    """Keywords of this kind, as parsed JSON."""
    document: Any
    """The document that contains the schema, to which references are relative."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Other members, such as `title`, `default` and `connect.*`."""
    parts: tuple[Node, ...] = ()
    """Subschemas of allOf, anyOf and oneOf."""


def load_schema(parsed: Any, document: Any) -> Node:
    """Load a schema from its parsed JSON. Raises UnsupportedSchema."""
    if parsed is True:
        return Node("empty", {}, document)
    if not isinstance(parsed, dict):
        raise UnsupportedSchema(f"expected an object as schema, got {json.dumps(parsed)[:100]}")
    if "$ref" in parsed:
        return Node("ref", parsed, document, parsed)
    remaining_members = dict(parsed)
    nodes = [
        *_take_combined(remaining_members, document),
        *_take_types(remaining_members, document),
        *_infer_types(remaining_members, document),
    ]
    if len(nodes) == 1:
        nodes[0].metadata = remaining_members
        return nodes[0]
    return Node("allOf" if nodes else "empty", parsed, document, remaining_members, tuple(nodes))


def _take_combined(remaining_members: dict[str, Any], document: Any) -> list[Node]:
    nodes = []
    if "enum" in remaining_members:
        nodes.append(Node("enum", {"enum": _require_list(remaining_members.pop("enum"), "enum")}, document))
    for keyword in _COMBINATORS:
        if keyword in remaining_members:
            parts = tuple(
                load_schema(part, document) for part in _require_list(remaining_members.pop(keyword), keyword)
            )
            nodes.append(Node(keyword, {}, document, {}, parts))
    single_nodes = [
        Node(keyword, {keyword: remaining_members.pop(keyword)}, document)
        for keyword in ("not", "const")
        if keyword in remaining_members
    ]
    return [*nodes, *single_nodes]


def _take_types(remaining_members: dict[str, Any], document: Any) -> list[Node]:
    if "type" not in remaining_members:
        return []
    kinds = remaining_members.pop("type")
    is_list = isinstance(kinds, list)
    parts = []
    for kind in kinds if is_list else [kinds]:
        if not isinstance(kind, str) or kind not in _KEYWORDS:
            raise UnsupportedSchema(f"unknown type {kind!r}; expected one of {', '.join(_KEYWORDS)}")
        keywords = {
            keyword: remaining_members[keyword] for keyword in _KEYWORDS[kind] if keyword in remaining_members
        }
        parts.append(Node(kind, keywords, document))
    for part in parts:
        for keyword in part.parsed:
            remaining_members.pop(keyword, None)
    return [Node("anyOf", {}, document, {}, tuple(parts))] if is_list else parts


def _infer_types(remaining_members: dict[str, Any], document: Any) -> list[Node]:
    """Infer the types of a schema from keywords that are specific to one type."""
    nodes = []
    for kind in ("array", "object", "number", "string"):
        keywords = {
            keyword: remaining_members.pop(keyword)
            for keyword in _KEYWORDS[kind]
            if keyword in remaining_members
        }
        if keywords:
            nodes.append(Node(kind, keywords, document))
    keywords = {
        keyword: remaining_members.pop(keyword)
        for keyword in ("if", "then", "else")
        if keyword in remaining_members
    }
    if keywords:
        nodes.append(Node("if", keywords, document))
    return nodes


def _require_list(parsed: Any, keyword: str) -> list[Any]:
    if not isinstance(parsed, list):
        raise UnsupportedSchema(f"expected an array as {keyword}, got {json.dumps(parsed)[:100]}")
    return parsed


class References:
    """Resolves references within a document and to the schemas that the registry returned with the document."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents

    def resolve(self, node: Node) -> Node:
        """Return the schema that a `$ref` refers to. Raises UnsupportedSchema."""
        reference = node.parsed["$ref"]
        if not isinstance(reference, str):
            raise UnsupportedSchema(f"expected a string as $ref, got {json.dumps(reference)[:100]}")
        address, _, fragment = reference.partition("#")
        document = node.document if not address else self.find_document(node.document, address)
        parsed = self._resolve_fragment(document, fragment)
        if parsed is None:
            raise UnsupportedSchema(f"the reference {reference} points to no schema")
        return load_schema(parsed, document)

    def find_document(self, referrer: Any, address: str) -> Any:
        """Return the document at an address without a fragment, relative to `referrer`. Raises UnsupportedSchema."""
        if isinstance(referrer, dict) and referrer.get("$id", "").partition("#")[0] == address:
            return referrer
        relative_address = address.removeprefix("./")
        for name in (address, relative_address):
            if name in self._documents:
                return self._documents[name]
        for name, document in self._documents.items():
            document_id = document.get("$id") if isinstance(document, dict) else None
            if document_id == address or name.rpartition("/")[2] == relative_address.rpartition("/")[2]:
                return document
        raise UnsupportedSchema(
            f"unresolved reference {address}; the registry returned {', '.join(self._documents) or 'no references'}"
        )

    def _resolve_fragment(self, document: Any, fragment: str) -> Any:
        if not fragment:
            return document
        if not fragment.startswith("/"):
            return _find_anchor(document, fragment)
        node = document
        for part in fragment[1:].split("/"):
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and name.isdigit() and int(name) < len(node):
                node = node[int(name)]
            elif isinstance(node, dict) and name in node:
                node = node[name]
            else:
                return None
        return node


def _find_anchor(parsed: Any, anchor: str) -> Any:
    """Return the schema whose `$id` or `$anchor` is `anchor`; None if there is none."""
    if isinstance(parsed, dict):
        if parsed.get("$id") == f"#{anchor}" or parsed.get("$anchor") == anchor:
            return parsed
        parsed = list(parsed.values())
    if isinstance(parsed, list):
        for member in parsed:
            target = _find_anchor(member, anchor)
            if target is not None:
                return target
    return None
