"""Syntax tree of a .proto file, with unresolved type names.

Source: the Protocol Buffers language specification, proto2 and proto3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

SCALARS: Final = frozenset(
    {
        "double",
        "float",
        "int32",
        "int64",
        "uint32",
        "uint64",
        "sint32",
        "sint64",
        "fixed32",
        "fixed64",
        "sfixed32",
        "sfixed64",
        "bool",
        "string",
        "bytes",
    }
)
FIELD_META: Final = "(confluent.field_meta)"


class ProtoInvalid(ValueError):
    """Raised if a text is not a valid .proto file, or contains an unknown type."""


@dataclass(slots=True)
class ProtoField:
    """The declaration of a field."""

    name: str
    number: int
    type: str
    """The name of a scalar type, or a type name as written; a leading dot denotes the root scope."""
    label: str = ""
    """`optional`, `required`, `repeated`, or empty."""
    oneof: int | None = None
    """Index of the oneof that contains the field; None if no oneof does."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options by name as written, including `default`."""

    @property
    def meta(self) -> dict[str, str]:
        """Parameters of the option `confluent.field_meta`."""
        meta = self.options.get(FIELD_META)
        params = meta.get("params", []) if isinstance(meta, dict) else []
        pairs = params if isinstance(params, list) else [params]
        more_params = self.options.get(f"{FIELD_META}.params")
        pairs = [*pairs, *(more_params if isinstance(more_params, list) else [more_params])]
        return {
            str(pair.get("key", "")): str(pair.get("value", "")) for pair in pairs if isinstance(pair, dict)
        }


@dataclass(slots=True)
class ProtoEnum:
    """The declaration of an enum. `values` has names and numbers in the order of declaration."""

    name: str
    values: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class ProtoMessage:
    """The declaration of a message."""

    name: str
    fields: list[ProtoField] = field(default_factory=list)
    """Fields in the order of declaration, including those of oneofs."""
    oneofs: list[str] = field(default_factory=list)
    messages: list[ProtoMessage] = field(default_factory=list)
    enums: list[ProtoEnum] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    is_synthetic: bool = False
    """Whether the message was generated for the entries of a `map<…>`."""


@dataclass(slots=True)
class ProtoFile:
    """A parsed .proto file."""

    syntax: str = "proto2"
    package: str = ""
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    """Imports that are also visible to importers of this file."""
    messages: list[ProtoMessage] = field(default_factory=list)
    enums: list[ProtoEnum] = field(default_factory=list)


def upper_camel(name: str) -> str:
    """Convert `some_name` to `SomeName`."""
    return "".join(part[:1].upper() + part[1:].lower() for part in name.split("_"))


def map_entry_name(name: str) -> str:
    """Return the name of the message for the entries of a map field."""
    return (upper_camel(name) if "_" in name else name) + "Entry"


def map_field_name(name: str) -> str:
    """Return the name of the map field whose entries have this message name."""
    prefix, dot, message_name = name.rpartition(".")
    if not message_name.endswith("Entry"):
        return name
    field_name = message_name.removesuffix("Entry")
    words = "".join(f"_{char}" if char.isascii() and char.isupper() else char for char in field_name)
    return f"{prefix}{dot}{words.removeprefix('_').lower()}"
