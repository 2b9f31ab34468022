"""One record with Connect's data model, as transforms, predicates and converters see it when they go record by record.

What is known before a job goes through columns; what comes with each record (a schema in its JSON, objects without
one) goes through these classes, in a Python process of Spark, a batch at a time. Importing this module loads nothing
heavy, for it is pickled to those processes.

A value is, by its `Schema`'s type: int (INT8 … INT64), `Float32` or float, bool, str, bytes, list, dict, `Struct`;
None is null. The logical types `Decimal`, `Date`, `Time` and `Timestamp` (`schema.name`) have `decimal.Decimal` and
`Instant` in their place. Without a schema the same Python types stand for the Java types that Connect would hold: int
for Long, float for Double, `Float32` for Float, dict for Map, list for List.
Source: `org.apache.kafka.connect.data` and `…connector.ConnectRecord` (Kafka 4.3.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from kraal.plugins.schema import Schema

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
"""`Schema.name` of the logical types."""


class DataException(Exception):
    """A record's data cannot be converted or transformed. Source: org.apache.kafka.connect.errors.DataException."""

    java_class: ClassVar[str] = "org.apache.kafka.connect.errors.DataException"


class Float32(float):
    """A Java Float: what is stored is already rounded to 32 bits; it prints as `Float.toString` does."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A java.util.Date: milliseconds since 1970, UTC, of any size that a Java long has."""

    ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """Values of a schema's fields; a field that is absent from `values` is null, not its default."""

    schema: Schema
    values: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return a field's value, its default in place of null. Raises DataException for a field that is not there."""
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
    """A record's header: name, schema (None: none), value."""

    key: str
    schema: Schema | None
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A ConnectRecord. Immutable: transforms return another one (`dataclasses.replace`), or None to drop it."""

    topic: str
    partition: int | None = None
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()
    offset: int | None = None
    """Kafka's offset, of a sink's record; None: a source's."""
