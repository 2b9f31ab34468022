"""Names in Connect schemas and JSON Schema, options of the mapping, and the iteration order of Java's maps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kraal.plugins.model.schema import Schema, Type

NAMESPACE: Final = "io.confluent.connect.json"
ENUM: Final = f"{NAMESPACE}.Enum"
ONE_OF: Final = f"{NAMESPACE}.OneOf"
NULL_MARKER: Final = "<NULL>"

CONNECT_TYPE: Final = "connect.type"
CONNECT_VERSION: Final = "connect.version"
CONNECT_PARAMETERS: Final = "connect.parameters"
CONNECT_INDEX: Final = "connect.index"
MAP: Final = "map"

TYPES_BY_NAME: Final = {
    "int8": Type.INT8,
    "int16": Type.INT16,
    "int32": Type.INT32,
    "int64": Type.INT64,
    "float32": Type.FLOAT32,
    "float64": Type.FLOAT64,
    "bytes": Type.BYTES,
}
"""Connect types by the value of `connect.type`."""
NAMES_BY_TYPE: Final = {kind: name for name, kind in TYPES_BY_NAME.items()}

_LOAD_FACTOR: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchemaOptions:
    """Options of the mapping; documented by the config keys of the converter."""

    additional_properties: bool = True
    optional_for_nonrequired: bool = False
    numeric_decimals: bool = False
    flatten_singletons: bool = True
    ignore_defaults: bool = False
    fail_invalid: bool = False


def is_union(schema: Schema) -> bool:
    """Return whether a struct represents a oneOf. The struct then has one field for each schema."""
    return schema.name == ONE_OF


def is_string_map(schema: Schema) -> bool:
    """Return whether a map becomes a JSON object, which requires non-optional string keys."""
    return schema.key is not None and schema.key.type is Type.STRING and not schema.key.optional


def order_by_hash(names: Iterable[str], table_size: int = 16) -> list[str]:
    """Return names in the iteration order of a java.util.HashMap with the initial capacity `table_size`.

    Registered schemas have their properties in this order, and the registry compares schemas as text.
    Source: java.util.HashMap, String.hashCode.
    """
    distinct_names = list(dict.fromkeys(names))
    size = _compute_table_size(table_size)
    while len(distinct_names) > size * _LOAD_FACTOR:
        size *= 2
    return sorted(distinct_names, key=lambda name: _spread_hash(name) & (size - 1))


def order_as_copied(names: Iterable[str]) -> list[str]:
    """Return names in the iteration order of a HashMap that was copied from another map."""
    distinct_names = list(dict.fromkeys(names))
    return order_by_hash(distinct_names, int(len(distinct_names) / _LOAD_FACTOR + 1))


def _compute_table_size(min_size: int) -> int:
    size = 1
    while size < min_size:
        size *= 2
    return size


def _spread_hash(name: str) -> int:
    data, hash_code = name.encode("utf-16-be", "surrogatepass"), 0
    for index in range(0, len(data), 2):
        hash_code = (31 * hash_code + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    return hash_code ^ (hash_code >> 16)
