"""Records as Spark columns: the argument and the result of `Transformation.columns`.

This module holds no Spark objects. An `Expression` creates its column when it is called on a job thread, so the plan of
a transform chain can be computed on any thread, in microseconds. A struct that a transform has built is represented by
its fields; otherwise the nesting of structs would grow with each transform of a chain.

On the record path, a transform can reject a record with an exception. Column expressions cannot reproduce the message
of such an exception. Instead, a transform marks rows as *in doubt* if its expressions may not handle them correctly. A
batch with a row in doubt takes the record path, which succeeds or fails as in Java. For all other rows, an expression
must produce the same bytes as the record path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kraal.plugins.model.records import Header
from kraal.plugins.model.schema import Field, Schema, Type

Expression = Callable[[], Any]
"""Creates a `pyspark.sql.Column`. Must be called on a thread that may use Spark."""


class ByRecords(Exception):
    """Raised if the column path does not support the batch; not a failure, since the batch takes the record path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The key or value of the records of a batch, or a field of the key or value."""

    schema: Schema | None = None
    """None if the part is null in every row and has no schema."""
    expression: Expression | None = None
    """None if there is no schema, or if `fields` is set."""
    fields: Mapping[str, Part] | None = None
    """The fields of a struct that a transform has built and that is never null, in the order of its schema."""
    sure: bool = False
    """Whether the part is non-null in every row that is not in doubt."""
    as_read: bool = False
    """Whether the value is unchanged since the source read it, so that text may be invalid UTF-8."""
    schemaless: bool = False
    """Whether the schema is inferred from the batch. On the record path, values have no schema; structs are maps."""

    @property
    def is_nothing(self) -> bool:
        """Whether the part has neither a schema nor a value."""
        return self.schema is None

    def field(self, wanted: Field) -> Part:
        """Return a field of a struct; null where the struct is null. Raises ByRecords if the part is not a struct."""
        if self.fields is not None:
            return self.fields[wanted.name]
        struct, name = self.expression, wanted.name
        if struct is None or self.schema is None or self.schema.type is not Type.STRUCT:
            raise ByRecords
        return Part(
            schema=wanted.schema,
            expression=lambda: struct().getField(name),
            as_read=self.as_read,
            schemaless=self.schemaless,
        )


NOTHING = Part()


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The records of a batch between two transforms of a chain. Immutable."""

    topic: str | None
    """The topic of all records; None if the frame has a column `topic`."""
    key: Part = NOTHING
    value: Part = NOTHING
    has: frozenset[str] = frozenset()
    """The optional columns of the frame: any of topic, partition, timestamp, headers and (for sinks) offset."""
    timestamp_ms: int | None = None
    """The timestamp of all records if the frame has no column `timestamp`; milliseconds since 1970."""
    headers: tuple[Header, ...] = ()
    """The headers appended to the frame's own headers."""
    dropped: frozenset[str] = frozenset()
    """The names of the frame's own headers that are removed."""
    doubts: tuple[Expression, ...] = ()
    """Expressions that are true for rows in doubt, which need the record path, and otherwise false or null."""
    fixed: frozenset[object] = field(default_factory=frozenset)
    """Properties that the expressions contain. Batches can share a job only if these properties are equal."""

    @property
    def schemaless(self) -> bool:
        """Whether the key or the value has a schema on the column path, but not on the record path."""
        return self.key.schemaless or self.value.schemaless

    def part(self, *, is_key: bool) -> Part:
        """Return the key or the value."""
        return self.key if is_key else self.value

    def with_part(self, part: Part, doubts: tuple[Expression, ...] = (), *, is_key: bool) -> Columns:
        """Return a copy with another key or value and additional doubts."""
        copy = replace(self, key=part) if is_key else replace(self, value=part)
        return copy if not doubts else replace(copy, doubts=(*self.doubts, *doubts))
