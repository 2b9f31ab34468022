"""A .proto file as objects, as it is written: names of types are not looked up yet.

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
    """A text is no .proto file, or names what is not there."""


@dataclass(slots=True)
class ProtoField:
    """A message's field."""

    name: str
    number: int
    type: str
    """A scalar's name, or a type's as it is written; a leading dot stands for the root."""
    label: str = ""
    """`optional`, `required`, `repeated`, or empty."""
    oneof: int | None = None
    """Which of the message's oneofs it belongs to."""
    options: dict[str, Any] = field(default_factory=dict)
    """By the names as written; `default` among them."""

    @property
    def meta(self) -> dict[str, str]:
        """Confluent's parameters of the field."""
        found = self.options.get(FIELD_META)
        said = found.get("params", []) if isinstance(found, dict) else []
        pairs = said if isinstance(said, list) else [said]
        more = self.options.get(f"{FIELD_META}.params")
        pairs = [*pairs, *(more if isinstance(more, list) else [more])]
        return {
            str(each.get("key", "")): str(each.get("value", "")) for each in pairs if isinstance(each, dict)
        }


@dataclass(slots=True)
class ProtoEnum:
    """An enum: names and numbers in their order."""

    name: str
    values: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class ProtoMessage:
    """A message."""

    name: str
    fields: list[ProtoField] = field(default_factory=list)
    """In the order in which they are written, those of oneofs among them."""
    oneofs: list[str] = field(default_factory=list)
    messages: list[ProtoMessage] = field(default_factory=list)
    enums: list[ProtoEnum] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    synthetic: bool = False
    """Nobody wrote it: it holds the entries of a `map<…>`."""


@dataclass(slots=True)
class ProtoFile:
    """A file."""

    syntax: str = "proto2"
    package: str = ""
    imports: list[str] = field(default_factory=list)
    public: list[str] = field(default_factory=list)
    """Those of the imports that whoever imports this file has as well."""
    messages: list[ProtoMessage] = field(default_factory=list)
    enums: list[ProtoEnum] = field(default_factory=list)


def upper_camel(name: str) -> str:
    """Return `some_name` as `SomeName`, as Guava does it."""
    return "".join(part[:1].upper() + part[1:].lower() for part in name.split("_"))


def map_entry_name(name: str) -> str:
    """Return what the entries of a map are called. Source: ProtobufSchema.toMapEntry."""
    return (upper_camel(name) if "_" in name else name) + "Entry"


def map_field_name(name: str) -> str:
    """Return the name of the map whose entries are called so. Source: ProtobufSchema.toMapField."""
    space, dot, last = name.rpartition(".")
    if not last.endswith("Entry"):
        return name
    short = last.removesuffix("Entry")
    words = "".join(f"_{char}" if char.isascii() and char.isupper() else char for char in short)
    return f"{space}{dot}{words.removeprefix('_').lower()}"
