"""Connect's schemas, including the properties that Spark's types lack: optional, name, version, parameters, default.

Source: org.apache.kafka.connect.data.Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Type(StrEnum):
    """Connect's schema types; the value is the name that JsonConverter writes."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The schema of a key, a value or a part of one."""

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    default: Any = None
    fields: tuple[Field, ...] = ()
    key: Schema | None = None
    """The key schema of a map."""
    value: Schema | None = None
    """The value schema of a map, or the element schema of an array."""


STRING = Schema(type=Type.STRING)
OPTIONAL_STRING = Schema(type=Type.STRING, optional=True)
OPTIONAL_BYTES = Schema(type=Type.BYTES, optional=True)
