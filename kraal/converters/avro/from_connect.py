"""Maps Connect schemas to Avro schemas.

Properties `connect.*` contain the metadata that Avro cannot express; an optional schema is a union with null.
Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kraal.converters.avro.model import (
    ANYTHING,
    NAMED_TYPES,
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
    AVRO_TYPES,
    DECIMAL_PRECISION,
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM,
    ENUM_DEFAULT_PREFIX,
    ENUM_DOC_PREFIX,
    FIELD_DEFAULT,
    FIELD_DOC_PREFIX,
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
    check_name,
    is_enum,
    is_fixed,
    is_string_map,
    is_union,
    scrub_full_name,
    scrub_name,
)
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException, Struct
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.conformance import has_class
from kraal.plugins.values.java_values import float_text
from kraal.plugins.values.logical import date_days, decimal_bytes, get_scale, time_ms

_LOGICAL_TYPES: Final = {DECIMAL: "decimal", TIME: "time-millis", TIMESTAMP: "timestamp-millis", DATE: "date"}
_NARROW_TYPES: Final = {Type.INT8: "int8", Type.INT16: "int16"}


def make_avro_text(schema: Schema | None, options: AvroOptions) -> str:
    """Return the JSON of the Avro schema for a Connect schema. Raises DataException.

    `schema` is None for schemaless values.
    """
    try:
        return schema_text(_Translator(options).translate(schema))
    except SchemaInvalid as exc:
        raise DataException(str(exc)) from exc


class _Translator:
    """Translates one Connect schema. Equal structs become the same Avro type."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._nodes: dict[str, Node] = {}
        self._named_structs: dict[str, Node] = {}
        """Avro records by the Connect name of the struct."""
        self._defined_names: set[str] = set()
        self._unnamed_count = 0

    def translate(self, schema: Schema | None, *, omit_null: bool = False) -> Node:
        """Return the Avro type of a schema. With `omit_null`, the type excludes null."""
        if schema is None:
            return ANYTHING
        key = repr(schema)
        if not schema.optional and key in self._nodes:
            return self._nodes[key]
        if is_union(schema):
            members = [
                self._reference_or_translate(replace(field.schema, optional=False), omit_null=True)
                for field in schema.fields
            ]
            node = Node("union", branches=(*([NULL] if schema.optional else []), *members))
        elif schema.type is Type.STRUCT and schema.optional:
            node = nullable(self._reference_or_translate(replace(schema, optional=False)))
        else:
            node = self._translate_type(schema)
            self._add_metadata(node, schema)
            if schema.optional and not omit_null:
                has_default = schema.default is not None
                node = Node("union", branches=(node, NULL)) if has_default else nullable(node)
        if not schema.optional:
            self._nodes[key] = node
        return node

    def _reference_or_translate(self, schema: Schema | None, *, omit_null: bool = False) -> Node:
        """Return the Avro type of a nested schema. The type of a struct that is already translated is reused."""
        node = None if schema is None or schema.name is None else self._named_structs.get(schema.name)
        if node is None or schema is None:
            return self.translate(schema, omit_null=omit_null)
        return nullable(node) if schema.optional and not omit_null else node

    def _translate_type(self, schema: Schema) -> Node:
        match schema.type:
            case Type.STRING if self._options.enhanced and is_enum(schema):
                return self._translate_enum(schema)
            case Type.BYTES:
                return self._translate_bytes(schema)
            case Type.ARRAY:
                return Node("array", items=self._reference_or_translate(schema.value))
            case Type.MAP:
                return self._translate_map(schema)
            case Type.STRUCT:
                return self._translate_struct(schema)
            case _:
                return Node(AVRO_TYPES[schema.type])

    def _make_full_name(self, name: str | None) -> str:
        if name is not None:
            return check_name(scrub_full_name(name, self._options))
        self._unnamed_count += 1
        return f"{NAMESPACE}.{DEFAULT_NAME}{self._unnamed_count if self._unnamed_count > 1 else ''}"

    def _translate_enum(self, schema: Schema) -> Node:
        parameters, prefix = schema.parameters, f"{ENUM}."
        short_name = self._make_full_name(schema.name).rpartition(".")[2]
        return Node(
            "enum",
            name=check_name(parameters[ENUM]),
            doc=parameters.get(ENUM_DOC_PREFIX + short_name),
            symbols=tuple(
                check_name(key.removeprefix(prefix)) for key in parameters if key.startswith(prefix)
            ),
            default=parameters.get(ENUM_DEFAULT_PREFIX + short_name),
        )

    def _translate_bytes(self, schema: Schema) -> Node:
        if is_fixed(schema):
            size = _parse_number(schema, FIXED_SIZE, schema.parameters[FIXED_SIZE])
            node = Node("fixed", name=self._make_full_name(schema.name), size=size)
        else:
            node = Node("bytes")
        if schema.name == DECIMAL:
            node.props["scale"] = get_scale(schema)
            node.props["precision"] = _get_precision(schema)
        return node

    def _translate_map(self, schema: Schema) -> Node:
        if is_string_map(schema, self._options):
            return Node("map", items=self._reference_or_translate(schema.value))
        if schema.name is None:
            entry = Node("record", name=f"{NAMESPACE}.{MAP_ENTRY}")
        else:
            entry = Node(
                "record", name=self._make_full_name(schema.name), props={PROP_INTERNAL_TYPE: MAP_ENTRY}
            )
        entry.fields = [
            self._translate_field("key", schema.key, None),
            self._translate_field("value", schema.value, None),
        ]
        return Node("array", items=entry)

    def _translate_struct(self, schema: Schema) -> Node:
        record = Node("record", name=self._make_full_name(schema.name), doc=schema.parameters.get(RECORD_DOC))
        if schema.name is not None:
            self._named_structs[schema.name] = record
        record.fields = [
            self._translate_field(
                check_name(scrub_name(field.name, self._options)),
                field.schema,
                schema.parameters.get(FIELD_DOC_PREFIX + field.name),
            )
            for field in schema.fields
        ]
        return record

    def _translate_field(self, name: str, schema: Schema | None, doc: str | None) -> AvroField:
        if schema is None:
            return AvroField(name, ANYTHING, doc=doc)
        full_name = None if schema.name is None else scrub_full_name(schema.name, self._options)
        is_redefinition = full_name is not None and full_name in self._defined_names
        if full_name is not None:
            self._defined_names.add(full_name)
        node = self.translate(schema)
        props: dict[str, Any] = {}
        if self._options.meta_data and is_redefinition and _has_name(node):
            parameters = _select_visible_parameters(schema)
            props = {PROP_PARAMETERS: parameters} if parameters else {}
        return AvroField(name, node, doc=doc, default=self._translate_default(schema, node), props=props)

    def _translate_default(self, schema: Schema, node: Node) -> Any:
        """Return the default of a field. In Avro, the default of a union must have the union's first type."""
        if schema.default is None:
            return (
                None if schema.optional and node.branches and node.branches[0].kind == "null" else NO_DEFAULT
            )
        if schema.type is Type.STRUCT and node.branches and node.branches[0].kind == "null":
            return NO_DEFAULT
        return make_default_json(schema, schema.default, self._options)

    def _add_metadata(self, node: Node, schema: Schema) -> None:
        """Add Connect's metadata to a type, in Java's order."""
        props, name = node.props, schema.name
        if self._options.meta_data:
            if schema.doc is not None:
                props[PROP_DOC] = schema.doc
            if schema.version is not None:
                props[PROP_VERSION] = schema.version
            if parameters := _select_visible_parameters(schema):
                props[PROP_PARAMETERS] = parameters
            if schema.default is not None and FIELD_DEFAULT not in schema.parameters:
                props[PROP_DEFAULT] = make_default_json(schema, schema.default, self._options)
            if name is not None:
                props[PROP_NAME] = name
            if schema.type in _NARROW_TYPES:
                props[PROP_TYPE] = _NARROW_TYPES[schema.type]
        if name in _LOGICAL_TYPES:
            props["logicalType"] = _LOGICAL_TYPES[name]
        for key, value in schema.parameters.items():
            if key.startswith("avro"):
                props[key] = value


def make_default_json(schema: Schema, value: Any, options: AvroOptions) -> Any:
    """Convert a default to Avro's JSON encoding, with bytes as Latin-1 text. Raises DataException."""
    if value is None:
        return None
    if not has_class(schema, value):
        raise DataException(f"The default {value!r} does not fit the type {schema.type.name} of its schema")
    underlying_value = to_underlying(schema, value)
    match schema.type:
        case Type.FLOAT32:
            is_nan = underlying_value != underlying_value  # noqa: PLR0124 - only NaN differs from itself
            return underlying_value if is_nan else float(float_text(underlying_value))
        case Type.BYTES:
            return underlying_value.decode("latin-1")
        case Type.ARRAY:
            return [_make_part_default(schema.value, item, options) for item in underlying_value]
        case Type.MAP if is_string_map(schema, options):
            return {
                key: _make_part_default(schema.value, item, options) for key, item in underlying_value.items()
            }
        case Type.MAP:
            return [
                [
                    _make_part_default(schema.key, key, options),
                    _make_part_default(schema.value, item, options),
                ]
                for key, item in underlying_value.items()
            ]
        case Type.STRUCT:
            return _make_struct_default(schema, underlying_value, options)
        case _:
            return underlying_value


def _make_struct_default(schema: Schema, value: Struct, options: AvroOptions) -> Any:
    fields = {
        scrub_name(field.name, options): _make_part_default(field.schema, value.get(field.name), options)
        for field in schema.fields
    }
    return next(iter(fields.values()), None) if is_union(schema) else fields


def _make_part_default(schema: Schema | None, value: Any, options: AvroOptions) -> Any:
    if schema is None:
        raise DataException("The items of a default require a schema")
    return make_default_json(schema, value, options)


def to_underlying(schema: Schema, value: Any) -> Any:
    """Convert a value of a logical type to the underlying type; return other values unchanged.

    Raises DataException.
    """
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


def _select_visible_parameters(schema: Schema) -> Mapping[str, str]:
    return {key: value for key, value in schema.parameters.items() if key != FIELD_DEFAULT}


def _get_precision(schema: Schema) -> int:
    precision = schema.parameters.get(DECIMAL_PRECISION)
    return DEFAULT_PRECISION if precision is None else _parse_number(schema, DECIMAL_PRECISION, precision)


def _parse_number(schema: Schema, name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as exc:
        raise DataException(
            f"Invalid parameter {name}={text!r} of the schema {schema.name}; expected an integer"
        ) from exc


def _has_name(node: Node) -> bool:
    return node.kind in NAMED_TYPES or any(branch.kind in NAMED_TYPES for branch in node.branches)
