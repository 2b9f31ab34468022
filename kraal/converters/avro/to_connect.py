"""Maps Avro schemas to Connect schemas.

Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final

from kraal.converters.avro.model import NO_DEFAULT, AvroField, Node
from kraal.converters.avro.names import (
    DECIMAL_PRECISION,
    DEFAULT_FULL_NAME,
    DEFAULT_PRECISION,
    ENUM,
    ENUM_DEFAULT_PREFIX,
    ENUM_DOC_PREFIX,
    FIELD_DEFAULT,
    FIELD_DOC_PREFIX,
    FIXED_SIZE,
    PROP_DEFAULT,
    PROP_DOC,
    PROP_NAME,
    PROP_PARAMETERS,
    PROP_TYPE,
    PROP_VERSION,
    RECORD_DOC,
    UNION,
    AvroOptions,
    get_node_member,
    is_map_entry,
)
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException, Instant, Struct
from kraal.plugins.model.schema import STRING, Field, Schema, Type
from kraal.plugins.values.conformance import validate
from kraal.plugins.values.java_values import float32
from kraal.plugins.values.logical import narrow, to_date, to_decimal, to_time

log = logging.getLogger(__name__)

_PLAIN_TYPES: Final = {
    "boolean": Type.BOOLEAN,
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "string": Type.STRING,
    "enum": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
}
_NARROW_TYPES: Final = {"int8": Type.INT8, "int16": Type.INT16}
_LOGICAL_TYPES: Final = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
}
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


def connect_schema(node: Node, options: AvroOptions, version: int | None = None) -> Schema:
    """Return the Connect schema for an Avro schema. Raises DataException.

    `version` is the registry's version of the Avro schema.
    """
    return _Translator(options).translate(node, version=version)


def get_only_branch(node: Node, options: AvroOptions) -> Node | None:
    """Return the single non-null type of a union; None if the union becomes a struct."""
    if len(node.branches) == 1 and options.flatten_singletons:
        return node.branches[0]
    types = [branch for branch in node.branches if branch.kind != "null"]
    return types[0] if len(node.branches) == 2 and len(types) == 1 else None  # noqa: PLR2004 - null and one type


class _Translator:
    """Translates one Avro schema."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._enclosing_records: list[Node] = []
        """The records that enclose the current type."""

    def translate(
        self,
        node: Node,
        *,
        optional: bool = False,
        default: Any = NO_DEFAULT,
        version: int | None = None,
    ) -> Schema:
        """Return the Connect schema of an Avro type. `default` is the default of the field that has this type."""
        if node.kind == "union":
            only_branch = get_only_branch(node, self._options)
            if only_branch is not None:
                is_only_type = len(node.branches) == 1
                return self.translate(only_branch, optional=not is_only_type)
        result = self._translate_type(node)
        if optional:
            result = replace(result, optional=True)
        return self._add_metadata(result, node, default, version)

    def _translate_type(self, node: Node) -> Schema:
        match node.kind:
            case "null":
                raise DataException("The Avro type null has no Connect schema outside a union")
            case "bytes" | "fixed":
                return _translate_bytes(node)
            case "int" | "long":
                return _make_integer_schema(node)
            case "array":
                return self._translate_array(node)
            case "map":
                return Schema(type=Type.MAP, key=STRING, value=self.translate(node.inner))
            case "record":
                return self._translate_record(node)
            case "enum":
                return self._translate_enum(node)
            case "union":
                return self._translate_union(node)
            case _:
                return Schema(type=_PLAIN_TYPES[node.kind])

    def _translate_array(self, node: Node) -> Schema:
        inner = node.inner
        if not is_map_entry(inner):
            return Schema(type=Type.ARRAY, value=self.translate(inner))
        key, value = inner.field("key"), inner.field("value")
        if len(inner.fields) != 2 or key is None or value is None:  # noqa: PLR2004 - key and value
            raise DataException(
                "Invalid Avro record for the entries of a map; expected exactly the fields key and value"
            )
        return Schema(type=Type.MAP, key=self.translate(key.node), value=self.translate(value.node))

    def _translate_record(self, node: Node) -> Schema:
        if any(record is node for record in self._enclosing_records):
            raise DataException(
                f"The Avro record {node.name} contains itself; recursive schemas are not supported"
            )
        self._enclosing_records.append(node)
        parameters = {}
        if self._options.meta_data:
            if node.doc is not None:
                parameters[RECORD_DOC] = node.doc
            parameters |= {
                FIELD_DOC_PREFIX + field.name: field.doc for field in node.fields if field.doc is not None
            }
        fields = tuple(Field(name=field.name, schema=self._translate_field(field)) for field in node.fields)
        self._enclosing_records.pop()
        return Schema(type=Type.STRUCT, fields=fields, parameters=parameters)

    def _translate_field(self, field: AvroField) -> Schema:
        schema = self.translate(field.node, default=field.default)
        declared_parameters = field.props.get(PROP_PARAMETERS)
        if self._options.meta_data and isinstance(declared_parameters, dict):
            schema = replace(
                schema,
                parameters={
                    **schema.parameters,
                    **{key: str(parameter) for key, parameter in declared_parameters.items()},
                },
            )
        return schema

    def _translate_enum(self, node: Node) -> Schema:
        name = (node.name or "").rpartition(".")[2]
        parameters = {}
        if self._options.meta_data:
            if node.doc is not None:
                parameters[ENUM_DOC_PREFIX + name] = node.doc
            if node.default is not None:
                parameters[ENUM_DEFAULT_PREFIX + name] = node.default
        parameters[ENUM] = node.name or ""
        parameters |= {f"{ENUM}.{symbol}": symbol for symbol in node.symbols}
        return Schema(type=Type.STRING, parameters=parameters)

    def _translate_union(self, node: Node) -> Schema:
        fields: dict[str, Field] = {}
        for branch in node.branches:
            if branch.kind == "null":
                continue
            name = get_node_member(branch, self._options)
            if name in fields:
                raise DataException(
                    f"Two types of an Avro union map to the field {name}; if their namespaces differ, set "
                    "enhanced.avro.schema.support=true"
                )
            fields[name] = Field(name=name, schema=self.translate(branch, optional=True))
        optional = any(branch.kind == "null" for branch in node.branches)
        return Schema(type=Type.STRUCT, name=UNION, fields=tuple(fields.values()), optional=optional)

    def _add_metadata(self, schema: Schema, node: Node, default: Any, version: int | None) -> Schema:
        """Add metadata: parameters, version, doc, default and name."""
        schema = replace(schema, parameters={**schema.parameters, **self._read_parameters(node)})
        schema = _add_version(schema, node, version)
        doc = node.text_prop(PROP_DOC)
        if self._options.meta_data and doc is not None:
            schema = replace(schema, doc=doc)
        type_default = node.props.get(PROP_DEFAULT, NO_DEFAULT)
        if default is not NO_DEFAULT and type_default in (NO_DEFAULT, None) and self._options.meta_data:
            schema = replace(schema, parameters={**schema.parameters, FIELD_DEFAULT: "true"})
        value = type_default if default is NO_DEFAULT else default
        if value is not NO_DEFAULT and value is not None:
            schema = self._add_default(schema, node, value)
        return _add_name(schema, node)

    def _read_parameters(self, node: Node) -> dict[str, str]:
        declared_parameters = node.props.get(PROP_PARAMETERS)
        parameters: dict[str, str] = {}
        if self._options.meta_data and declared_parameters is not None:
            if not isinstance(declared_parameters, dict):
                raise DataException(
                    f"Invalid {PROP_PARAMETERS} {declared_parameters!r}; expected a JSON object"
                )
            for name, value in declared_parameters.items():
                if not isinstance(value, str):
                    raise DataException(
                        f"Invalid value {value!r} of {name!r} in {PROP_PARAMETERS}; expected a string"
                    )
                parameters[name] = value
        return parameters | {key: str(value) for key, value in node.props.items() if key.startswith("avro")}

    def _add_default(self, schema: Schema, node: Node, value: Any) -> Schema:
        try:
            value = self._translate_default(schema, node, value)
            if not isinstance(value, Struct):
                validate(schema, value)
        except (DataException, ValueError, TypeError, AttributeError, OverflowError) as exc:
            log.warning(
                "Ignoring the invalid default of the Avro type %s: %s",
                node.branch_name,
                exc,
            )
            return schema
        if isinstance(value, Struct):
            value = Struct(_add_name(schema, node), value.values)
        return replace(schema, default=value)

    def _translate_default(self, schema: Schema | None, node: Node, value: Any) -> Any:
        """Convert a default to a Connect value."""
        if value is None or schema is None:
            return None
        match node.kind:
            case "union":
                only_branch = get_only_branch(node, self._options)
                return None if only_branch is None else self._translate_default(schema, only_branch, value)
            case "array" if schema.type is Type.ARRAY:
                return [self._translate_default(schema.value, node.inner, item) for item in value]
            case "map":
                return {
                    key: self._translate_default(schema.value, node.inner, item)
                    for key, item in value.items()
                }
            case "record":
                values = {}
                for field in schema.fields:
                    avro_field = node.field(field.name)
                    member_value = value.get(field.name)
                    values[field.name] = field.schema.default
                    if avro_field is not None and member_value is not None:
                        values[field.name] = self._translate_default(
                            field.schema, avro_field.node, member_value
                        )
                return Struct(schema, values)
            case _:
                return _to_plain_value(schema, value)


def _to_plain_value(schema: Schema, value: Any) -> Any:
    match schema.name:
        case str() as name if name == DECIMAL:
            return to_decimal(schema, value.encode("latin-1"))
        case str() as name if name == DATE:
            return to_date(value)
        case str() as name if name == TIME:
            return to_time(value)
        case str() as name if name == TIMESTAMP:
            return Instant(value)
        case _:
            pass
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return narrow(int(value), _BITS[schema.type])
        case Type.FLOAT32:
            return float32(float(value))
        case Type.FLOAT64:
            return float(value)
        case Type.BYTES:
            return value.encode("latin-1")
        case _:
            return value


def _translate_bytes(node: Node) -> Schema:
    parameters = {}
    name = version = None
    if node.props.get("logicalType") == "decimal":
        scale, precision = node.props.get("scale"), node.props.get("precision")
        name, version = DECIMAL, 1
        parameters["scale"] = str(scale if type(scale) is int else 0)
        if precision is not None:
            if type(precision) is not int:
                raise DataException(
                    f"Invalid precision {precision!r} of an Avro decimal; expected an integer"
                )
            if precision != DEFAULT_PRECISION:
                parameters[DECIMAL_PRECISION] = str(precision)
    if node.kind == "fixed":
        parameters[FIXED_SIZE] = str(node.size)
    return Schema(type=Type.BYTES, name=name, version=version, parameters=parameters)


def _make_integer_schema(node: Node) -> Schema:
    kind, logical_type = node.text_prop(PROP_TYPE), node.text_prop("logicalType")
    name = _LOGICAL_TYPES.get((node.kind, logical_type or ""))
    if name is not None:
        return Schema(type=_PLAIN_TYPES[node.kind], name=name, version=1)
    if node.kind == "int" and kind is not None and logical_type is None:
        if kind not in _NARROW_TYPES:
            raise DataException(f"Invalid {PROP_TYPE} {kind!r} of an Avro int; expected int8 or int16")
        return Schema(type=_NARROW_TYPES[kind])
    return Schema(type=_PLAIN_TYPES[node.kind])


def _add_version(schema: Schema, node: Node, version: int | None) -> Schema:
    declared_version = node.props.get(PROP_VERSION, version)
    if declared_version is None:
        return schema
    if type(declared_version) is not int:
        raise DataException(f"Invalid {PROP_VERSION} {declared_version!r}; expected an integer")
    if declared_version < 0 or declared_version == schema.version:
        return schema
    if schema.version is not None:
        raise DataException(
            f"Conflicting versions of the schema {schema.name}: {schema.version} for its logical type, "
            f"{declared_version} in the Avro schema"
        )
    return replace(schema, version=declared_version)


def _add_name(schema: Schema, node: Node) -> Schema:
    declared_name = node.props.get(PROP_NAME)
    if declared_name is not None and not isinstance(declared_name, str):
        raise DataException(f"Invalid {PROP_NAME} {declared_name!r}; expected a string")
    name = declared_name
    is_decimal = node.kind == "fixed" and schema.name == DECIMAL
    if name is None and node.name is not None and not is_decimal:
        name = node.name
    if name is None or name.startswith(DEFAULT_FULL_NAME) or name == schema.name:
        return schema
    if schema.name is not None:
        raise DataException(
            f"Conflicting names of a schema: {schema.name} for its logical type, {name} in the Avro schema"
        )
    return replace(schema, name=name)
