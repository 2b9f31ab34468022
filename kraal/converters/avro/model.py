"""Avro schemas as objects, parsed from JSON and written in the layout of Avro's Java library.

Registries compare schemas as text, so the text must equal Java's. Members must be in the same order, names must omit
the enclosing namespace, and repeated occurrences of a type must consist of its name only.
Source: Avro 1.12 specification; Schema.toString of Apache Avro's Java library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED_TYPES: Final = frozenset({"record", "enum", "fixed"})

_RESERVED_MEMBERS: Final = frozenset(
    {"type", "name", "namespace", "doc", "fields", "items", "values", "symbols", "size", "aliases"}
)
_FIELD_MEMBERS: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})


class SchemaInvalid(ValueError):
    """Raised if a text is not a valid Avro schema, or a schema cannot be written."""


class _NoDefault:
    """The type of `NO_DEFAULT`."""


NO_DEFAULT: Final = _NoDefault()
"""Marks a field without a default, because None represents the default null."""


@dataclass(slots=True, eq=False)
class AvroField:
    """A field of an Avro record."""

    name: str
    node: Node
    doc: str | None = None
    default: Any = NO_DEFAULT
    """The default in Avro's JSON encoding."""
    props: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Node:
    """An Avro schema or a part of one. Compared by identity, because a record can contain itself."""

    kind: str
    """`union` or the name of the type; `error` is treated as `record`."""
    name: str | None = None
    """Full name of a record, enum or fixed."""
    doc: str | None = None
    props: dict[str, Any] = field(default_factory=dict)
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    """Default symbol of an enum."""
    size: int = 0
    items: Node | None = None
    """Type of an array's items or a map's values."""
    branches: tuple[Node, ...] = ()

    @property
    def inner(self) -> Node:
        """Type of an array's items or a map's values."""
        assert self.items is not None  # noqa: S101 - called only for arrays and maps
        return self.items

    @property
    def branch_name(self) -> str:
        """Name of the type as a member of a union: the full name, or the kind of an unnamed type."""
        return self.name or self.kind

    def text_prop(self, name: str) -> str | None:
        """Return a property if it is a string, otherwise None."""
        value = self.props.get(name)
        return value if isinstance(value, str) else None

    def field(self, name: str) -> AvroField | None:
        """Return a record's field by name; None if the record has no such field."""
        return next((member for member in self.fields if member.name == name), None)


def parse_schema(text: str, schemas: Iterable[Node] = ()) -> Node:
    """Parse the JSON of a schema, which can reference the named types in `schemas`. Raises SchemaInvalid."""
    try:
        node_json = json.loads(text)
    except ValueError as exc:
        raise SchemaInvalid(f"the text is not JSON: {exc}") from exc
    parser = _Parser()
    for schema in schemas:
        parser.register_types(schema)
    return parser.parse_node(node_json, "")


class _Parser:
    def __init__(self) -> None:
        self._names: dict[str, Node] = {}

    def register_types(self, node: Node) -> None:
        """Register the named types of a schema and its parts."""
        if node.name is not None:
            if node.name in self._names:
                return
            self._names[node.name] = node
        parts = [member.node for member in node.fields]
        for part in (*parts, *node.branches, *([node.items] if node.items else ())):
            self.register_types(part)

    def parse_node(self, node_json: Any, enclosing_namespace: str) -> Node:
        if isinstance(node_json, str):
            return (
                Node(node_json)
                if node_json in PRIMITIVES
                else self._look_up_type(node_json, enclosing_namespace)
            )
        if isinstance(node_json, list):
            return Node(
                "union", branches=tuple(self.parse_node(branch, enclosing_namespace) for branch in node_json)
            )
        if not isinstance(node_json, dict):
            raise SchemaInvalid(f"{node_json!r} is not an Avro type; expected a string, a list or an object")
        kind = node_json.get("type")
        if isinstance(kind, (dict, list)):
            return self.parse_node(kind, enclosing_namespace)
        if not isinstance(kind, str):
            raise SchemaInvalid(f"missing 'type' in {node_json!r}")
        props = {key: value for key, value in node_json.items() if key not in _RESERVED_MEMBERS}
        if kind in PRIMITIVES:
            return Node(kind, props=props)
        if kind == "array":
            return Node(
                kind,
                props=props,
                items=self.parse_node(_require_member(node_json, "items"), enclosing_namespace),
            )
        if kind == "map":
            return Node(
                kind,
                props=props,
                items=self.parse_node(_require_member(node_json, "values"), enclosing_namespace),
            )
        if kind in NAMED_TYPES or kind == "error":
            return self._make_node(kind, node_json, props, enclosing_namespace)
        return self._look_up_type(kind, enclosing_namespace)

    def _look_up_type(self, name: str, enclosing_namespace: str) -> Node:
        full_name = name if "." in name or not enclosing_namespace else f"{enclosing_namespace}.{name}"
        node = self._names.get(full_name) or self._names.get(name)
        if node is None:
            raise SchemaInvalid(
                f"unknown type {full_name!r}; expected a primitive type or a name declared earlier"
            )
        return node

    def _make_node(
        self, kind: str, node_json: Mapping[str, Any], props: dict[str, Any], enclosing_namespace: str
    ) -> Node:
        name = _require_member(node_json, "name")
        namespace = node_json.get("namespace", enclosing_namespace)
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        if full_name in self._names:
            raise SchemaInvalid(f"the type {full_name} is declared twice")
        doc = node_json.get("doc")
        node = Node("record" if kind == "error" else kind, name=full_name, doc=doc, props=props)
        self._names[full_name] = node
        inner_namespace = full_name.rpartition(".")[0]
        if node.kind == "record":
            node.fields = [
                self._parse_field(member, inner_namespace) for member in _require_member(node_json, "fields")
            ]
        elif kind == "enum":
            node.symbols = tuple(_require_member(node_json, "symbols"))
            node.default = props.pop("default", None)
        else:
            node.size = int(_require_member(node_json, "size"))
        return node

    def _parse_field(self, field_json: Mapping[str, Any], enclosing_namespace: str) -> AvroField:
        return AvroField(
            name=_require_member(field_json, "name"),
            node=self.parse_node(_require_member(field_json, "type"), enclosing_namespace),
            doc=field_json.get("doc"),
            default=field_json.get("default", NO_DEFAULT),
            props={key: value for key, value in field_json.items() if key not in _FIELD_MEMBERS},
        )


def _require_member(node_json: Mapping[str, Any], name: str) -> Any:
    if name not in node_json:
        raise SchemaInvalid(f"missing {name!r} in {node_json!r}")
    return node_json[name]


def schema_text(node: Node) -> str:
    """Return the JSON of a schema. Raises SchemaInvalid if two different types have the same name."""
    return _to_json(_Writer().to_json(node, ""))


def _to_json(node_json: Any) -> str:
    return json.dumps(node_json, ensure_ascii=False, separators=(",", ":"))


class _Writer:
    def __init__(self) -> None:
        self._names: dict[str, Node] = {}

    def to_json(self, node: Node, enclosing_namespace: str) -> Any:
        """Return the JSON of a schema inside a namespace."""
        match node.kind:
            case "union":
                return [self.to_json(branch, enclosing_namespace) for branch in node.branches]
            case "array":
                return {"type": "array", "items": self.to_json(node.inner, enclosing_namespace), **node.props}
            case "map":
                return {"type": "map", "values": self.to_json(node.inner, enclosing_namespace), **node.props}
            case kind if kind in NAMED_TYPES:
                return self._named_type_to_json(node, enclosing_namespace)
            case _:
                return {"type": node.kind, **node.props} if node.props else node.kind

    def _named_type_to_json(self, node: Node, enclosing_namespace: str) -> Any:
        assert node.name is not None  # noqa: S101 - it is a named type
        namespace, _, short_name = node.name.rpartition(".")
        previous = self._names.get(node.name)
        if previous is not None:
            if previous is not node and _get_content_without_named_types(
                previous
            ) != _get_content_without_named_types(node):
                raise SchemaInvalid(f"Two different Avro types have the name {node.name}")
            return short_name if namespace in {"", enclosing_namespace} else node.name
        self._names[node.name] = node
        node_json: dict[str, Any] = {"type": node.kind, "name": short_name}
        if namespace != enclosing_namespace:
            node_json["namespace"] = namespace
        if node.doc is not None:
            node_json["doc"] = node.doc
        if node.kind == "record":
            node_json["fields"] = [self._field_to_json(member, namespace) for member in node.fields]
        elif node.kind == "enum":
            node_json["symbols"] = list(node.symbols)
            if node.default is not None:
                node_json["default"] = node.default
        else:
            node_json["size"] = node.size
        return {**node_json, **node.props}

    def _field_to_json(self, field: AvroField, enclosing_namespace: str) -> Any:
        field_json: dict[str, Any] = {
            "name": field.name,
            "type": self.to_json(field.node, enclosing_namespace),
        }
        if field.doc is not None:
            field_json["doc"] = field.doc
        if field.default is not NO_DEFAULT:
            field_json["default"] = field.default
        return {**field_json, **field.props}


def _get_content_without_named_types(node: Node) -> str:
    """Return the content of a named type as text for comparison. Nested named types appear only as names."""

    def get_content(part: Node) -> Any:
        if part.kind in NAMED_TYPES:
            return part.name
        inner = None if part.items is None else get_content(part.items)
        return [part.kind, part.props, inner, [get_content(branch) for branch in part.branches]]

    fields = [
        (
            member.name,
            get_content(member.node),
            member.doc,
            None if member.default is NO_DEFAULT else [member.default],
        )
        for member in node.fields
    ]
    return _to_json([node.kind, node.doc, node.props, fields, node.symbols, node.default, node.size])


def nullable(node: Node) -> Node:
    """Return the union of null and a type."""
    return Node("union", branches=(NULL, node))


NULL: Final = Node("null")
NAMESPACE: Final = "io.confluent.connect.avro"


def _make_anything_schema() -> Node:
    """Return the schema of schemaless values: a record with one field set, or no field for null."""
    record = Node("record", name=f"{NAMESPACE}.Anything")
    entry = Node(
        "record",
        name=f"{NAMESPACE}.MapEntry",
        fields=[AvroField("key", record), AvroField("value", record)],
    )
    kinds = ("boolean", "bytes", "double", "float", "int", "long", "string")
    nodes = [(kind, Node(kind)) for kind in kinds]
    nodes += [("array", Node("array", items=record)), ("map", Node("array", items=entry))]
    record.fields = [AvroField(name, nullable(node), default=None) for name, node in nodes]
    return record


ANYTHING: Final = _make_anything_schema()
