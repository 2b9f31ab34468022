"""Records as Spark's columns, for transforms that can be written so: what `Transformation.columns` takes and gives.

Nothing here is a Spark object yet. An `Expression` makes its column when it is called, on a job's thread; so what a
chain does to a batch can be worked out anywhere, in microseconds. A struct that a transform has built is kept as its
fields, for a struct within a struct within a struct would grow with every transform of a chain.

Record by record a transform can refuse a record. Columns cannot say in which words, and need not: a transform names
the rows where it is in doubt, and a batch with one of them goes record by record, which fails as Java does, or does
not. So an expression need only be right where nothing is in doubt, and there it must give the very same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kraal.plugins.records import Header
from kraal.plugins.schema import Field, Schema, Type

Expression = Callable[[], Any]
"""Makes a `pyspark.sql.Column`, as often as it is called; on a thread that may talk to Spark."""


class ByRecords(Exception):
    """This cannot be done by columns, whatever the rows; no failure: it goes record by record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A record's key or value, or a field of one."""

    schema: Schema | None = None
    """None: it is null in every row, and has no schema."""
    expression: Expression | None = None
    """None where there is no schema, and where there are `fields`."""
    fields: Mapping[str, Part] | None = None
    """Of a struct that a transform has built, so one that is never null. In the order of its schema."""
    sure: bool = False
    """It is null in no row that is not in doubt already."""
    as_read: bool = False
    """The source gave it as it is: text may be no UTF-8."""
    schemaless: bool = False
    """Its schema is only what the batch's values look like: record by record there is none, and a struct is a map."""

    @property
    def is_nothing(self) -> bool:
        """Whether there is neither a schema nor a value."""
        return self.schema is None

    def field(self, wanted: Field) -> Part:
        """Return a field of a struct; null where the struct is."""
        if self.fields is not None:
            return self.fields[wanted.name]
        whole, name = self.expression, wanted.name
        if whole is None or self.schema is None or self.schema.type is not Type.STRUCT:
            raise ByRecords
        return Part(
            schema=wanted.schema,
            expression=lambda: whole().getField(name),
            as_read=self.as_read,
            schemaless=self.schemaless,
        )


NOTHING = Part()


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A batch's records on their way through a chain. Immutable."""

    topic: str | None
    """Every record's; None: each has its own, in the column `topic`."""
    key: Part = NOTHING
    value: Part = NOTHING
    has: frozenset[str] = frozenset()
    """Which of topic, partition, timestamp and headers the frame has, and offset, of a sink."""
    timestamp_ms: int | None = None
    """Every record's time where the frame has no column for it; since 1970."""
    headers: tuple[Header, ...] = ()
    """What was added behind the frame's own headers."""
    dropped: frozenset[str] = frozenset()
    """Names of the frame's own headers that are left out."""
    doubts: tuple[Expression, ...] = ()
    """True, false or null for each row; true: only the record path knows."""
    fixed: frozenset[object] = field(default_factory=frozenset)
    """Facts of this very batch that its expressions hold: only batches with the same go in one job."""

    @property
    def schemaless(self) -> bool:
        """Whether the key or the value has no schema record by record, though it has one here."""
        return self.key.schemaless or self.value.schemaless

    def part(self, *, is_key: bool) -> Part:
        """Return the key or the value."""
        return self.key if is_key else self.value

    def with_part(self, part: Part, doubts: tuple[Expression, ...] = (), *, is_key: bool) -> Columns:
        """Return the same with another key or value, and more doubts."""
        changed = replace(self, key=part) if is_key else replace(self, value=part)
        return changed if not doubts else replace(changed, doubts=(*self.doubts, *doubts))
