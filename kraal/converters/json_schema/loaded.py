"""Loading of JSON Schema texts: classifies each schema as Java's library does.

A schema can be of several kinds at once, such as an enum of strings; it is then an allOf of these kinds.
Source: SchemaLoader and SchemaExtractor (everit json-schema 1.14), draft 7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

ARRAY_WORDS: Final = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains")
OBJECT_WORDS: Final = (
    "properties",
    "required",
    "additionalProperties",
    "minProperties",
    "maxProperties",
    "dependencies",
    "patternProperties",
    "propertyNames",
)
NUMBER_WORDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
STRING_WORDS: Final = ("minLength", "maxLength", "pattern", "format")
_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_WORDS: Final = {
    "array": ARRAY_WORDS,
    "object": OBJECT_WORDS,
    "number": NUMBER_WORDS,
    "integer": NUMBER_WORDS,
    "string": STRING_WORDS,
    "boolean": (),
    "null": (),
}


class UnsupportedSchema(ValueError):
    """A text is not a valid JSON Schema, or has a reference that cannot be resolved."""


@dataclass(slots=True, eq=False)
class Node:
    """A loaded schema."""

    kind: str
    """A type's name, `enum`, `const`, `ref`, `empty`, `not`, `if`, or `allOf`, `anyOf`, `oneOf`."""
    parsed: Mapping[str, Any]
    """Keywords of this kind, in their JSON form."""
    document: Any
    """The document that contains the schema; references are relative to it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Other members: title, default, `connect.*`."""
    parts: tuple[Node, ...] = ()
    """Subschemas of allOf, anyOf and oneOf."""


def load_schema(parsed: Any, document: Any) -> Node:
    """Load a schema from its JSON. Raises UnsupportedSchema."""
    if parsed is True:
        return Node("empty", {}, document)
    if not isinstance(parsed, dict):
        raise UnsupportedSchema(f"expected an object as schema, got {json.dumps(parsed)[:100]}")
    if "$ref" in parsed:
        return Node("ref", parsed, document, parsed)
    facts = dict(parsed)
    nodes = [*_by_word(facts, document), *_by_type(facts, document), *_by_sniffing(facts, document)]
    if len(nodes) == 1:
        nodes[0].facts = facts
        return nodes[0]
    return Node("allOf" if nodes else "empty", parsed, document, facts, tuple(nodes))


def _by_word(facts: dict[str, Any], document: Any) -> list[Node]:
    nodes = []
    if "enum" in facts:
        nodes.append(Node("enum", {"enum": _list(facts.pop("enum"), "enum")}, document))
    for word in _COMBINED:
        if word in facts:
            parts = tuple(load_schema(each, document) for each in _list(facts.pop(word), word))
            nodes.append(Node(word, {}, document, {}, parts))
    single = [Node(word, {word: facts.pop(word)}, document) for word in ("not", "const") if word in facts]
    return [*nodes, *single]


def _by_type(facts: dict[str, Any], document: Any) -> list[Node]:
    if "type" not in facts:
        return []
    kinds = facts.pop("type")
    several = isinstance(kinds, list)
    parts = []
    for kind in kinds if several else [kinds]:
        if not isinstance(kind, str) or kind not in _WORDS:
            raise UnsupportedSchema(f"unknown type {kind!r}; expected one of {', '.join(_WORDS)}")
        words = {word: facts[word] for word in _WORDS[kind] if word in facts}
        parts.append(Node(kind, words, document))
    for part in parts:
        for word in part.parsed:
            facts.pop(word, None)
    return [Node("anyOf", {}, document, {}, tuple(parts))] if several else parts


def _by_sniffing(facts: dict[str, Any], document: Any) -> list[Node]:
    """Return the types of a schema by keywords that only one type has."""
    nodes = []
    for kind in ("array", "object", "number", "string"):
        words = {word: facts.pop(word) for word in _WORDS[kind] if word in facts}
        if words:
            nodes.append(Node(kind, words, document))
    words = {word: facts.pop(word) for word in ("if", "then", "else") if word in facts}
    if words:
        nodes.append(Node("if", words, document))
    return nodes


def _list(parsed: Any, word: str) -> list[Any]:
    if not isinstance(parsed, list):
        raise UnsupportedSchema(f"expected an array as {word}, got {json.dumps(parsed)[:100]}")
    return parsed


class References:
    """Resolves references within a schema's document and to the schemas that the registry returned with it."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def resolve(self, node: Node) -> Node:
        """Return the schema that a `$ref` points to. Raises UnsupportedSchema."""
        reference = node.parsed["$ref"]
        if not isinstance(reference, str):
            raise UnsupportedSchema(f"expected a string as $ref, got {json.dumps(reference)[:100]}")
        place, _, inside = reference.partition("#")
        document = node.document if not place else self.document(node.document, place)
        parsed = self._inside(document, inside)
        if parsed is None:
            raise UnsupportedSchema(f"the reference {reference} points to no schema")
        return load_schema(parsed, document)

    def document(self, own: Any, place: str) -> Any:
        """Return the document at an address without fragment; `own` refers to it. Raises UnsupportedSchema."""
        if isinstance(own, dict) and own.get("$id", "").partition("#")[0] == place:
            return own
        short = place.removeprefix("./")
        for name in (place, short):
            if name in self._named:
                return self._named[name]
        for name, each in self._named.items():
            its = each.get("$id") if isinstance(each, dict) else None
            if its == place or name.rpartition("/")[2] == short.rpartition("/")[2]:
                return each
        raise UnsupportedSchema(
            f"unresolved reference {place}; the registry returned {', '.join(self._named) or 'no references'}"
        )

    def _inside(self, document: Any, inside: str) -> Any:
        if not inside:
            return document
        if not inside.startswith("/"):
            return _find_anchor(document, inside)
        at = document
        for part in inside[1:].split("/"):
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(at, list) and name.isdigit() and int(name) < len(at):
                at = at[int(name)]
            elif isinstance(at, dict) and name in at:
                at = at[name]
            else:
                return None
        return at


def _find_anchor(parsed: Any, anchor: str) -> Any:
    """Return the schema with an `$id` or `$anchor`, or None."""
    if isinstance(parsed, dict):
        if parsed.get("$id") == f"#{anchor}" or parsed.get("$anchor") == anchor:
            return parsed
        parsed = list(parsed.values())
    if isinstance(parsed, list):
        for each in parsed:
            target = _find_anchor(each, anchor)
            if target is not None:
                return target
    return None
