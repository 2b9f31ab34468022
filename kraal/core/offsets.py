"""Types of offsets: JSON objects for the partitions of sources, numbers for the Kafka partitions of sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kraal.core.ids import Json

Primitive = None | bool | int | float | str
"""A value of a field of a source partition or offset."""

Offset = Mapping[str, Primitive]
"""The read position of a source partition in fields that the plugin defines, such as `{"position": 4096}`."""


Fields = Mapping[str, Json]
Pair = tuple[Fields | None, Fields | None]
"""A partition and its offset as received over REST or read from a file: unvalidated JSON objects."""

OffsetPairs = Sequence[tuple[Mapping[str, Primitive], Offset]]
"""Partitions of sources or sinks and their offsets, as in REST responses."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition of a Kafka topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """A partition of a source, such as `{"filename": "/var/log/app"}`.

    Equality ignores the order of fields, as for Java's maps. `fields` preserves the order, because the order determines
    the bytes of the key in the offset store.
    """

    fields: tuple[tuple[str, Primitive], ...] = field(compare=False)
    _sorted_fields: tuple[tuple[str, str], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sorted_fields", tuple(sorted((k, repr(v)) for k, v in self.fields)))

    @staticmethod
    def of(fields: Mapping[str, Primitive]) -> SourcePartition:
        """Create a source partition from a mapping; preserves the order."""
        return SourcePartition(tuple(fields.items()))

    def as_dict(self) -> dict[str, Primitive]:
        """Return the fields in their order as a new dict."""
        return dict(self.fields)
