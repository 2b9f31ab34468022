"""What Connect's schemas call what is Protobuf's: parameters, options, names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

from kraal.plugins.records import DataException
from kraal.plugins.schema import Schema, Type

NAMESPACE: Final = "io.confluent.connect.protobuf"
DEFAULT_NAME: Final = "ConnectDefault"
ENUM: Final = f"{NAMESPACE}.Enum"
UNION: Final = f"{NAMESPACE}.Union"
TAG: Final = f"{NAMESPACE}.Tag"
TYPE: Final = f"{NAMESPACE}.Type"
WRAPPER: Final = f"{NAMESPACE}.Wrapper"
"""Tells that a member of a union was a wrapper."""

PRECISION: Final = "connect.decimal.precision"
CONNECT_TYPE: Final = "connect.type"

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufOptions:
    """How schemas and values are translated; the converter's keys say the same."""

    enhanced: bool = False
    """Names of messages, enums and unions keep their package."""
    scrub_names: bool = False
    int_for_enums: bool = False
    optional_for_nullables: bool = False
    """Optional is the word `optional`."""
    optional_for_proto2: bool = True
    """What proto2 has as optional is null where it is absent."""
    wrapper_for_nullables: bool = False
    """Optional is a message that holds the value."""
    wrapper_for_raw: bool = True
    """Such a message alone is the value that it holds."""
    struct_for_nulls: bool = False
    index_for_unions: bool = True
    """Fields of unions end with the union's number."""
    flatten_unions: bool = False
    ignore_defaults: bool = False


def is_union(schema: Schema) -> bool:
    """Tell whether a struct stands for a oneof: one field for each member."""
    return schema.type is Type.STRUCT and schema.name is not None and schema.name.startswith(UNION)


def scrubbed(name: str, options: ProtobufOptions) -> str:
    """Return a name as Protobuf takes it. Source: ProtobufData.doScrubName."""
    if not options.scrub_names or not name or _PLAIN.match(name):
        return name
    encoded = quote_plus(name, safe="*")
    return _STRANGE.sub("_", f"x{encoded}" if encoded[0].isdigit() or encoded[0] == "_" else encoded)


def checked(name: str) -> str:
    """Return a name. Raises DataException for one that Protobuf does not take."""
    if not _NAME.match(name):
        raise DataException(
            f'"{name}" is not a valid identifier. A name in Protobuf has letters, digits and _ only; '
            "scrub.invalid.names=true replaces others"
        )
    return name


def split_name(name: str | None, options: ProtobufOptions) -> tuple[str, str]:
    """Return package and name of a record's schema. Raises DataException."""
    parts = [checked(scrubbed(part, options)) for part in (name or f"{DEFAULT_NAME}1").split(".")]
    return ".".join(parts[:-1]), parts[-1]


def full_name(schema: Schema, options: ProtobufOptions) -> str:
    """Return the full name of the message that a record's schema becomes. Raises DataException."""
    package, name = split_name(schema.name, options)
    return f"{package}.{name}" if package else name
