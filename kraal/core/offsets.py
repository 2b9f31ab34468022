"""Offsets: Connect's pairs of JSON objects for sources, numbers in Kafka partitions for sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kraal.core.ids import Json

Primitive = None | bool | int | float | str
"""Types of the fields of source partitions and offsets."""

Offset = Mapping[str, Primitive]
"""Read position of a source partition, in the plugin's own fields, e.g. `{"position": 4096}`."""


Fields = Mapping[str, Json]
Pair = tuple[Fields | None, Fields | None]
"""A partition and its offset as given over REST or in a file: JSON objects that nobody has checked."""

Shown = Sequence[tuple[Mapping[str, Primitive], Offset]]
"""Partitions and their offsets as shown by REST, for sources and sinks."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition of a Kafka topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """One partition of a source, e.g. `{"filename": "/var/log/app"}`.

    Equality ignores the order of fields, as with Java's maps; `fields` keeps the original order, because it decides
    the bytes of the offset store's key.
    """

    fields: tuple[tuple[str, Primitive], ...] = field(compare=False)
    _sorted: tuple[tuple[str, str], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sorted", tuple(sorted((k, repr(v)) for k, v in self.fields)))

    @staticmethod
    def of(fields: Mapping[str, Primitive]) -> SourcePartition:
        """Create one from a mapping, keeping its order."""
        return SourcePartition(tuple(fields.items()))

    def as_dict(self) -> dict[str, Primitive]:
        """Return the fields as a new dict, in their order."""
        return dict(self.fields)
