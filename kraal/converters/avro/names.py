"""Names in Avro and Connect schemas (properties, parameters, union fields) and the options of the mapping."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

from kraal.converters.avro.model import NAMED_TYPES, NAMESPACE, Node
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import Schema, Type

DEFAULT_NAME: Final = "ConnectDefault"
DEFAULT_FULL_NAME: Final = f"{NAMESPACE}.{DEFAULT_NAME}"
MAP_ENTRY: Final = "MapEntry"

PROP_NAME: Final = "connect.name"
PROP_DOC: Final = "connect.doc"
PROP_VERSION: Final = "connect.version"
PROP_DEFAULT: Final = "connect.default"
PROP_PARAMETERS: Final = "connect.parameters"
PROP_TYPE: Final = "connect.type"
PROP_INTERNAL_TYPE: Final = "connect.internal.type"

RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
ENUM_DOC_PREFIX: Final = f"{NAMESPACE}.enum.doc."
FIELD_DOC_PREFIX: Final = f"{NAMESPACE}.field.doc."
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
ENUM_DEFAULT_PREFIX: Final = f"{NAMESPACE}.enum.default."
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"

FIXED_SIZE: Final = "connect.fixed.size"
DECIMAL_PRECISION: Final = "connect.decimal.precision"
DEFAULT_PRECISION: Final = 64

AVRO_TYPES: Final = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
    Type.ARRAY: "array",
    Type.MAP: "map",
    Type.STRUCT: "record",
}

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INVALID_CHARACTER: Final = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroOptions:
    """Options of the schema mapping; documented by the config keys of the converter."""

    enhanced: bool = False
    """Preserve enums, and use full names for fields of unions."""
    meta_data: bool = True
    """Write Connect's metadata as `connect.*` properties."""
    scrub_names: bool = False
    optional_map_keys: bool = False
    flatten_singletons: bool = True
    ignore_defaults: bool = False
    """Keep null as null even if the schema has a default."""


def is_union(schema: Schema) -> bool:
    """Return whether a struct represents a union. The struct then has one field for each type of the union."""
    return schema.name == UNION


def is_enum(schema: Schema) -> bool:
    """Return whether a string schema represents an enum."""
    return schema.type is Type.STRING and ENUM in schema.parameters


def is_fixed(schema: Schema) -> bool:
    """Return whether a bytes schema represents an Avro fixed type."""
    return schema.type is Type.BYTES and schema.name is not None and FIXED_SIZE in schema.parameters


def is_string_map(schema: Schema, options: AvroOptions) -> bool:
    """Return whether a map becomes an Avro map, which requires string keys."""
    key = schema.key
    return key is not None and key.type is Type.STRING and (not key.optional or options.optional_map_keys)


def is_map_entry(node: Node) -> bool:
    """Return whether an array of these records represents a map."""
    return node.kind == "record" and (
        node.name == f"{NAMESPACE}.{MAP_ENTRY}" or node.props.get(PROP_INTERNAL_TYPE) == MAP_ENTRY
    )


def scrub_name(name: str, options: AvroOptions) -> str:
    """Return a name without a namespace. With `scrub_names`, characters that Avro does not allow are replaced."""
    if not options.scrub_names or not name or _NAME.match(name):
        return name
    encoded_name = quote_plus(name, safe="*")
    return _INVALID_CHARACTER.sub("_", f"x{encoded_name}" if encoded_name[0].isdigit() else encoded_name)


def scrub_full_name(name: str, options: AvroOptions) -> str:
    """Return a full name. With `scrub_names`, characters that Avro does not allow are replaced."""
    return ".".join(scrub_name(part, options) for part in name.split("."))


def check_name(name: str) -> str:
    """Return a name unchanged. Raises DataException if Avro does not allow it."""
    for part in name.split("."):
        if not _NAME.match(part):
            raise DataException(
                f"Invalid Avro name {part!r}; expected letters, digits and _, with no digit first. "
                "Set scrub.invalid.names=true to replace other characters"
            )
    return name


def get_node_member(node: Node, options: AvroOptions) -> str:
    """Return the name of the struct field for a member of a union."""
    if node.kind in NAMED_TYPES and node.name is not None:
        return node.name if options.enhanced else node.name.rpartition(".")[2]
    return node.kind


def get_schema_member(schema: Schema, options: AvroOptions) -> str:
    """Return the name of the struct field for a member of a union, from the member's Connect schema."""
    if schema.name is not None and (schema.type is Type.STRUCT or is_enum(schema) or is_fixed(schema)):
        full_name = scrub_full_name(schema.name, options)
        return full_name if options.enhanced else full_name.rpartition(".")[2]
    return AVRO_TYPES[schema.type]
