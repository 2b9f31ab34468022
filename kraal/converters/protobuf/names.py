"""Names in Protobuf and Connect schemas (parameters, types) and the options of the mapping."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import Schema, Type

NAMESPACE: Final = "io.confluent.connect.protobuf"
DEFAULT_NAME: Final = "ConnectDefault"
ENUM: Final = f"{NAMESPACE}.Enum"
UNION: Final = f"{NAMESPACE}.Union"
TAG: Final = f"{NAMESPACE}.Tag"
TYPE: Final = f"{NAMESPACE}.Type"
WRAPPER: Final = f"{NAMESPACE}.Wrapper"
"""Parameter that marks a member of a union as a wrapper."""

PRECISION: Final = "connect.decimal.precision"
CONNECT_TYPE: Final = "connect.type"

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_INVALID_CHARACTER: Final = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufOptions:
    """Options of the mapping; documented by the config keys of the converter."""

    enhanced: bool = False
    """Keep the package in the names of messages, enums and unions."""
    scrub_names: bool = False
    int_for_enums: bool = False
    optional_for_nullables: bool = False
    """Declare optional fields with `optional`."""
    optional_for_proto2: bool = True
    """Read absent optional fields of proto2 as null."""
    wrapper_for_nullables: bool = False
    """Declare optional fields with wrapper messages."""
    wrapper_for_raw: bool = True
    """Read a wrapper message as its value."""
    struct_for_nulls: bool = False
    index_for_unions: bool = True
    """Append the index of the oneof to the names of union fields."""
    flatten_unions: bool = False
    ignore_defaults: bool = False


def is_union(schema: Schema) -> bool:
    """Return whether a struct represents a oneof. The struct then has one field for each member of the oneof."""
    return schema.type is Type.STRUCT and schema.name is not None and schema.name.startswith(UNION)


def scrub_name(name: str, options: ProtobufOptions) -> str:
    """Return a name. With `scrub_names`, characters that Protobuf does not allow are replaced."""
    if not options.scrub_names or not name or _PLAIN_NAME.match(name):
        return name
    encoded_name = quote_plus(name, safe="*")
    return _INVALID_CHARACTER.sub(
        "_", f"x{encoded_name}" if encoded_name[0].isdigit() or encoded_name[0] == "_" else encoded_name
    )


def check_name(name: str) -> str:
    """Return a name unchanged. Raises DataException if Protobuf does not allow it."""
    if not _NAME.match(name):
        raise DataException(
            f"Invalid Protobuf name {name!r}; expected letters, digits and _, with no digit first. "
            "Set scrub.invalid.names=true to replace other characters"
        )
    return name


def split_name(name: str | None, options: ProtobufOptions) -> tuple[str, str]:
    """Return the package and the name of the message for a struct schema. Raises DataException."""
    parts = [check_name(scrub_name(part, options)) for part in (name or f"{DEFAULT_NAME}1").split(".")]
    return ".".join(parts[:-1]), parts[-1]


def full_name(schema: Schema, options: ProtobufOptions) -> str:
    """Return the full name of the message for a struct schema. Raises DataException."""
    package, name = split_name(schema.name, options)
    return f"{package}.{name}" if package else name
