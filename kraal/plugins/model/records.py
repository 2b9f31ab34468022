"""Connect's data model for single records, as transforms, predicates and converters use it on the record path.

The record path runs in the worker for small batches, and in Spark's Python processes for large ones. This module
imports no large packages, because those processes import it.

The type of a value depends on its `Schema`: int (INT8 … INT64), `Float32` or float, bool, str, bytes, list, dict,
`Struct`; None is null. A value of the logical type `Decimal` (`schema.name`) is a `decimal.Decimal`; a value of `Date`,
`Time` or `Timestamp` is an `Instant`. Without a schema, the same Python types represent the Java types that Connect
would use: int for Long, float for Double, `Float32` for Float, dict for Map, list for List.
Source: `org.apache.kafka.connect.data` and `…connector.ConnectRecord` (Kafka 4.3.0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kraal.plugins.model.schema import Field

if TYPE_CHECKING:
    from kraal.plugins.model.schema import Schema


DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
"""`Schema.name` of the logical types."""


class DataException(Exception):
    """Raised if a record's data cannot be converted or transformed (org.apache.kafka.connect.errors.DataException)."""

    java_class: ClassVar[str] = "org.apache.kafka.connect.errors.DataException"


class Float32(float):
    """A Java Float: already rounded to 32 bits, and formatted like `Float.toString`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A java.util.Date: milliseconds since 1970, UTC, in the range of a Java long."""

    ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """Values of the fields of a schema. A field that is absent from `values` is null, even if it has a default."""

    schema: Schema
    values: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return a field's value, or its default if null. Raises DataException for an unknown field."""
        for field in self.schema.fields:
            if field.name == name:
                value = self.values.get(name)
                return field.schema.default if value is None else value
        raise DataException(f"{name} is not a valid field name")

    def raw(self, name: str) -> Any:
        """Return a field's value without its default (`getWithoutDefault`)."""
        return self.values.get(name)


@dataclass(frozen=True, slots=True)
class Header:
    """A record header: name, schema (None if schemaless), value."""

    key: str
    schema: Schema | None
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A ConnectRecord. Immutable: a transform returns a copy (`dataclasses.replace`), or None to drop the record."""

    topic: str
    partition: int | None = None
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()
    offset: int | None = None
    """The Kafka offset of a sink record; None for a source record."""


def getter(field: Field, *, ignores_default: bool) -> Callable[[Struct], Any]:
    """Return a function that reads a field's value. Null becomes the field's default unless `ignores_default`."""
    name, default = field.name, None if ignores_default else field.schema.default
    return lambda value: default if (member := value.values.get(name)) is None else member
