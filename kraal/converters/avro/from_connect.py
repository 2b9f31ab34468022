"""Mapping of Connect schemas to Avro schemas.

Properties `connect.*` hold what Avro cannot express; an optional schema is a union with null.
Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kraal.converters.avro.model import (
    ANYTHING,
    NAMED,
    NAMESPACE,
    NO_DEFAULT,
    NULL,
    AvroField,
    Node,
    SchemaInvalid,
    nullable,
    schema_text,
)
from kraal.converters.avro.names import (
    AVRO_OF,
    DECIMAL_PRECISION,
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    MAP_ENTRY,
    PROP_DEFAULT,
    PROP_DOC,
    PROP_INTERNAL_TYPE,
    PROP_NAME,
    PROP_PARAMETERS,
    PROP_TYPE,
    PROP_VERSION,
    RECORD_DOC,
    AvroOptions,
    check,
    is_enum,
    is_fixed,
    is_union,
    scrub_full_name,
    scrub_name,
    string_map,
)
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException, Struct
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.conformance import has_class
from kraal.plugins.values.java_values import float_text
from kraal.plugins.values.logical import date_days, decimal_bytes, get_scale, time_ms

_LOGICAL: Final = {DECIMAL: "decimal", TIME: "time-millis", TIMESTAMP: "timestamp-millis", DATE: "date"}
_NARROW: Final = {Type.INT8: "int8", Type.INT16: "int16"}


def avro_text(schema: Schema | None, options: AvroOptions) -> str:
    """Return the JSON of the Avro schema for a Connect schema; None is schemaless. Raises DataException."""
    try:
        return schema_text(_Making(options).node(schema))
    except SchemaInvalid as exc:
        raise DataException(str(exc)) from exc


class _Making:
    """The translation of one schema; equal parts share one type."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._made: dict[str, Node] = {}
        self._named: dict[str, Node] = {}
        """Structs by their Connect name."""
        self._seen: set[str] = set()
        self._nameless = 0

    def node(self, schema: Schema | None, *, bare: bool = False) -> Node:
        """Return the type of a schema; `bare` leaves out null even if the schema is optional."""
        if schema is None:
            return ANYTHING
        key = repr(schema)
        if not schema.optional and key in self._made:
            return self._made[key]
        if is_union(schema):
            members = [
                self._reference_or_translate(replace(each.schema, optional=False), bare=True)
                for each in schema.fields
            ]
            node = Node("union", branches=(*([NULL] if schema.optional else []), *members))
        elif schema.type is Type.STRUCT and schema.optional:
            node = nullable(self._reference_or_translate(replace(schema, optional=False)))
        else:
            node = self._base(schema)
            self._describe(node, schema)
            if schema.optional and not bare:
                has_default = schema.default is not None
                node = Node("union", branches=(node, NULL)) if has_default else nullable(node)
        if not schema.optional:
            self._made[key] = node
        return node

    def _reference_or_translate(self, schema: Schema | None, *, bare: bool = False) -> Node:
        """Return the type of a part; a struct that was translated before is referenced by name."""
        node = None if schema is None or schema.name is None else self._named.get(schema.name)
        if node is None or schema is None:
            return self.node(schema, bare=bare)
        return nullable(node) if schema.optional and not bare else node

    def _base(self, schema: Schema) -> Node:
        match schema.type:
            case Type.STRING if self._options.enhanced and is_enum(schema):
                return self._enum(schema)
            case Type.BYTES:
                return self._bytes(schema)
            case Type.ARRAY:
                return Node("array", items=self._reference_or_translate(schema.value))
            case Type.MAP:
                return self._map(schema)
            case Type.STRUCT:
                return self._struct(schema)
            case _:
                return Node(AVRO_OF[schema.type])

    def _name(self, name: str | None) -> str:
        if name is not None:
            return check(scrub_full_name(name, self._options))
        self._nameless += 1
        return f"{NAMESPACE}.{DEFAULT_NAME}{self._nameless if self._nameless > 1 else ''}"

    def _enum(self, schema: Schema) -> Node:
        parameters, prefix = schema.parameters, f"{ENUM}."
        short = self._name(schema.name).rpartition(".")[2]
        return Node(
            "enum",
            name=check(parameters[ENUM]),
            doc=parameters.get(ENUM_DOC + short),
            symbols=tuple(check(key.removeprefix(prefix)) for key in parameters if key.startswith(prefix)),
            default=parameters.get(ENUM_DEFAULT + short),
        )

    def _bytes(self, schema: Schema) -> Node:
        if is_fixed(schema):
            size = _number(schema, FIXED_SIZE, schema.parameters[FIXED_SIZE])
            node = Node("fixed", name=self._name(schema.name), size=size)
        else:
            node = Node("bytes")
        if schema.name == DECIMAL:
            node.props["scale"] = get_scale(schema)
            node.props["precision"] = _precision(schema)
        return node

    def _map(self, schema: Schema) -> Node:
        if string_map(schema, self._options):
            return Node("map", items=self._reference_or_translate(schema.value))
        if schema.name is None:
            entry = Node("record", name=f"{NAMESPACE}.{MAP_ENTRY}")
        else:
            entry = Node("record", name=self._name(schema.name), props={PROP_INTERNAL_TYPE: MAP_ENTRY})
        entry.fields = [self._field("key", schema.key, None), self._field("value", schema.value, None)]
        return Node("array", items=entry)

    def _struct(self, schema: Schema) -> Node:
        record = Node("record", name=self._name(schema.name), doc=schema.parameters.get(RECORD_DOC))
        if schema.name is not None:
            self._named[schema.name] = record
        record.fields = [
            self._field(
                check(scrub_name(each.name, self._options)),
                each.schema,
                schema.parameters.get(FIELD_DOC + each.name),
            )
            for each in schema.fields
        ]
        return record

    def _field(self, name: str, schema: Schema | None, doc: str | None) -> AvroField:
        if schema is None:
            return AvroField(name, ANYTHING, doc=doc)
        full = None if schema.name is None else scrub_full_name(schema.name, self._options)
        again = full is not None and full in self._seen
        if full is not None:
            self._seen.add(full)
        node = self.node(schema)
        props: dict[str, Any] = {}
        if self._options.meta_data and again and _has_name(node):
            parameters = _parameters(schema)
            props = {PROP_PARAMETERS: parameters} if parameters else {}
        return AvroField(name, node, doc=doc, default=self._default(schema, node), props=props)

    def _default(self, schema: Schema, node: Node) -> Any:
        """Return a field's default; in a union Avro allows only a default of the first type."""
        if schema.default is None:
            return (
                None if schema.optional and node.branches and node.branches[0].kind == "null" else NO_DEFAULT
            )
        if schema.type is Type.STRUCT and node.branches and node.branches[0].kind == "null":
            return NO_DEFAULT
        return default_json(schema, schema.default, self._options)

    def _describe(self, node: Node, schema: Schema) -> None:
        """Add Connect's metadata to a type, in the order that Java uses."""
        props, name = node.props, schema.name
        if self._options.meta_data:
            if schema.doc is not None:
                props[PROP_DOC] = schema.doc
            if schema.version is not None:
                props[PROP_VERSION] = schema.version
            if parameters := _parameters(schema):
                props[PROP_PARAMETERS] = parameters
            if schema.default is not None and FIELD_DEFAULT not in schema.parameters:
                props[PROP_DEFAULT] = default_json(schema, schema.default, self._options)
            if name is not None:
                props[PROP_NAME] = name
            if schema.type in _NARROW:
                props[PROP_TYPE] = _NARROW[schema.type]
        if name in _LOGICAL:
            props["logicalType"] = _LOGICAL[name]
        for key, value in schema.parameters.items():
            if key.startswith("avro"):
                props[key] = value


def default_json(schema: Schema, value: Any, options: AvroOptions) -> Any:
    """Return a default in Avro's JSON form, with bytes as Latin-1 text. Raises DataException."""
    if value is None:
        return None
    if not has_class(schema, value):
        raise DataException(f"The default {value!r} does not fit the type {schema.type.name} of its schema")
    below = below_logical(schema, value)
    match schema.type:
        case Type.FLOAT32:
            return float(float_text(below)) if below == below else below  # noqa: PLR0124 - not NaN
        case Type.BYTES:
            return below.decode("latin-1")
        case Type.ARRAY:
            return [_part(schema.value, each, options) for each in below]
        case Type.MAP if string_map(schema, options):
            return {key: _part(schema.value, each, options) for key, each in below.items()}
        case Type.MAP:
            return [
                [_part(schema.key, key, options), _part(schema.value, each, options)]
                for key, each in below.items()
            ]
        case Type.STRUCT:
            return _struct_default(schema, below, options)
        case _:
            return below


def _struct_default(schema: Schema, value: Struct, options: AvroOptions) -> Any:
    fields = {
        scrub_name(each.name, options): _part(each.schema, value.get(each.name), options)
        for each in schema.fields
    }
    return next(iter(fields.values()), None) if is_union(schema) else fields


def _part(schema: Schema | None, value: Any, options: AvroOptions) -> Any:
    if schema is None:
        raise DataException("The items of a default need a schema")
    return default_json(schema, value, options)


def below_logical(schema: Schema, value: Any) -> Any:
    """Return a logical type's value as its underlying type; other values unchanged. Raises DataException."""
    match schema.name:
        case str() as name if name == DECIMAL:
            return decimal_bytes(schema, value)
        case str() as name if name == DATE:
            return date_days(value)
        case str() as name if name == TIME:
            return time_ms(value)
        case str() as name if name == TIMESTAMP:
            return value.ms
        case _:
            return value


def _parameters(schema: Schema) -> Mapping[str, str]:
    return {key: value for key, value in schema.parameters.items() if key != FIELD_DEFAULT}


def _precision(schema: Schema) -> int:
    precision = schema.parameters.get(DECIMAL_PRECISION)
    return DEFAULT_PRECISION if precision is None else _number(schema, DECIMAL_PRECISION, precision)


def _number(schema: Schema, name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as exc:
        raise DataException(
            f"Invalid parameter {name}={text!r} of the schema {schema.name}; expected an integer"
        ) from exc


def _has_name(node: Node) -> bool:
    return node.kind in NAMED or any(each.kind in NAMED for each in node.branches)
